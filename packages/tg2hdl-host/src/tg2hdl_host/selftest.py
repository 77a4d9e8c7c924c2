"""Stored vectors on a device."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_host.arrays import read_arrays
from tg2hdl_host.device import Device
from tg2hdl_host.errors import ConnectionFailedError, UnfitInputError, WrongResultError

__all__ = ["selftest"]


def selftest(
    device: Device, folder: str | PathLike[str], *, report: Callable[[str], None] = lambda text: None
) -> int:
    """Run the vectors of a folder twice and compare every bit; the number of vectors.

    The second round must give the first one's results, unless the design keeps state that cannot be reset.

    Parameters
    ----------
    device : Device
    folder : path
        Folder that `tg2hdl build` wrote, with its vectors.
    report : callable, optional
        Called with a line for each stage.

    Raises
    ------
    WrongResultError
        Naming the vector, the output and the first element that differ.
    LinkError
        Naming the stage that does not answer.
    """
    path = Path(folder) / "vectors.npz"
    if not path.is_file():
        raise ConnectionFailedError(
            f"there is no {path}", stage="vectors", hint="build the design again, with vectors"
        )
    arrays = read_arrays(path)
    count = len({name.split("_")[0] for name in arrays if name.startswith("out")})
    if not count:
        raise ConnectionFailedError(f"{path} has no vectors", stage="vectors", hint="build with --vectors 8")
    rounds = 1 if device.description.keeps_state and not device.can_reset else 2
    for number in range(rounds):
        if device.can_reset:
            device.reset()
        report(f"round {number + 1} of {rounds}: {count} vectors")
        for vector in range(count):
            start = f"var{vector}_"
            values = {n.removeprefix(start): int(a) for n, a in arrays.items() if n.startswith(start)}
            found = device.flat(*_stored(arrays, f"in{vector}_", device.input_types), **values)
            expected = _stored(arrays, f"out{vector}_", [a.dtype for a in found])
            for k, (a, b) in enumerate(zip(found, expected, strict=True)):
                _compare(a, b, vector, device.description.outputs[k])
    return count


def _stored(arrays: dict[str, npt.NDArray[Any]], prefix: str, types: Any) -> list[npt.NDArray[Any]]:
    try:
        found = [arrays[f"{prefix}{k}"] for k in range(sum(name.startswith(prefix) for name in arrays))]
        return [a if t is None else a.view(t) for a, t in zip(found, types, strict=True)]
    except (KeyError, ValueError, TypeError) as error:
        raise UnfitInputError(
            f"the vectors do not fit the design: {error}",
            stage=f"vectors {prefix}",
            hint="build the design again, with vectors",
        ) from error


def _compare(found: npt.NDArray[Any], expected: npt.NDArray[Any], vector: int, output: str) -> None:
    if found.shape != expected.shape:
        raise WrongResultError(
            f"{output!r} has the shape {found.shape}, the stored vector {expected.shape}",
            stage=f"vector {vector}",
            hint="build the design again, with vectors",
        )
    raw = f"u{found.dtype.itemsize}"
    a, b = (
        np.ascontiguousarray(found).view(raw).reshape(-1),
        np.ascontiguousarray(expected).view(raw).reshape(-1),
    )
    wrong = np.flatnonzero(a != b)
    if wrong.size:
        first = int(wrong[0])
        raise WrongResultError(
            f"{wrong.size} of {a.size} elements of {output!r} differ, the first at {first}: "
            f"{found.reshape(-1)[first]}, stored {expected.reshape(-1)[first]}",
            stage=f"vector {vector}",
            hint="if the link has no errors, the bitstream misses its timing or the board its power",
        )

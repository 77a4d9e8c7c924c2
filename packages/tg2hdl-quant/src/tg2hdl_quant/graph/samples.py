"""Samples and labels that a user gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir import InputError

__all__ = ["checked_labels", "checked_samples"]

Array = npt.NDArray[Any]


def checked_samples(
    names: Sequence[str], shapes: Sequence[tuple[int, ...]], dtypes: Sequence[Any], samples: Sequence[Array]
) -> list[Array]:
    """One array per input in the type of the input; its first axis counts samples.

    Parameters
    ----------
    names : sequence of str
        Of the inputs.
    shapes, dtypes : sequence
        Of the inputs, without the axis of samples.
    samples : sequence of ndarray
        One for each input, of shape (samples, *shape of the input).

    Raises
    ------
    InputError
        For arrays of another number or shape, empty, NaN or infinite, or of different lengths.
    """
    if len(samples) != len(names):
        raise InputError(
            f"samples for {len(samples)} inputs, the model has {len(names)}",
            hint="pass one array per input: " + ", ".join(names),
        )
    arrays = []
    for name, shape, dtype, given in zip(names, shapes, dtypes, samples, strict=True):
        array = np.asarray(given)
        if array.shape[1:] != tuple(shape) or not len(array):
            raise InputError(
                f"samples of input {name!r} have shape {array.shape}",
                where=f"input {name!r}",
                hint=f"expected (samples, {', '.join(map(str, shape))})",
            )
        if array.dtype.kind == "f" and not np.all(np.isfinite(array)):
            index = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
            kind = "NaN" if np.isnan(array[index]) else "an infinity"
            raise InputError(
                f"samples of input {name!r} have {kind} at index {index}",
                where=f"input {name!r}",
                notes=(f"{int((~np.isfinite(array)).sum())} of {array.size} elements are not finite",),
                hint="remove these samples, or clip them with numpy.nan_to_num",
            )
        arrays.append(array.astype(dtype))
    if len({len(a) for a in arrays}) != 1:
        raise InputError(
            "the inputs have different numbers of samples: " + ", ".join(str(len(a)) for a in arrays),
            hint="the first axis counts samples: give as many of each input",
        )
    return arrays


def checked_labels(labels: npt.ArrayLike | None, count: int) -> Array | None:
    """One label a sample.

    Parameters
    ----------
    labels : array_like of int, optional
        Of shape (samples,).
    count : int
        Number of samples.

    Raises
    ------
    InputError
        For another number of labels, or labels that are not class numbers.
    """
    if labels is None:
        return None
    array = np.asarray(labels)
    if array.shape != (count,):
        raise InputError(
            f"labels of shape {array.shape} for {count} samples",
            hint=f"expected one label a sample: ({count},)",
        )
    with np.errstate(invalid="ignore"):
        whole = array.dtype.kind in "iub" or (
            array.dtype.kind == "f" and np.array_equal(array, np.rint(array))
        )
    if not whole or array.min() < 0:
        raise InputError(
            f"labels of {array.dtype} that are not class numbers",
            hint="give the number of each sample's class, from 0",
        )
    return array

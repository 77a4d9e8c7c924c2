"""The description of a design, from its device and from the files next to a bitstream."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tg2hdl_host import documents as docs
from tg2hdl_host.errors import ConnectionFailedError, UnfitInputError

__all__ = ["Buffer", "Description", "LoopRegisters", "dtype_named", "restored"]


@dataclass(frozen=True)
class Buffer:
    """A buffer of the design: an array of the model.

    Parameters
    ----------
    name : str
    role : str
        ``input``, ``output``, ``weight``, ``state`` or ``image``.
    dtype : numpy.dtype
        Of the elements.
    shape : tuple of int
        In the model.
    address : int
        First word in the register map.
    writes, reads : bool
        Whether the host may write, and read it.
    declared : numpy.dtype, optional
        Of the elements in the model, where the design stores an integer state in fewer bytes.
    """

    name: str
    role: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    address: int
    writes: bool
    reads: bool
    declared: np.dtype[Any] | None = None

    @property
    def type(self) -> np.dtype[Any]:
        """Type of the elements in the model."""
        return self.dtype if self.declared is None else self.declared

    @property
    def size(self) -> int:
        """Bytes on the link."""
        return math.prod(self.shape) * self.dtype.itemsize

    def encode(self, value: npt.ArrayLike) -> bytes:
        """Bytes of an array.

        Raises
        ------
        UnfitInputError
            For another shape or type.
        """
        array = np.asarray(value)
        same = array.shape == self.shape or (self.role == "weight" and array.size == math.prod(self.shape))
        if not same or array.dtype != self.type:
            raise UnfitInputError(
                f"{self.name!r} has shape {array.shape} and type {array.dtype}, the design takes {self.shape} and "
                f"{self.type}",
                stage=f"write {self.name}",
                hint="give the integers that the model was compiled for: .astype() does not scale values"
                if array.dtype.kind == "f" and self.dtype.kind in "iu"
                else "reshape it, or convert it with .astype()",
            )
        return np.ascontiguousarray(array).astype(self.dtype.newbyteorder("<")).tobytes()

    def decode(self, data: bytes) -> npt.NDArray[Any]:
        """Array of bytes from the link."""
        array = np.frombuffer(data[: self.size], self.dtype.newbyteorder("<"))
        return array.astype(self.type).reshape(self.shape)


class LoopRegisters(NamedTuple):
    """A loop that the design runs by itself.

    Parameters
    ----------
    address : int
        Of GENERATE, which LIMIT, STOPS, STOP, STOP_HIGH and RESULTS follow.
    counter : str or None
        Variable that it counts with.
    results : str
        Buffer of the results.
    most : int
        Most results of a start.
    gap : int
        Clock cycles from the end of a run to the start of the next one.
    """

    address: int
    counter: str | None
    results: str
    most: int
    gap: int


@dataclass(frozen=True)
class Description:
    """A design as its driver needs it.

    Parameters
    ----------
    name, identity : str
    kernels, cycles : int
        Kernels, and the clock cycles of the longest run.
    buffers : mapping of str to Buffer
    inputs : tuple of str
        Buffers, or None for an input that the hardware does not have because no result depends on it.
    outputs : tuple of str
    variables : mapping of str to (low, high)
    states : mapping of str to (low, high)
        Buffers of the state that the host reaches, with the integers that each can hold; None for all of its type.
    shapes : mapping of str to tuple of int
        Shapes of the state in the model, from the files.
    values : mapping of str to int
        Of variables where a run gives none, from the files.
    keeps_state : bool
        Whether a run depends on the runs before it.
    packet_run : bool
        Whether one packet may hold an input and start its run, and its reply the output.
    structure : Any
        Structure of the model's result, as in `restored`.
    files : mapping
        Contents of the file ``device.json``; empty without it.
    loop : LoopRegisters, optional
    """

    name: str
    identity: str
    kernels: int
    cycles: int
    buffers: Mapping[str, Buffer]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    variables: Mapping[str, tuple[int, int]]
    states: Mapping[str, tuple[int, int] | None]
    shapes: Mapping[str, tuple[int, ...]]
    values: Mapping[str, int]
    keeps_state: bool
    packet_run: bool
    structure: Any
    files: Mapping[str, Any]
    loop: LoopRegisters | None = None

    @classmethod
    def parse(cls, text: bytes, files: Mapping[str, Any] | None = None) -> Description:
        """Read the text that the hardware holds, with the additions of the file ``device.json``.

        Parameters
        ----------
        text : bytes
            JSON.
        files : mapping, optional
            Contents of ``device.json``.

        Raises
        ------
        ConnectionFailedError
            For a text that is not a description.
        """
        files = files or {}
        try:
            data = json.loads(text)
            buffers = dict(map(_buffer, docs.listed(data["buffers"])))
            if len(buffers) != len(data["buffers"]):
                raise ValueError("two buffers of one name")
            for name, kind in files.get("types", {}).items():
                declared = dtype_named(docs.text(kind))
                if not {declared.kind, buffers[name].dtype.kind} <= set("iu"):
                    raise ValueError(f"{name!r} is stored as {buffers[name].dtype}, not as {declared}")
                buffers[name] = replace(buffers[name], declared=declared)
            outputs = tuple(map(docs.text, docs.listed(data["outputs"])))
            if not outputs or not all(name in buffers and buffers[name].reads for name in outputs):
                raise ValueError(f"the outputs {outputs} cannot be read")
            inputs = tuple(b.name for b in buffers.values() if b.role == "input" and b.writes)
            names = tuple(map(docs.text, docs.listed(files.get("inputs", list(inputs)))))
            if len(set(names)) != len(names) or not set(inputs) <= set(names):
                raise ValueError(f"the inputs {names} leave out some of {inputs}")
            slots = [{"output": n} for n in range(len(outputs))]
            structure = files.get("structure", slots[0] if len(slots) == 1 else {"tuple": slots})
            docs.check_structure(structure, [math.prod(buffers[name].shape) for name in outputs])
            variables = {}
            for entry in docs.listed(data["variables"]):
                name, low, high = docs.listed(entry, 3)
                low = docs.integer(low, -(1 << 31))
                variables[docs.text(name)] = (low, docs.integer(high, low))
            states: dict[str, tuple[int, int] | None] = {}
            for entry in docs.listed(data.get("states", [])):
                name, low, high = docs.listed(entry, 3)
                if not (buffers[docs.text(name)].reads and buffers[name].writes):
                    raise ValueError(f"the state {name!r} cannot be reached")
                if low is not None:
                    low = docs.integer(low, -(1 << 63))
                states[name] = None if low is None else (low, docs.integer(high, low))
            shapes = {name: docs.shape(sizes) for name, sizes in files.get("shapes", {}).items()}
            if any(n in buffers and math.prod(s) != math.prod(buffers[n].shape) for n, s in shapes.items()):
                raise ValueError(f"the shapes {shapes} do not fit the state")
            return cls(
                name=docs.text(data["design"]),
                identity=docs.text(data["id"]),
                kernels=docs.integer(data["kernels"]),
                cycles=docs.integer(data["cycles"], 0, 1 << 53),
                buffers=buffers,
                inputs=names,
                outputs=outputs,
                variables=variables,
                states=states,
                shapes=shapes,
                values={
                    name: docs.integer(files["values"][name], *variables[name])
                    for name in files.get("values", {})
                },
                keeps_state=docs.flag(data["state"]),
                packet_run=docs.flag(data.get("packet_run", False)),
                structure=structure,
                files=files,
                loop=_loop(data["loop"], buffers, variables) if "loop" in data else None,
            )
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ConnectionFailedError(
                f"the description of the design cannot be read: {error!r}",
                stage="identity",
                hint="use a driver of the version that the design was made with",
            ) from error

    @property
    def weights(self) -> tuple[Buffer, ...]:
        """Weights that the host loads."""
        return tuple(b for b in self.buffers.values() if b.role == "weight" and b.writes)

    @property
    def output_shapes(self) -> list[tuple[int, ...]]:
        """Shapes of the outputs in their order, as the model returns them."""
        found = dict(_shapes(self.structure))
        return [found.get(n, self.buffers[name].shape) for n, name in enumerate(self.outputs)]

    @property
    def memory(self) -> Buffer | None:
        """The memory outside the chip, where the host can write it."""
        return next((b for b in self.buffers.values() if b.role == "image"), None)


def _loop(entry: Any, buffers: Mapping[str, Buffer], variables: Mapping[str, Any]) -> LoopRegisters:
    address, counter, results, most, gap = docs.listed(entry, 5)
    if counter is not None and counter not in variables:
        raise ValueError(f"the loop counts with {counter!r}")
    if not buffers[docs.text(results)].reads:
        raise ValueError(f"the results {results!r} cannot be read")
    place = docs.integer(address, 0, (1 << 32) - 1)
    return LoopRegisters(place, counter, results, docs.integer(most, 1, 1 << 16), docs.integer(gap))


def _buffer(entry: Any) -> tuple[str, Buffer]:
    name, role, dtype, sizes, address, access = docs.listed(entry, 6)
    kind = dtype_named(docs.text(dtype))
    access = docs.text(access)
    place = docs.integer(address, 0, (1 << 32) - 1)
    return docs.text(name), Buffer(
        name, docs.text(role), kind, docs.shape(sizes), place, "w" in access, "r" in access
    )


def read_files(folder: Path) -> dict[str, Any]:
    """Contents of ``device.json`` in a folder that `tg2hdl build` wrote."""
    path = folder / "device.json"
    if not path.is_file():
        raise ConnectionFailedError(
            f"there is no {path}", stage="identity", hint="give the folder that `tg2hdl build` wrote"
        )
    try:
        found = json.loads(path.read_bytes())
        docs.text(found["id"])
        docs.text(found["design"])
        docs.listed(found["buffers"])
        docs.integer(found.get("baud", 1), 1)
    except (ValueError, KeyError, TypeError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ConnectionFailedError(
            f"{path} is not a description of a design",
            stage="identity",
            hint="build the folder again with `tg2hdl build`",
        )
    return found


def dtype_named(name: str) -> np.dtype[Any]:
    """Type of elements by its name in numpy; those that numpy lacks come from ml_dtypes.

    Raises
    ------
    ConnectionFailedError
        For a name that is not one of a number type.
    """
    with suppress(TypeError, ValueError, SyntaxError):
        found: np.dtype[Any] = np.dtype(name)
        if found.kind in "biuf" and found.name == name:
            return found
    try:
        import ml_dtypes
    except ImportError:
        raise ConnectionFailedError(
            f"numpy has no type {name!r}", stage="identity", hint="pip install ml_dtypes"
        ) from None
    kind = getattr(ml_dtypes, name, None)
    if not (isinstance(kind, type) and issubclass(kind, np.generic)):
        raise ConnectionFailedError(
            f"{name!r} is not a type of numbers", stage="identity", hint="build the design again"
        )
    return np.dtype(kind)


def _shapes(structure: Any) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Numbers and shapes of the outputs in a structure; see `restored`."""
    if "output" in structure:
        if "shape" in structure:
            yield structure["output"], tuple(structure["shape"])
    elif "dict" in structure:
        for _, inner in structure["dict"]:
            yield from _shapes(inner)
    else:
        for inner in structure.get("tuple", structure.get("list", ())):
            yield from _shapes(inner)


def restored(structure: Any, outputs: Sequence[npt.NDArray[Any]]) -> Any:
    """Arrays in the structure that the model returned: ``{"output": n}`` in it is the array with this number.

    Parameters
    ----------
    structure
        As in ``device.json``, checked by `check_structure`.
    outputs : sequence of ndarray
        One array for each output of the design.
    """
    if "output" in structure:
        array = outputs[structure["output"]]
        return array.reshape(structure["shape"]) if "shape" in structure else array
    if "tuple" in structure:
        return tuple(restored(s, outputs) for s in structure["tuple"])
    if "list" in structure:
        return [restored(s, outputs) for s in structure["list"]]
    if "dict" in structure:
        return {key: restored(s, outputs) for key, s in structure["dict"]}
    return structure["constant"]

"""State by name: buffers that a model keeps from one run to the next."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tg2hdl_backend import CapturedProgram
from tg2hdl_ir import DType, InputError
from tg2hdl_top import Design

__all__ = ["ModelState", "StateTensor", "state_tensors"]


@dataclass(frozen=True)
class StateTensor:
    """A tensor that runs update.

    Parameters
    ----------
    name : str
        Of the model's tensor.
    shape : tuple of int
    dtype : DType
        In the model.
    number : int
        Of its buffer in the program.
    stored : DType
        In the hardware: as many bits as the stored values need.
    initial : ndarray
        First contents.
    """

    name: str
    shape: tuple[int, ...]
    dtype: DType
    number: int
    stored: DType
    initial: np.ndarray

    @property
    def bits(self) -> int:
        """Bits of all elements in the hardware."""
        return int(self.initial.size) * self.stored.bit_width

    def checked(self, value: Any) -> np.ndarray:
        """An array that it can hold, flat.

        Raises
        ------
        InputError
            For another shape or type, and for integers that its bits cannot hold.
        """
        where, storage = f"state {self.name!r}", self.dtype.numpy()
        array = np.asarray(value)
        if array.shape != self.shape or array.dtype != storage:
            raise InputError(
                f"state {self.name!r} is given shape {array.shape} and dtype {array.dtype}",
                where=where,
                hint=f"give an array of shape {self.shape} and dtype {storage}",
            )
        if self.stored.is_int and array.size:
            low, high = int(array.min()), int(array.max())
            if low < self.stored.min_value or high > self.stored.max_value:
                raise InputError(
                    f"state {self.name!r} is given values from {low} to {high}",
                    where=where,
                    hint=f"runs store {self.stored.min_value} to {self.stored.max_value}, and it has "
                    f"{self.stored.bit_width} bits",
                )
        return array.reshape(-1)


class ModelState(Mapping[str, np.ndarray]):
    """Contents of the state by name: ``state["cache"]`` reads, ``state["cache"] = array`` writes; prints as a table.

    Parameters
    ----------
    tensors : mapping of str to StateTensor
    read : callable
        Flat contents of a tensor.
    write : callable
        Takes a tensor and its flat contents.
    """

    def __init__(
        self,
        tensors: Mapping[str, StateTensor],
        read: Callable[[StateTensor], np.ndarray],
        write: Callable[[StateTensor, np.ndarray], None],
    ) -> None:
        self.tensors = dict(tensors)
        self._read, self._write = read, write

    def __getitem__(self, name: str) -> np.ndarray:
        tensor = self._tensor(name)
        return self._read(tensor).astype(tensor.dtype.numpy()).reshape(tensor.shape)

    def __setitem__(self, name: str, value: Any) -> None:
        tensor = self._tensor(name)
        self._write(tensor, tensor.checked(value))

    def __iter__(self) -> Iterator[str]:
        return iter(self.tensors)

    def __len__(self) -> int:
        return len(self.tensors)

    def __contains__(self, name: object) -> bool:
        return name in self.tensors

    def __repr__(self) -> str:
        rows = [("state", "shape", "dtype", "stored", "bits")]
        for t in self.tensors.values():
            rows.append((t.name, "x".join(map(str, t.shape)), str(t.dtype), str(t.stored), f"{t.bits:,}"))
        widths = [max(len(row[n]) for row in rows) for n in range(5)]
        return "\n".join(
            "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows
        )

    def reset(self) -> None:
        """Give all of it its first contents."""
        for tensor in self.tensors.values():
            self._write(tensor, tensor.initial)

    def _tensor(self, name: str) -> StateTensor:
        if name not in self.tensors:
            raise InputError(
                f"the model has no state {name!r}",
                hint=f"its state is {', '.join(self.tensors)}"
                if self.tensors
                else "update a tensor in place: tensor.assign(...)",
            )
        return self.tensors[name]


def state_tensors(captured: CapturedProgram, design: Design) -> dict[str, StateTensor]:
    """The tensors that runs update, by their names in the model.

    Parameters
    ----------
    captured : CapturedProgram
        Has the names of the model.
    design : Design
        Has the memories.
    """
    program, found = design.program, {}
    for number in sorted(program.state_buffers()):
        buffer = program.buffers[number]
        shape = captured.shapes.get(buffer.name, buffer.shape)
        memory = design.memories.get(number)
        assert buffer.initial is not None, "state has first contents"
        found[buffer.name] = StateTensor(
            buffer.name,
            shape if np.prod(shape, dtype=int) == buffer.depth else buffer.shape,
            buffer.dtype,
            number,
            buffer.dtype if memory is None else memory.dtype,
            np.asarray(buffer.initial).reshape(-1),
        )
    return found

"""A whole program: kernels in order, and the buffers that they share."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt

from tg2hdl_ir.dtype import DType
from tg2hdl_ir.errors import InputError
from tg2hdl_ir.nodes import IRBufLoad, IRBufStore, IRVariable, KernelIR

__all__ = ["KernelCall", "ProgramBuffer", "ProgramIR", "check_contents"]


@dataclass(frozen=True, eq=False)
class ProgramBuffer:
    """A buffer of the program.

    Parameters
    ----------
    name : str
        Unique name, e.g. ``x``, ``w1``, ``temp0`` or ``output``.
    dtype : DType
    shape : tuple of int
        Logical shape in C order; kernels see ``prod(shape)`` elements.
    role : {"input", "weight", "temporary", "output"}
        ``input`` comes from the host on each call, ``weight`` is known at compile time, ``output`` is read back.
    initial : ndarray, optional
        Contents of a weight, or of a state buffer that is updated in place; flat, in numpy storage of `dtype`.
    """

    name: str
    dtype: DType
    shape: tuple[int, ...]
    role: str
    initial: npt.NDArray[Any] | None = None

    @property
    def depth(self) -> int:
        """Number of elements."""
        depth = 1
        for size in self.shape:
            depth *= size
        return depth


@dataclass(frozen=True, eq=False)
class KernelCall:
    """One execution of a kernel: its buffer slot `i` is program buffer ``buffers[i]``.

    Slots are in the order of `kernel.buffers`.

    Parameters
    ----------
    kernel : KernelIR
    buffers : tuple of int
        Numbers of program buffers, by slot.
    values : tuple of (str, int)
        Variables of the kernel whose value the program knows, such as the offset of this call's elements; the others
        come from the host.
    source : str
        Place in the user's program, for listings: that of the kernel may be another call's.
    """

    kernel: KernelIR
    buffers: tuple[int, ...]
    values: tuple[tuple[str, int], ...] = ()
    source: str = field(default="", compare=False)

    @property
    def host_variables(self) -> tuple[IRVariable, ...]:
        """Variables of the kernel that the host sets."""
        known = {name for name, _ in self.values}
        return tuple(v for v in self.kernel.variables if v.name not in known)

    @property
    def slots(self) -> dict[int, int]:
        """Program buffer of each slot."""
        return {m.idx: number for m, number in zip(self.kernel.buffers, self.buffers, strict=True)}

    def accesses(self) -> tuple[set[int], set[int]]:
        """Program buffers that the kernel reads and writes."""
        slots, statements = self.slots, list(self.kernel.loop_tree.statements())
        reads = {slots[s.buf_idx] for s in statements if isinstance(s, IRBufLoad)}
        return reads, {slots[s.buf_idx] for s in statements if isinstance(s, IRBufStore)}

    def first_reads(self) -> set[int]:
        """Program buffers that the kernel reads before it writes anything to them, in program order."""
        slots = self.slots
        written: set[int] = set()
        found: set[int] = set()
        for statement in self.kernel.loop_tree.statements():
            if isinstance(statement, IRBufStore):
                written.add(slots[statement.buf_idx])
            elif isinstance(statement, IRBufLoad) and slots[statement.buf_idx] not in written:
                found.add(slots[statement.buf_idx])
        return found


@dataclass(frozen=True, eq=False)
class ProgramIR:
    """Kernels in execution order over shared buffers.

    Parameters
    ----------
    name : str
    buffers : tuple of ProgramBuffer
        By number, from 0.
    calls : tuple of KernelCall
        In execution order.
    outputs : tuple of int
        Numbers of the buffers with the results, first the main one.
    variables : tuple of IRVariable
        In the order of their input ports.
    """

    name: str
    buffers: tuple[ProgramBuffer, ...]
    calls: tuple[KernelCall, ...]
    outputs: tuple[int, ...]
    variables: tuple[IRVariable, ...] = ()

    def constant_buffers(self) -> set[int]:
        """Weights with contents that no kernel writes."""
        held = (n for n, b in enumerate(self.buffers) if b.role == "weight" and b.initial is not None)
        return set(held) - self._written()

    def state_buffers(self) -> set[int]:
        """Buffers with first contents that kernels write: each run continues from the one before."""
        return {n for n in self._written() if self.buffers[n].initial is not None}

    def _written(self) -> set[int]:
        return {number for call in self.calls for number in call.accesses()[1]}


def check_contents(program: ProgramIR, given: Collection[str] = ()) -> ProgramIR:
    """Refuse a program that reads a buffer without contents; return it otherwise.

    Every buffer that a kernel reads, or that is a result, is an input, has initial contents, or was written by an
    earlier kernel.  No buffer is assumed to be zero.

    Parameters
    ----------
    program : ProgramIR
    given : collection of str
        Names of buffers whose contents the caller supplies.

    Raises
    ------
    InputError
        Naming the buffer, its type and the kernel that reads it.
    """
    known = {
        n
        for n, b in enumerate(program.buffers)
        if b.role == "input" or b.initial is not None or b.name in given
    }
    for call in program.calls:
        for number in sorted(call.first_reads() - known):
            raise _no_contents(program, number, f"kernel {call.kernel.name} reads it")
        known |= call.accesses()[1]
    for number in program.outputs:
        if number not in known:
            raise _no_contents(program, number, "it is a result, and no kernel writes it")
    return program


def _no_contents(program: ProgramIR, number: int, reason: str) -> InputError:
    buffer = program.buffers[number]
    return InputError(
        f"buffer {buffer.name!r} ({buffer.dtype}, shape {buffer.shape}) has no contents: {reason}",
        where=f"program {program.name}",
        hint="make it an input of the model, or give it contents, e.g. Tensor.zeros instead of Tensor.empty",
    )

"""Code on virtual rows: lines of the machine's instructions, whose VMEM addresses `device.addresses` chooses."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tg2hdl_tpu.isa import Instruction

__all__ = ["Code", "CodeBlock", "DeviceProgram", "Label", "Line", "RowPlace", "Rows"]


@dataclass(eq=False)
class Rows:
    """Neighbouring rows of VMEM; the host writes `content` there before a run."""

    count: int
    content: NDArray[np.int32] | None = None
    keeps: bool = False  # for the whole program


@dataclass(frozen=True)
class RowPlace:
    """A row, or a segment of it: `row` of `rows`, `lane` segments on, plus an address register, then a stride."""

    rows: Rows
    row: int = 0
    stride: int = 0
    register: int = 0
    lane: int = 0


@dataclass(eq=False)
class Label:
    """A place in the program, for branches."""


@dataclass
class Line:
    """An instruction; `slot` is the buffer whose first external row is added to `b`, `target` that of a branch."""

    op: str
    dst: RowPlace | None = None
    a: RowPlace | None = None
    b: RowPlace | int | None = None
    fields: dict[str, int] = field(default_factory=dict)
    slot: int | None = None
    target: Label | None = None

    def part(self, start: int, count: int) -> Line:
        """The instruction for some of its rows.

        Parameters
        ----------
        start : int
            First of its rows.
        count : int
            Rows.
        """

        def moved(place: RowPlace | int | None) -> Any:
            if not isinstance(place, RowPlace):
                return place
            step = place.stride * start
            return replace(place, row=place.row + step, stride=place.stride if count > 1 else 0)

        fields = self.fields | {"count": count}
        return replace(self, dst=moved(self.dst), a=moved(self.a), b=moved(self.b), fields=fields)


@dataclass
class CodeBlock:
    """Lines in order; those of a loop run more than once."""

    items: list[Line | Label | CodeBlock] = field(default_factory=list)
    is_loop: bool = False


@dataclass(frozen=True)
class DeviceProgram:
    """A compiled kernel.

    Parameters
    ----------
    instructions : tuple of Instruction
        External rows count from the first row of their buffer.
    slots : tuple of (int, int)
        Instruction and the buffer whose first row must be added to its `b`.
    constants : ndarray of int32
        First rows of VMEM.
    parts : frozenset of str
        Optional parts of the machine that it uses.
    scratch : tuple of (int, int)
        Buffers of its own: slot and bytes.
    before : tuple of DeviceProgram
        Each makes copies of tensors that do not change; their buffers are used by this one.
    factors : frozenset of int
        Slots whose copies could be kept.
    pairs : tuple of int
        Loads that continue in VMEM where the one before ends: one does both where tensors are neighbours too.
    """

    instructions: tuple[Instruction, ...]
    slots: tuple[tuple[int, int], ...]
    constants: NDArray[np.int32]
    parts: frozenset[str]
    scratch: tuple[tuple[int, int], ...] = ()
    before: tuple[DeviceProgram, ...] = ()
    factors: frozenset[int] = frozenset()
    pairs: tuple[int, ...] = ()


class Code:
    """A program under construction."""

    def __init__(self) -> None:
        self.root = CodeBlock()
        self.constants: dict[bytes, Rows] = {}

    def constant(self, rows: Any) -> Rows:
        """Return the row, or neighbouring rows, with this content."""
        content = np.atleast_2d(np.asarray(rows, dtype=np.int32))
        return self.constants.setdefault(content.tobytes(), Rows(len(content), content, keeps=True))

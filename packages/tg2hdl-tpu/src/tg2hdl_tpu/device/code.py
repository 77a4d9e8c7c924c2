"""Code on virtual rows: lines of the machine's instructions whose VMEM addresses are chosen at the end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tg2hdl_ir.errors import UnsupportedError
from tg2hdl_tpu.config import Config
from tg2hdl_tpu.isa import PRE, Instruction

__all__ = ["Block", "Code", "Label", "Line", "Place", "Program", "Rows", "assemble_code"]


@dataclass(eq=False)
class Rows:
    """Neighbouring rows of VMEM; `content` is what the host writes there before a run."""

    count: int
    content: NDArray[np.int32] | None = None
    keeps: bool = False  # for the whole program


@dataclass(frozen=True)
class Place:
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
    dst: Place | None = None
    a: Place | None = None
    b: Place | int | None = None
    fields: dict[str, int] = field(default_factory=dict)
    slot: int | None = None
    target: Label | None = None


@dataclass
class Block:
    """Lines in order; those of a loop run more than once."""

    items: list[Line | Label | Block] = field(default_factory=list)
    is_loop: bool = False


@dataclass(frozen=True)
class Program:
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
    before : Program or None
        Makes copies of tensors that do not change; its buffers are used by this one.
    factors : frozenset of int
        Slots whose copies could be kept.
    """

    instructions: tuple[Instruction, ...]
    slots: tuple[tuple[int, int], ...]
    constants: NDArray[np.int32]
    parts: frozenset[str]
    scratch: tuple[tuple[int, int], ...] = ()
    before: Program | None = None
    factors: frozenset[int] = frozenset()


class Code:
    """A program under construction."""

    def __init__(self) -> None:
        self.root = Block()
        self.constants: dict[bytes, Rows] = {}

    def constant(self, rows: Any) -> Rows:
        """Return the row, or neighbouring rows, with this content."""
        content = np.atleast_2d(np.asarray(rows, dtype=np.int32))
        return self.constants.setdefault(content.tobytes(), Rows(len(content), content, keeps=True))


def _linear(block: Block, spans: list[tuple[int, int]], lines: list[Line | Label]) -> None:
    start = len(lines)
    for item in block.items:
        if isinstance(item, Block):
            _linear(item, spans, lines)
        else:
            lines.append(item)
    if block.is_loop:
        spans.append((start, len(lines) - 1))


def _places(line: Line) -> Iterator[Place]:
    for place in (line.dst, line.a, line.b):
        if isinstance(place, Place):
            yield place


def _drop_unread(root: Block) -> bool:
    """Leave out lines whose results no line reads."""
    read: set[Rows] = set()
    stack: list[Line | Label | Block] = [root]
    while stack:
        item = stack.pop()
        if isinstance(item, Block):
            stack.extend(item.items)
        elif isinstance(item, Line):
            read.update(
                p.rows for p in (item.a, item.b) if isinstance(p, Place) and p.rows is not _target(item)
            )
    return _keep_read(root, read)


def _target(line: Line) -> Rows | None:
    return None if line.dst is None else line.dst.rows


def _keep_read(block: Block, read: set[Rows]) -> bool:
    kept = [i for i in block.items if not isinstance(i, Line) or i.dst is None or i.dst.rows in read]
    changed = len(kept) < len(block.items)
    block.items = kept
    inner = [_keep_read(i, read) for i in kept if isinstance(i, Block)]
    return changed or any(inner)


def _lives(lines: list[Line | Label], spans: list[tuple[int, int]]) -> dict[Rows, tuple[int, int]]:
    lives: dict[Rows, tuple[int, int]] = {}
    for n, line in enumerate(lines):
        if isinstance(line, Line):
            for place in _places(line):
                lives[place.rows] = lives.get(place.rows, (n, n))[0], n
    # A value that enters a loop lives to the loop's end; inner loops come first in `spans`.
    for rows, (first, last) in lives.items():
        for start, end in spans:
            if first < start <= last < end:
                last = end
        lives[rows] = (0, len(lines)) if rows.keeps else (first, last)
    return lives


def _allocate(lives: dict[Rows, tuple[int, int]], size: int) -> dict[Rows, int] | None:
    """First row of each, or None where they do not fit."""
    found: dict[Rows, int] = {}
    active: list[tuple[int, int, int]] = []  # first row, rows, last line
    for rows, (first, last) in sorted(lives.items(), key=lambda item: (item[0].content is None, item[1])):
        if rows.content is None:
            active = [a for a in active if a[2] >= first]
        at, place = 0, len(active)
        for n, (start, count, _) in enumerate(active):
            if start - at >= rows.count:
                place = n
                break
            at = start + count
        if at + rows.count > size:
            return None
        active.insert(place, (at, rows.count, last))
        found[rows] = at
    return found


def assemble_code(code: Code, config: Config, where: str) -> Program | None:
    """Choose addresses; None where VMEM is too small.

    Raises
    ------
    UnsupportedError
        For a program that is longer than the memory of instructions.
    """
    while _drop_unread(code.root):
        pass
    lines: list[Line | Label] = []
    spans: list[tuple[int, int]] = []
    _linear(code.root, spans, lines)
    lives = _lives(lines, spans)
    for rows in code.constants.values():
        lives.setdefault(rows, (0, len(lines)))
    rows_at = _allocate(lives, config.vmem_rows)
    if rows_at is None:
        return None
    at: dict[Label, int] = {}
    count = 0
    for line in lines:
        if isinstance(line, Label):
            at[line] = count
        else:
            count += 1
    if count >= config.imem_depth:
        raise UnsupportedError(
            f"{count + 1} instructions for a machine that stores {config.imem_depth}",
            where=where,
            hint="realize parts of the expression one by one",
        )
    instructions: list[Instruction] = []
    slots: list[tuple[int, int]] = []
    for line in lines:
        if isinstance(line, Line):
            if line.slot is not None:
                slots.append((len(instructions), line.slot))
            instructions.append(_encoded(line, rows_at, at, config))
    instructions.append(Instruction("halt"))
    constants = sorted((rows_at[rows], rows) for rows in code.constants.values())
    content = [rows.content for _, rows in constants if rows.content is not None]
    table = np.concatenate(content) if content else np.zeros((0, config.lanes), np.int32)
    parts = {i.opcode.op.part for i in instructions if i.opcode.op is not None}
    return Program(tuple(instructions), tuple(slots), table, frozenset(parts - {""}))


def _encoded(line: Line, rows_at: dict[Rows, int], labels: dict[Label, int], config: Config) -> Instruction:
    fields = dict(line.fields)
    segment = fields.get("segment", 0)
    if line.dst is not None:
        row = rows_at[line.dst.rows] + line.dst.row
        fields |= {"dst": (row << segment) + line.dst.lane, "dst_reg": line.dst.register}
        if line.dst.stride:
            fields["dst_stride"] = line.dst.stride
    if line.a is not None:
        row = rows_at[line.a.rows] + line.a.row
        if (pre := PRE[fields.get("pre", 0)]) in ("mxu", "mxu8"):
            side = {"weights": config.columns, "tile": config.rows * config.columns}.get(line.op, config.rows)
            row = row * config.lanes * (4 if pre == "mxu8" else 1) // side + line.a.lane
        fields |= {"a": row, "a_reg": line.a.register}
        if line.a.stride:
            fields["a_stride"] = line.a.stride
    if isinstance(line.b, Place):
        fields |= {
            "b": rows_at[line.b.rows] + line.b.row + (line.b.stride << 16),
            "b_reg": line.b.register,
        }
    elif line.b is not None:
        fields["b"] = line.b
    if line.target is not None:
        fields["dst"] = labels[line.target]
    return Instruction(line.op, **fields)

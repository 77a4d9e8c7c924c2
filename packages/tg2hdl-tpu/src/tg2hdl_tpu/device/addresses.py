"""Chooses VMEM addresses for the rows of a program, and encodes it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import pairwise

import numpy as np

from tg2hdl_ir import UnsupportedError
from tg2hdl_tpu.config import Config
from tg2hdl_tpu.device.code import Code, CodeBlock, DeviceProgram, Label, Line, RowPlace, Rows
from tg2hdl_tpu.device.schedule import scheduled
from tg2hdl_tpu.isa import PRE, Instruction

__all__ = ["assemble_code"]


def _linear(block: CodeBlock, spans: list[tuple[int, int]], lines: list[Line | Label]) -> None:
    start = len(lines)
    for item in block.items:
        if isinstance(item, CodeBlock):
            _linear(item, spans, lines)
        else:
            lines.append(item)
    if block.is_loop:
        spans.append((start, len(lines) - 1))


def _places(line: Line) -> Iterator[RowPlace]:
    for place in (line.dst, line.a, line.b):
        if isinstance(place, RowPlace):
            yield place


def _drop_unread(root: CodeBlock) -> bool:
    """Leave out lines whose results no line reads."""
    read: set[Rows] = set()
    stack: list[Line | Label | CodeBlock] = [root]
    while stack:
        item = stack.pop()
        if isinstance(item, CodeBlock):
            stack.extend(item.items)
        elif isinstance(item, Line):
            read.update(
                p.rows for p in (item.a, item.b) if isinstance(p, RowPlace) and p.rows is not _target(item)
            )
    return _keep_read(root, read)


def _target(line: Line) -> Rows | None:
    return None if line.dst is None else line.dst.rows


def _keep_read(block: CodeBlock, read: set[Rows]) -> bool:
    kept = [i for i in block.items if not isinstance(i, Line) or i.dst is None or i.dst.rows in read]
    changed = len(kept) < len(block.items)
    block.items = kept
    inner = [_keep_read(i, read) for i in kept if isinstance(i, CodeBlock)]
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


def _allocate(
    lives: dict[Rows, tuple[int, int]], computed: Collection[Rows], size: int
) -> dict[Rows, int] | None:
    """First row of each, or None where they do not fit.

    Computed rows go to the second bank where there is room, so that DMA may write to the first one meanwhile.
    """
    found: dict[Rows, int] = {}
    active: list[tuple[int, int, int]] = []  # first row, rows, last line
    for rows, (first, last) in sorted(lives.items(), key=lambda item: (item[0].content is None, item[1])):
        if rows.content is None:
            active = [a for a in active if a[2] >= first]
        at, place = _gap(active, rows.count, size // 2 if rows in computed else 0)
        if at + rows.count > size:
            at, place = _gap(active, rows.count, 0)
        if at + rows.count > size:
            return None
        active.insert(place, (at, rows.count, last))
        found[rows] = at
    return found


def _gap(active: list[tuple[int, int, int]], count: int, at: int) -> tuple[int, int]:
    """First row from `at` on of so many that nothing has, and its place in the list."""
    for n, (start, length, _) in enumerate(active):
        if start - at >= count:
            return at, n
        at = max(at, start + length)
    return at, len(active)


def _rows_at(
    code: Code, lines: list[Line | Label], spans: list[tuple[int, int]], config: Config
) -> dict[Rows, int] | None:
    lives = _lives(lines, spans)
    for rows in code.constants.values():
        lives.setdefault(rows, (0, len(lines)))
    computed = {i.dst.rows for i in lines if isinstance(i, Line) and i.dst is not None and i.op != "load"}
    return _allocate(lives, computed, config.vmem_rows)


def assemble_code(code: Code, config: Config, where: str) -> DeviceProgram | None:
    """Choose addresses; None where VMEM is too small.

    Parameters
    ----------
    code : Code
    config : Config
        The machine.
    where : str
        Of the kernel, for errors.

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
    plain = [line for line in lines if isinstance(line, Line)]
    rows_at = None
    if len(plain) == len(lines) and not spans:
        ordered: list[Line | Label] = [*scheduled(plain, config)]
        rows_at = _rows_at(code, ordered, spans, config)
        lines = lines if rows_at is None else ordered
    if rows_at is None:
        rows_at = _rows_at(code, lines, spans, config)
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
    pairs = tuple(
        n + 1
        for n, (first, second) in enumerate(pairwise(instructions))
        if {first.op, second.op} == {"load"}
        and not any((first.dst_reg, second.dst_reg, first.b_reg, second.b_reg))
        and second.dst == first.dst + first.count
        and n + 1 not in at.values()
    )
    return DeviceProgram(tuple(instructions), tuple(slots), table, frozenset(parts - {""}), pairs=pairs)


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
    if isinstance(line.b, RowPlace):
        fields |= {
            "b": rows_at[line.b.rows] + line.b.row + (line.b.stride << 16),
            "b_reg": line.b.register,
        }
    elif line.b is not None:
        fields["b"] = line.b
    if line.target is not None:
        fields["dst"] = labels[line.target]
    return Instruction(line.op, **fields)

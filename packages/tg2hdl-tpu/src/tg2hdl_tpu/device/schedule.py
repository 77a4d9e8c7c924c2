"""Puts instructions in an order in which they wait less: rows are issued in order, and one that waits stops all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tg2hdl_tpu.config import Config
from tg2hdl_tpu.device.code import Line, RowPlace, Rows
from tg2hdl_tpu.isa import OPCODES

__all__ = ["scheduled"]

#: Instructions that are put in order, and rows of slow operations that become instructions of their own.
_MOST, _SLOW = 1500, 256
#: Cycles from the issue of a load to its first row.
_FETCH = 5


@dataclass(eq=False)
class _Step:
    """An instruction, with its predecessors and successors."""

    line: Line
    number: int
    kind: int
    rows: int
    before: dict[_Step, int] = field(default_factory=dict)
    after: set[_Step] = field(default_factory=set)
    earliest: int = 0

    @property
    def moves(self) -> bool:
        """Whether it is a transfer."""
        return self.line.op in ("load", "store")


def scheduled(lines: Sequence[Line], config: Config) -> list[Line]:
    """The instructions, each behind all that it depends on, where it waits least.

    Parameters
    ----------
    lines : sequence of Line
        In an order that gives the right result.
    config : Config
        The machine, with its latencies.
    """
    if len(lines) > _MOST or any(_kind(line) is None for line in lines):
        return list(lines)
    steps = [
        _Step(line, n, _kind(line) or 0, line.fields["count"]) for n, line in enumerate(_split(lines, config))
    ]
    _connect(steps, config)
    waiting = {s: len(s.before) for s in steps}
    ready = [s for s in steps if not s.before]
    rows, channels, unit = 0, {"load": 0, "store": 0}, [0] * len(config.latencies)
    found: list[Line] = []

    def start(step: _Step) -> int:
        return max(rows, step.earliest, channels[step.line.op] if step.moves else unit[step.kind])

    while ready:
        step = min(ready, key=lambda s: (start(s), s.number))
        at, interval = start(step), config.interval(step.kind)
        if step.moves:
            rows, channels[step.line.op] = at + 1, at + step.rows + _FETCH
        else:
            rows, unit[step.kind] = at + (step.rows - 1) * interval + 1, at + step.rows * interval
        ready.remove(step)
        found.append(step.line)
        for other in step.after:
            other.earliest = max(other.earliest, at + other.before[step])
            waiting[other] -= 1
            if not waiting[other]:
                ready.append(other)
    return found


def _kind(line: Line) -> int | None:
    """Kind of its rows; None for an instruction that is not moved."""
    if line.op in ("load", "store"):
        return None if line.fields.get("register") or "b_reg" in line.fields else 0
    op = OPCODES[line.op].op
    if op is None or line.fields.get("pre", 0) in (1, 2):
        return None
    return (
        None if any(isinstance(p, RowPlace) and p.register for p in (line.dst, line.a, line.b)) else op.kind
    )


def _split(lines: Sequence[Line], config: Config) -> Iterator[Line]:
    """Rows that take many cycles each as instructions of their own."""
    slow = [
        n
        for n, line in enumerate(lines)
        if line.op not in ("load", "store") and config.interval(_kind(line) or 0) > 1
    ]
    few = sum(lines[n].fields["count"] for n in slow) <= _SLOW
    for n, line in enumerate(lines):
        if few and n in slow:
            yield from (line.part(row, 1) for row in range(line.fields["count"]))
        else:
            yield line


def _span(place: RowPlace, count: int, moves: bool, segment: int = 0) -> tuple[int, int]:
    """First and last row; transfers move neighbouring rows."""
    first = (place.row << segment) + place.lane
    stride = 1 if moves else place.stride
    ends = first >> segment, first + stride * (count - 1) >> segment
    return min(ends), max(ends)


def _connect(steps: list[_Step], config: Config) -> None:
    """Find the predecessors of each step."""
    written: dict[Rows, list[tuple[int, int, _Step]]] = {}
    read: dict[Rows, list[tuple[int, int, _Step]]] = {}
    last: _Step | None = None  # transfers keep their order

    def wait(step: _Step, other: _Step, cycles: int) -> None:
        if other is not step:
            step.before[other] = max(cycles, step.before.get(other, 0))
            other.after.add(step)

    for step in steps:
        line, count = step.line, step.rows
        targets: list[tuple[RowPlace, tuple[int, int]]] = []
        moves = step.moves
        sources = [(p, _span(p, count, moves)) for p in (line.a, line.b) if isinstance(p, RowPlace)]
        if line.dst is not None:
            rows = 1 if line.fields.get("accumulate") else count
            targets.append((line.dst, _span(line.dst, rows, moves, line.fields.get("segment", 0))))
            op = OPCODES[line.op].op
            if op is not None and op.reads_c:
                sources += targets
        if moves:
            if last is not None:
                wait(step, last, 1)
            last = step
        for place, (low, high) in sources:
            for first, end, other in written.get(place.rows, ()):
                if first <= high and end >= low:
                    wait(step, other, _until(other, max(low - first, 0) + high - low - count + 1, config))
        for place, (low, high) in targets:
            for table in (written, read):
                for first, end, other in table.get(place.rows, ()):
                    if first <= high and end >= low:
                        wait(step, other, 1)
        for place, span in sources:
            read.setdefault(place.rows, []).append((*span, step))
        for place, span in targets:
            for table in (written, read):  # who waits for this step waits for those before it
                table[place.rows] = [e for e in table.get(place.rows, ()) if e[0] < span[0] or e[1] > span[1]]
            written.setdefault(place.rows, []).append((*span, step))


def _until(maker: _Step, ahead: int, config: Config) -> int:
    """Cycles from the start of the producer of rows to the start of their reader, which is `ahead` rows ahead."""
    first = _FETCH if maker.line.op == "load" else config.latencies[maker.kind] + 1
    last = maker.rows - 1
    return first + (last if maker.line.fields.get("accumulate") else min(max(ahead, 0), last))

"""Designs that a search found, the best of them and the Pareto front; they print as a table."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tg2hdl.exploration.figures import RESOURCES
from tg2hdl.exploration.goals import GOALS, breaks
from tg2hdl.exploration.points import Point, option_changes, shown
from tg2hdl_ir import CapacityError
from tg2hdl_ir.files import write_file

if TYPE_CHECKING:
    from tg2hdl.accelerator import Accelerator

__all__ = ["DesignPoints"]


@dataclass(frozen=True)
class DesignPoints:
    """The points of a search, the best of them and the Pareto front; prints as a table.

    Parameters
    ----------
    model : str
    part : str
    goal : str
        One of `GOALS`.
    limits : mapping of str to float
    points : tuple of Point
        In the order of the goal.
    is_complete : bool
        Whether all points of the space were looked at, as far as the goal needs them.
    """

    model: str
    part: str
    goal: str
    limits: Mapping[str, float]
    points: tuple[Point, ...]
    is_complete: bool = True

    @property
    def suitable(self) -> tuple[Point, ...]:
        """Points that fit the part and keep all limits, in the order of the goal."""
        return tuple(p for p in self.points if p.fits and not breaks(p, self.limits))

    @property
    def best(self) -> Point:
        """The best point by the goal.

        Raises
        ------
        CapacityError
            When none fits the part and keeps the limits; with the needs of the smallest one, and the shortage.
        """
        found = self.suitable
        if not found:
            raise self._nothing_fits()
        return found[0]

    @property
    def pareto(self) -> tuple[Point, ...]:
        """Suitable points that no other one equals or beats in cycles, interval, cells, loss and the goal."""
        front: list[Point] = []
        found = [(self._costs(p), len(option_changes(p.options)), n, p) for n, p in enumerate(self.suitable)]
        for costs, _, _, point in sorted(found):
            if not any(all(a <= b for a, b in zip(self._costs(o), costs, strict=True)) for o in front):
                front.append(point)
        return tuple(front)

    def _costs(self, point: Point) -> tuple[float, ...]:
        """Figures that should be small; time too where that is the goal."""
        names = ["latency", "interval", "area", "block-ram", "loss"]
        return tuple(GOALS[name].value(point) for name in dict.fromkeys([*names, self.goal]))

    def compile(self) -> Accelerator:
        """Compile the best point."""
        return self.best.compile()

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        front = self.pareto
        best = self.suitable[0] if self.suitable else None
        points = [p.to_dict() | {"pareto": p in front, "best": p is best} for p in self.points]
        head = {"model": self.model, "part": self.part, "goal": self.goal, "limits": dict(self.limits)}
        return {**head, "is_complete": self.is_complete, "points": points}

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the points as JSON."""
        return write_file(path, json.dumps(self.to_dict(), indent=2) + "\n")

    def format(self, width: int = 80) -> str:
        """The Pareto front as text.

        Parameters
        ----------
        width : int
            Columns; below 72 each point takes several lines.
        """
        return "\n".join(_lines(self, width))

    def __str__(self) -> str:
        return self.format()

    def _nothing_fits(self) -> CapacityError:
        fitting = [p for p in self.points if p.fits is not False]
        if fitting:
            notes = tuple(f"{p.label}: {breaks(p, self.limits)}" for p in fitting[:1])
            return CapacityError(
                f"no design of {self.model} that fits {self.part} keeps the limits",
                notes=notes,
                hint="relax a limit, choose a larger part, or allow what may change numbers: "
                "float_order, fold_batchnorm",
            )
        planned = [p for p in self.points if p.cycles is not None]
        smallest = min(planned or self.points, key=_size)
        needs = f"the smallest, with {smallest.label}, needs {smallest.figures.refusal}"
        notes = (needs if planned else f"{smallest.label}: {smallest.figures.refusal}",)
        hint = "choose a larger part, quantize the model, or keep its weights outside the chip (weights external)"
        return CapacityError(f"no design of {self.model} fits {self.part}", notes=notes, hint=hint)


def _size(point: Point) -> tuple[float, ...]:
    """Largest share of any resource of the part, for the smallest design first."""
    shares = [point.needs[n] / max(1, point.figures.has.get(n, 1)) for n in point.needs]
    return (max(shares, default=float("inf")), point.cycles or 0)


_COLUMNS = ("cycles", "interval", "us", *RESOURCES.values())


def _cells(point: Point) -> list[str]:
    time = "" if point.microseconds is None else f"{point.microseconds:,.1f}"
    figures = [point.cycles, point.interval]
    needs = [point.needs.get(name) for name in RESOURCES]
    texts = ["" if n is None else f"{n:,}" for n in figures]
    return [*texts, time, *("" if n is None else f"{n:,}" for n in needs)]


def _lines(found: DesignPoints, width: int) -> Iterator[str]:
    front, best = found.pareto, found.suitable[:1]
    known = sum(p.fits is not None for p in found.points)
    state = "" if found.is_complete else ", stopped before the end"
    counts = f"{len(found.points)} designs, {known} estimated, {len(front)} on the front"
    yield from textwrap.wrap(f"{found.model} on {found.part}: {counts}{state}", width)
    listed = list(front) + [p for p in best if p not in front]
    if not listed:
        yield from textwrap.wrap("none of them is known to fit and to keep the limits", width)
        return
    varying = [n for n in listed[0].settings if len({str(p.settings.get(n)) for p in found.points}) > 1]
    judged = [p.judged for p in listed if p.judged is not None]
    rows = [
        [
            *(shown(p.settings.get(n)) for n in varying),
            *([f"{100 * (p.accuracy or 0):.2f}"] if judged else []),
            *_cells(p),
        ]
        for p in listed
    ]
    heads = [*varying, *(["right %"] if judged else []), *_COLUMNS]
    if any(p.is_measured for p in listed):
        heads.append("P&R")
        rows = [[*row, "yes" if p.is_measured else "no"] for p, row in zip(listed, rows, strict=True)]
    short = {"flip-flops": "FFs", "block RAMs": "BRAM", "multipliers": "DSPs"}
    titles = [h if n < len(varying) else short.get(h, h) for n, h in enumerate(heads)]
    widths = [max(len(row[k]) for row in [titles, *rows]) for k in range(len(titles))]
    if sum(widths) + len(widths) + 2 <= width:
        yield "  " + " ".join(t.rjust(w) for t, w in zip(titles, widths, strict=True))
        for point, row in zip(listed, rows, strict=True):
            mark = "*" if point in best else " "
            yield f"{mark} " + " ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True))
    else:
        for point, row in zip(listed, rows, strict=True):
            yield from _block(titles, row, "*" if point in best else "-", width)
    measured = ", or measured where P&R is yes" if heads[-1] == "P&R" else ""
    text = f"* best by {found.goal}; cycles and interval are exact, the rest is estimated{measured}"
    if judged:
        text += f"; {judged[0].measure} is on samples that chose no scale"
    yield from textwrap.wrap(text, width)


def _block(titles: Sequence[str], row: Sequence[str], mark: str, width: int) -> Iterator[str]:
    """A point in several lines, for narrow terminals."""
    line = mark
    for title, cell in zip(titles, row, strict=True):
        text = f" {title} {cell or '-'}"
        if len(line) + len(text) + 1 > width:
            yield line.rstrip()
            line = " "
        line += text + ","
    yield line.rstrip(",")

"""Points of an exploration: designs with their figures, the best of them and the Pareto front."""

from __future__ import annotations

import json
import shlex
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tg2hdl.exploration.figures import RESOURCES, Figures
from tg2hdl.exploration.goals import GOALS, breaks
from tg2hdl_ir.errors import CapacityError
from tg2hdl_ir.files import write_file
from tg2hdl_top import CompileOptions

if TYPE_CHECKING:
    from tg2hdl.accelerator import Accelerator
    from tg2hdl.report import Report

__all__ = ["Exploration", "Point", "command_options", "option_changes"]

_FLAGS = {"share_units": "--share-units", "fold_batchnorm": "--fold-batchnorm"}
_OPTIONS = {
    "multipliers": "--multipliers",
    "target": "--family",
    "float_order": "--float-order",
    "schedule": "--schedule",
    "weights": "--weights",
    "on_chip_bits": "--on-chip-bits",
    "memory_port": "--memory-port",
}


@dataclass(frozen=True)
class Point:
    """A design of the model, by its options.

    Parameters
    ----------
    settings : mapping of str to Any
        Value of each dimension of the space.
    options : CompileOptions
        What it is compiled with.
    figures : Figures
    """

    settings: Mapping[str, Any]
    options: CompileOptions = field(repr=False)
    figures: Figures
    _compiled: Callable[[CompileOptions], Accelerator] | None = field(default=None, repr=False, compare=False)

    @property
    def cycles(self) -> int | None:
        """Clock cycles from start to done, exact; None where the program has no such design."""
        return self.figures.cycles

    @property
    def interval(self) -> int | None:
        """Clock cycles from one start to the next, exact."""
        return self.figures.interval

    @property
    def needs(self) -> Mapping[str, int]:
        """Cells: ``bram``, and ``lut``, ``ff`` and ``dsp`` where they are estimated."""
        return self.figures.needs

    @property
    def fmax(self) -> float | None:
        """Expected clock (MHz)."""
        return self.figures.fmax

    @property
    def microseconds(self) -> float | None:
        """Time from start to done at the expected clock."""
        return None if self.fmax is None or self.cycles is None else self.cycles / self.fmax

    @property
    def rate(self) -> float | None:
        """Results per second at the expected clock."""
        return None if self.fmax is None or self.interval is None else self.fmax * 1e6 / self.interval

    @property
    def fits(self) -> bool | None:
        """Whether it fits the part; None where its cells were not estimated."""
        return False if self.figures.refusal else (True if self.figures.is_estimated else None)

    @property
    def is_measured(self) -> bool:
        """Whether cells and clock are those of place and route, not estimates."""
        return bool(self.figures.estimate)

    @property
    def label(self) -> str:
        """Its settings in a line."""
        return ", ".join(f"{name} {_shown(value)}" for name, value in self.settings.items())

    @property
    def command_options(self) -> list[str]:
        """Options of the command line for this design, quoted for a shell."""
        return command_options(self.options)

    def compile(self) -> Accelerator:
        """Compile this design of the model, with validation."""
        assert self._compiled is not None, "a point of an exploration has its model"
        return self._compiled(self.options)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        derived: dict[str, Any] = {"microseconds": self.microseconds, "rate": self.rate, "fits": self.fits}
        derived["is_measured"] = self.is_measured
        command = " ".join(self.command_options)
        return {
            "settings": dict(self.settings),
            "command_options": command,
            **asdict(self.figures),
            **derived,
        }


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value is None else str(value)


def option_changes(options: CompileOptions) -> dict[str, Any]:
    """Fields of options that are not the defaults."""
    default = CompileOptions()
    changed = {f.name: getattr(options, f.name) for f in fields(options)}
    return {
        n: v
        for n, v in changed.items()
        if v != getattr(default, n) and n not in ("validate", "validate_keep")
    }


def command_options(options: CompileOptions) -> list[str]:
    """Options of the command line that give these options, as far as it has them."""
    found: list[str] = []
    for name, value in option_changes(options).items():
        if name in _FLAGS:
            found.append(_FLAGS[name])
        elif name in _OPTIONS:
            found += [_OPTIONS[name], str(value)]
        elif name == "units":
            for op, unit in value.items():
                found += ["--unit", f"{op}={unit}"]
        elif name == "ports":
            for port in value:
                found += ["--port", port]
    return [shlex.quote(word) for word in found]


@dataclass(frozen=True)
class Exploration:
    """The points of an exploration; prints as a table.

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
            When none fits the part and keeps the limits; it says what the smallest needs, and what is short.
        """
        found = self.suitable
        if not found:
            raise self._nothing_fits()
        return found[0]

    @property
    def pareto(self) -> tuple[Point, ...]:
        """Suitable points that no other one equals or beats in cycles, interval, LUTs, block RAMs and the goal."""
        front: list[Point] = []
        found = [(self._costs(p), len(option_changes(p.options)), n, p) for n, p in enumerate(self.suitable)]
        for costs, _, _, point in sorted(found):
            if not any(all(a <= b for a, b in zip(self._costs(o), costs, strict=True)) for o in front):
                front.append(point)
        return tuple(front)

    def _costs(self, point: Point) -> tuple[float, ...]:
        """Figures that should be small; time too where that is the goal."""
        names = ["latency", "interval", "area", "block-ram"]
        return tuple(GOALS[name].value(point) for name in dict.fromkeys([*names, self.goal]))

    def compile(self) -> Accelerator:
        """Compile the best point."""
        return self.best.compile()

    def report(self, source: str = "MODEL") -> Report:
        """One HTML page: the front, and for each of its points decisions, memories and command line.

        Parameters
        ----------
        source : str
            Model in the command lines, e.g. ``model.py``.

        Returns
        -------
        Report
            Saved by ``.save("front.html")``; shows itself in Jupyter.
        """
        from tg2hdl.report.exploration import exploration_page

        return exploration_page(self, source)

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
    """Largest share of what the part has, for the smallest design first."""
    shares = [point.needs[n] / max(1, point.figures.has.get(n, 1)) for n in point.needs]
    return (max(shares, default=float("inf")), point.cycles or 0)


_COLUMNS = ("cycles", "interval", "us", *RESOURCES.values())


def _cells(point: Point) -> list[str]:
    time = "" if point.microseconds is None else f"{point.microseconds:,.1f}"
    figures = [point.cycles, point.interval]
    needs = [point.needs.get(name) for name in RESOURCES]
    texts = ["" if n is None else f"{n:,}" for n in figures]
    return [*texts, time, *("" if n is None else f"{n:,}" for n in needs)]


def _lines(found: Exploration, width: int) -> Iterator[str]:
    front, best = found.pareto, found.suitable[:1]
    known = sum(p.fits is not None for p in found.points)
    state = "" if found.is_complete else ", stopped before the end"
    counts = f"{len(found.points)} designs, {known} estimated, {len(front)} on the front"
    yield from textwrap.wrap(f"{found.model} on {found.part}: {counts}{state}", width)
    shown = list(front) + [p for p in best if p not in front]
    if not shown:
        yield from textwrap.wrap("none of them is known to fit and to keep the limits", width)
        return
    varying = [n for n in shown[0].settings if len({str(p.settings.get(n)) for p in found.points}) > 1]
    rows = [[*(_shown(p.settings.get(n)) for n in varying), *_cells(p)] for p in shown]
    heads = [*varying, *_COLUMNS]
    if any(p.is_measured for p in shown):
        heads.append("P&R")
        rows = [[*row, "yes" if p.is_measured else "no"] for p, row in zip(shown, rows, strict=True)]
    short = {"flip-flops": "FFs", "block RAMs": "BRAM", "multipliers": "DSPs"}
    titles = [h if n < len(varying) else short.get(h, h) for n, h in enumerate(heads)]
    widths = [max(len(row[k]) for row in [titles, *rows]) for k in range(len(titles))]
    if sum(widths) + len(widths) + 2 <= width:
        yield "  " + " ".join(t.rjust(w) for t, w in zip(titles, widths, strict=True))
        for point, row in zip(shown, rows, strict=True):
            mark = "*" if point in best else " "
            yield f"{mark} " + " ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True))
    else:
        for point, row in zip(shown, rows, strict=True):
            yield from _block(titles, row, "*" if point in best else "-", width)
    measured = ", or measured where P&R is yes" if heads[-1] == "P&R" else ""
    text = f"* best by {found.goal}; cycles and interval are exact, the rest is estimated{measured}"
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

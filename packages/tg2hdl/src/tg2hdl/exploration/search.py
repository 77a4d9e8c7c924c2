"""The search: plans of all points first, then the cells of those that matter for the goal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tg2hdl.exploration.figures import Figures, too_many
from tg2hdl.exploration.goals import GOALS, breaks
from tg2hdl.exploration.points import Exploration, Point, option_changes
from tg2hdl.exploration.space import Space
from tg2hdl.exploration.study import Study
from tg2hdl.exploration.workers import Runner
from tg2hdl_synth import DesignTooLargeError
from tg2hdl_top import CompileOptions

__all__ = ["Search"]

_MARGIN = 1.25
"""Factor of a part's cells from which a design is refused by those of a smaller one: of four models with 1 and 4
multipliers, the cells of the larger design in those of its units were at least 0.85 of those of the smaller one."""
_CELLS = {"bram": "bram", "lut": "comb", "ff": "ff", "dsp": "dsp"}
"""Kinds of cells of `SynthesisResult.used`, by the names of resources."""
_SAVED = 8
"""Plans between two writes of the study; an estimate takes longer and is written at once."""


@dataclass
class Search:
    """A search over a space; interrupted, `found` has what is known so far.

    Parameters
    ----------
    model : str
        Its label.
    goal : str
        One of `GOALS`.
    limits : mapping of str to float
    compiled : callable, optional
        ``(options) -> Accelerator``, for `Point.compile`.
    progress : callable
        Called with a message before each step.
    """

    model: str
    space: Space
    study: Study
    runner: Runner
    goal: str
    limits: Mapping[str, float]
    compiled: Callable[[CompileOptions], Any] | None = None
    progress: Callable[[str], None] = lambda message: None
    is_complete: bool = False

    def run(self, *, every: bool = True) -> Exploration:
        """Look at all points; without `every` only until the best one is known."""
        ladders = list(self.space.ladders())
        total = sum(map(len, ladders))
        wanted = [[o for _, o in ladder if repr(o) not in self.study.known] for ladder in ladders]
        try:
            for done, (options, figures) in enumerate(self.runner.planned(w for w in wanted if w), 1):
                self.study.known[repr(options)] = figures
                self.progress(f"{done} of {total} designs planned")
                if done % _SAVED == 0:
                    self.study.save()
            self._estimate(every)
            self.is_complete = True
        finally:
            self.study.save()
        return self.found

    def _estimate(self, every: bool) -> None:
        goal = GOALS[self.goal]
        lazily = not every and not (goal.needs_cells or goal.needs_clock)
        for _ in self._estimates(self._samples()):
            pass
        self._refuse_similar()
        for point in self._estimates(self._open_points()):
            if lazily and point.fits and not breaks(point, self.limits):
                return

    def verify(self, count: int) -> Exploration:
        """Place and route the best designs; those that take more or are slower than estimated lose their place.

        Parameters
        ----------
        count : int
            Designs that are measured at the end, best first.

        Raises
        ------
        ToolMissingError
            Without the tools of the part.
        """
        while waiting := [p for p in self.found.suitable[:count] if not p.is_measured]:
            self.progress(f"place and route of {waiting[0].label}")
            self.study.known[repr(waiting[0].options)] = self._measured(waiting[0])
            self.study.save()
        return self.found

    def _measured(self, point: Point) -> Figures:
        assert point.fmax is not None, "a suitable point has an estimate"
        estimate = {**point.needs, "fmax": point.fmax}
        model = replace(point, options=replace(point.options, validate="off")).compile()
        try:
            result = model.synthesize(self.space.part.name, seeds=1)
        except DesignTooLargeError as error:
            return replace(point.figures, refusal=f"place and route: {error.message}", estimate=estimate)
        needs = {name: result.used(kind) for name, kind in _CELLS.items()}
        return replace(point.figures, needs=needs, fmax=result.fmax, estimate=estimate)

    def _open_points(self) -> list[Point]:
        return [p for p in self._points() if p.fits is None and not breaks(p, self.limits)]

    def _estimates(self, points: list[Point]) -> Iterator[Point]:
        """Estimate the cells of points, one after the other."""
        for done, (options, figures) in enumerate(self.runner.estimated(p.options for p in points), 1):
            self.study.known[repr(options)] = figures
            self.study.save()
            self.progress(f"cells of {done} of {len(points)} designs{self._front_so_far()}")
            yield Point({}, options, figures)

    def _samples(self) -> list[Point]:
        """The smallest design of each kind that has designs whose arithmetic units may be too many."""
        part, found = self.space.part, dict[tuple[Any, ...], list[Point]]()
        for point in self._open_points():
            found.setdefault(_kind(point), []).append(point)
        large = [
            points
            for points in found.values()
            if any(count > getattr(part, name) / 2 for p in points for name, count in p.figures.units.items())
        ]
        return [min(points, key=lambda p: p.figures.units["lut"]) for points in large]

    def _refuse_similar(self) -> None:
        """Refuse points whose units are too many, by what the cells of the smallest of their kind are of its units."""
        part, samples = self.space.part, dict[tuple[Any, ...], Figures]()
        for point in sorted(self._points(), key=lambda p: -p.figures.units.get("lut", 0)):
            if point.figures.is_estimated:
                samples[_kind(point)] = point.figures
        for point in self._open_points():
            sample = samples.get(_kind(point))
            for name, count in point.figures.units.items():
                if sample is None or not sample.units.get(name) or name not in sample.needs:
                    continue
                expected, has = int(sample.needs[name] * count / sample.units[name]), getattr(part, name)
                if expected > _MARGIN * has:
                    refusal = f"about {too_many(name, expected, has)}"
                    needs = {**point.needs, name: expected}
                    refused = replace(point.figures, needs=needs, refusal=refusal)
                    self.study.known[repr(point.options)] = refused

    def _front_so_far(self) -> str:
        front = self.found.pareto
        shown = ", ".join(f"{p.cycles:,} cycles {p.needs.get('lut', 0):,} LUTs" for p in front[:3])
        return f"; front of {len(front)}: {shown}" + (", ..." if len(front) > 3 else "") if front else ""

    @property
    def found(self) -> Exploration:
        """What is known so far."""
        return Exploration(
            self.model,
            self.space.part.name,
            self.goal,
            self.limits,
            tuple(self._points()),
            self.is_complete,
        )

    def _points(self) -> list[Point]:
        """Points whose plans are known, in the order of the goal."""
        found = [
            Point(settings, options, self.study.known[repr(options)], self.compiled)
            for ladder in self.space.ladders()
            for settings, options in ladder
            if repr(options) in self.study.known
        ]
        return sorted(found, key=self._order)

    def _order(self, point: Point) -> tuple[Any, ...]:
        values = [
            GOALS[name].value(point) for name in (self.goal, "latency", "interval", "block-ram", "area")
        ]
        budget = point.options.multipliers
        return (*values, 0 if budget is None else budget, len(option_changes(point.options)))


def _kind(point: Point) -> tuple[Any, ...]:
    """Designs of a kind have similar cells for their units."""
    return point.options.target, point.options.share_units, point.options.weights

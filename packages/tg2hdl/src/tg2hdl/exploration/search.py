"""The search: plans of all points first, then the cells of those that matter for the goal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tg2hdl.exploration.goals import GOALS, breaks
from tg2hdl.exploration.points import Exploration, Point, option_changes
from tg2hdl.exploration.space import Space
from tg2hdl.exploration.study import Study
from tg2hdl.exploration.workers import Runner
from tg2hdl_top import CompileOptions

__all__ = ["Search"]

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
        open_points = [p for p in self._points() if p.fits is None and not breaks(p, self.limits)]
        goal = GOALS[self.goal]
        lazily = not every and not (goal.needs_cells or goal.needs_clock)
        for done, (options, figures) in enumerate(self.runner.estimated(p.options for p in open_points), 1):
            self.study.known[repr(options)] = figures
            self.study.save()
            point = Point({}, options, figures)
            if lazily and point.fits and not breaks(point, self.limits):
                return
            self.progress(f"cells of {done} of {len(open_points)} designs{self._front_so_far()}")

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

"""The search: plans of all points first, then the cells of those that matter for the goal."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from tg2hdl.exploration.exploration import Exploration
from tg2hdl.exploration.figures import Figures, PointChoice, too_many
from tg2hdl.exploration.goals import GOALS, breaks
from tg2hdl.exploration.points import Point, option_changes
from tg2hdl.exploration.runner import PointRunner
from tg2hdl.exploration.space import Space
from tg2hdl.exploration.study import Study
from tg2hdl.exploration.variants import WidthVariant
from tg2hdl.quantized_file import save_quantized
from tg2hdl_ir.content_cache import content_key
from tg2hdl_synth import DesignTooLargeError

__all__ = ["Search"]

_Ladder: TypeAlias = list[tuple[dict[str, Any], PointChoice]]

_MARGIN = 1.25
"""Factor of a part's cells from which a design is refused by the cells of another one, taken in proportion to units."""
_NEAR, _NEAR_MARGIN = 1.2, 1.03
"""Growth of the units up to which a design is similar, and the factor for it."""
_CELLS = {"bram": "bram", "lut": "comb", "ff": "ff", "dsp": "dsp"}
"""Kinds of cells of `SynthesisResult.used`, by the names of resources."""
_LONGEST = 48
"""Letters of the widths in a file's name."""
_SAVED = 8
"""Plans between two writes of the study; an estimate takes longer and is written at once."""


@dataclass
class Search:
    """A search over a space; after an interrupt, `found` has the results so far.

    Parameters
    ----------
    model : str
        Its label.
    goal : str
        One of `GOALS`.
    limits : mapping of str to float
    variants : sequence of WidthVariant
        Models that points are designs of.
    compiled : callable, optional
        ``(choice) -> Accelerator``, for `Point.compile`.
    progress : callable
        Called with a message before each step.
    """

    model: str
    space: Space
    study: Study
    runner: PointRunner
    goal: str
    limits: Mapping[str, float]
    variants: Sequence[WidthVariant] = ()
    compiled: Callable[[PointChoice], Any] | None = None
    progress: Callable[[str], None] = lambda message: None
    is_complete: bool = False
    files: dict[str, str] = field(default_factory=dict)

    def run(self, *, every: bool = True) -> Exploration:
        """Look at all points; without `every` only until the best one is known."""
        ladders = list(self._ladders())
        try:
            if every:
                self._look_at(ladders, every)
            else:
                self._look_at(ladders[:1], every)
                self._look_at(self._rest(ladders[1:]), every)
            self.is_complete = True
        finally:
            self.study.save()
        return self.found

    def _rest(self, ladders: list[_Ladder]) -> list[_Ladder]:
        """The points with other settings that may be better than the best one: of its budget up to twice as many."""
        best = self.found.suitable[:1]
        low = best[0].options.multipliers if best else None
        if low is None:
            return ladders
        return [
            [(s, c) for s, c in ladder if low <= (c.options.multipliers or 0) <= 2 * low]
            for ladder in ladders
        ]

    def _look_at(self, ladders: list[_Ladder], every: bool) -> None:
        """Plan points, then estimate the cells of those that matter."""
        wanted = [[c for _, c in ladder if c.key not in self.study.known] for ladder in ladders]
        total = sum(map(len, wanted))
        for done, (choice, figures) in enumerate(self.runner.planned(w for w in wanted if w), 1):
            self.study.known[choice.key] = figures
            self.progress(f"{done} of {total} designs planned")
            if done % _SAVED == 0:
                self.study.save()
        self._estimate(every)

    def _estimate(self, every: bool) -> None:
        goal = GOALS[self.goal]
        lazily = not every and not (goal.needs_cells or goal.needs_clock)
        for _ in self._estimates(self._samples()):
            pass
        self._refuse_similar()
        if not lazily:
            for _ in self._estimates(self._open_points()):
                pass
            return
        while waiting := self._open_points():
            best = self.found.suitable[:1]
            if best and self._order(best[0]) <= self._order(waiting[0]):
                return
            list(self._estimates(waiting[:1]))
            self._refuse_similar()

    def write_models(self, folder: Path, label: str) -> list[Path]:
        """Write the models in integers of the front, which the command lines of its points take.

        Parameters
        ----------
        folder : Path
            Exists.
        label : str
            Prefix of the names of the files.
        """
        wanted = {point.bits for point in self.found.pareto if point.bits}
        written = []
        for variant in self.variants:
            if variant.name in wanted and variant.model is not None:
                tag = variant.name.replace("=", "_").replace(" ", "-")
                tag = tag if len(tag) <= _LONGEST else content_key(tag)[:8]
                path = folder / f"{label}.{tag}.q.npz"
                save_quantized(variant.model, path)
                self.files[variant.name] = str(path)
                written.append(path)
        return written

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
            self.study.known[waiting[0].choice.key] = self._measured(waiting[0])
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
        for done, (choice, figures) in enumerate(self.runner.estimated(p.choice for p in points), 1):
            self.study.known[choice.key] = figures
            self.study.save()
            self.progress(f"cells of {done} of {len(points)} designs{self._front_so_far()}")
            yield Point({}, choice.options, figures, choice.bits)

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
        """Refuse points that are too large by the cells of the most similar design of their kind that is estimated."""
        samples = [p for p in self._points() if p.figures.is_estimated and all(p.figures.units.values())]
        for point in self._open_points():
            alike = [s for s in samples if _kind(s) == _kind(point)]
            if not alike or not all(point.figures.units.values()):
                continue
            sample = min(alike, key=lambda s: abs(math.log(_growth(s, point))))
            margin = _MARGIN if max(_growth(sample, point), _growth(point, sample)) > _NEAR else _NEAR_MARGIN
            for name, count in point.figures.units.items():
                expected = int(sample.needs.get(name, 0) * count / sample.figures.units[name])
                if expected > margin * (has := getattr(self.space.part, name)):
                    needs, refusal = {**point.needs, name: expected}, f"about {too_many(name, expected, has)}"
                    refused = replace(point.figures, needs=needs, refusal=refusal)
                    self.study.known[point.choice.key] = refused

    def _front_so_far(self) -> str:
        front = self.found.pareto
        shown = ", ".join(f"{p.cycles:,} cycles {p.needs.get('lut', 0):,} LUTs" for p in front[:3])
        return f"; front of {len(front)}: {shown}" + (", ..." if len(front) > 3 else "") if front else ""

    @property
    def found(self) -> Exploration:
        """The results so far."""
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
        judged = {variant.name: variant.judged for variant in self.variants}
        found = [
            Point(
                settings,
                choice.options,
                self.study.known[choice.key],
                choice.bits,
                judged.get(choice.bits),
                self.files.get(choice.bits, ""),
                self.compiled,
            )
            for ladder in self._ladders()
            for settings, choice in ladder
            if choice.key in self.study.known
        ]
        return sorted(found, key=self._order)

    def _ladders(self) -> Iterator[_Ladder]:
        """Settings and choices of all points, in lists that differ only in multipliers."""
        for name in [variant.name for variant in self.variants] or [""]:
            more = {"bits": name} if name else {}
            for ladder in self.space.ladders():
                yield [({**more, **settings}, PointChoice(options, name)) for settings, options in ladder]

    def _order(self, point: Point) -> tuple[Any, ...]:
        values = [
            GOALS[name].value(point)
            for name in (self.goal, "latency", "interval", "block-ram", "area", "loss")
        ]
        budget = point.options.multipliers
        return (*values, 0 if budget is None else budget, len(option_changes(point.options)))


def _growth(one: Point, other: Point) -> float:
    """LUTs that the units of another design declare in those of the first."""
    return other.figures.units["lut"] / one.figures.units["lut"]


def _kind(point: Point) -> tuple[Any, ...]:
    """Designs of a kind have similar cells for their units."""
    return point.bits, point.options.target, point.options.share_units, point.options.weights

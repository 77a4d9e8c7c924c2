"""Where points are planned and estimated: here, in processes, or on a cluster, with the same results.

A plan is made once: a point whose cells are estimated, that is compiled or drawn on the page takes its design from the
run, or from the cache, where later runs find it by the contents of program, options and compiler.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from tg2hdl.exploration.figures import Figures, PointChoice, PointPlanner
from tg2hdl_ir.content_cache import ContentCache, content_key
from tg2hdl_ir.installation import installation
from tg2hdl_ir.turns import COMPILER
from tg2hdl_ir.workers import Workers
from tg2hdl_top import Design

__all__ = ["PointRunner"]

_Result: TypeAlias = tuple[PointChoice, Figures]


class PointRunner:
    """Plans and estimates the points of a program.

    Parameters
    ----------
    planner : PointPlanner
    workers : Workers
    program : str
        Key of the contents of the planner's programs.
    """

    def __init__(self, planner: PointPlanner, workers: Workers, program: str) -> None:
        self._planner, self._workers, self._program = planner, workers, program
        self._designs: dict[str, Design] = {}
        self._cache = ContentCache("plan")

    def planned(self, ladders: Iterable[Sequence[PointChoice]]) -> Iterator[_Result]:
        """Choices with the figures of their plans; each ladder differs only in multipliers."""
        wanted = []
        for ladder in ladders:
            missing = []
            for choice in ladder:
                known = self._cached(choice)
                if known is None:
                    missing.append(choice)
                else:
                    yield choice, known
            wanted.append(missing)
        for _, results in self._workers.run(_plan, self._parts(wanted), self._planner):
            for choice, figures, design in results:
                if design is not None:
                    self._designs[choice.key] = design
                self._cache.write(self._key(choice), pickle.dumps((figures, design)))
                yield choice, figures

    def estimated(self, choices: Iterable[PointChoice]) -> Iterator[_Result]:
        """Choices with the estimates of their cells."""
        items = [(choice, self._designs.get(choice.key)) for choice in choices]
        for number, figures in self._workers.run(_estimate, items, self._planner):
            yield items[number][0], figures

    def design(self, choice: PointChoice) -> Design | None:
        """The design of a choice that was planned; None where it is not known, or there is none."""
        if choice.key not in self._designs:
            self._cached(choice)
        return self._designs.get(choice.key)

    def close(self) -> None:
        """End the processes that were started."""
        self._workers.close()

    def _parts(self, ladders: Iterable[list[PointChoice]]) -> list[list[PointChoice]]:
        """Ladders, in parts where there are more workers than ladders; the longest first."""
        found = [ladder for ladder in ladders if ladder]
        if self._workers.width == 1:
            return [[choice] for ladder in found for choice in ladder]
        count = -(-2 * self._workers.width // max(1, len(found)))
        parts = [ladder[n::count] for ladder in found for n in range(min(count, len(ladder)))]
        return sorted(parts, key=len, reverse=True)

    def _cached(self, choice: PointChoice) -> Figures | None:
        blob = self._cache.read(self._key(choice))
        if blob is None:
            return None
        figures, design = pickle.loads(blob)
        if design is not None:
            self._designs[choice.key] = design
        return figures  # type: ignore[no-any-return]

    def _key(self, choice: PointChoice) -> str:
        return content_key("plan 1", self._program, self._planner.part, choice.key, repr(installation()))


def _plan(
    planner: PointPlanner, ladder: Sequence[PointChoice]
) -> list[tuple[PointChoice, Figures, Design | None]]:
    with COMPILER:
        return [(choice, *planner.planned(choice)) for choice in ladder]


def _estimate(planner: PointPlanner, item: tuple[PointChoice, Design | None]) -> Figures:
    with COMPILER:
        return planner.estimated(*item)

"""Decisions of the search and the planner: costs, alternatives, and the one rule that accepts a change."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from math import inf
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from tg2hdl_ir.records import OPTIONAL

__all__ = [
    "LARGEST_RATIO",
    "LUTS_PER_BLOCK",
    "LUTS_PER_SPARED",
    "MOST_KEPT",
    "PREFERENCES",
    "SLOWER",
    "Alternative",
    "Cost",
    "Decision",
    "Trials",
    "decide",
    "luts_per_block",
    "most_cycles",
]

PREFERENCES = MappingProxyType(
    {
        "latency": "clock cycles from start to done",
        "multipliers": "hardware multipliers",
        "block-ram": "block RAMs",
        "area": "LUTs",
    }
)
"""Figures that a design shall have the least of, by the names of the goals of an exploration."""

SLOWER = 1.25
"""Largest ratio of cycles to the fewest ones at which an alternative is taken for a preference."""

LARGEST_RATIO = MappingProxyType(
    {
        "another kernel": 0.9,
        "another form": 0.9,
        # Estimated, not planned.
        "partial sums": 0.8,
        # Of the whole timeline.
        "product cut": 0.99,
        "start-at-bias": 1.0,
        "smaller budget": 1.0,
        "fixed starts": 0.995,
        "shared core": 1.1,
        "followers": 1.01,
        "results in order": 0.95,
        # Of the steps of all kernels.
        "another placing order": 0.99,
        # Only compared with one another.
        "lanes": 1.0,
        "packed products": 1.0,
        "layouts": 1.0,
        "order of steps": 1.0,
        "shared memories": 1.0,
        "tiles": 1.0,
        "interleaved outputs": 1.0,
        "warm-up iterations": 1.0,
        "forwarded elements": 0.9,
        "time-shared multipliers": 0.85,
        "chained accumulator": 0.95,
        "lower-latency unit": 0.8,
    }
)
"""Largest ratio of cycles after a change to those before it, at which the change is worth its area or its clock.

Most cost area: a kernel with its buffer and control, a counter with compared registers, multiplexers.  A chained
accumulator and a lower-latency unit may lower Fmax by as much.  Shared cores and followers save area, so that they may
take more cycles: their ratio is above 1.
"""

MOST_KEPT = 12
"""Alternatives that a decision keeps: the form without the change, and those with the fewest cycles."""

LUTS_PER_BLOCK = 400
"""LUTs that are worth a block RAM: about the ratio of both in the parts of an ECP5."""

LUTS_PER_SPARED = 200
"""LUTs that a ROM in LUTs may take for each block RAM that it spares; designs are short of both."""


def most_cycles(change: str, before: float, prefer: str = "latency") -> float:
    """Most cycles after a change with which it may be accepted, given those before it.

    Parameters
    ----------
    change : str
        Key of `LARGEST_RATIO`.
    before : float
        Cycles.
    prefer : str
        Key of `PREFERENCES`; a change may take more cycles if it has less of something else.
    """
    ratio = LARGEST_RATIO[change]
    return (ratio if prefer == "latency" else max(ratio, SLOWER)) * before


def luts_per_block(prefer: str, *, moved: bool = False) -> float:
    """LUTs that are worth a block RAM to a user.

    Parameters
    ----------
    prefer : str
        Key of `PREFERENCES`.
    moved : bool
        Whether a ROM is made of the LUTs.
    """
    return {"block-ram": inf, "area": 1.0}.get(prefer, LUTS_PER_SPARED if moved else LUTS_PER_BLOCK)


@dataclass(frozen=True)
class Cost:
    """Cost of a form of a kernel or program.

    Parameters
    ----------
    cycles : int
        Clock cycles from start to done; for lanes those of the steps.
    multipliers : int
        Multipliers of the kernel that has the most of them; of a design all.
    units : int
        Floating-point and other pipelined units of all kernels.
    memory_bits : int
        Bits of all buffers, without copies for further readers.
    interval : int
        Cycles from a run to the next one, of a design whose runs overlap.
    block_rams : int, optional
        In the family's blocks; of a design, and of kernels where the user prefers few.
    luts : int, optional
        Of a design, estimated where `explain` asks for it.
    fmax : float, optional
        Clock (MHz), estimated with the LUTs.
    tie : float, optional
        Figure that decides between forms of equal time, the smaller the better: words and multiplexer inputs of lanes,
        the sum of all starts of orders, block RAMs with their worth in LUTs of shared memories.
    """

    cycles: int
    multipliers: int = 0
    units: int = 0
    memory_bits: int = 0
    interval: int = field(default=0, metadata=OPTIONAL)
    block_rams: int | None = field(default=None, metadata=OPTIONAL)
    luts: int | None = field(default=None, metadata=OPTIONAL)
    fmax: float | None = field(default=None, metadata=OPTIONAL)
    tie: float | None = field(default=None, metadata=OPTIONAL)

    @property
    def order(self) -> tuple[int, int, float]:
        """Key of the rule: `time`, then `tie`."""
        return *self.time, self.tie or 0

    @property
    def time(self) -> tuple[int, int]:
        """Cycles from a run to the next one, and those from start to done: the order of costs of a design by time."""
        return self.interval or self.cycles, self.cycles

    def format(self) -> str:
        """All figures that are known, in words."""
        counted = (
            (self.multipliers, "multiplier"),
            (self.units, "pipelined unit"),
            (self.memory_bits, "memory bit"),
            (self.block_rams, "block RAM"),
            (self.luts, "LUT"),
        )
        parts = [_count(self.cycles, "cycle")]
        parts += [f"a run every {_count(self.interval, 'cycle')}"] if self.interval else []
        parts += [_count(n, name) for n, name in counted if n]
        parts += [] if self.fmax is None else [f"{self.fmax:.0f} MHz"]
        return ", ".join(parts)


def _count(number: int, name: str) -> str:
    return f"{number:,} {name}{'' if number == 1 else 's'}"


@dataclass(frozen=True)
class Alternative:
    """A form that was considered.

    Parameters
    ----------
    name : str
        The form, in words.
    cost : Cost, optional
        None where it was not planned; `note` says why.
    note : str
        How its cost was found, or why it has none.
    """

    name: str
    cost: Cost | None = None
    note: str = ""


@dataclass(frozen=True)
class Decision:
    """One choice of the search between several forms.

    Parameters
    ----------
    rewrite : str
        Name of the pass, or of the planner's step.
    place : str
        Name of the kernel or program.
    alternatives : tuple of Alternative
        The first is the form without the change.
    taken : int
        Number of the alternative that was taken.
    why : str
        Reason, in words.
    scope : {"kernel", "program"}
        Whether `place` is a kernel or the whole program.
    """

    rewrite: str
    place: str
    alternatives: tuple[Alternative, ...]
    taken: int
    why: str
    scope: str = "kernel"

    @property
    def chosen(self) -> Alternative:
        """The alternative that was taken."""
        return self.alternatives[self.taken]

    def describe(self) -> dict[str, Any]:
        """The same as data, for JSON."""
        return asdict(self)


_T = TypeVar("_T")

_FIGURES: dict[str, tuple[tuple[str, str], ...]] = {
    "multipliers": (("multipliers", "multipliers"),),
    "block-ram": (("block_rams", "block RAMs"), ("memory_bits", "memory bits")),
    "area": (("luts", "LUTs"), ("units", "pipelined units")),
}
"""Fields of `Cost` and their names by preference; the first one that is known of all alternatives counts."""


class Trials(Generic[_T]):
    """The alternatives of a decision, and the rule that takes one of them.

    A change is accepted if it takes at most its ratio of the time, and less than the form without it unless it saves
    area.  Of several the one with the lowest `Cost.order` is taken, and of equal ones the first.  With another
    preference it is the alternative with the least of that, among those with at most `SLOWER` times the least time.

    Parameters
    ----------
    rewrite, place, scope : str
        As of `Decision`.
    change : str
        Key of `LARGEST_RATIO`.
    before : Alternative
        The form without the change; any trial with a cost is better than one without.
    form : object
        That form.
    prefer : str
        Key of `PREFERENCES`.
    """

    def __init__(
        self,
        rewrite: str,
        place: str,
        change: str,
        before: Alternative,
        form: _T,
        *,
        prefer: str = "latency",
        scope: str = "kernel",
    ) -> None:
        self._rewrite, self._place, self._scope = rewrite, place, scope
        self._ratio, self._prefer = LARGEST_RATIO[change], prefer
        self._alternatives = [before]
        self._forms: list[_T | None] = [form]
        self._fastest = 0

    def offer(self, alternative: Alternative, form: _T | None) -> None:
        """Add an alternative.

        Parameters
        ----------
        alternative : Alternative
        form : object
            None where it is not eligible.
        """
        if form is not None and alternative.cost is not None and self._accepts(alternative.cost):
            self._fastest = len(self._alternatives)
        self._alternatives.append(alternative)
        self._forms.append(form)

    @property
    def taken(self) -> int:
        """Number of the alternative that is taken, so far."""
        if self._prefer == "latency" or not (near := self._near()):
            return self._fastest
        figures = _figures(near, self._prefer)[1]
        return min(near, key=lambda n: (figures[n], n != self._fastest, near[n].order, n))

    @property
    def best(self) -> _T:
        """The form that is taken, so far."""
        found = self._forms[self.taken]
        assert found is not None or self.taken == 0, "it is eligible"
        return found  # type: ignore[return-value]

    @property
    def most(self) -> float:
        """Cycles above which no further trial is taken."""
        if self._prefer != "latency" and (near := self._near()):
            return SLOWER * min(cost.time[0] for cost in near.values())
        cost = self._alternatives[self._fastest].cost
        if cost is None:
            return inf
        # With equal cycles a trial may have a shorter latency, or win the tie.
        less = cost.time[0] - (cost.tie is None and not cost.interval)
        if self._fastest:
            return less
        most = self._ratio * cost.time[0]
        return most if self._ratio > 1 else min(most, less)

    def decision(self, taken: str = "", left: str = "") -> Decision:
        """The decision, with at most `MOST_KEPT` alternatives.

        Parameters
        ----------
        taken, left : str
            Reason for a change with the fewest cycles, and for none; the rule in words unless given.
        """
        number = self.taken
        why = (taken if number else left) if number == self._fastest else ""
        costs = [(a.cost.order if a.cost else (inf, inf, inf)) for a in self._alternatives]
        ranked = sorted(range(len(costs)), key=lambda n: (n not in (0, number), costs[n], n))
        kept = sorted(ranked[:MOST_KEPT])
        alternatives = tuple(self._alternatives[n] for n in kept)
        return Decision(
            self._rewrite, self._place, alternatives, kept.index(number), why or self._why(), self._scope
        )

    def _accepts(self, cost: Cost) -> bool:
        """Whether a change is better than the fastest alternative so far."""
        fastest = self._alternatives[self._fastest].cost
        if fastest is None:
            return True
        if self._fastest:
            return cost.order < fastest.order
        return cost.time[0] <= self._ratio * fastest.time[0] and (
            self._ratio > 1 or cost.order < fastest.order
        )

    def _near(self) -> dict[int, Cost]:
        """Costs, by number, of the alternatives that may be taken for a preference."""
        pairs = enumerate(zip(self._alternatives, self._forms, strict=True))
        costs = {n: a.cost for n, (a, form) in pairs if a.cost is not None and (n == 0 or form is not None)}
        most = SLOWER * min((cost.time[0] for cost in costs.values()), default=0)
        return {n: cost for n, cost in costs.items() if cost.time[0] <= most}

    def _why(self) -> str:
        before, taken = self._alternatives[0].cost, self.taken
        if taken != self._fastest:
            near = self._near()
            fewest = min(cost.time[0] for cost in near.values())
            name = _figures(near, self._prefer)[0]
            return f"the fewest {name} of those with at most {SLOWER:g} x {fewest:,} cycles"
        if before is None:
            return "the form without it cannot be planned" if taken else "it cannot be planned"
        rule = "fewer cycles" if self._ratio == 1 else f"at most {self._ratio:g} x {before.time[0]:,} cycles"
        if taken:
            return f"{'it saves area' if self._ratio > 1 else 'the fewest cycles'}, and {rule} are accepted"
        known = any(alternative.cost is not None for alternative in self._alternatives[1:])
        return f"only {rule} are accepted" if known else "no other form was planned"


def _figures(costs: dict[int, Cost], prefer: str) -> tuple[str, dict[int, int]]:
    """Name of the figure that a user prefers to be small, and that of each alternative by number."""
    for name, words in _FIGURES[prefer]:
        found = {number: getattr(cost, name) for number, cost in costs.items()}
        if None not in found.values():
            return words, found
    raise AssertionError("the last figure of each preference is always known")


def decide(
    rewrite: str,
    place: str,
    change: str,
    before: Alternative,
    trials: Iterable[tuple[Alternative, _T | None]],
    scope: str = "kernel",
    *,
    prefer: str = "latency",
) -> tuple[_T | None, Decision]:
    """Take one of some trials by the rule of `Trials`.

    Parameters
    ----------
    rewrite, place, scope : str
        As of `Decision`.
    change : str
        Key of `LARGEST_RATIO`.
    before : Alternative
        The form without the change.
    trials : iterable of (Alternative, object)
        Forms, and the object to return; a trial whose object is None is not eligible.
    prefer : str
        Key of `PREFERENCES`.

    Returns
    -------
    object or None
        Of the trial that was taken; None for the form without the change.
    decision : Decision
    """
    found: Trials[_T | None] = Trials(rewrite, place, change, before, None, prefer=prefer, scope=scope)
    for alternative, made in trials:
        found.offer(alternative, made)
    return found.best, found.decision()

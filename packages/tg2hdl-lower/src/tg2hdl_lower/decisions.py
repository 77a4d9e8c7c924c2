"""Decisions of the search and the planner: costs, alternatives, and the one rule that accepts a change."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from types import MappingProxyType
from typing import Any, TypeVar

from tg2hdl_ir.records import OPTIONAL

__all__ = ["LARGEST_RATIO", "Alternative", "Cost", "Decision", "decide", "most_cycles"]

LARGEST_RATIO = MappingProxyType(
    {
        "another kernel": 0.9,
        "another form": 0.9,
        # Estimated, not planned.
        "partial sums": 0.8,
        # Of the whole timeline.
        "product cut": 0.99,
        "start-at-bias": 1.0,
        "fixed starts": 0.995,
        "shared core": 1.1,
        "followers": 1.01,
        "another placing order": 0.99,
        # Only compared with one another.
        "tiles": 1.0,
        "time-shared multipliers": 0.85,
        "chained accumulator": 0.95,
        "lower-latency unit": 0.8,
    }
)
"""Largest ratio of cycles after a change to those before it, at which the change is worth its area or its clock.

All cost area: a kernel with its buffer and control, a counter with compared registers, multiplexers.  A chained
accumulator and a lower-latency unit may lower Fmax by as much.  Shared cores and followers save area, so that they may
take more cycles.
"""


def most_cycles(change: str, before: float) -> float:
    """Most cycles after a change of `LARGEST_RATIO` with which it is accepted, given those before it."""
    return LARGEST_RATIO[change] * before


@dataclass(frozen=True)
class Cost:
    """Cost of a form of a kernel or program.

    Parameters
    ----------
    cycles : int
        Clock cycles from start to done; for lanes those of the steps.
    multipliers : int
        Multipliers of the kernel that has the most of them.
    units : int
        Floating-point and other pipelined units of all kernels.
    memory_bits : int
        Bits of all buffers, without copies for further readers.
    interval : int
        Cycles from a run to the next one, of a design whose runs overlap.
    block_rams : int, optional
        Of a design, in the family's blocks.
    luts : int, optional
        Of a design, estimated where `explain` asks for it.
    fmax : float, optional
        Clock (MHz), estimated with the LUTs.
    """

    cycles: int
    multipliers: int = 0
    units: int = 0
    memory_bits: int = 0
    interval: int = field(default=0, metadata=OPTIONAL)
    block_rams: int | None = field(default=None, metadata=OPTIONAL)
    luts: int | None = field(default=None, metadata=OPTIONAL)
    fmax: float | None = field(default=None, metadata=OPTIONAL)

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


def decide(
    rewrite: str,
    place: str,
    change: str,
    before: Alternative,
    trials: Iterable[tuple[Alternative, _T | None]],
    scope: str = "kernel",
) -> tuple[_T | None, Decision]:
    """Take the trial with the fewest cycles, if `most_cycles` allows it; the first of equal ones.

    Parameters
    ----------
    change : str
        Key of `LARGEST_RATIO`.
    before : Alternative
        The form without the change; any trial with a cost is better than one without.
    trials : iterable of (Alternative, object)
        Forms, and the object to return; a trial whose object is None is not eligible.

    Returns
    -------
    object or None
        Of the trial that was taken; None for the form without the change.
    decision : Decision
    """
    limit = float("inf") if before.cost is None else most_cycles(change, before.cost.cycles)
    best, taken = None, 0
    fewest = limit if before.cost is None else min(limit, before.cost.cycles - 1)
    alternatives = [before]
    for alternative, made in trials:
        alternatives.append(alternative)
        if made is not None and alternative.cost is not None and alternative.cost.cycles <= fewest:
            best, taken, fewest = made, len(alternatives) - 1, alternative.cost.cycles - 1
    why = _why(change, alternatives, taken)
    return best, Decision(rewrite, place, tuple(alternatives), taken, why, scope)


def _why(change: str, alternatives: list[Alternative], taken: int) -> str:
    before = alternatives[0].cost
    if before is None:
        return "the form without it cannot be planned" if taken else "it cannot be planned"
    ratio = LARGEST_RATIO[change]
    rule = f"at most {ratio:g} x {before.cycles:,} cycles" if ratio < 1 else "fewer cycles"
    costs = [a.cost.cycles for a in alternatives[1:] if a.cost is not None]
    if taken:
        return f"the fewest cycles, and {rule} are accepted"
    return f"only {rule} are accepted" if costs else "no other form was planned"

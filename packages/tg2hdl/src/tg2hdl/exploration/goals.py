"""Goals of an exploration, and limits: how points are compared."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tg2hdl_ir import InputError

if TYPE_CHECKING:
    from tg2hdl.exploration.points import Point

__all__ = ["GOALS", "LIMITS", "Goal", "breaks", "check_limits", "goal_named"]


@dataclass(frozen=True)
class Goal:
    """A figure that should be small.

    Parameters
    ----------
    description : str
    unit : str
    value : callable
        ``(point) -> float``; infinite where it is not known.
    needs_clock, needs_cells : bool
        Whether the figure depends on the estimated clock or cells; the plan has it exactly otherwise.
    """

    name: str
    description: str
    unit: str
    value: Callable[[Point], float]
    needs_clock: bool = False
    needs_cells: bool = False


def _number(value: float | None) -> float:
    return math.inf if value is None else value


GOALS = {
    goal.name: goal
    for goal in (
        Goal("latency", "clock cycles from start to done, exact", "cycles", lambda p: _number(p.cycles)),
        Goal(
            "interval",
            "clock cycles from one start to the next, exact",
            "cycles",
            lambda p: _number(p.interval),
        ),
        Goal(
            "fastest",
            "time from start to done, with the estimated clock of the part's families",
            "us",
            lambda p: _number(p.microseconds),
            needs_clock=True,
        ),
        Goal("area", "LUTs, estimated", "LUTs", lambda p: _number(p.needs.get("lut")), needs_cells=True),
        Goal(
            "multipliers",
            "hardware multipliers, estimated",
            "multipliers",
            lambda p: _number(p.needs.get("dsp")),
            needs_cells=True,
        ),
        Goal("block-ram", "block RAMs", "blocks", lambda p: _number(p.needs.get("bram"))),
        Goal("loss", "accuracy below that of the float model", "points", lambda p: p.loss),
    )
}
"""The goals by their names; `smallest` is another name of ``area``."""

_OTHER_NAMES = {"smallest": "area", "block_ram": "block-ram"}
LIMITS = (*GOALS, "rate")
"""Names of limits: the most of each goal, and the least `rate` (results per second)."""


def goal_named(name: str) -> Goal:
    """The goal of a name.

    Raises
    ------
    InputError
        When there is none.
    """
    found = GOALS.get(_OTHER_NAMES.get(name, name))
    if found is None:
        raise InputError(
            f"goal {name!r} is unknown", hint=f"choose one of: {', '.join([*GOALS, 'smallest'])}"
        )
    return found


def check_limits(limits: Mapping[str, float]) -> dict[str, float]:
    """Limits by the names of goals.

    Raises
    ------
    InputError
        For an unknown limit, or a value that is not positive.
    """
    found = {_OTHER_NAMES.get(name, name): value for name, value in limits.items()}
    for name, value in found.items():
        if name not in LIMITS:
            raise InputError(f"limit {name!r} is unknown", hint=f"choose among: {', '.join(LIMITS)}")
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if name == "loss":
            if not number or not value >= 0:
                raise InputError(f"limit loss={value!r} is not a number of points", hint="give 0 or more")
        elif not number or not value > 0:
            raise InputError(f"limit {name}={value!r} is not a positive number", hint="give a number above 0")
    return found


def breaks(point: Point, limits: Mapping[str, float]) -> str:
    """The limit that a point breaks, with its figure; empty where it keeps all whose figures are known.

    Parameters
    ----------
    point : Point
    limits : mapping of str to float
        Largest value by name of a goal; of ``rate`` the least (results per second).
    """
    for name, limit in limits.items():
        if name == "rate":
            if point.rate is not None and point.rate < limit:
                return f"{point.rate:,.1f} results per second, {limit:,g} wanted"
            continue
        value = GOALS[name].value(point)
        if math.isfinite(value) and value > limit:
            return f"{name} {value:,g} {GOALS[name].unit}, at most {limit:,g} wanted"
    return ""

"""Options of the hardware; only the order of float sums can change a result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tg2hdl_ir import FamilyDef, InputError
from tg2hdl_lower.decisions import PREFERENCES
from tg2hdl_lower.families import family_named

__all__ = ["LowerOptions", "Timing"]

_FAR = 96
"""Multipliers from which the path to one of them takes a cycle."""

_SPREAD = (("product_latency", 64, 4), ("product_latency", _FAR, 5), ("read_latency", _FAR, 3))
"""Multipliers from which a design is spread over its part, and the least latency then: long paths take cycles of
their own, those to and from a multiplier and those from a memory."""

_MOST = 1 << 15
"""Largest budget of multipliers."""


class Timing(NamedTuple):
    """Timing after defaults are resolved."""

    stage_levels: int
    read_latency: int
    product_latency: int


@dataclass(frozen=True)
class LowerOptions:
    """Options of the lowering.

    Parameters
    ----------
    multipliers : int, optional
        Largest number of hardware multipliers of each format (products of at most 18 bits; each float or wide integer
        type, whose multiplier may be several blocks of a part); None means one lane, with as many as a step takes.
        A product by a constant is a few additions and takes none.
    unroll_factor, reduce_unroll_factor : int
        Lanes over the innermost independent axis and over the innermost reduction axis, honoured exactly.
    float_order : {"strict", "relaxed"}
        Whether sums of floats keep the order of their terms; ``relaxed`` adds them in trees where that saves cycles,
        and the golden model then does the same.  It is the only option that may change a number.
    target : str
        Family that units and stages are selected for; ``generic`` works everywhere.
    prefer : {"latency", "multipliers", "block-ram", "area"}
        Figure to minimize: cycles, or hardware multipliers, block RAMs or LUTs where that costs at most a quarter more
        cycles in each decision (`tg2hdl_lower.decisions`).
    units : mapping of str to str
        Op name to the name of the arithmetic unit to use.
    stage_levels : int
        Logic levels that the scheduler chains into one cycle; 0 chooses by the family.
    read_latency : int
        Cycles from address to data of a memory: 1 for the block RAM, the others for output registers; 0 chooses by
        the family and, from 96 multipliers on, at least 3.
    product_latency : int
        Cycles of a hardware multiplier: an output register, then one at its operands, then one after the other
        for the paths to it and from it; 0 chooses by the family and, from 64 multipliers on, at least 4, from 96 on at
        least 5.
    exceed_multipliers : bool
        Whether a step with more products than `multipliers` has a multiplier for each of them; otherwise products take
        turns, which takes more cycles.
    max_ii : int
        Largest initiation interval before the planner gives up.
    """

    multipliers: int | None = None
    unroll_factor: int = 1
    reduce_unroll_factor: int = 1
    float_order: str = "strict"
    target: str = "generic"
    prefer: str = "latency"
    units: Mapping[str, str] = field(default_factory=dict)
    stage_levels: int = 0
    read_latency: int = 0
    product_latency: int = 0
    exceed_multipliers: bool = False
    max_ii: int = 4096

    @property
    def budget(self) -> int | None:
        """Multipliers that a kernel may have; None where nothing limits them."""
        return None if self.exceed_multipliers else self.multipliers

    @property
    def spread(self) -> bool:
        """Whether there are so many multipliers that the path to one of them takes a cycle."""
        return (self.multipliers or 0) >= _FAR

    @property
    def family(self) -> FamilyDef:
        """Figures of the family `target`."""
        return family_named(self.target)

    @property
    def timing(self) -> Timing:
        """Levels and latencies, those chosen where an option is 0."""
        family = self.family
        chosen = {name: getattr(family, name) for name in Timing._fields}
        for name, many, least in _SPREAD:
            if (self.multipliers or 0) >= many:
                chosen[name] = max(chosen[name], least)
        return Timing(**{name: getattr(self, name) or value for name, value in chosen.items()})

    def __post_init__(self) -> None:
        least = {"unroll_factor": 1, "reduce_unroll_factor": 1, "max_ii": 1} | dict.fromkeys(
            Timing._fields, 0
        )
        for name, low in least.items():
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < low:
                choice = "" if low else ", or leave it out"
                raise InputError(
                    f"{name}={value!r} is not a positive integer", hint=f"give {name}=1 or more{choice}"
                )
        if not isinstance(self.units, Mapping) or not all(map(_is_choice, self.units.items())):
            raise InputError(
                f"units={self.units!r} is not a mapping of ops to units",
                hint='give e.g. units={"add": "fp32.add.fast"}',
            )
        if not isinstance(self.exceed_multipliers, bool):
            raise InputError(
                f"exceed_multipliers={self.exceed_multipliers!r} is unknown", hint="choose True or False"
            )
        if self.float_order not in ("strict", "relaxed"):
            raise InputError(
                f"float_order={self.float_order!r} is unknown", hint='choose "strict" or "relaxed"'
            )
        if self.prefer not in PREFERENCES:
            raise InputError(
                f"prefer={self.prefer!r} is unknown", hint=f"choose {', '.join(map(repr, PREFERENCES))}"
            )
        wanted = self.multipliers
        if wanted is not None and (not isinstance(wanted, int) or isinstance(wanted, bool) or wanted < 1):
            raise InputError(
                f"multipliers={self.multipliers!r} is not a positive integer",
                hint="give the number of hardware multipliers, 1 or more",
            )
        if wanted is not None and wanted > _MOST:
            raise InputError(
                f"multipliers={wanted} is more than any FPGA has", hint=f"give at most {_MOST:,}"
            )


def _is_choice(item: tuple[Any, Any]) -> bool:
    """Whether an op has the name of a unit, or several."""
    op, units = item
    names = (units,) if isinstance(units, str) else units
    listed = isinstance(names, tuple | list)
    return isinstance(op, str) and listed and all(isinstance(name, str) for name in names)

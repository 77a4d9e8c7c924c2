"""Figures of one design of a program: exact cycles and block RAMs of its plan, and the estimated cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tg2hdl_ir import BudgetError, CapacityError, ProgramIR, UnsupportedError
from tg2hdl_ir.content_cache import content_key
from tg2hdl_lower import family_named
from tg2hdl_lower.plan.operations import UnitOp
from tg2hdl_synth import Fit, design_fits, packs_registers, part_named
from tg2hdl_top import CompileOptions, Design, compile_program
from tg2hdl_top.memo import search_memo
from tg2hdl_top.memory_blocks import memory_blocks

__all__ = ["RESOURCES", "Figures", "PointChoice", "PointPlanner", "too_many"]

RESOURCES = {"bram": "block RAMs", "lut": "LUTs", "ff": "flip-flops", "dsp": "multipliers"}
"""Resources of a part, by the names of `tg2hdl_synth.Fit`."""

_LEAST = {"lut": 0.65, "ff": 0.8}
"""Cells of a design in those that its arithmetic units declare; benchmarks/explore found 0.74 and 0.93 or more."""


@dataclass(frozen=True)
class Figures:
    """The figures of a design.

    Parameters
    ----------
    cycles, interval : int, optional
        Clock cycles from start to done, and from one start to the next; None where the program has no such design.
    needs, has : mapping of str to int
        Cells by the keys of `RESOURCES`; only block RAMs are known before the cells are estimated.
    fmax : float, optional
        Expected clock (MHz).
    refusal : str
        Why it does not fit the part, or cannot be planned; empty unless that is known.
    units : mapping of str to int
        LUTs and flip-flops that its arithmetic units declare.
    is_estimated : bool
        Whether the cells were estimated: a design without refusal fits only then.
    estimate : mapping of str to float
        Cells and clock (``fmax``) as estimated, of a design that was placed and routed: `needs` and `fmax` are then
        measured.
    """

    cycles: int | None = None
    interval: int | None = None
    needs: Mapping[str, int] = field(default_factory=dict)
    has: Mapping[str, int] = field(default_factory=dict)
    fmax: float | None = None
    refusal: str = ""
    units: Mapping[str, int] = field(default_factory=dict)
    is_estimated: bool = False
    estimate: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class PointChoice:
    """What a point chooses.

    Parameters
    ----------
    options : CompileOptions
    bits : str
        Name of the widths of its weights, see `WidthVariant`; empty for the model as it is.
    """

    options: CompileOptions
    bits: str = ""

    @property
    def key(self) -> str:
        """Text that differs for other choices."""
        return f"bits {self.bits} {self.options!r}" if self.bits else repr(self.options)


class PointPlanner:
    """Plans programs with many options; designs that differ only in multipliers share the plans of their kernels.

    Parameters
    ----------
    programs : mapping of str to (ProgramIR, mapping of str to int)
        By the name of the widths of weights: the program, and run-time variables of the example.
    part : str
    """

    def __init__(self, programs: Mapping[str, tuple[ProgramIR, Mapping[str, int]]], part: str) -> None:
        self.programs, self.part = dict(programs), part
        self._memos: dict[str, dict[Any, Any]] = {}
        self._fits: dict[str, Fit] = {}

    def planned(self, choice: PointChoice) -> tuple[Figures, Design | None]:
        """Figures of the plan without the estimate of the cells, and the design; None where there is none."""
        group = repr((choice.bits, replace(choice.options, multipliers=None)))
        program, values = self.programs[choice.bits]
        try:
            with search_memo(self._memos.setdefault(group, {})):
                design = compile_program(program, replace(choice.options, validate="off"))
        except (BudgetError, CapacityError, UnsupportedError) as error:
            return Figures(refusal=error.message), None
        return self._plan_figures(design, values), design

    def estimated(self, choice: PointChoice, design: Design | None = None) -> Figures:
        """Figures with the estimate of the cells; the choice is planned again where its design is not given.

        Parameters
        ----------
        choice : PointChoice
            Options of the design.
        design : Design, optional
        """
        if design is None:
            found, design = self.planned(choice)
        else:
            found = self._plan_figures(design, self.programs[choice.bits][1])
        if found.refusal or design is None:
            return found
        fit = self._fit(design)
        return replace(
            found, needs=fit.needs, has=fit.has, fmax=fit.fmax, refusal=_refusal(fit), is_estimated=True
        )

    def _fit(self, design: Design) -> Fit:
        """The estimate; options that lead to the same design share it."""
        same = CompileOptions(target=design.options.target)
        key = content_key(replace(design, options=same, decisions=()).to_json())
        if key not in self._fits:
            packs = packs_registers(design, self.part)
            self._fits[key] = design_fits(design, self.part, pack_registers=packs)
        return self._fits[key]

    def _plan_figures(self, design: Design, values: Mapping[str, int]) -> Figures:
        part = part_named(self.part)
        packs = packs_registers(design, part)
        needs = {"bram": sum(memory_blocks(design, family_named(part.family), packed=packs).values())}
        refusal = too_many("bram", needs["bram"], part.bram) if needs["bram"] > part.bram else ""
        units = _unit_cells(design)
        if not refusal:
            least = {n: int(_LEAST[n] * count) for n, count in units.items()}
            short = {n: count for n, count in least.items() if count > getattr(part, n)}
            needs |= short
            refusal = ", ".join(f"at least {too_many(n, c, getattr(part, n))}" for n, c in short.items())
        has = {name: getattr(part, name) for name in RESOURCES}
        timeline = design.timeline(values)
        cycles = design.predicted_cycles(values)
        return Figures(cycles, timeline.interval, needs, has, None, refusal, units)


def _unit_cells(design: Design) -> dict[str, int]:
    """Cells that arithmetic units declare; of the largest core where cores share units."""
    units = [[n.unit.area for n in plan.live() if isinstance(n, UnitOp)] for plan in design.core_plans]
    many = max if design.options.share_units else sum
    return {name: many(sum(getattr(area, name) for area in core) for core in units) for name in _LEAST}


def _refusal(fit: Fit) -> str:
    """Resources that are short; empty for a design that fits."""
    if fit:
        return ""
    short = [
        too_many(n, fit.needs[n], fit.has[n]) for n in fit.needs if n in fit.has and fit.needs[n] > fit.has[n]
    ]
    return ", ".join(short) or fit.lines[0]


def too_many(name: str, needs: int, has: int) -> str:
    """How many cells are needed of how many.

    Parameters
    ----------
    name : str
        Key of `RESOURCES`.
    needs : int
    has : int
    """
    return f"{needs:,} of {has:,} {RESOURCES[name]}"

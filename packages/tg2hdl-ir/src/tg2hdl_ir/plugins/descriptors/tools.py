"""Descriptors of simulation engines, commands and sections of reports."""

from __future__ import annotations

from dataclasses import dataclass

from tg2hdl_ir.plugins.descriptors.factory import Factory

__all__ = ["CommandDef", "ReportSection", "SimulatorDef"]


@dataclass(frozen=True)
class SimulatorDef:
    """A simulation engine.

    Parameters
    ----------
    name : str
        For ``engine=`` and ``--engine``.
    available : Factory
        ``() -> str | None``: None when it can run here, otherwise the reason.
    open : Factory
        ``(model, **options) -> Simulation`` of `tg2hdl_sim`.
    build_seconds, cycles_per_second : Factory
        ``(cells: int) -> float``: cost model for selecting an engine.
    priority : int
        Position in lists, highest first; ``engine="auto"`` goes by the costs alone.
    """

    name: str
    description: str
    available: Factory
    open: Factory
    build_seconds: Factory
    cycles_per_second: Factory
    priority: int = 0


@dataclass(frozen=True)
class ReportSection:
    """A section of the report of a model.

    Parameters
    ----------
    name : str
        Unique; the anchor of the section in the page.
    title : str
    render : Factory
        ``(context) -> str``: HTML of the section's body, or ``""`` to leave it out.  The context has the accelerator,
        the figures of the report as plain data, the result of synthesis if there is one, and the figures of an earlier
        report if one is compared: `tg2hdl.report.ReportContext`.
    order : int
        Position in the page; the built-in sections are at 10 to 80.
    """

    name: str
    title: str
    render: Factory
    order: int = 100


@dataclass(frozen=True)
class CommandDef:
    """A subcommand of ``tg2hdl``: the factory is a click command."""

    name: str
    description: str
    command: Factory

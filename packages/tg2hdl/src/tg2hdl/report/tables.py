"""Short HTML of objects, for Jupyter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tg2hdl.report.page import environment

if TYPE_CHECKING:
    from tg2hdl.accelerator import Accelerator
    from tg2hdl.results import SimulationResult

__all__ = ["accelerator_table", "simulation_table"]


def accelerator_table(accelerator: Accelerator) -> str:
    """The kernels with their cycles."""
    head = ("kernel", "layer", "cycles", "II", "multipliers", "ratio")
    rows = [
        (k.name, k.layer, f"{k.cycles:,}", k.ii, k.multipliers, "" if k.ratio is None else f"{k.ratio:.3f}")
        for k in accelerator.kernels
    ]
    title = f"{accelerator.name}: {accelerator.predicted_cycles:,} cycles from start to done"
    return _table(title, head, rows)


def simulation_table(result: SimulationResult) -> str:
    """The cycles of a run."""
    cycles = result.cycles
    rows = [(f"kernel {number}", f"{count:,}") for number, count in enumerate(cycles.kernels)]
    rows += [("load", f"{cycles.load:,}"), ("start to done", f"{cycles.compute:,}")]
    rows += [("read back", f"{cycles.readback:,}"), ("total", f"{cycles.total:,}")]
    return _table(f"simulated on {result.engine} in {result.seconds:.2f} s", ("", "cycles"), rows)


def _table(title: str, head: tuple[str, ...], rows: Sequence[tuple[object, ...]]) -> str:
    return environment().get_template("table.html.j2").render(title=title, head=head, rows=rows)

"""A run as a trace in the JSON format of Chrome, which ui.perfetto.dev shows."""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tg2hdl.report.kernel_facts import kernel_facts
from tg2hdl_ir.files import write_file

if TYPE_CHECKING:
    from tg2hdl.compiled_model import CompiledModel
    from tg2hdl.results import SimulationResult

__all__ = ["chrome_trace", "write_trace"]


def chrome_trace(accelerator: CompiledModel, simulation: SimulationResult | None = None) -> dict[str, Any]:
    """Kernels and the units that they use as complete events; one microsecond stands for one clock cycle.

    Parameters
    ----------
    simulation : SimulationResult, optional
        A run; without one the events are those that the plan predicts.  Kernels of the policy ``serial`` follow each
        other, so that their simulated cycles place them.
    """
    kernels = kernel_facts(accelerator)
    if simulation is not None and accelerator.design.sequencer.policy == "serial":
        _place(kernels, simulation.cycles.kernels)
    rows = ["kernels", *dict.fromkeys(unit for k in kernels for unit in _units(k))]
    events: list[dict[str, Any]] = [
        {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": f"{accelerator.name}, 1 us = 1 cycle"}}
    ]
    for number, row in enumerate(rows, 1):
        events.append({"ph": "M", "pid": 1, "tid": number, "name": "thread_name", "args": {"name": row}})
    for k in kernels:
        common = {"ph": "X", "pid": 1, "ts": k["start"], "dur": k["end"] - k["start"]}
        waits = {f"waits for {w['buffer']}": kernels[w["kernel"]]["name"] for w in k["waits_for"]}
        args = {key: k[key] for key in ("layer", "source", "steps", "ii", "multipliers", "macs")} | waits
        events.append({**common, "tid": 1, "name": k["name"], "args": args})
        for unit in _units(k):
            events.append({**common, "tid": rows.index(unit) + 1, "name": k["name"], "args": {"unit": unit}})
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def write_trace(
    accelerator: CompiledModel, path: str | PathLike[str], simulation: SimulationResult | None = None
) -> Path:
    """Write `chrome_trace` to a file.

    Parameters
    ----------
    accelerator : CompiledModel
    path : str or pathLike[str]
        Of the JSON file.
    simulation : SimulationResult, optional
        Whose measured times are shown; the predicted ones otherwise.
    """
    return write_file(path, json.dumps(chrome_trace(accelerator, simulation)) + "\n")


def _units(kernel: dict[str, Any]) -> list[str]:
    return (["multipliers"] if kernel["multipliers"] else []) + sorted(kernel["units"])


def _place(kernels: list[dict[str, Any]], cycles: tuple[int, ...]) -> None:
    """Kernels one after the other, of the cycles that were simulated."""
    now = 0
    for kernel, length in zip(kernels, cycles, strict=True):
        kernel["start"], kernel["end"] = now, now + length
        now += length

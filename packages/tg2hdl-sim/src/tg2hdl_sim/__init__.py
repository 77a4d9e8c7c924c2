"""Cycle-accurate simulation engines with one interface."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tg2hdl_sim.batch import (
        BATCH_SIZE,
        BatchSimulation,
        InputsDifferError,
        batch_pays,
        batch_size,
        open_batch,
    )
    from tg2hdl_sim.engines import EngineEstimate, estimate_engines, open_simulation
    from tg2hdl_sim.model import Forecast, MemoryInfo, PortInfo, SimulationModel
    from tg2hdl_sim.simulation import Simulation
    from tg2hdl_sim.version import __version__
    from tg2hdl_sim.views import View

__all__ = [
    "BATCH_SIZE",
    "BatchSimulation",
    "EngineEstimate",
    "Forecast",
    "InputsDifferError",
    "MemoryInfo",
    "PortInfo",
    "Simulation",
    "SimulationModel",
    "View",
    "__version__",
    "batch_pays",
    "batch_size",
    "estimate_engines",
    "open_batch",
    "open_simulation",
]

# Loaded on demand: the plugin module of this package must not bring in Amaranth.
_OWNERS = {
    "BATCH_SIZE": "batch",
    "BatchSimulation": "batch",
    "InputsDifferError": "batch",
    "batch_pays": "batch",
    "batch_size": "batch",
    "open_batch": "batch",
    "EngineEstimate": "engines",
    "Forecast": "model",
    "MemoryInfo": "model",
    "PortInfo": "model",
    "Simulation": "simulation",
    "SimulationModel": "model",
    "View": "views",
    "__version__": "version",
    "estimate_engines": "engines",
    "open_simulation": "engines",
}


def __getattr__(name: str) -> Any:
    if name not in _OWNERS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_OWNERS[name]}"), name)

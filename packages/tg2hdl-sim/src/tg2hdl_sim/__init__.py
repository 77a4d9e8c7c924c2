"""Cycle-accurate simulation engines with one interface."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tg2hdl_ir.lazy import lazy_names

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
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        ".batch": (
            "BATCH_SIZE",
            "BatchSimulation",
            "InputsDifferError",
            "batch_pays",
            "batch_size",
            "open_batch",
        ),
        ".engines": ("EngineEstimate", "estimate_engines", "open_simulation"),
        ".model": ("Forecast", "MemoryInfo", "PortInfo", "SimulationModel"),
        ".simulation": ("Simulation",),
        ".version": ("__version__",),
        ".views": ("View",),
    },
)

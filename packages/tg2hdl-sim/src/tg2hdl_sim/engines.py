"""Opening a simulation, and selecting its engine."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import Path

from amaranth.lib import wiring

from tg2hdl_ir import PluginError, SimulatorDef, Tg2hdlError, ToolMissingError, UnsupportedError, registry
from tg2hdl_sim.fst import convert_to_fst, is_fst, vcd_beside
from tg2hdl_sim.model import SimulationModel
from tg2hdl_sim.simulation import Simulation
from tg2hdl_sim.views import add_views, check_written

__all__ = ["EngineEstimate", "estimate_engines", "open_simulation"]

ENGINE_VARIABLE = "TG2HDL_ENGINE"

log = logging.getLogger("tg2hdl_sim")


@dataclass(frozen=True)
class EngineEstimate:
    """Predicted time of an engine for some work.

    Parameters
    ----------
    engine : str
        Name.
    build_seconds : float
        Time until the first cycle; 0 when a compiled model is cached.
    cycles_per_second : float
        Speed after that.
    seconds : float
        Total for the expected cycles.
    unavailable : str, optional
        Why the engine cannot run here.
    """

    engine: str
    build_seconds: float = 0.0
    cycles_per_second: float = 0.0
    seconds: float = float("inf")
    unavailable: str | None = None


def estimate_engines(
    model: SimulationModel | int, expected_cycles: int, *, vcd: Path | None = None, cache: bool = True
) -> tuple[EngineEstimate, ...]:
    """Predict the time of each engine, the quickest first.

    The prediction is ``build + cycles / speed``.  Both depend on the number of netlist cells, by the engine's
    descriptor; a cached model has nothing to build.  A model with a forecast is not elaborated.  In place of a model
    the number of its cells will do; then nothing counts as cached.

    Parameters
    ----------
    model : SimulationModel or int
        A design, or the number of its netlist cells.
    expected_cycles : int
        Clock cycles of the whole simulation.
    vcd : path, optional
        File of a waveform, which takes time too.
    cache : bool
        Whether a model that was compiled before may be used.
    """
    estimates = []
    for engine in registry().simulators():
        reason = registry().unavailable(engine)
        if reason is not None:
            estimates.append(EngineEstimate(engine.name, unavailable=reason))
            continue
        cells = model if isinstance(model, int) else model.cells
        try:
            is_cached = getattr(registry().factory(engine, "open"), "is_cached", None)
            ready = (
                cache and is_cached is not None and not isinstance(model, int) and is_cached(model, vcd=vcd)
            )
            build = 0.0 if ready else float(registry().call(engine, "build_seconds", cells))
            speed = float(registry().call(engine, "cycles_per_second", cells))
        except PluginError as error:
            estimates.append(EngineEstimate(engine.name, unavailable=error.message))
            continue
        estimates.append(EngineEstimate(engine.name, build, speed, build + expected_cycles / speed))
    return tuple(sorted(estimates, key=lambda e: e.seconds))


def open_simulation(
    model: SimulationModel | wiring.Component,
    engine: str = "auto",
    *,
    expected_cycles: int = 100_000,
    vcd: str | PathLike[str] | None = None,
    cache: bool = True,
    progress: Callable[[str], None] | None = None,
) -> Simulation:
    """Start a simulation.

    Parameters
    ----------
    model : SimulationModel or wiring.Component
        The design.
    engine : str
        ``auto`` for the one that is predicted to finish first, or the name of one.  The environment variable
        ``TG2HDL_ENGINE`` names the one that ``auto`` takes, to run a whole test suite on it.
    expected_cycles : int
        Amount of work, for the prediction.
    vcd : path, optional
        Waveform to write; an FST file when the path ends in ``.fst``, which needs GTKWave's ``vcd2fst``.
    cache : bool
        Whether compiled models are taken from and kept in the user's cache directory.
    progress : callable, optional
        Called with a message before each slow step; messages also go to the logger ``tg2hdl_sim``.

    Raises
    ------
    InputError
        For an unknown engine.
    ToolMissingError
        When the engine cannot run here.
    SimulationError
        When its tools fail.
    """

    if not isinstance(model, SimulationModel):
        model = SimulationModel(model)

    def report(message: str) -> None:
        log.info("%s", message)
        if progress is not None:
            progress(message)

    if engine == "auto":
        engine = os.environ.get(ENGINE_VARIABLE) or "auto"
    path = None if vcd is None else Path(vcd)
    if path is not None and is_fst(path):
        source = vcd_beside(path)
        simulation = open_simulation(
            model, engine, expected_cycles=expected_cycles, vcd=source, cache=cache, progress=progress
        )
        simulation.on_finish(convert_to_fst(source, path))
        return simulation
    if engine != "auto":
        return _open(registry().simulator(engine), model, path, cache, report)
    estimates = estimate_engines(model, expected_cycles, vcd=path, cache=cache)
    usable = [estimate for estimate in estimates if estimate.unavailable is None]
    if not usable:
        raise ToolMissingError(
            "no simulation engine can run here",
            notes=tuple(f"{estimate.engine}: {estimate.unavailable}" for estimate in estimates),
            hint='pip install "tg2hdl[sim]"',
        )
    for number, estimate in enumerate(usable):
        try:
            return _open(registry().simulator(estimate.engine), model, path, cache, report)
        except (PluginError, ToolMissingError, UnsupportedError) as error:
            if number == len(usable) - 1:
                raise
            report(f"engine {estimate.engine} cannot run: {error.message}")
    raise AssertionError("unreachable")


def _open(
    engine: SimulatorDef,
    model: SimulationModel,
    vcd: Path | None,
    cache: bool,
    progress: Callable[[str], None],
) -> Simulation:
    reason = registry().unavailable(engine)
    if reason is not None:
        raise ToolMissingError(
            f"simulation engine {engine.name!r} cannot run here: {reason}",
            where=model.name,
            hint="use engine='auto', which takes one that can",
        )
    try:
        options = {"vcd": vcd, "cache": cache, "progress": progress}
        simulation = registry().make(engine, "open", Simulation, model, **options)  # type: ignore[type-abstract]
    except Tg2hdlError as error:
        error.where = error.where or model.name
        raise
    if vcd is not None:
        simulation.on_finish(partial(check_written, vcd))
    if vcd is not None and model.views is not None:
        simulation.on_finish(partial(add_views, vcd, model.views()))
    return simulation

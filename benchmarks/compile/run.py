"""Time and memory from a tinygrad model to RTLIL, and the size of the RTLIL, over the number of multipliers.

    python benchmarks/compile/run.py                 MLP and CNN of the benchmark table, all sizes
    python benchmarks/compile/run.py --only "mlp"    some workloads
    python benchmarks/compile/run.py --scale         large designs: plan and Verilog, in scale.json and scale.md

Each case runs in a process of its own. The time is that of the processor from the call of `tg2hdl.compile` to the text,
imports excluded; the memory is the highest of the whole process. Results go to compile.json and compile.md beside
this file.
"""

from __future__ import annotations

import argparse
import datetime
import json
import multiprocessing
import resource
import time
from pathlib import Path
from typing import Any

from tg2hdl.bench import json_text

HERE = Path(__file__).parent
RESULTS = HERE / "compile.json"
WORKLOADS = HERE.parent / "workloads.py"
#: Seconds and megabytes that a design of 128 multipliers may take.
LIMIT = {"seconds": 10.0, "megabytes": 1000.0}
MULTIPLIERS = {"mlp int8": (1, 2, 4, 8, 16, 32, 64, 128), "cnn int8": (9, 36, 72, 144)}


def measure(workload: str, multipliers: int) -> dict[str, Any]:
    """Compile once, in this process."""
    import numpy as np

    import tg2hdl
    from tg2hdl.bench import load_workloads, versions

    (found,) = [w for w in load_workloads(WORKLOADS) if w.name == workload]
    inputs = found.inputs(np.random.default_rng(1))
    model = found.model()
    wall, processor = time.perf_counter(), time.process_time()
    accelerator = tg2hdl.compile(model, *inputs, multipliers=multipliers)
    text = accelerator.rtlil()
    seconds, passed = time.process_time() - processor, time.perf_counter() - wall
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "workload": workload,
        "multipliers": multipliers,
        "seconds": round(seconds, 2),
        "wall_seconds": round(passed, 2),
        "megabytes": round(kilobytes / 1024, 1),
        "rtlil_bytes": len(text),
        "logic_bytes": len(text)
        - sum(len(line) for line in text.splitlines() if line.startswith("    connect \\DATA ")),
        "cycles": accelerator.predicted_cycles,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "versions": versions(),
    }


def table(rows: list[dict[str, Any]]) -> str:
    """Return the results as Markdown."""
    lines = [
        "# From tinygrad to RTLIL",
        "",
        "Written by `python benchmarks/compile/run.py`: processor time of `tg2hdl.compile` and of the conversion to",
        "RTLIL, imports excluded; highest memory of the process; size of the text, and without memory contents.",
        f"The command fails where up to 128 multipliers take over {LIMIT['seconds']:.0f} s or "
        f"{LIMIT['megabytes']:.0f} MB.",
        "",
        "| workload | multipliers | s | MB | RTLIL kB | logic kB | logic kB per multiplier | cycles | date |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        logic = r["logic_bytes"] / 1000
        lines.append(
            f"| {r['workload']} | {r['multipliers']} | {r['seconds']:.2f} | {r['megabytes']:.0f} "
            f"| {r['rtlil_bytes'] / 1000:,.0f} | {logic:,.0f} | {logic / r['multipliers']:.1f} "
            f"| {r['cycles']:,} | {r['date']} |"
        )
    tools = dict.fromkeys(", ".join(f"{n} {v}" for n, v in r["versions"].items()) for r in rows)
    return "\n".join([*lines, "", *tools]) + "\n"


def _matrix() -> tuple[Any, tuple[Any, ...]]:
    import numpy as np
    from tinygrad import Tensor

    weight = Tensor(np.random.default_rng(0).integers(-128, 128, (4096, 4096)).astype(np.int8))
    return lambda x: x.cast("int32") @ weight.cast("int32"), (np.zeros((1, 4096), np.int8),)


def _resnet() -> tuple[Any, tuple[Any, ...]]:
    import sys

    import numpy as np

    sys.path.insert(0, str(HERE.parent / "models"))
    from models import MODELS

    (model,) = (m for m in MODELS if m.name == "ResNet-20 int8")
    return model.make(), model.inputs(np.random.default_rng(0))


def _training() -> tuple[Any, tuple[Any, ...]]:
    """A step of SGD over two layers, 16-8-4, four samples: both gradients, and new weights in place."""
    import numpy as np
    from tinygrad import Tensor

    rng = np.random.default_rng(0)
    first = Tensor(rng.normal(size=(16, 8)).astype(np.float32))
    second = Tensor(rng.normal(size=(8, 4)).astype(np.float32))

    def step(x: Any, y: Any) -> Any:
        loss = ((x @ first).relu() @ second - y).square().mean()
        gradients = loss.gradient(first, second)
        for weight, gradient in zip((first, second), gradients, strict=True):
            weight.assign(weight - 0.01 * gradient)
        return loss, first, second

    return step, (rng.normal(size=(4, 16)).astype(np.float32), rng.normal(size=(4, 4)).astype(np.float32))


SCALE: dict[str, tuple[Any, int]] = {
    "4096x4096 int8, 134 Mbit": (_matrix, 16),
    "ResNet-20 int8": (_resnet, 16),
    "training step, 16-8-4 fp32": (_training, 4),
}
"""Model and multipliers."""


def measure_scale(name: str) -> dict[str, Any]:
    """Plan and write Verilog once, in this process."""
    import tg2hdl
    from tg2hdl.bench import versions

    make, multipliers = SCALE[name]
    model, inputs = make()
    # The imports that the first call makes are not part of it.
    tg2hdl.compile(lambda x: x + 1, inputs[0][:1, :1])
    started = time.process_time()
    accelerator = tg2hdl.compile(model, *inputs, multipliers=multipliers, name="model")
    planned = time.process_time()
    text = accelerator.verilog()
    ended = time.process_time()
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    kilobytes = max(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, children.ru_maxrss)
    return {
        "model": name,
        "plan_seconds": round(planned - started, 2),
        "verilog_seconds": round(ended - planned + children.ru_utime + children.ru_stime, 2),
        "megabytes": round(kilobytes / 1024),
        "verilog_bytes": len(text),
        "kernels": len(accelerator.design.kernels),
        "cycles": accelerator.predicted_cycles,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "versions": versions(),
    }


def scale_table(rows: list[dict[str, Any]]) -> str:
    """Return the large designs as Markdown."""
    lines = [
        "# Large designs",
        "",
        "Written by `python benchmarks/compile/run.py --scale`: processor time, Yosys included and imports excluded;",
        "highest memory of a process.",
        "",
        "| model | kernels | plan s | Verilog s | MB | Verilog kB | cycles | date |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        lines.append(
            f"| {r['model']} | {r['kernels']} | {r['plan_seconds']:,} | {r['verilog_seconds']:,} "
            f"| {r['megabytes']:,} | {r['verilog_bytes'] / 1000:,.0f} "
            f"| {r['cycles']:,} | {r['date']} |"
        )
    tools = dict.fromkeys(", ".join(f"{n} {v}" for n, v in r["versions"].items()) for r in rows)
    return "\n".join([*lines, "", *tools]) + "\n"


def run_scale(only: str) -> None:
    """Measure the large designs, each in a process of its own."""
    path = HERE / "scale.json"
    results = {r["model"]: r for r in json.loads(path.read_text())} if path.exists() else {}
    for name in SCALE:
        if only not in name:
            continue
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            results[name] = pool.apply(measure_scale, (name,))
        print({k: v for k, v in results[name].items() if k != "versions"}, flush=True)
        rows = [results[n] for n in SCALE if n in results]
        path.write_text(json_text(rows))
        (HERE / "scale.md").write_text(scale_table(rows))


def main() -> None:
    """Measure and record; the exit status is 1 when the limit is exceeded."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="only workloads whose name contains this")
    parser.add_argument("--scale", action="store_true", help="large designs")
    options = parser.parse_args()
    if options.scale:
        run_scale(options.only)
        return
    results = (
        {(r["workload"], r["multipliers"]): r for r in json.loads(RESULTS.read_text())}
        if RESULTS.exists()
        else {}
    )
    context = multiprocessing.get_context("spawn")
    exceeded = False
    for workload, sizes in MULTIPLIERS.items():
        if options.only not in workload:
            continue
        for multipliers in sizes:
            with context.Pool(1) as pool:
                row = pool.apply(measure, (workload, multipliers))
            print({k: v for k, v in row.items() if k != "versions"}, flush=True)
            exceeded |= multipliers <= 128 and any(row[k] > limit for k, limit in LIMIT.items())
            results[workload, multipliers] = row
            rows = [
                results[name, size]
                for name in MULTIPLIERS
                for size in MULTIPLIERS[name]
                if (name, size) in results
            ]
            RESULTS.write_text(json_text(rows))
            (HERE / "compile.md").write_text(table(rows))
    raise SystemExit(int(exceeded))


if __name__ == "__main__":
    main()

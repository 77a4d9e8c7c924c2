"""Kernels one after the other, kernels that run at the same time, and runs that do: cycles, predicted and simulated.

    python benchmarks/sequencers/run.py                  predicted cycles
    python benchmarks/sequencers/run.py --simulate       and simulated ones, every bit compared with the golden model
    python benchmarks/sequencers/run.py --only lenet     some of the rows; the others stay as they were
    python benchmarks/sequencers/run.py --synth --policy overlap --policy dataflow --only "mlp int8 x128"
                                                         place and route of designs compiled for an ECP5

Models are those of benchmarks/workloads.py, and a LeNet. Results go to sequencers.json and sequencers.md beside this
file.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from tinygrad import Tensor, dtypes

HERE = Path(__file__).parent
RESULTS = HERE / "sequencers.json"
POLICIES = ("serial", "overlap", "dataflow")
RUNS = 3
"""Inputs that are simulated where runs overlap."""
CASES = (
    *(("cnn int8", multipliers) for multipliers in (9, 36, 144)),
    *(("mlp int8", multipliers) for multipliers in (16, 64, 128)),
    *(("lenet int8", multipliers) for multipliers in (16, 64)),
    ("attention fp32 1x2x16x16", 0),
    ("softmax fp32 16x64", 0),
    ("layernorm fp32 16x64", 0),
)


def lenet() -> Any:
    """28x28, conv 5x5x6 relu, maxpool 2, conv 5x5x16 relu, maxpool 2, dense 120, 84 and 10, int8."""
    rng = np.random.default_rng(1)

    def weights(*shape: int) -> Tensor:
        return Tensor(rng.integers(-128, 128, shape).astype(np.int8))

    def bias(size: int) -> Tensor:
        return Tensor(rng.integers(-2000, 2000, size).astype(np.int32))

    filters = [(weights(6, 1, 5, 5), bias(6), 10), (weights(16, 6, 5, 5), bias(16), 11)]
    matrices = [(weights(256, 120), bias(120), 11), (weights(120, 84), bias(84), 10)]
    last, last_bias = weights(84, 10), bias(10)

    def narrow(sums: Tensor, shift: int) -> Tensor:
        return (sums.relu() >> shift).clip(-128, 127).cast(dtypes.int8)

    def model(x: Tensor) -> Tensor:
        for weight, offset, shift in filters:
            sums = x.cast(dtypes.int32).conv2d(weight.cast(dtypes.int32)) + offset.reshape(1, -1, 1, 1)
            x = narrow(sums, shift).max_pool2d(2)
        x = x.reshape(1, 256)
        for weight, offset, shift in matrices:
            x = narrow(x.cast(dtypes.int32) @ weight.cast(dtypes.int32) + offset, shift)
        return x.cast(dtypes.int32) @ last.cast(dtypes.int32) + last_bias

    return model


def model_of(name: str) -> tuple[Any, tuple[np.ndarray, ...]]:
    """A model and an input for it."""
    from tg2hdl.bench.suite import load_workloads

    rng = np.random.default_rng(1)
    if name == "lenet int8":
        return lenet(), (rng.integers(-128, 128, (1, 1, 28, 28)).astype(np.int8),)
    workload = next(w for w in load_workloads(HERE.parent / "workloads.py") if w.name == name)
    return workload.model(), workload.inputs(rng)


def measure(name: str, multipliers: int, *, simulate: bool) -> dict[str, Any]:
    """Compile a model with each policy, and perhaps simulate it.

    Raises
    ------
    SystemExit
        When a bit or the number of cycles is wrong.
    """
    import tg2hdl

    row: dict[str, Any] = {"model": name, "multipliers": multipliers}
    for policy in POLICIES:
        model, inputs = model_of(name)
        started = time.process_time()
        options = tg2hdl.CompileOptions(multipliers=multipliers or None, schedule=policy)
        accelerator = tg2hdl.compile(model, *inputs, options=options)
        row[policy] = found = {
            "latency": accelerator.predicted_cycles,
            "interval": accelerator.predicted_interval,
            "starts": list(accelerator.design.timeline().starts),
            "kernels": [kernel.cycles for kernel in accelerator.kernels],
            "compile_seconds": round(time.process_time() - started, 1),
            "memory_bits": sum(
                m.depth * m.word_width * max(1, len(m.ports)) for m in accelerator.design.buffers
            ),
            "simulated": False,
        }
        assert accelerator.design.sequencer.policy == policy, "the benchmark measures what it names"
        if simulate:
            wrong = check_streams(accelerator) if policy == "dataflow" else check(accelerator, inputs)
            if wrong:
                sys.exit(f"WRONG: {name}, {multipliers} multipliers, {policy}: {wrong}")
            found["simulated"] = True
    return row


def check(accelerator: Any, inputs: tuple[np.ndarray, ...]) -> str:
    """What is wrong in a simulated run; empty when nothing is."""
    run = accelerator.simulate(*inputs, engine="levelized")
    if not np.array_equal(run.output, accelerator.golden(*inputs)):
        return "other bits than the golden model's"
    cycles = run.cycles.compute
    return "" if cycles == accelerator.predicted_cycles else f"{cycles} cycles"


def check_streams(accelerator: Any) -> str:
    """What is wrong in simulated runs that follow each other; empty when nothing is."""
    from tg2hdl_backend.stream_runner import stream_on
    from tg2hdl_ir import evaluate_program

    design, rng = accelerator.design, np.random.default_rng(2)
    program = design.program
    given = [
        {
            b.name: rng.integers(-128, 128, b.depth).astype(b.dtype.numpy())
            for b in program.buffers
            if b.role == "input"
        }
        for _ in range(RUNS)
    ]
    found = stream_on(design, given, "levelized")
    for arrays, outputs in zip(given, found.outputs, strict=True):
        wanted = evaluate_program(program, arrays)
        names = [program.buffers[n].name for n in program.outputs]
        if not all(
            np.array_equal(a, wanted[n].reshape(-1), equal_nan=True)
            for a, n in zip(outputs, names, strict=True)
        ):
            return "other bits than the golden model's"
    latencies = {done - start for start, done in zip(found.starts, found.dones, strict=True)}
    if latencies != {accelerator.predicted_cycles}:
        return f"{latencies} cycles"
    # A host that writes a word a cycle may be slower than the kernels; then runs start with a later slot.
    gaps = set(np.diff(found.starts).tolist())
    words = max(m.layout.words for m in design.buffers if m.role.host_writes or m.role.host_reads)
    if words + 4 < accelerator.predicted_interval:
        return "" if gaps == {accelerator.predicted_interval} else f"intervals {gaps}"
    return "" if not any(gap % accelerator.predicted_interval for gap in gaps) else f"intervals {gaps}"


def place(name: str, multipliers: int, policy: str, seeds: int, part: str) -> dict[str, Any]:
    """Fmax and cells of a model compiled for an ECP5 with a policy, and its cycles."""
    import tg2hdl

    model, inputs = model_of(name)
    options = tg2hdl.CompileOptions(multipliers=multipliers or None, schedule=policy, target="ecp5")
    accelerator = tg2hdl.compile(model, *inputs, options=options)
    cycles = {"latency": accelerator.predicted_cycles, "interval": accelerator.predicted_interval}
    print(name, multipliers, policy, cycles, flush=True)

    def report(text: str) -> None:
        if ":" not in text:  # not every pass of a tool
            print(" ", text, flush=True)

    found = accelerator.synthesize(part, seeds=seeds, progress=report).to_dict()
    kept = ("part", "fmax_mhz", "fmax_range_mhz", "seeds", "comb", "ff", "dsp", "bram", "critical_path")
    print(name, multipliers, policy, found["fmax_mhz"], found["fmax_range_mhz"], flush=True)
    return cycles | {key: found[key] for key in kept}


def table(record: dict[str, Any]) -> str:
    """Markdown of the results."""
    from tg2hdl.bench import tools

    lines = [
        "# Sequencers",
        "",
        "Written by `python benchmarks/sequencers/run.py --simulate`: clock cycles. Latency is from start to done, the",
        "interval from one start to the next. Rows marked with `=` were simulated with all policies: cycles were those",
        "predicted, and every bit the golden model's.",
        "",
        "| model | multipliers | serial | overlap: latency | dataflow: latency | interval | bits of memory | |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in record["rows"]:
        found = [row[policy] for policy in POLICIES]
        mark = "=" if all(each["simulated"] for each in found) else ""
        memory = " / ".join(f"{each['memory_bits']:,}" for each in found)
        lines.append(
            f"| {row['model']} | {row['multipliers'] or ''} | {found[0]['latency']:,} | "
            f"{found[1]['latency']:,} | {found[2]['latency']:,} | {found[2]['interval']:,} | "
            f"{memory} | {mark} |"
        )
    lines += [
        "",
        "## Compiled for an ECP5",
        "",
        "Written by `python benchmarks/sequencers/run.py --synth --policy POLICY`: Fmax in MHz by place and route, the",
        "median over the seeds.",
        "",
        "| model | multipliers | policy | latency | interval | Fmax | seeds | COMB | FF | DSP | BRAM | slowest path |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in record["rows"]:
        for policy in POLICIES:
            if placed := row[policy].get("ecp5"):
                lines.append(_placed_row(row, policy, placed))
    return "\n".join([*lines, "", tools(record)]) + "\n"


def _placed_row(row: dict[str, Any], policy: str, placed: dict[str, Any]) -> str:
    low, high = placed["fmax_range_mhz"]
    cells = " | ".join(f"{placed[kind]:,}" for kind in ("comb", "ff", "dsp", "bram"))
    path = placed["critical_path"]
    ends = " to ".join(dict.fromkeys((path[0]["what"], path[-1]["what"]))) if path else ""
    return (
        f"| {row['model']} | {row['multipliers'] or ''} | {policy} | {placed['latency']:,} | "
        f"{placed['interval']:,} | {placed['fmax_mhz']:.0f} | {low:.0f}-{high:.0f} | {cells} | {ends} |"
    )


def _record(rows: dict[tuple[str, int], dict[str, Any]]) -> None:
    from tg2hdl.bench import write_results

    write_results(RESULTS, {"rows": [rows[case] for case in CASES if case in rows]}, table)


def main() -> None:
    """Measure and record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--simulate", action="store_true", help="simulate too, and compare every bit")
    parser.add_argument("--only", default="", help="part of the names of models to measure")
    parser.add_argument("--synth", action="store_true", help="place and route instead")
    parser.add_argument("--policy", action="append", choices=POLICIES, help="with --synth; all without")
    parser.add_argument("--seeds", type=int, default=3, help="runs of place and route")
    parser.add_argument("--part", default="ecp5-45k", help="ECP5 to place on")
    options = parser.parse_args()

    known = json.loads(RESULTS.read_text())["rows"] if RESULTS.is_file() else []
    rows = {(row["model"], row["multipliers"]): row for row in known}
    chosen = [case for case in CASES if options.only in f"{case[0]} x{case[1]}"]
    if not chosen:
        sys.exit(f"no model is named like {options.only!r}")
    for case in chosen:
        if options.synth:
            for policy in options.policy or POLICIES:
                placed = place(*case, policy, options.seeds, options.part)
                rows[case][policy]["ecp5"] = placed
                _record(rows)
            continue
        row = measure(*case, simulate=options.simulate)
        for policy in POLICIES:
            if placed := rows.get(case, {}).get(policy, {}).get("ecp5"):
                row[policy]["ecp5"] = placed
        rows[case] = row
        print(
            *case, *(row[policy]["latency"] for policy in POLICIES), row["dataflow"]["interval"], flush=True
        )
        _record(rows)


if __name__ == "__main__":
    main()

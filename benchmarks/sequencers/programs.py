"""All test programs of several kernels with `schedule="overlap"` and `"dataflow"`: every bit compared, cycles of each.

    python benchmarks/sequencers/programs.py             simulate up to 20,000 cycles each; a few minutes
    python benchmarks/sequencers/programs.py --random 40 --seed 1    random programs of tinygrad operations instead

Under `dataflow` three inputs follow each other: latency and interval must be those predicted. Results go to
programs.json and random_programs.json beside this file.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from tg2hdl.bench import json_text

HERE = Path(__file__).parent
LONGEST = 20_000
"""Cycles up to which a program is simulated."""


def measure(name: str, model: Any, inputs: tuple[Any, ...]) -> dict[str, Any] | None:
    """Cycles of a program, None where it has one kernel; ends the process when something is wrong."""
    from tg2hdl_backend import capture
    from tg2hdl_backend.testing.hardware import compare_with_hardware
    from tg2hdl_ir import Tg2hdlError
    from tg2hdl_top import CompileOptions, compile_program

    overlap = CompileOptions(multipliers=4, schedule="overlap")
    try:
        captured = capture(model, *inputs)
        serial = compile_program(captured.program, CompileOptions(multipliers=4))
        if len(serial.kernels) < 2:
            return None
        design = compile_program(captured.program, overlap)
    except Tg2hdlError as error:
        print(f"{name}: refused, {str(error).splitlines()[0]}", flush=True)
        return None
    cycles = [each.predicted_cycles(captured.var_vals) for each in (serial, design)]
    if cycles[1] > cycles[0]:
        sys.exit(f"{name}: {cycles[1]} cycles with overlap, {cycles[0]} without")
    simulated = cycles[1] <= LONGEST
    stream = None
    if simulated:
        stream = _stream(name, captured)
        with np.errstate(all="ignore"):
            found = compare_with_hardware(model, *inputs, options=overlap, engine="levelized")
        if found.mismatches:
            sys.exit(f"WRONG: {name}: " + "; ".join(found.mismatches))
    return {
        "program": name,
        "kernels": len(design.kernels),
        "serial": cycles[0],
        "overlap": cycles[1],
        "policy": design.sequencer.policy,
        "notes": list(design.sequencer.notes),
        "dataflow": stream,
        "simulated": simulated,
    }


def _stream(name: str, captured: Any) -> list[int] | str:
    """Latency and interval of runs that follow each other, as predicted and as simulated; why there are none else."""
    from run import check_streams

    from tg2hdl_ir import Tg2hdlError
    from tg2hdl_top import CompileOptions, compile_program

    try:
        design = compile_program(captured.program, CompileOptions(multipliers=4, schedule="dataflow"))
    except Tg2hdlError as error:
        return str(error).splitlines()[0]
    if not design.sequencer.interval:
        return "; ".join(design.sequencer.notes) or "serial"
    if any(port.serves.keeps_state for port in design.ports):
        return "not simulated: runs depend on each other"
    time = design.timeline()
    figures = SimpleNamespace(design=design, predicted_cycles=time.latency, predicted_interval=time.interval)
    with np.errstate(all="ignore"):
        wrong = check_streams(figures)
    if wrong:
        sys.exit(f"WRONG: {name}, dataflow: {wrong}")
    return [time.latency, time.interval]


def main() -> None:
    """Measure and record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--random", type=int, default=0, help="random programs instead")
    parser.add_argument("--seed", type=int, default=1, help="of the random programs")
    parser.add_argument("--resume", action="store_true", help="keep the rows of a run that was interrupted")
    options = parser.parse_args()
    from tg2hdl.bench import versions
    from tg2hdl_backend.testing import PROGRAMS

    programs = _random(options.random, options.seed) if options.random else PROGRAMS
    path = HERE / ("random_programs.json" if options.random else "programs.json")
    before = json.loads(path.read_text()) if options.resume and path.is_file() else {}
    key = {"versions": versions(), "random": options.random, "seed": options.seed}
    kept = {r["program"]: r for r in before.get("rows", [])} if before.items() >= key.items() else {}
    rows = []
    for name, (model, inputs) in programs.items():
        row = kept.get(name) or measure(name, model, inputs)
        if row is not None:
            rows.append(row)
            _write(path, key, rows)
            found = row["dataflow"] if isinstance(row["dataflow"], list) else ""
            print(name, row["kernels"], row["serial"], row["overlap"], row["policy"], found, flush=True)
    simulated = sum(row["simulated"] for row in rows)
    streamed = sum(isinstance(row["dataflow"], list) for row in rows)
    print(f"{len(rows)} programs, {simulated} simulated, {streamed} with dataflow, 0 different")


def _write(path: Path, key: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    """Keep what was measured."""
    mean = math.exp(sum(math.log(row["overlap"] / row["serial"]) for row in rows) / len(rows))
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    record = {"date": date, **key, "geometric_mean": round(mean, 3), "rows": rows}
    path.write_text(json_text(record))


def _random(count: int, seed: int) -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """Random programs, the same for a seed."""
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import seed as seeded

    from tg2hdl_backend.testing.random_programs import recipes

    found: dict[str, tuple[Any, tuple[Any, ...]]] = {}

    @seeded(seed)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(recipes())
    def collect(recipe: Any) -> None:
        found[repr(recipe)] = recipe, recipe.arrays()

    collect()
    return found


if __name__ == "__main__":
    main()

"""ONNX's own backend node tests by `tg2hdl.compile(path)` and the golden engine; writes a JSON file and a table.

python benchmarks/onnx/backend_tests.py                    all, in two processes, about 40 minutes of CPU
python benchmarks/onnx/backend_tests.py --quantizers       those with quantizers, by `tg2hdl simulate` too
python benchmarks/onnx/backend_tests.py --only 'reduce_.*' those whose names match, printed only
python benchmarks/onnx/backend_tests.py --again 'max.*'    those not right in the written results, and those whose names
                                                           match; the others keep their results
python benchmarks/onnx/backend_tests.py --rtl              the arithmetic ones in simulated hardware too
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from backend_report import write_door_report, write_report
from doors import DOORS

from tg2hdl_backend.testing.onnx_cases import CaseResult, is_arithmetic, load_cases, run_case
from tg2hdl_ir.workers import Workers

FOLDER = Path(__file__).parent


QUANTIZERS = ("QuantizeLinear", "DequantizeLinear", "QLinearConv", "QLinearMatMul")


def has_quantizers(case: Any) -> bool:
    """Whether a test's graph has quantizers with scales of their own."""
    return any(node.op_type in QUANTIZERS for node in case.model.graph.node)


def _run(_: None, arguments: tuple[int, float, bool, str]) -> CaseResult:
    number, limit, rtl, door = arguments
    return run_case(load_cases()[number], limit, rtl, DOORS[door])


def results(
    numbers: list[int], processes: int, limit: float, rtl: bool, door: str = "python"
) -> Iterator[CaseResult]:
    """Results in the order in which they come."""
    work = [(n, limit, rtl, door) for n in numbers]
    with Workers(processes, renewed_after=200) if processes > 1 else Workers() as workers:
        for _, result in workers.run(_run, work):
            yield result


def write_doors(folder: Path, processes: int, limit: float) -> None:
    """Run the tests with quantizers by both doors, and write what each gives."""
    numbers = [n for n, case in enumerate(load_cases()) if has_quantizers(case)]
    found = {
        door: sorted(results(numbers, processes, limit, False, door), key=lambda r: r.name) for door in DOORS
    }
    for door, rows in found.items():
        print(door, f"{sum(r.status == 'right' for r in rows)} of {len(rows)} are right")
    write_door_report(folder, "python benchmarks/onnx/backend_tests.py --quantizers", found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", metavar="REGEX", help="tests whose names match; nothing is written")
    parser.add_argument(
        "--again", metavar="REGEX", help="those not right so far, and those whose names match"
    )
    parser.add_argument("--shard", metavar="K/N", default="1/1", help="the Kth of N parts")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--limit", type=float, default=30, help="seconds for a test")
    parser.add_argument(
        "--rtl", action="store_true", help="only the arithmetic ones, in simulated hardware too"
    )
    parser.add_argument(
        "--quantizers",
        action="store_true",
        help="only those with quantizers, by both doors, in a table of their own",
    )
    parser.add_argument("--output", type=Path, help="folder for the results  [default: this one]")
    options = parser.parse_args()
    part, parts = map(int, options.shard.split("/"))
    cases = load_cases()
    if options.quantizers:
        # Simulation by a compiled engine takes a while where others use the machine.
        write_doors(options.output or FOLDER, options.processes, 4 * options.limit)
        return
    pattern = re.compile(options.only or "")
    wanted = [
        n for n, c in enumerate(cases) if pattern.search(c.name) and (not options.rtl or is_arithmetic(c))
    ]
    name = "rtl_tests" if options.rtl else "backend_tests"
    kept: list[CaseResult] = []
    if options.again is not None:
        known = json.loads((FOLDER / f"{name}.json").read_text())["tests"]
        again = re.compile(options.again or "$.")
        kept = [CaseResult(**r) for r in known if r["status"] == "right" and not again.match(r["name"])]
        wanted = [n for n in wanted if cases[n].name not in {r.name for r in kept}]
    numbers = wanted[part - 1 :: parts]
    start, found = time.perf_counter(), []
    for result in results(numbers, options.processes, options.limit, options.rtl):
        found.append(result)
        if options.only or result.status in ("wrong", "error"):
            print(f"{result.status:10} {result.name}: {result.reason}", flush=True)
        if len(found) % 100 == 0:
            print(f"{len(found)} of {len(numbers)}, {time.perf_counter() - start:.0f} s", flush=True)
    found += kept
    found.sort(key=lambda r: r.name)
    counts = {
        s: sum(r.status == s for r in found) for s in ("right", "wrong", "refused", "error", "time limit")
    }
    print(counts, f"of {len(found)}")
    if options.output or not (options.only or parts > 1):
        command = "python benchmarks/onnx/backend_tests.py"
        command += " --rtl" * options.rtl + f" --shard {options.shard}" * (parts > 1)
        command += f" --only '{options.only}'" if options.only else ""
        write_report(options.output or FOLDER, name, command, found, options.limit)
        print("wrote", (options.output or FOLDER) / f"{name}.md")


if __name__ == "__main__":
    main()

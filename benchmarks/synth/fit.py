"""Fit the LUTs per bit of the estimate to every ECP5 design in the cache of synthesis, module by module.

    python benchmarks/synth/fit.py

Fill the cache with `tg2hdl bench --synth` first. Prints the costs, for `LUTS` in tg2hdl_synth.families.ecp5.estimate,
and how far the estimate of each module is off. Bounds keep a kind from standing in for another that comes along with
it. The error is also given for designs that are left out of the fit.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
from scipy.optimize import lsq_linear

from tg2hdl_ir.content_cache import cache_root
from tg2hdl_synth.families.ecp5.estimate import LUTS, memory_area
from tg2hdl_synth.rtlil import read_rtlil, top_name
from tg2hdl_synth.words import Words, count_words

#: LUT sites after packing: a carry takes some for its ends, a LUT RAM two for writing.
SITES = {"LUT4": 1.0, "CCU2C": 2.6, "TRELLIS_DPR16X4": 6.0}
BOUNDS = {
    "add": (1.0, 1.4),
    "inner": (0.8, 2.0),
    "compare": (0.5, 1.5),
    "equal": (0.3, 0.7),
    "logic": (0.1, 0.5),
    "gating": (0.3, 1.2),
    "mux": (0.3, 1.0),
    "shift": (0.3, 1.0),
    "reduce": (0.05, 0.35),
}
SMALLEST = 60


@dataclass(frozen=True)
class Sample:
    """A module: bits by kind, LUTs of its memories, and what synthesis made of it."""

    design: str
    module: str
    bits: Counter[str]
    memory: int
    found: float


def contents(modules: dict[str, Words], name: str, *, below: bool) -> tuple[Counter[str], int]:
    """Return bits and memory LUTs of a module, with those below it when asked for."""
    words = modules[name]
    bits, memory = Counter(words.bits), sum(memory_area(m).lut for m in words.memories.values() if m.reads)
    for child in words.children if below else ():
        if child in modules:
            more, further = contents(modules, child, below=True)
            bits, memory = bits + more, memory + further
    return bits, memory


def samples(folder: Path) -> list[Sample]:
    """Modules of all designs in the cache, each once."""
    found: dict[tuple[object, ...], Sample] = {}
    for entry in sorted(folder.iterdir()):
        if not (entry / "manifest.json").is_file() or not (entry / "stat.json").is_file():
            continue
        if "synth_ecp5" not in (entry / "script.ys").read_text():
            continue
        text = (entry / "design.il").read_text()
        design = read_rtlil(text)
        modules, top = count_words(design), top_name(design)
        for name, stat in json.loads((entry / "stat.json").read_text())["modules"].items():
            module = name.removeprefix("\\")
            cells = sum(SITES.get(kind, 0.0) * count for kind, count in stat["num_cells_by_type"].items())
            bits, memory = contents(modules, module, below=module != top)
            if cells >= SMALLEST:
                found[(*sorted(bits.items()), memory)] = Sample(entry.name[:6], module, bits, memory, cells)
    return list(found.values())


def fit(chosen: list[Sample]) -> dict[str, float]:
    """LUTs per bit with the least sum of squared relative errors."""
    rows = np.array([[s.bits[kind] / s.found for kind in BOUNDS] for s in chosen])
    left = np.array([(s.found - s.memory) / s.found for s in chosen])
    low, high = zip(*BOUNDS.values(), strict=True)
    return dict(zip(BOUNDS, lsq_linear(rows, left, bounds=(low, high)).x, strict=True))


def error(sample: Sample, costs: dict[str, float]) -> float:
    """Relative error of an estimate."""
    return (sample.memory + sum(cost * sample.bits[kind] for kind, cost in costs.items())) / sample.found - 1


def main() -> None:
    found = samples(cache_root() / "synth")
    left_out = [error(s, fit([other for other in found if other.design != s.design])) for s in found]
    costs = fit(found)
    for sample in found:
        print(f"{sample.design} {sample.module:30} {sample.found:8.0f} {error(sample, costs):+7.0%}")
    print({kind: round(float(cost), 2) for kind, cost in costs.items()})
    for name, errors in (
        ("fitted", [error(s, costs) for s in found]),
        ("left out of the fit", left_out),
        ("as in the package", [error(s, LUTS) for s in found]),
    ):
        print(f"{name}: median {median(map(abs, errors)):.0%}, worst {max(errors, key=abs):+.0%}")


if __name__ == "__main__":
    main()

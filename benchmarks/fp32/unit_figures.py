"""Area and Fmax of the float units that the compiler chooses from, for their descriptors.

    python benchmarks/fp32/unit_figures.py      a few minutes; writes figures.json of tg2hdl-fp32

A unit of FP32 that fmax.json has in the same form (core, profile and latency) gets these figures: LFE5U-45F, place and
route, median of three seeds.  The LUTs and flip-flops of the others are estimated from their RTLIL, and scaled by what
place and route says of the placed ones of the same core (median ratio); the printed error is that of the placed ones
themselves, each left out of its ratio.  Their Fmax is unknown (0).
"""

import json
from pathlib import Path
from statistics import median

from amaranth.back import rtlil

from tg2hdl_fp32 import CATALOG, CatalogEntry
from tg2hdl_synth import part_named
from tg2hdl_synth.families.ecp5.estimate import estimate_area

HERE = Path(__file__).parent
FILE = HERE.parents[1] / "packages/tg2hdl-fp32/src/tg2hdl_fp32/figures.json"
ROWS = {
    "Add": "add",
    "Sub": "add",
    "Mul": "mul",
    "Compare": "compare",
    "MinMax": "minmax",
    "RoundToIntegral": "round",
    "Div": "div",
    "Sqrt": "sqrt",
    "Reciprocal": "reciprocal",
    "Exp2": "exp2",
    "Log2": "log2",
    "Sin": "sin",
}
CASTS = {
    "fp32.cast.int32": "f32_to_i32",
    "int32.cast.fp32": "i32_to_f32",
    "fp32.cast.fp16": "f32_to_f16",
    "fp16.cast.fp32": "f16_to_f32",
}


def placed(entry: CatalogEntry, latency: int, table: dict) -> dict | None:
    """Row of fmax.json with the same core, profile and latency."""
    name, _, profile = entry.name.rpartition(".")
    core = CASTS.get(name) if entry.op == "cast" else ROWS.get(entry.core)
    if core is None or (entry.op != "cast" and entry.operands[0] != "FP32"):
        return None
    profile = {"ecp5": "fast", "ecp5-balanced": "balanced"}.get(profile, profile)
    for row in (f"{core}.{profile}-generic", f"{core}.{profile}"):
        if row in table and table[row]["latency"] == latency:
            return table[row]
    return None


def ratio(rows: list[tuple[dict, dict]], kind: str) -> float:
    """Median of placed over estimated cells."""
    return median([real[kind] / max(1, guess[kind]) for guess, real in rows]) if rows else 1.0


def main() -> None:
    """Measure every unit."""
    table = json.loads((HERE / "fmax.json").read_text())
    multipliers = part_named("ecp5-45k").dsp
    guesses, reals = {}, {}
    for entry in CATALOG:
        core = entry()
        area = estimate_area(rtlil.convert(core, name="top", emit_src=False), multipliers)
        guesses[entry] = {"lut": area.lut, "ff": area.ff, "dsp": area.dsp, "bram": area.bram}
        row = placed(entry, core.latency, table)
        if row is not None:
            reals[entry] = {"lut": row["comb"], **{kind: row[kind] for kind in ("ff", "dsp", "bram")}}
            reals[entry]["fmax"] = row["mhz"]
    found, errors = {}, []
    for entry, guess in guesses.items():
        family = [(guesses[e], real) for e, real in reals.items() if e.core == entry.core and e is not entry]
        scaled = {k: round(guess[k] * ratio(family, k)) if k in ("lut", "ff") else guess[k] for k in guess}
        found[entry.name] = reals.get(entry, scaled | {"fmax": 0.0})
        others = [pair for pair in family if pair[1] != reals.get(entry)]  # not the same core by another name
        if entry in reals and others:
            errors.append(abs(guess["lut"] * ratio(others, "lut") / reals[entry]["lut"] - 1))
    lines = ",\n".join(f" {json.dumps(name)}: {json.dumps(row)}" for name, row in found.items())
    FILE.write_text(f"{{\n{lines}\n}}\n")
    print(
        f"{len(found)} units, {len(reals)} placed and routed; LUTs of the others: {median(errors):.0%} median error"
    )


if __name__ == "__main__":
    main()

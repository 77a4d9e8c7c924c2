"""The five networks of MLPerf Tiny as hardware: codes against TensorFlow Lite Micro, cycles by multipliers.

``python benchmarks/mlperf_tiny/run.py [FOLDER] [--inputs N] [--simulate]`` writes ``mlperf_tiny.json`` and ``.md``;
figures that were not measured stay.

FOLDER (or the variable MLPERF_TINY) holds the networks of https://github.com/mlcommons/tiny (Apache-2.0, not part of
this repository) under the names of `NETWORKS`; ``--fetch`` prints the commands that copy them from a clone.  Inputs are
those of ``vectors.npz`` where it is there, and N random ones, which TFLM runs in the same process.

``--simulate`` also runs 8 of the inputs in simulated hardware, cycle by cycle (1 of the largest network).  ``--fit``
estimates LUTs and multipliers for the largest part.  ``--place PART --networks NAME --multipliers N`` places and routes
one design, which takes up to an hour.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

import tg2hdl
from tg2hdl.bench import json_text, versions
from tg2hdl_ir import CapacityError
from tg2hdl_synth import part_named
from tg2hdl_synth.families.ecp5 import ECP5
from tg2hdl_tflite import TfliteModel
from tg2hdl_tflite.testing import run_micro
from tg2hdl_top.memory_blocks import memory_blocks

HERE = Path(__file__).parent
MULTIPLIERS = (16, 64, 144)
SIMULATED = 64
LARGEST = "vww_mobilenet_int8"
PARTS = ("ecp5-25k", "ecp5-45k", "ecp5-85k")
NETWORKS = {
    "ad_autoencoder_int8": ("anomaly detection", "anomaly_detection/trained_models/ad01_int8.tflite"),
    "kws_dscnn_int8": ("keyword spotting", "keyword_spotting/trained_models/kws_ref_model.tflite"),
    "ic_resnet8_int8": (
        "image classification",
        "image_classification/trained_models/pretrainedResnet_quant.tflite",
    ),
    "sww_streaming_int8": (
        "streaming wake word",
        "streaming_wakeword/trained_models/str_ww_ref_model.tflite",
    ),
    "vww_mobilenet_int8": ("visual wake words", "visual_wake_words/trained_models/vww_96_int8.tflite"),
}
"""Task and path below ``benchmark/training`` of mlcommons/tiny, commit 1afd2c9."""


def inputs_of(folder: Path, name: str, shape: tuple[int, ...], count: int) -> np.ndarray:
    """Inputs of `vectors.npz`, then random codes."""
    random = np.random.default_rng(42).integers(-128, 128, (count, *shape)).astype(np.int8)
    path = folder / "vectors.npz"
    if not path.is_file():
        return random
    return np.concatenate([np.load(path)[f"{name}/inputs"].reshape(-1, *shape), random])


def measure(folder: Path, name: str, row: dict[str, Any], given: argparse.Namespace) -> Iterator[None]:
    """Add the figures of a network to its row, one design after the other."""
    path = folder / f"{name}.tflite"
    x = inputs_of(folder, name, TfliteModel(path).inputs[0].shape, given.inputs)
    expected = np.array([r[0] for r in run_micro(path.read_bytes(), x)])
    row |= {"task": NETWORKS[name][0], "inputs": len(x), "codes": int(expected.size)}
    row |= {"measured": date.today().isoformat()}
    for count in given.multipliers:
        accelerator = tg2hdl.compile(str(path), multipliers=count)
        design = row.setdefault("designs", {}).setdefault(str(count), {})
        design["cycles"] = accelerator.predicted_cycles
        design["blocks"] = sum(memory_blocks(accelerator.design, ECP5).values())
        if count == given.multipliers[0]:
            found = np.array([accelerator.golden(v) for v in x])
            row["differ"] = int((found != expected).sum())
        if count == SIMULATED and given.simulate:
            runs = [accelerator.simulate(v) for v in x[: 1 if name == LARGEST else 8]]
            wrong = [int((r.output != e).sum()) for r, e in zip(runs, expected, strict=False)]
            cycles = sorted({r.cycles.compute for r in runs})
            row["simulated"] = {"inputs": len(runs), "cycles": cycles, "differ": sum(wrong)}
        if given.fit:
            design["needs"] = accelerator.fits("ecp5-85k").needs
        print(name, count, json.dumps(design), flush=True)
        yield


def place(folder: Path, name: str, row: dict[str, Any], given: argparse.Namespace) -> Iterator[None]:
    """Place and route one design."""
    (count,) = given.multipliers
    accelerator = tg2hdl.compile(
        str(folder / f"{name}.tflite"),
        multipliers=count,
        options=tg2hdl.CompileOptions(target="ecp5"),
        part=given.place,
    )
    found: dict[str, Any] = {"date": date.today().isoformat(), "cycles": accelerator.predicted_cycles}
    row.setdefault("placed", {})[f"{given.place} {count}"] = found
    try:
        result = accelerator.synthesize(given.place, seeds=given.seeds)
    except CapacityError as error:
        found["refused"] = error.message
    else:
        found |= {"fmax": result.fmax, "seeds": given.seeds, "result": result.to_dict()}
    yield


def table(record: dict[str, Any]) -> str:
    tools = ", ".join(f"{k} {v}" for k, v in record["versions"].items())
    lines = [
        "# The networks of MLPerf Tiny",
        "",
        f"{record['date']}; {tools}. Made by `python benchmarks/mlperf_tiny/run.py`. The int8 files of "
        "mlcommons/tiny (commit 1afd2c9) as they are; each output code of the golden model is compared with "
        "that of TensorFlow Lite Micro. Cycles are those from start to done, with the input in its memory.",
        "",
        "## Codes",
        "",
        "| network | inputs | codes | differ from TFLM | simulated with 64 multipliers |",
        "|---|---|---|---|---|",
    ]
    for name, row in record["networks"].items():
        run = row.get("simulated")
        told = f"{run['inputs']} inputs, {run['cycles'][0]:,} cycles, {run['differ']} differ" if run else "-"
        cells = [f"{row['task']} (`{name}`)", *(f"{row[k]:,}" for k in ("inputs", "codes", "differ")), told]
        lines.append("| " + " | ".join(cells) + " |")
    lines += [
        "",
        "## Designs",
        "",
        "Block RAMs (DP16KD) are counted from the plan, LUTs and multipliers (MULT18X18D) are the estimate of "
        "`Accelerator.fits`. An ECP5-25k has 56 block RAMs and 28 multipliers, a 45k 108 and 72, an 85k 208 and 156.",
        "",
        "| network | multipliers | cycles | at 100 MHz | block RAMs | MULT18X18D | LUTs | smallest part |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in record["networks"].values():
        for count, design in sorted(row["designs"].items(), key=lambda item: int(item[0])):
            needs = design.get("needs", {})
            cells = [
                row["task"],
                count,
                f"{design['cycles']:,}",
                _time(design["cycles"] / 100),
                str(design["blocks"]),
                *(f"{needs[k]:,}" if k in needs else "-" for k in ("dsp", "lut")),
                _smallest({"bram": design["blocks"], **{k: needs[k] for k in ("dsp", "lut") if k in needs}}),
            ]
            lines.append("| " + " | ".join(cells) + " |")
    placed = [
        (row["task"], *item) for row in record["networks"].values() for item in row.get("placed", {}).items()
    ]
    if placed:
        head = ("network", "part", "multipliers", "seeds", "Fmax", "cycles", "latency")
        lines += ["", "## Placed and routed", "", "| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for task, key, found in placed:
        part, count = key.split()
        reached = (
            ["-", found["refused"], f"{found['cycles']:,}", "-"] if "refused" in found else _reached(found)
        )
        lines.append("| " + " | ".join([task, part, count, *reached]) + " |")
    return "\n".join(lines) + "\n"


def _reached(found: dict[str, Any]) -> list[str]:
    """Seeds, Fmax, cycles and latency of a design that was placed."""
    latency = _time(found["cycles"] / found["fmax"])
    return [str(found["seeds"]), f"{found['fmax']:.1f} MHz", f"{found['cycles']:,}", latency]


def _time(microseconds: float) -> str:
    return f"{microseconds / 1000:.2f} ms" if microseconds >= 1000 else f"{microseconds:.0f} us"


def _smallest(needs: dict[str, int]) -> str:
    """The smallest part that has enough of what is known."""
    for name in PARTS:
        part = part_named(name)
        if all(needs[kind] <= getattr(part, kind) for kind in needs):
            return name if "lut" in needs else f"{name} by block RAMs"
    return "none"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", default=os.environ.get("MLPERF_TINY"))
    parser.add_argument("--inputs", type=int, default=200)
    parser.add_argument("--networks", nargs="*", default=list(NETWORKS))
    parser.add_argument("--multipliers", type=int, nargs="*", default=list(MULTIPLIERS))
    parser.add_argument("--simulate", action="store_true")
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--place", metavar="PART")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--fetch", action="store_true")
    given = parser.parse_args()
    if given.fetch or given.folder is None:
        print("git clone https://github.com/mlcommons/tiny && git -C tiny checkout 1afd2c9")
        for name, (_, path) in NETWORKS.items():
            print(f"cp tiny/benchmark/training/{path} FOLDER/{name}.tflite")
        return
    logging.disable(logging.WARNING)
    target = HERE / "mlperf_tiny.json"
    rows = json.loads(target.read_text())["networks"] if target.is_file() else {}
    record: dict[str, Any] = {
        "date": date.today().isoformat(),
        "versions": versions("tflite", "tflite-micro"),
    }
    for name in given.networks:
        do = place if given.place else measure
        for _ in do(Path(given.folder), name, rows.setdefault(name, {}), given):
            record["networks"] = {n: rows[n] for n in NETWORKS if n in rows}
            target.write_text(json_text(record))
            (HERE / "mlperf_tiny.md").write_text(table(record))


if __name__ == "__main__":
    main()

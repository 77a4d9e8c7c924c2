"""Accuracy of quantized models on real data, beside float and ONNX Runtime's static quantization.

``python benchmarks/quant/run.py`` quantizes and compiles the models, and writes ``accuracy.json`` and ``accuracy.md``
after each figure.  Figures whose sources did not change since are kept, so that a run may be interrupted; ``--restart``
measures all anew.  ``--only`` names rows, ``--settings`` columns.  ``--pack COMB`` also synthesizes and packs (yosys,
nextpnr without placement) the designs of up to so many COMB by the estimate, the smallest first; ``--pnr`` places and
routes those of the rows that `PLACED` names (one seed; minutes each).

The weights are in ``weights``, so that the figures are the same everywhere; a model without is trained first, for which
tinygrad needs a device that computes, e.g. ``DEV=CPU`` with clang.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

os.environ.setdefault("DEV", "CPU")

import numpy as np
from data import DATA, Split
from models import MODELS, trained
from onnxruntime_reference import onnxruntime_accuracy

import tg2hdl
from tg2hdl.bench import json_text, versions
from tg2hdl_backend import tensor_graph
from tg2hdl_ir import Tg2hdlError
from tg2hdl_ir.tensors import evaluate_graph
from tg2hdl_synth import DesignTooLargeError, estimate_design
from tg2hdl_synth.tools import run_tool
from tg2hdl_top import CompileOptions

FOLDER = Path(__file__).parent
PACKAGES = FOLDER.parents[1] / "packages"
CALIBRATION = 512
ACCURACY = ("tg2hdl-ir/src/tg2hdl_ir/tensors", "tg2hdl-backend/src", "tg2hdl-quant/src")
DESIGN = (*ACCURACY, "tg2hdl-ir/src", "tg2hdl-fp32/src", "tg2hdl-lower/src", "tg2hdl-top/src")
LIBRARIES = ("scikit-learn", "mlxtend", "onnx", "onnxruntime")
SOURCES = {"accuracy": ACCURACY, "hardware": DESIGN, "placed": DESIGN}
"""Folders of packages that decide about each group of figures."""
SETTINGS: dict[str, dict[str, Any]] = {
    "int8": {},
    "int8, multiplier": {"requantization": "multiplier"},
    "int8, per tensor": {"per_channel": False},
    "int8, affine": {"activations": "affine"},
    "int8, equalized": {"equalization": "cross-layer"},
    "4-bit weights": {"weight_bits": 4},
    "4-bit, equalized": {"weight_bits": 4, "equalization": "cross-layer"},
    "4-bit, compensated": {"weight_bits": 4, "weight_rounding": "compensated"},
    "4-bit, powers of two": {"weight_bits": 4, "requantization": "shift"},
    "ternary weights": {"weight_bits": 2},
    "ternary, compensated": {"weight_bits": 2, "weight_rounding": "compensated"},
}
FLOAT, REFERENCE = "float", "ONNX Runtime"
HARDWARE = {"float": None, "int8": "int8", "4-bit": "4-bit weights", "ternary": "ternary weights"}
"""Designs, by the settings of their models."""
PLACED = {"MLP, digits": ("int8", "4-bit", "ternary")}
"""Designs that `--pnr` places and routes; float takes too long."""
MULTIPLIERS = 16
OPTIONS = CompileOptions(target="ecp5")
PART = "ecp5-45k"
CELLS = {"block RAMs": "DP16KD", "DSP": "MULT18X18D", "COMB": "TRELLIS_COMB"}
"""Resources of the table, as nextpnr names them."""
Figure = dict[str, Any]


class Row:
    """A model with its data; everything is made when it is first asked for.

    Raises
    ------
    RuntimeError
        When training ended at an accuracy that says nothing about quantization.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._quantized: dict[str, Any] = {}

    @cached_property
    def data(self) -> Split:
        """Training and test samples, training and test labels."""
        return DATA[MODELS[self.name][0]]()

    @cached_property
    def model(self) -> Any:
        """The trained model."""
        x, _, y, _ = self.data
        _, make, epochs = MODELS[self.name]
        return trained(self.name, make, x, y, epochs)

    @cached_property
    def floats(self) -> np.ndarray:
        """Classes of the test samples in float."""
        test = self.data[1]
        graph = tensor_graph(self.model, test[:1])
        found = np.concatenate([evaluate_graph(graph, [p[:, None]])[0] for p in np.array_split(test, 8)])
        classes: np.ndarray = found.reshape(len(test), -1).argmax(1)
        if (classes == self.data[3]).mean() < 0.8:
            raise RuntimeError(f"{self.name}: training ended at {(classes == self.data[3]).mean():.1%}")
        return classes

    def quantized(self, setting: str) -> Any:
        """The integer model of a column."""
        if setting not in self._quantized:
            x = self.data[0][:CALIBRATION]
            self._quantized[setting] = tg2hdl.quantize(self.model, x, **SETTINGS[setting])
        return self._quantized[setting]

    def accuracy(self, setting: str) -> Figure:
        """Accuracy of a column, and the share of test samples with the class of the float model."""
        x, test, _, labels = self.data
        if setting == FLOAT:
            return {"accuracy": float((self.floats == labels).mean()), "test samples": len(test)}
        if setting == REFERENCE:
            return onnxruntime_accuracy(self.model, x[:CALIBRATION], test, labels, self.floats)
        q = self.quantized(setting)
        found = np.concatenate([q.evaluate(part) for part in np.array_split(test, 8)])
        classes = found.reshape(len(test), -1).argmax(1)
        return {
            "accuracy": float((classes == labels).mean()),
            "agreement": float((classes == self.floats).mean()),
            "warnings": list(q.report.warnings),
        }

    def _compiled(self, kind: str) -> Any:
        setting, test = HARDWARE[kind], self.data[1]
        model, example = (self.model, test[:1]) if setting is None else (self.quantized(setting), test[0])
        return tg2hdl.compile(model, example, multipliers=MULTIPLIERS, options=OPTIONS)

    def hardware(self, kind: str) -> Figure:
        """Cycles of a design (exact), and its size as estimated."""
        try:
            accelerator = self._compiled(kind)
        except Tg2hdlError as error:
            return {"refused": str(error).splitlines()[0]}
        needs = estimate_design(accelerator.top, PART, pack_registers=True)
        assert needs is not None, "the part is an ECP5"
        return {
            "cycles": accelerator.predicted_cycles,
            "multipliers": max(k.multipliers for k in accelerator.kernels),
            "block RAMs": needs.bram,
            "DSP": needs.dsp,
            "COMB": needs.comb,
        }

    def packed(self, kind: str) -> Figure:
        """Size of a design after synthesis and packing; placement does not change it."""
        try:
            result = self._compiled(kind).synthesize(PART, place=False)
        except DesignTooLargeError as error:
            result = error.partial
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(result.folder / "netlist.json", folder)
            arguments = ["--45k", "--package", "CABGA381", "--out-of-context", "--pack-only"]
            arguments += ["--json", "netlist.json"]
            run_tool("nextpnr-ecp5", arguments, Path(folder), log="nextpnr.log")
            log = (Path(folder) / "nextpnr.log").read_text()
        used = dict(re.findall(r"(\w+): +(\d+)/", log))
        return {name: int(used[cell]) for name, cell in CELLS.items()}

    def placed(self, kind: str) -> Figure:
        """Size and clock of a design after place and route."""
        result = self._compiled(kind).synthesize(PART, seeds=1)
        sizes = {name: result.utilization.get(cell, (0,))[0] for name, cell in CELLS.items()}
        return sizes | {"Fmax": round(result.fmax, 1)}


class Figures:
    """Measured figures in a file, each with a digest of the sources that made it.

    Parameters
    ----------
    folder : Path
        Of ``accuracy.json`` and ``accuracy.md``.
    restart : bool
        Whether figures of the same sources are measured again too.
    """

    def __init__(self, folder: Path, restart: bool) -> None:
        self._folder = folder
        folder.mkdir(exist_ok=True, parents=True)
        self.rows: dict[str, dict[str, dict[str, Figure]]] = {}
        self._read()
        self.sources = {group: digest(folders) for group, folders in SOURCES.items()}
        self._restart = restart

    def _read(self) -> None:
        path = self._folder / "accuracy.json"
        if path.exists():
            self.rows = json.loads(path.read_text())["rows"]

    def is_current(self, group: str, figure: Figure) -> bool:
        """Whether the sources are still those that made a figure."""
        return bool(figure["sources"] == self.sources[group])

    def is_usual(self, group: str, figure: Figure) -> bool:
        """Whether the sources that made a figure are those of most figures of its group."""
        found = [f["sources"] for row in self.rows.values() for f in row.get(group, {}).values()]
        return bool(figure["sources"] == max(found, key=found.count))

    def add(self, name: str, group: str, key: str, measure: Callable[[str], Figure]) -> None:
        """Measure one, unless it is known, and write the files."""
        figures = self.rows.get(name, {}).get(group, {})
        if key in figures and self.is_current(group, figures[key]) and not self._restart:
            return
        start = time.process_time()
        found = measure(key)
        print(f"{name} | {key} | {found} | {time.process_time() - start:.1f} CPU s", flush=True)
        self._read()  # Another process may have added to it.
        figures = self.rows.setdefault(name, {}).setdefault(group, {})
        figures[key] = found | {"sources": self.sources[group]}
        self.rows = {n: self.rows[n] for n in MODELS if n in self.rows}
        content = {"versions": versions(*LIBRARIES), "rows": self.rows}
        (self._folder / "accuracy.json").write_text(json_text(content))
        (self._folder / "accuracy.md").write_text(table(self))


def digest(folders: tuple[str, ...]) -> str:
    """Of the sources in folders of the packages, and of models and data."""
    found = hashlib.sha256()
    files = {path for folder in folders for path in (PACKAGES / folder).rglob("*.py")}
    for path in sorted([*files, FOLDER / "models.py", FOLDER / "data.py"]):
        found.update(path.read_bytes())
    return found.hexdigest()[:12]


def table(figures: Figures) -> str:
    """The page."""
    columns = [*SETTINGS, REFERENCE]
    lines = [
        "# Accuracy of quantized models",
        "",
        "Accuracy on test data (%), and in brackets the change in points against float. Post-training quantization "
        f"with {CALIBRATION} training samples or fewer, 8-bit activations, a scale for each output channel. Scales of "
        "int8 are powers of two unless it says multiplier; those of fewer bits are any, unless it says otherwise. "
        "ONNX Runtime is its static quantization (int8, per "
        "channel) of an ONNX file with the same weights; *agrees* are the test samples with the class of the float "
        "model, of our int8 / of ONNX Runtime. Made by `python benchmarks/quant/run.py`, which goes on where it was "
        "interrupted; a dash was not measured yet, a star is of other sources than the rest of its table.",
        "",
        "With " + ", ".join(f"{name} {version}" for name, version in versions(*LIBRARIES).items()) + ".",
        "",
        "| model | test samples | float | " + " | ".join(columns) + " | agrees |",
        "|---|" + "---|" * (len(columns) + 3),
    ]
    for name, row in figures.rows.items():
        found = row.get("accuracy", {})
        if FLOAT not in found:
            continue
        reference = found[FLOAT]["accuracy"]
        cells = [name, str(found[FLOAT]["test samples"]), f"{reference:.2%}"]
        for column in columns:
            change = "-"
            if column in found:
                accuracy = found[column]["accuracy"]
                star = "" if figures.is_usual("accuracy", found[column]) else " *"
                change = f"{accuracy * 100:.2f} ({(accuracy - reference) * 100:+.2f}){star}"
            cells.append(change)
        shares = (f"{found[c]['agreement']:.2%}" if c in found else "-" for c in ("int8", REFERENCE))
        lines.append("| " + " | ".join([*cells, " / ".join(shares)]) + " |")
    return "\n".join([*lines, "", *_hardware_table(figures)]) + "\n"


def _hardware_table(figures: Figures) -> list[str]:
    lines = [
        "## The hardware",
        "",
        f"Compiled for `multipliers={MULTIPLIERS}`: cycles from start to done (exact), multipliers that the widest "
        f"kernel uses, block RAMs, DSP blocks and COMB of an {PART}, estimated; after a slash as packed by "
        "nextpnr after synthesis (`--pack`), with Fmax where it was placed and routed too (`--pnr`, one seed).",
        "",
        "| model | weights | cycles | multipliers | block RAMs | DSP | COMB | Fmax (MHz) |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, row in figures.rows.items():
        for kind, found in row.get("hardware", {}).items():
            star = "" if figures.is_usual("hardware", found) else " *"
            if "refused" in found:
                lines.append(f"| {name} | {kind}{star} | {found['refused']} | | | | | |")
                continue
            placed = row.get("placed", {}).get(kind, {})
            if placed and placed["sources"] != found["sources"]:
                star = " *"
            cells = [f"{found['cycles']:,}", str(found["multipliers"])]
            for resource in ("block RAMs", "DSP", "COMB"):
                packed = f" / {placed[resource]:,}" if resource in placed else ""
                cells.append("-" if found[resource] is None else f"{found[resource]:,}{packed}")
            cells.append(str(placed.get("Fmax", "-")))
            lines.append(f"| {name} | {kind}{star} | " + " | ".join(cells) + " |")
    return lines


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=MODELS, default=list(MODELS), help="only these rows")
    parser.add_argument(
        "--settings", nargs="*", choices=[*SETTINGS, REFERENCE], help="only these columns, no hardware"
    )
    parser.add_argument(
        "--pack", type=int, default=0, metavar="COMB", help="pack designs up to this size too"
    )
    parser.add_argument("--pnr", action="store_true", help="place and route designs too")
    parser.add_argument("--restart", action="store_true", help="measure known figures again")
    parser.add_argument("-o", "--output", type=Path, default=FOLDER)
    arguments = parser.parse_args()
    figures = Figures(arguments.output, arguments.restart)
    rows = [Row(name) for name in arguments.only]
    columns = [REFERENCE, *SETTINGS] if arguments.settings is None else arguments.settings
    for column in (FLOAT, *columns):
        for row in rows:
            figures.add(row.name, "accuracy", column, row.accuracy)
    for row in rows if arguments.settings is None else ():
        for kind in HARDWARE:
            figures.add(row.name, "hardware", kind, row.hardware)
    for row in rows:
        for kind in PLACED.get(row.name, ()) if arguments.pnr else ():
            figures.add(row.name, "placed", kind, row.placed)

    sizes = {
        (row.name, kind): figures.rows[row.name]["hardware"][kind].get("COMB", arguments.pack + 1)
        for row in rows
        for kind in (HARDWARE if arguments.pack else ())
        if kind not in PLACED.get(row.name, ())
    }
    for name, kind in sorted(sizes, key=lambda key: sizes[key]):
        if sizes[name, kind] <= arguments.pack:
            figures.add(name, "placed", kind, next(r for r in rows if r.name == name).packed)


if __name__ == "__main__":
    main()

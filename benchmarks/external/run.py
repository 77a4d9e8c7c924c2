"""Weights in memory outside the chip: cycles, and the share of the memory port or of the multipliers that is used.

    python benchmarks/external/run.py                  predicted cycles
    python benchmarks/external/run.py --simulate       and simulated ones, every bit compared with numpy or tinygrad
    python benchmarks/external/run.py --only mlp       some of the rows; the others stay as they were
    python benchmarks/external/run.py --cells          cells of each port alone, after Yosys' synthesis for an ECP5

The memory is that of `MemoryModel()`: 32 bits a cycle, 24 cycles of latency, 12 of every 780 cycles lost to refreshes;
and of `SdramModel()`: a chip of 16 bits at 100 MHz.
Results go to external.json and external.md beside this file.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from tinygrad import Tensor, dtypes

HERE = Path(__file__).parent
RESULTS = HERE / "external.json"
ECP5_45K = 108 * 18432
"""Bits of its block RAMs."""
WIDTHS = (512, 1024, 1024, 512, 10)


@dataclass(frozen=True)
class Case:
    """A model on a chip."""

    name: str
    make: Callable[[], tuple[Any, Callable[[np.ndarray], np.ndarray] | None]]
    shape: tuple[int, ...]
    multipliers: int
    bits: int = ECP5_45K
    port: str = "axi4"

    @property
    def key(self) -> str:
        """Distinct for each case."""
        return f"{self.name}, {self.multipliers} multipliers, {self.bits:,} bits, {self.port}"


def mlp() -> tuple[Any, Callable[[np.ndarray], np.ndarray]]:
    """Dense layers 512-1024-1024-512-10 of bytes: 2.1 M weights; and the same in numpy."""
    rng = np.random.default_rng(1)
    weights = [rng.integers(-128, 128, pair).astype(np.int8) for pair in pairwise(WIDTHS)]
    biases = [rng.integers(-2000, 2000, (1, n)).astype(np.int32) for n in WIDTHS[1:]]
    tensors = [(Tensor(w), Tensor(b)) for w, b in zip(weights, biases, strict=True)]

    def model(x: Tensor) -> Tensor:
        for weight, bias in tensors[:-1]:
            sums = x.cast(dtypes.int32) @ weight.cast(dtypes.int32) + bias
            x = (sums.relu() >> 11).clip(-128, 127).cast(dtypes.int8)
        weight, bias = tensors[-1]
        return x.cast(dtypes.int32) @ weight.cast(dtypes.int32) + bias

    def in_numpy(x: np.ndarray) -> np.ndarray:
        x = x.astype(np.int64)
        for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
            x = np.clip(np.maximum(x @ weight + bias, 0) >> 11, -128, 127)
        return x @ weights[-1] + biases[-1]

    return model, in_numpy


def resnet() -> tuple[Any, None]:
    """The ResNet-8 of benchmarks/models."""
    sys.path.insert(0, str(HERE.parent / "models"))
    from models import MODELS

    return next(m for m in MODELS if m.name == "ResNet-8 int8").make(), None


CASES = (
    Case("MLP 512-1024-1024-512-10 int8", mlp, (1, 512), 16),
    Case("MLP 512-1024-1024-512-10 int8", mlp, (1, 512), 4),
    Case("MLP 512-1024-1024-512-10 int8", mlp, (1, 512), 2),
    Case("MLP 512-1024-1024-512-10 int8", mlp, (1, 512), 16, port="wishbone"),
    Case("MLP 512-1024-1024-512-10 int8", mlp, (1, 512), 16, port="wishbone-pipelined"),
    Case("MLP 512-1024-1024-512-10 int8", mlp, (1, 512), 16, port="sdram"),
    Case("ResNet-8 int8", resnet, (1, 3, 32, 32), 16),
    Case("ResNet-8 int8", resnet, (1, 3, 32, 32), 16, 1_200_000),
)


def measure(case: Case, *, simulate: bool) -> dict[str, Any]:
    """Compile a model, and perhaps simulate it.

    Raises
    ------
    SystemExit
        When a bit or the number of cycles is wrong.
    """
    import tg2hdl
    from tg2hdl_top.external.budget import on_chip_bits

    model, in_numpy = case.make()
    x = np.random.default_rng(2).integers(-128, 128, case.shape).astype(np.int8)
    options = tg2hdl.CompileOptions(
        multipliers=case.multipliers,
        target="ecp5",
        weights="external",
        on_chip_bits=case.bits,
        memory_port=case.port,
    )
    accelerator = tg2hdl.compile(model, x, options=options)
    external, cycles = accelerator.design.external, accelerator.predicted_cycles
    assert external is not None, "asked for"
    products = sum(kernel.macs for kernel in accelerator.kernels)
    row = {
        "case": case.key,
        "model": case.name,
        "multipliers": case.multipliers,
        "port": case.port,
        "budget": case.bits,
        "on_chip": on_chip_bits(accelerator.design),
        "external_bytes": external.bytes,
        "tiles": len(external.tiles),
        "runs": len(accelerator.design.kernels),
        "cores": len(accelerator.design.core_plans),
        "cycles": cycles,
        "of_port": round(external.beats * getattr(external.model, "cycles_per_beat", 1) / cycles, 4),
        "of_multipliers": round(products / case.multipliers / cycles, 4),
        "notes": list(external.notes),
        "simulated": False,
    }
    if simulate:
        run = accelerator.simulate(x, engine="levelized")
        expected = in_numpy(x) if in_numpy is not None else accelerator.reference(x)
        if not np.array_equal(run.output, expected) or not np.array_equal(run.output, accelerator.golden(x)):
            sys.exit(f"WRONG: {case.key}: other bits")
        if run.cycles.compute != cycles:
            sys.exit(f"WRONG: {case.key}: {run.cycles.compute} cycles, {cycles} predicted")
        row["simulated"] = True
    return row


def port_cells(name: str) -> dict[str, Any]:
    """Cells of a port for an image of 2 MB, without place and route."""
    from amaranth.back import rtlil

    from tg2hdl_ir import registry, resolve
    from tg2hdl_sim.yosys import run_yosys
    from tg2hdl_top.external.memory_port import check_memory

    model = check_memory(name, None)
    port = resolve(registry().memory_port(name).port)(model, (2 << 20) // model.beat_bytes)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        (work / "port.il").write_text(rtlil.convert(port, emit_src=False))
        run_yosys("read_rtlil port.il\nsynth_ecp5 -top top\ntee -q -o stat.json stat -json\n", work)
        cells = Counter(json.loads((work / "stat.json").read_text())["design"]["num_cells_by_type"])
    luts = cells["LUT4"] + 2 * cells["CCU2C"] + 4 * cells["TRELLIS_DPR16X4"]
    return {"port": name, "bits": model.bits, "luts": luts, "ffs": cells["TRELLIS_FF"]}


def table(record: dict[str, Any]) -> str:
    """Markdown of the results."""
    from tg2hdl.bench import tools

    lines = [
        "# Weights in memory outside the chip",
        "",
        "Written by `python benchmarks/external/run.py --simulate`. The memory gives 32 bits a clock cycle at most,",
        "24 cycles after a request, and nothing in 12 of every 780 cycles; `sdram` is a chip of 16 bits at 100 MHz",
        "that is refreshed as its data sheet says. Rows marked with `=` were simulated: cycles were those predicted,",
        "every bit that of numpy (MLP) or of tinygrad (ResNet-8) and of the golden model. Bits of block RAM are whole",
        "blocks.",
        "",
        "| model | multipliers | bits on the chip, of | external bytes | tiles | runs / cores | port | cycles | of the "
        "port | of the multipliers | |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for r in record["rows"]:
        lines.append(
            f"| {r['model']} | {r['multipliers']} | {r['on_chip']:,} of {r['budget']:,} | {r['external_bytes']:,} | "
            f"{r['tiles']} | {r['runs']} / {r['cores']} | {r['port']} | {r['cycles']:,} | {r['of_port']:.1%} | "
            f"{r['of_multipliers']:.1%} | {'=' if r['simulated'] else ''} |"
        )
    if record.get("cells"):
        lines += [
            "",
            "Cells of the ports alone for an image of 2 MB (`--cells`), after synthesis for an ECP5:",
            "",
            "| port | bits | LUTs | flip-flops |",
            "|---|---|---|---|",
            *(f"| {c['port']} | {c['bits']} | {c['luts']:,} | {c['ffs']:,} |" for c in record["cells"]),
        ]
    return "\n".join([*lines, "", tools(record)]) + "\n"


def main() -> None:
    """Measure and record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--simulate", action="store_true", help="simulate too, and compare every bit")
    parser.add_argument("--cells", action="store_true", help="count the cells of the ports instead")
    parser.add_argument("--only", default="", help="part of the names of cases to measure")
    options = parser.parse_args()
    from tg2hdl.bench import write_results

    known = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {"rows": []}
    if options.cells:
        names = ("axi4", "wishbone", "wishbone-pipelined", "sdram")
        write_results(RESULTS, known | {"cells": [port_cells(name) for name in names]}, table)
        return
    rows = {row["case"]: row for row in known["rows"]}
    for case in CASES:
        if options.only.lower() not in case.key.lower():
            continue
        rows[case.key] = row = measure(case, simulate=options.simulate)
        print(case.key, row["cycles"], row["of_port"], row["of_multipliers"], flush=True)
        write_results(RESULTS, known | {"rows": [rows[c.key] for c in CASES if c.key in rows]}, table)


if __name__ == "__main__":
    main()

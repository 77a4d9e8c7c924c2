"""Streams: frames that are loaded and read while others are computed, and rows of which only a few are on the chip.

``python benchmarks/memory/rows.py [--only NAME...]`` writes ``rows.json`` and ``rows.md``; rows that were
not measured stay.  Each design sits behind ``axi-stream``, for an ECP5.

Small designs take four random packets without pauses, and four with pauses at both ends; all bits are compared with the
golden model, and the interval with the prediction.  The Sobel filter of 640 x 480 takes two frames, which are compared
with numpy.  The networks of 640 x 480 are not simulated: the same network of 16 x 12 is.  Yosys counts the block RAMs
of the filter and of the network with 16 multipliers.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from tinygrad import Tensor

import tg2hdl
from tg2hdl.bench import markdown_table, tools, write_results
from tg2hdl_backend.stream_runner import packets_on
from tg2hdl_synth import estimate_design
from tg2hdl_top import TopModule
from tg2hdl_top.memory_blocks import memory_blocks
from tg2hdl_top.ports.axi_stream import AxiStreamPort

HERE = Path(__file__).parent
RNG = np.random.default_rng(0)
MATRIX = RNG.integers(-128, 128, (64, 8)).astype(np.int8)
HORIZONTAL = np.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]], np.int8)
KERNELS = [RNG.integers(-127, 128, s).astype(np.int8) for s in ((8, 1, 3, 3), (8, 8, 3, 3), (1, 8, 3, 3))]
TAPS = [RNG.integers(-127, 128, s).astype(np.int8) for s in ((1, 1, 16), (1, 1, 8))]


def layer(x: Tensor) -> Tensor:
    return (x.cast("int32") @ Tensor(MATRIX).cast("int32")).relu()


def sobel(image: Tensor) -> Tensor:
    kernels = Tensor(np.stack([HORIZONTAL, HORIZONTAL.T])[:, None]).cast("int32")
    return image.cast("int32").conv2d(kernels, padding=1).abs().sum(axis=1).minimum(255).cast("uint8")


def sobel_in_numpy(image: np.ndarray) -> np.ndarray:
    padded = np.pad(image[0, 0].astype(np.int32), 1)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3))
    gradients = [np.abs((windows * k).sum((2, 3))) for k in (HORIZONTAL, HORIZONTAL.T)]
    return np.minimum(sum(gradients), 255).astype(np.uint8)


def requantized(sums: Tensor) -> Tensor:
    return ((sums + 128) >> 8).clip(0, 127).cast("int8")


def network(x: Tensor) -> Tensor:
    for kernel in KERNELS:
        x = requantized(x.cast("int32").conv2d(Tensor(kernel).cast("int32"), padding=1))
    return x


def audio(x: Tensor) -> Tensor:
    for taps in TAPS:
        x = requantized(x.cast("int32").conv2d(Tensor(taps).cast("int32"), padding=(taps.shape[-1] - 1, 0)))
    return x


CASES: dict[str, tuple[Any, tuple[int, ...], type, int, str, str]] = {
    "layer 64 to 8, one by one": (layer, (1, 64), np.int8, 8, "auto", "packets"),
    "layer 64 to 8": (layer, (1, 64), np.int8, 8, "dataflow", "packets"),
    "Sobel 32x24, one by one": (sobel, (1, 1, 24, 32), np.uint8, 4, "auto", "packets"),
    "Sobel 32x24": (sobel, (1, 1, 24, 32), np.uint8, 4, "dataflow", "packets"),
    "Sobel 32x24 by rows": (sobel, (1, 1, 24, 32), np.uint8, 4, "rows", "packets"),
    "Sobel 640x480 by rows": (sobel, (1, 1, 480, 640), np.uint8, 4, "rows", "frames"),
    "CNN 1-8-8-1 16x12 by rows": (network, (1, 1, 12, 16), np.int8, 16, "rows", "packets"),
    "CNN 1-8-8-1 640x480 by rows, x16": (network, (1, 1, 480, 640), np.int8, 16, "rows", "synthesis"),
    "CNN 1-8-8-1 640x480 by rows, x144": (network, (1, 1, 480, 640), np.int8, 144, "rows", "plan"),
    "FIR of 16 taps, Conv1d of 8, by samples": (audio, (1, 1, 400), np.int8, 4, "rows", "packets"),
}


def row(name: str) -> dict[str, Any]:
    model, shape, dtype, multipliers, schedule, how = CASES[name]
    options = tg2hdl.CompileOptions(
        ports=("axi-stream",),
        schedule=schedule,
        target="ecp5",
        multipliers=multipliers,
        validate="off" if how in ("plan", "synthesis") else "auto",
    )
    accelerator = tg2hdl.compile(model, np.zeros(shape, dtype), options=options, name="stream")
    design, times = accelerator.design, accelerator.design.timeline()
    serves = design.ports[0].serves
    interval = times.interval
    if not design.sequencer.rows:
        fixed = times.interval if design.sequencer.interval else 0
        interval = AxiStreamPort.run_interval(serves, times.latency, fixed)
    blocks = memory_blocks(design)
    found: dict[str, Any] = {
        "name": name,
        "schedule": schedule,
        "multipliers": multipliers,
        "interval": interval,
        "block RAMs": sum(blocks.values()),
        "by buffer": {buffer: count for buffer, count in blocks.items() if count},
        "frames/s at 100 MHz": round(1e8 / interval, 1),
    }
    if how == "packets":
        found["simulated"] = packets(accelerator, shape, dtype, interval)
    if how == "frames":
        found["simulated"] = frames(accelerator, shape, interval)
    if how in ("frames", "synthesis"):
        estimate = estimate_design(TopModule(design), "ecp5-25k")
        found |= {"estimated": estimate.bram if estimate else "-", "Yosys": yosys_blocks(accelerator)}
    return found


def packets(accelerator: Any, shape: tuple[int, ...], dtype: type, interval: int) -> str:
    high = np.iinfo(dtype).max
    inputs = [RNG.integers(0, high, shape).astype(dtype) for _ in range(4)]
    wanted = [np.asarray(accelerator.golden(x)).reshape(-1) for x in inputs]
    name = next(b.name for b in accelerator.design.program.buffers if b.role == "input")
    given, limit = [{name: x} for x in inputs], 40 * interval + 10_000
    found = packets_on(accelerator.design, given, limit=limit)
    spaced = {int(n) for n in np.diff(found.sent)}
    assert spaced == {interval}, (spaced, interval)
    late = packets_on(
        accelerator.design,
        given,
        limit=limit,
        offers=lambda cycle: RNG.random() < 0.6,
        takes=lambda cycle: RNG.random() < 0.6,
    )
    for outputs in (found.outputs, late.outputs):
        for (y,), want in zip(outputs, wanted, strict=True):
            np.testing.assert_array_equal(y, want)
    return "4 packets and 4 with pauses, 0 differ"


def frames(accelerator: Any, shape: tuple[int, ...], interval: int) -> str:
    inputs = [RNG.integers(0, 256, shape).astype(np.uint8) for _ in range(2)]
    name = next(b.name for b in accelerator.design.program.buffers if b.role == "input")
    found = packets_on(accelerator.design, [{name: x} for x in inputs], limit=4 * interval)
    for x, (y,) in zip(inputs, found.outputs, strict=True):
        np.testing.assert_array_equal(y.reshape(shape[2:]), sobel_in_numpy(x))
    assert found.sent[1] - found.sent[0] == interval, found.sent
    return "2 frames against numpy, 0 differ"


def yosys_blocks(accelerator: Any) -> int:
    made = accelerator.synthesize("ecp5-25k", place=False, pack_registers=False)
    return int(made.cells["bram"])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="*", default=list(CASES), help="names of rows")
    chosen = parser.parse_args().only
    path = HERE / "rows.json"
    known = {r["name"]: r for r in json.loads(path.read_text())["rows"]} if path.exists() else {}
    for name in chosen:
        known[name] = row(name)
        print(known[name], flush=True)
        rows = [known[n] for n in CASES if n in known]
        write_results(path, {"rows": rows}, table)


def table(made: dict[str, Any]) -> str:
    columns = (
        "name",
        "schedule",
        "multipliers",
        "interval",
        "frames/s at 100 MHz",
        "block RAMs",
        "estimated",
        "Yosys",
        "simulated",
    )
    lines = [
        "# Streams",
        "",
        f"{tools(made)}. Made by `python benchmarks/memory/rows.py`. Cycles from packet to packet "
        "behind `axi-stream` without pauses, as predicted; DP16KD of an ECP5 by the plan, by the estimate, by Yosys.",
        "",
        *markdown_table(columns, ([row.get(column, "-") for column in columns] for row in made["rows"])),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()

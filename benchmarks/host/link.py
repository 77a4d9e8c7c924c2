"""What the serial line carries for an image, measured in the simulation of design and line.

    python benchmarks/host/link.py    writes link.json and link.md; a minute

The design is the digits MLP of examples/digits. Bits take 50 clock cycles, as at 100 MHz; two batches are compared, so
that what both have at their ends cancels. All results are compared with the golden model.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

import tg2hdl
from tg2hdl.bench import json_text, markdown_table
from tg2hdl.model_file import load_model_file
from tg2hdl.serve import open_line
from tg2hdl_host import Device

HERE = Path(__file__).parent
BAUD = 2_000_000
CLOCK = 100_000_000
BATCHES = (5, 30)


def cycles(accelerator: tg2hdl.Accelerator, *, packet_run: bool) -> float:
    """Clock cycles of an image."""
    batch = np.random.default_rng(0).integers(-128, 128, (BATCHES[1], 1, 64)).astype(np.int8)
    found = []
    for count in BATCHES:
        line = open_line(accelerator.design, divisor=CLOCK // BAUD)
        with Device(line, timeout=60) as device:
            device.description = replace(device.description, packet_run=packet_run)
            before = line._simulation.cycles
            results = device.run(batch[:count])
            found.append(line._simulation.cycles - before)
        for x, y in zip(batch, results, strict=False):
            np.testing.assert_array_equal(y, accelerator.golden(x))
    return (found[1] - found[0]) / (BATCHES[1] - BATCHES[0])


def main() -> None:
    """Measure and record."""
    file = load_model_file(str(HERE.parents[1] / "examples" / "digits" / "int8_mlp.py"))
    options = tg2hdl.CompileOptions(ports=("uart",), multipliers=1)
    accelerator = tg2hdl.compile(file.model, *file.example_inputs, options=options)
    rows = []
    for name, packet_run in (
        ("a packet for the input, the start and the output", False),
        ("one packet", True),
    ):
        size = cycles(accelerator, packet_run=packet_run) / (CLOCK // BAUD) / 10
        rows.append(
            {"requests": name, "bytes of an image": round(size, 1), "images/s": round(BAUD / 10 / size)}
        )
        print(rows[-1], flush=True)
    rows.append({"requests": "nothing but the 64 bytes", "bytes of an image": 64.0, "images/s": BAUD // 640})
    (HERE / "link.json").write_text(json_text(rows))
    lines = [f"Time of an image of 64 bytes on the serial line, in bytes, and images/s at {BAUD:,} baud.", ""]
    lines += markdown_table(list(rows[0]), (row.values() for row in rows))
    (HERE / "link.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()

"""What each host port costs: cycles to bring the inputs and fetch the results, and cells.

    python benchmarks/ports/run.py          writes ports.json and ports.md; about a minute
    python benchmarks/ports/run.py --fit    fits the estimate of LUTs to them, and prints its errors

The design is a layer of 64 to 10 int8 values with int32 results, 10 multipliers, simulated through the driver of each
port, and compared with numpy.  Cells are those of the port alone after Yosys' synthesis for an ECP5, without place and
route; a link takes 8 cycles for a bit of the serial line, 12 for one of SPI, 4 for one
of USB, whose inputs include the configuration of the device, and 1 for a byte of UDP.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
from amaranth.back import rtlil
from tinygrad import Tensor

import tg2hdl
from tg2hdl.bench import json_text, markdown_table
from tg2hdl_sim.yosys import run_yosys
from tg2hdl_synth.rtlil import read_rtlil
from tg2hdl_synth.words import count_words
from tg2hdl_top.ports import build_port

HERE = Path(__file__).parent
PORTS = ("native", "axi-stream", "axi-lite", "wishbone", "uart", "spi", "udp", "usb")
W = np.random.default_rng(0).integers(-128, 128, (64, 10), dtype=np.int8)


def layer(x):
    return x.cast("int32") @ Tensor(W).cast("int32")


def compiled(port: str) -> tuple[tg2hdl.Accelerator, np.ndarray]:
    x = np.random.default_rng(1).integers(-128, 128, (1, 64), dtype=np.int8)
    options = tg2hdl.CompileOptions(ports=(port,), multipliers=10, target="ecp5")
    return tg2hdl.compile(layer, x, options=options, name="layer"), x


def fit() -> None:
    """Print LUTs for each bit of sums and of choices of processes, with the smallest sum of squared relative errors."""
    found = {row["port"]: row["LUTs"] for row in json.loads((HERE / "ports.json").read_text())}
    ports = [port for port in PORTS if found[port]]
    contents = [count_words(read_rtlil(port_rtlil(compiled(port)[0]))).values() for port in ports]
    shares = np.array(
        [
            [sum(words.bits["add"] for words in modules), sum(words.choices for words in modules)]
            for modules in contents
        ]
    ) / np.array([[found[port]] for port in ports])
    costs, *_ = np.linalg.lstsq(shares, np.ones(len(ports)))
    print(f"a bit of a sum {costs[0]:.2f}, of a choice {costs[1]:.2f}")
    errors = dict(zip(ports, shares @ costs - 1, strict=True))
    print(", ".join(f"{port} {error:+.0%}" for port, error in errors.items()))
    print(f"median error {np.median(np.abs(list(errors.values()))):.1%}")


def row(port: str) -> dict[str, object]:
    accelerator, x = compiled(port)
    result = accelerator.simulate(x)
    np.testing.assert_array_equal(result.output, x.astype(np.int32) @ W.astype(np.int32))
    assert result.cycles.compute == accelerator.predicted_cycles
    cells = port_cells(accelerator)
    cycles = result.cycles
    return {
        "port": port,
        "inputs": cycles.load,
        "run": cycles.compute,
        "results": cycles.readback,
        "LUTs": cells["LUT4"] + 2 * cells["CCU2C"] + 4 * cells["TRELLIS_DPR16X4"],
        "FFs": cells["TRELLIS_FF"],
        "block RAMs": cells["DP16KD"],
    }


def port_rtlil(accelerator: tg2hdl.Accelerator) -> str:
    """RTLIL of the port; empty for a native one, which is nothing but wires."""
    (plan,) = accelerator.design.ports
    return "" if plan.kind == "native" else rtlil.convert(build_port(plan), emit_src=False)


def port_cells(accelerator: tg2hdl.Accelerator) -> Counter[str]:
    text = port_rtlil(accelerator)
    if not text:
        return Counter()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        (work / "port.il").write_text(text)
        run_yosys("read_rtlil port.il\nsynth_ecp5 -top top\ntee -q -o stat.json stat -json\n", work)
        return Counter(json.loads((work / "stat.json").read_text())["design"]["num_cells_by_type"])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--fit", action="store_true")
    if parser.parse_args().fit:
        return fit()
    rows = []
    for port in PORTS:
        rows.append(row(port))
        print(rows[-1], flush=True)
    (HERE / "ports.json").write_text(json_text(rows))
    lines = markdown_table(list(rows[0]), (row.values() for row in rows))
    (HERE / "ports.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()

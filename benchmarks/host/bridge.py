"""Single calls behind the USB bridge of a board, by its latency timer.

    python benchmarks/host/bridge.py    writes bridge.json and bridge.md; ten seconds

The bridge is `tg2hdl_host.testing.UsbBridge`: packets of 62 bytes, and a latency timer that starts with the first byte
of a packet. The device is the one of the driver's tests, in the same process; the time of bytes on the line and of the
bus is left out, so that the rates are those of the driver and the timer. All results are compared. "In one packet" is a
design of one small input and output; the others write the input, start, and read the output.
"""

from __future__ import annotations

import platform
import statistics
import sys
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np

from tg2hdl.bench import json_text, markdown_table
from tg2hdl_host import Device
from tg2hdl_host.testing import UsbBridge

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "packages/tg2hdl-host/tests/helpers"))
from fake_device import DisturbedLine, FakeDevice  # noqa: E402

LATENCIES = (0.016, 0.001, 0.0)
SECONDS = 1.0


def rate(latency: float, *, packet_run: bool, state: bool) -> float:
    """Calls per second, by the median of their times: other programs of the machine take turns with this one."""
    bridge = UsbBridge(DisturbedLine(FakeDevice(packet_run=packet_run, state=state)), latency)
    device = Device(bridge, timeout=5)
    inputs = np.random.default_rng(0).integers(-128, 128, (64, 1, 8), dtype=np.int8)
    device(inputs[0])
    total = int(inputs[0].sum(dtype=np.int64))
    seconds: list[float] = []
    while sum(seconds) < SECONDS:
        x = inputs[len(seconds) % len(inputs)]
        begun = time.perf_counter()
        found = device(x)
        seconds.append(time.perf_counter() - begun)
        own = int(x.sum(dtype=np.int64))
        total += own
        assert found[0] == (total if state else own)
    return 1 / statistics.median(seconds)


def main() -> None:
    rows = []
    for name, packet_run, state in (
        ("in one packet", True, False),
        ("in one packet, with state", True, True),
        ("write, start, read", False, False),
        ("write, start, read, with state", False, True),
    ):
        rates = {latency: rate(latency, packet_run=packet_run, state=state) for latency in LATENCIES}
        rows.append({"call": name} | {f"{1000 * t:g} ms": round(found) for t, found in rates.items()})
        print(rows[-1], flush=True)
    facts = {
        "date": time.strftime("%Y-%m-%d"),
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "calls per second": rows,
    }
    (HERE / "bridge.json").write_text(json_text(facts))
    lines = [
        "Single calls per second behind a USB bridge whose latency timer has so many milliseconds "
        f"({facts['date']}, Python {facts['python']}, numpy {facts['numpy']}).",
        "",
        *markdown_table(list(rows[0]), (row.values() for row in rows)),
    ]
    (HERE / "bridge.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()

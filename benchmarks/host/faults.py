"""Faults on the link of the driver, in both directions: cut, doubled, exchanged, changed, added and late bytes of a
line, and lost, doubled, late, reordered and cut datagrams.

    python benchmarks/host/faults.py             100,000 faults of each; writes faults.json and faults.md
    python benchmarks/host/faults.py 2000        fewer, printed only

Each call of the driver must end with the right results, or with an error that names a stage. The device is the one of
the driver's tests, written from the description of the protocol, without and with state between its runs, with a run in
one packet and in several, in batches and in single calls.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from pathlib import Path

import numpy as np

import tg2hdl_host.link
from tg2hdl.bench import json_text, markdown_table
from tg2hdl_host import Device, HostError

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "packages/tg2hdl-host/tests/helpers"))
from fake_device import DisturbedLine, DisturbedNetwork, FakeDevice  # noqa: E402

WANTED = 100_000
MOST_READS = 200_000
"""Reads of the line in one call after which it counts as hanging; the line answers each at once."""


class Hang(Exception):
    """A call goes on and on."""


def faults(wanted: int, link: type = DisturbedLine) -> dict[str, object]:
    count, stages, most, seed = Counter(), Counter(), 0, 0
    while count["faults"] < wanted:
        seed, state = seed + 1, bool(seed % 2)
        rng = random.Random(seed)
        tg2hdl_host.link.secrets.randbits = rng.getrandbits
        line = link(FakeDevice(state=state, packet_run=seed % 4 > 1), 0.0, seed)
        reads, read = 0, line.read

        def counted(timeout: float, read=read) -> bytes:
            nonlocal reads
            reads += 1
            if reads > MOST_READS:
                raise Hang
            return read(timeout)

        line.read = counted
        device = Device(line, timeout=60, attempts=20)
        line.probability = (0.02, 0.1, 0.3)[seed % 3]
        batch = np.random.default_rng(seed).integers(-128, 128, (12, 1, 8), dtype=np.int8)
        sums = batch.astype(np.int64).sum(axis=(1, 2))
        expected = np.cumsum(sums) if state else sums
        try:
            # In one call, or in twelve, which start by the number that they expect.
            found = np.array(device.run(batch) if seed % 8 < 4 else [device(x) for x in batch])
            count["wrong results"] += int((found != expected[:, None] * [1, 2, 3]).any(axis=1).sum())
            count["right results"] += int((found == expected[:, None] * [1, 2, 3]).all(axis=1).sum())
        except HostError as error:
            stages[error.stage] += 1
        except Hang:
            count["hangs"] += 1
        count["calls"] += 1
        count["faults"] += line.faults
        most = max(most, reads)
    return {
        "faults": count["faults"],
        "batches of 12 inputs": count["calls"],
        "right results": count["right results"],
        "wrong results": count["wrong results"],
        "hangs": count["hangs"],
        "batches that ended with an error": sum(stages.values()),
        "stages of the errors": dict(sorted(stages.items())),
        "most reads of the link in a batch": most,
    }


def main() -> None:
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else WANTED
    found = {"line": faults(wanted), "datagrams": faults(wanted, DisturbedNetwork)}
    rows = zip(*(column.items() for column in found.values()), strict=True)
    text = "\n".join(markdown_table(["", *found], ((*a, b[1]) for a, b in rows))) + "\n"
    print(text)
    if wanted >= WANTED:
        (HERE / "faults.json").write_text(json_text(found))
        (HERE / "faults.md").write_text(text)
    sys.exit(any(column["wrong results"] or column["hangs"] for column in found.values()))


if __name__ == "__main__":
    main()

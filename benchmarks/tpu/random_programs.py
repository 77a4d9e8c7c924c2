"""Random programs on the simulated hardware against the simulator in software.

python benchmarks/tpu/random_programs.py [NAME ...] [--instructions 1000000] [--seconds S]

Compares trap, program counter, cycles and both memories of every program; ends with status 1 at a difference.  Goes on
where random_programs.json ends, unless netlist or simulator have changed since, and writes it after every minute.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from amaranth.back import rtlil

import tg2hdl_tpu
from tg2hdl.bench import json_text
from tg2hdl_tpu import Config, run_bundle
from tg2hdl_tpu.hardware.chip import Chip
from tg2hdl_tpu.hardware.simulate import Hardware
from tg2hdl_tpu.isa import Trap
from tg2hdl_tpu.testing import random_bundle

RESULTS = Path(__file__).with_suffix(".json")
SMALL = {"lanes": 4, "rows": 2, "columns": 2, "vmem_rows": 32, "xmem_rows": 64}
CONFIGS = {
    "plain": Config(**SMALL),
    "eight lanes": Config(
        lanes=8, rows=4, columns=8, vmem_rows=64, xmem_rows=64, read_registers=1, pre_registers=2, alu_registers=2,
        reduce_registers=2, memory_latency=7, memory_interval=2, refresh_period=50, refresh_cycles=9,
    ),
    "ecp5": Config.ecp5(**SMALL, memory_latency=3),
    "narrow crossbar": Config.ecp5(**SMALL, crossbar_lanes=1),
    "one layer of reduction": Config.ecp5(**SMALL, reduce_layers=1),
    "functions": Config.ecp5(**SMALL, float=True, functions=True, divide=True, float_lanes=2),
    "sums": Config.ecp5(**{**SMALL, "columns": 4}, output_stationary=True),
    "sums, no registers": Config(**{**SMALL, "columns": 4}, output_stationary=True),
    "int16": Config.ecp5(**{**SMALL, "columns": 4}, output_stationary=True, matrix_format="int16"),
    "int16, no registers": Config(**{**SMALL, "columns": 4}, output_stationary=True, matrix_format="int16"),
    "bf16": Config.ecp5(**{**SMALL, "columns": 4}, matrix_format="bf16"),
    "fp32": Config(**{**SMALL, "rows": 4}, matrix_format="fp32"),
}  # fmt: skip


def machine(config: Config) -> str:
    """Return a digest of what is compared: the netlist, and the simulator in software with its programs."""
    root = Path(tg2hdl_tpu.__file__).parent
    netlist = rtlil.convert(Chip(config), name="top", emit_src=False)
    digest = hashlib.sha256(netlist.encode())
    files = [
        *root.glob("native/*"),
        *(root / f"{name}.py" for name in ("csource", "isa", "testing", "vector_ops")),
    ]
    for file in sorted(files):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def compare(hardware: Hardware, config: Config, seed: int, length: int) -> tuple[Any, Any]:
    """Run a program on both; returns the result in software, and what differs or None."""
    # Programs that may trap end early: one in four.
    bundle = random_bundle(seed, config, length=length, traps=seed % 4 == 3)
    expected = run_bundle(bundle)
    found = hardware.run_bundle(bundle)
    same = (found.trap, found.pc) == (expected.trap, expected.pc)
    if expected.trap not in (Trap.INDEX, Trap.FORMAT):
        same &= found.cycles == expected.cycles
    same &= all((found.outputs[k] == v).all() for k, v in expected.outputs.items())
    return expected, None if same else [(r.trap.name, r.pc, r.cycles) for r in (found, expected)]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help=f"machines: {', '.join(CONFIGS)}")
    parser.add_argument("--instructions", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="end after these")
    parser.add_argument("--length", type=int, default=400)
    arguments = parser.parse_args()
    state: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    names = arguments.names or list(CONFIGS)
    end = time.monotonic() + arguments.seconds
    for name in names:
        config = CONFIGS[name]
        mine = state.get(name, {})
        present = machine(config)
        if mine.get("machine") != present:
            mine = {"config": json.loads(config.to_json()), "machine": present, "ended": {}}
            mine |= dict.fromkeys(("programs", "instructions", "cycles", "different"), 0)
        state[name] = mine
        ended = Counter(mine["ended"])
        with Hardware(config, engine="levelized") as hardware:
            written = time.monotonic()
            while mine["instructions"] < arguments.instructions // len(CONFIGS) and time.monotonic() < end:
                expected, difference = compare(hardware, config, mine["programs"], arguments.length)
                if difference:
                    mine["different"] += 1
                    print(f"{name}, seed {mine['programs']}: hardware, software: {difference}", flush=True)
                mine["programs"] += 1
                mine["instructions"] += expected.instructions
                mine["cycles"] += expected.cycles
                ended[expected.trap.name.lower()] += 1
                mine["ended"] = dict(sorted(ended.items()))
                if time.monotonic() > written + 60:
                    written = time.monotonic()
                    RESULTS.write_text(json_text(state))
        RESULTS.write_text(json_text(state))
        print(f"{name}: {mine}", flush=True)
    different = sum(machine["different"] for machine in state.values())
    total = sum(machine["instructions"] for machine in state.values())
    print(f"{total} instructions, {different} programs differ")
    return int(different > 0)


if __name__ == "__main__":
    sys.exit(main())

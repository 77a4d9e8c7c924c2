"""Random programs on the simulated hardware against the simulator in software.

python benchmarks/tpu/random_programs.py [--instructions 1000000] [--first SEED]

Compares trap, program counter, cycles and both memories of every program; ends with status 1 at a difference.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from tg2hdl_tpu import Config, run_bundle
from tg2hdl_tpu.hardware.simulate import Hardware
from tg2hdl_tpu.isa import Trap
from tg2hdl_tpu.testing import random_bundle

CONFIGS = {
    "plain": Config(lanes=4, rows=2, columns=2, vmem_rows=32, xmem_rows=64),
    "deep": Config(
        lanes=8, rows=4, columns=8, vmem_rows=64, xmem_rows=64, read_registers=1, pre_registers=2, alu_registers=2,
        reduce_registers=2, memory_latency=7, memory_interval=2, refresh_period=50, refresh_cycles=9,
    ),
    "sixteen": Config(
        vmem_rows=128, xmem_rows=64, read_registers=1, pre_registers=1, alu_registers=1, reduce_registers=1
    ),
}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--instructions", type=int, default=1_000_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--length", type=int, default=400)
    arguments = parser.parse_args()
    different = 0
    for name, config in CONFIGS.items():
        seed, instructions, cycles = arguments.first, 0, 0
        ended: Counter[str] = Counter()
        begun = time.process_time()
        with Hardware(config, engine="levelized") as hardware:
            while instructions < arguments.instructions // len(CONFIGS):
                # Programs that may trap end early: one in four.
                bundle = random_bundle(seed, config, length=arguments.length, traps=seed % 4 == 3)
                expected = run_bundle(bundle)
                found = hardware.run_bundle(bundle)
                same = (found.trap, found.pc) == (expected.trap, expected.pc)
                if expected.trap not in (Trap.INDEX, Trap.INT8):
                    same &= found.cycles == expected.cycles
                same &= all((found.outputs[k] == v).all() for k, v in expected.outputs.items())
                if not same:
                    different += 1
                    results = [(r.trap.name, r.pc, r.cycles) for r in (found, expected)]
                    print(f"{name}, seed {seed}: hardware {results[0]}, software {results[1]}")
                seed += 1
                instructions += expected.instructions
                cycles += expected.cycles
                ended[expected.trap.name.lower()] += 1
        seconds = time.process_time() - begun
        print(
            f"{name}: {instructions} instructions, {cycles} cycles, {seconds:.0f} s, ended by {dict(ended)}",
            flush=True,
        )
    print(f"{different} programs differ")
    return int(different > 0)


if __name__ == "__main__":
    sys.exit(main())

"""Place and route of a tensor core on an ECP5.

python benchmarks/tpu/fit.py [--part ecp5-45k] [--rows 4] [--columns 4] [--lanes 16] [--depth read,pre,alu,reduce]
"""

from __future__ import annotations

import argparse

from tg2hdl_synth import synthesize
from tg2hdl_tpu import Config
from tg2hdl_tpu.hardware.core import TensorCore


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", default="ecp5-45k")
    parser.add_argument("--speed", type=int, default=6)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--rows", type=int, default=4)
    parser.add_argument("--columns", type=int, default=4)
    parser.add_argument("--lanes", type=int, default=16)
    parser.add_argument("--depth", default="1,2,2,2")
    arguments = parser.parse_args()
    read, pre, alu, combine = map(int, arguments.depth.split(","))
    config = Config(
        lanes=arguments.lanes,
        rows=arguments.rows,
        columns=arguments.columns,
        read_registers=read,
        pre_registers=pre,
        alu_registers=alu,
        reduce_registers=combine,
    )
    result = synthesize(TensorCore(config), part=arguments.part, speed=arguments.speed, seeds=arguments.seeds)
    print(result.format())


if __name__ == "__main__":
    main()

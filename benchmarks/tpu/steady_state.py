"""Long vectors and a large matrix product on the default machine, against the limit of its port or array.

python benchmarks/tpu/steady_state.py [--hardware]

Every result is checked against numpy; `--hardware` runs the simulated netlist too and compares cycles and results.
"""

from __future__ import annotations

import argparse

import numpy as np

from tg2hdl_tpu import Bundle, Config, assemble, run_bundle
from tg2hdl_tpu.bundle import Region
from tg2hdl_tpu.hardware.simulate import Hardware

GEMM = """
# A: 64 x 64 bytes in rows 0 to 63.  Tiles of W, 4 a row, in rows 64 to 127.  C: rows 512 to 767.
        loop #4                                              # a4: 16 columns, one row of C
        loop #4                                              # a3: 4 columns, one segment of C
        tile v[256+a2], mxu8
        copy v[2048+a3:16], v[0:16], n=64 mxu8 seg=4
        set  a1, #1
        set  a2, a2, #1
        loop #15
        tile v[256+a2], mxu8
        add  v[2048+a3:16], v[a1:16], v[512+a4:4], n=64 mxu8 seg=4
        set  a1, a1, #1
        set  a2, a2, #1
        end
        set  a3, a3, #1
        end
        set  a4, a4, #1
        end
        halt
.out r vmem 512 256
"""


def cases(config: Config) -> dict[str, tuple[Bundle, np.ndarray, float]]:
    """Return by name: the program, what it must return, and the cycles of the limit."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-(1 << 31), 1 << 31, 4096).astype(np.int32).reshape(256, 16) for _ in range(2))
    out = ".out r vmem 512 256\n"
    found = {}

    def put(name: str, text: str, data: list[np.ndarray], expected: np.ndarray, limit: float) -> None:
        program = assemble(text, config, name=name)
        regions, start = [], 0
        for rows in data:
            regions.append(Region("vmem", start, np.ascontiguousarray(rows)))
            start += len(rows)
        bundle = Bundle(config, program.program, tuple(regions), program.outputs)
        found[name] = (bundle, expected.reshape(-1, 16), limit)

    put("add 4096", f"add v[512], v[0], v[256], n=256\nhalt\n{out}", [a, b], a + b, 256)
    put("relu 4096", f"copy v[512], v[0], n=256 relu\nhalt\n{out}", [a], np.maximum(a, 0), 256)
    put("copy 4096", f"copy v[512], v[0], n=256\nhalt\n{out}", [a], a, 256)
    total = np.full((1, 16), a.sum(dtype=np.int64).astype(np.int32))
    put(
        "sum 4096",
        "copy v[512], v[0], n=256 acc reduce=add levels=15\nhalt\n.out r vmem 512 1\n",
        [a],
        total,
        256,
    )
    x, w = (rng.integers(-128, 128, (64, 64)) for _ in range(2))
    tiles = w.reshape(16, 4, 16, 4).transpose(2, 0, 1, 3)  # by columns, then by rows
    data = [v.astype(np.int8).reshape(64, 64).view(np.int32) for v in (x, np.ascontiguousarray(tiles))]
    put("GEMM 64x64x64", GEMM, data, (x @ w).astype(np.int32), 64**3 / (config.rows * config.columns))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hardware", action="store_true")
    arguments = parser.parse_args()
    config = Config()
    hardware = Hardware(config, engine="levelized") if arguments.hardware else None
    print("| kernel | cycles | limit | of the limit |\n|---|---|---|---|")
    for name, (bundle, expected, limit) in cases(config).items():
        result = run_bundle(bundle)
        np.testing.assert_array_equal(result.outputs["r"], expected)
        if hardware:
            found = hardware.run_bundle(bundle)
            np.testing.assert_array_equal(found.outputs["r"], expected)
            assert found.cycles == result.cycles
        print(f"| {name} | {result.cycles} | {limit:.0f} | {100 * limit / result.cycles:.1f} % |")


if __name__ == "__main__":
    main()

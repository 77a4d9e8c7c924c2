"""Long vectors and a large matrix product, against the limit of port or array.

python benchmarks/tpu/steady_state.py [--hardware]

Every result is checked against numpy; `--hardware` runs the simulated netlist of the machine too and compares
cycles and results.  sweep.py has other sizes.
"""

from __future__ import annotations

import argparse

import numpy as np

from tg2hdl_tpu import Bundle, Config, Region, assemble, run_bundle
from tg2hdl_tpu.hardware.simulate import Hardware

WORDS, SIZE = 4096, 64


def gemm(config: Config) -> str:
    """Return a product of matrices of `SIZE`: one tile of weights after the other, sums in the scratchpad."""
    rows, columns, lanes, mode = config.rows, config.columns, config.lanes, config.packed_mode
    add = "fadd" if config.matrix_is_float else "add"
    c = 2 * SIZE * SIZE // config.packed  # rows of two packed matrices
    a_stride, c_stride = SIZE // rows, SIZE // columns
    whole = rows * columns <= config.packed
    # A tile at once, or tile row by tile row; a2 is its address in tiles or in tile rows.
    first = SIZE * SIZE // (rows * columns if whole else columns)
    tile = f"tile v[{first}+a2], {mode}" if whole else f"weights v[{first}+a2], n={rows} {mode}"
    per_row = max(1, lanes // columns)  # segments of a row of C
    options = f"n={SIZE} {mode} seg={columns}"
    step = 1 if whole else rows
    return f"""
        # A: packed from row 0 on.  Tiles of W behind, by columns, then by rows.  C behind: words.
        loop #{c_stride // per_row}                    # a4: row of C
        loop #{per_row}                                # a3: segment of C
        {tile}
        copy v[{c * lanes // columns}+a3:{c_stride}], v[0:{a_stride}], {options}
        set  a1, #1
        set  a2, a2, #{step}
        loop #{a_stride - 1}
        {tile}
        {add}  v[{c * lanes // columns}+a3:{c_stride}], v[a1:{a_stride}], v[{c}+a4:{SIZE // lanes}], {options}
        set  a1, a1, #1
        set  a2, a2, #{step}
        end
        set  a3, a3, #1
        end
        set  a4, a4, #1
        end
        halt
.out r vmem {c} {SIZE * SIZE // lanes}
"""


def gemm_of_sums(config: Config) -> str:
    """Return the same product, with the sums of a tile of C in the matrix unit, which are then written."""
    rows, columns, lanes = config.rows, config.columns, config.lanes
    packed = SIZE * SIZE // (4 * lanes)
    c = 2 * packed
    per_row = SIZE // columns  # tiles of C side by side
    return f"""
        # Transposed A from row 0 on, W behind: row k has the bytes that are multiplied by each other.
        loop #{SIZE // rows}                          # a1: tile of A; a3: segment of C
        set  a2, #0
        loop #{per_row}                               # a2: tile of W
        outer v[a1:{SIZE // rows}], v[{packed * 4 * lanes // columns}+a2:{per_row}], n={SIZE} mxu8
        copy v[{c * lanes // columns}+a3:{per_row}], s[0], n={rows} seg={columns}
        set  a2, a2, #1
        set  a3, a3, #1
        end
        set  a1, a1, #1
        set  a3, a3, #{(rows - 1) * per_row}
        end
        halt
.out r vmem {c} {SIZE * SIZE // lanes}
"""


def gemm_of_floats(config: Config) -> tuple[Bundle, np.ndarray, float]:
    """Return the product of matrices of floats, what it must return to the last bit, and the cycles of the limit."""
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(2, SIZE, SIZE)).astype(np.float32)
    if config.matrix_bits == 16:
        x, w = ((v.view(np.uint32) & 0xFFFF0000).view(np.float32) for v in (x, w))
    rows, columns = config.rows, config.columns
    tiles = w.reshape(SIZE // rows, rows, SIZE // columns, columns).transpose(2, 0, 1, 3)
    data = []
    for values in (x, tiles):
        words = np.ascontiguousarray(values).view(np.uint32)
        halves = (words >> 16).astype(np.uint16) if config.matrix_bits == 16 else words
        data.append(halves.reshape(-1, config.packed).view(np.int32))
    total = np.zeros((SIZE, SIZE), np.float32)
    for k in range(0, SIZE, rows):
        terms = [x[:, k + i, None] * w[k + i] for i in range(rows)]
        while len(terms) > 1:
            terms = [a + b for a, b in zip(terms[::2], terms[1::2], strict=True)]
        total = terms[0] + total if k else terms[0]
    program = assemble(gemm(config), config, name="GEMM")
    regions = (Region("vmem", 0, data[0]), Region("vmem", len(data[0]), data[1]))
    bundle = Bundle(config, program.program, regions, program.outputs)
    return bundle, total.view(np.int32).reshape(-1, config.lanes), SIZE**3 / (rows * columns)


def cases(config: Config) -> dict[str, tuple[Bundle, np.ndarray, float]]:
    """Return by name: the program, what it must return, and the cycles of the limit."""
    rng = np.random.default_rng(0)
    lanes, n = config.lanes, WORDS // config.lanes
    half = config.vmem_rows // 2
    a, b = (
        rng.integers(-(1 << 31), 1 << 31, WORDS, dtype=np.int64).astype(np.int32).reshape(n, lanes)
        for _ in "ab"
    )
    found = {}

    def put(name: str, text: str, data: list[np.ndarray], expected: np.ndarray, limit: float) -> None:
        program = assemble(text, config, name=name)
        regions, start = [], 0
        for rows in data:
            regions.append(Region("vmem", start, np.ascontiguousarray(rows)))
            start += len(rows)
        bundle = Bundle(config, program.program, tuple(regions), program.outputs)
        found[name] = (bundle, expected.reshape(-1, lanes), limit)

    def vector(text: str) -> str:
        # An instruction has at most 1,023 rows.
        part = min(n, 512)
        parts = [text.format(to=half + k, a=k, b=n + k, n=part) for k in range(0, n, part)]
        return "\n".join([*parts, "halt", f".out r vmem {half} {n}", ""])

    put(f"add {WORDS}", vector("add v[{to}], v[{a}], v[{b}], n={n}"), [a, b], a + b, n)
    put(f"relu {WORDS}", vector("copy v[{to}], v[{a}], n={n} relu"), [a], np.maximum(a, 0), n)
    put(f"copy {WORDS}", vector("copy v[{to}], v[{a}], n={n}"), [a], a, n)
    if n < 1024:
        total = np.full((1, lanes), a.sum(dtype=np.int64).astype(np.int32))
        text = f"copy v[{half}], v[0], n={n} acc reduce=add levels={lanes - 1}\nhalt\n.out r vmem {half} 1\n"
        put(f"sum {WORDS}", text, [a], total, n)
    x, w = (rng.integers(-128, 128, (SIZE, SIZE)) for _ in range(2))
    shape = (SIZE // config.rows, config.rows, SIZE // config.columns, config.columns)
    tiles = np.ascontiguousarray(w.reshape(shape).transpose(2, 0, 1, 3))
    data = [v.astype(np.int8).reshape(-1, 4 * lanes).view(np.int32) for v in (x, tiles)]
    limit = SIZE**3 / (config.rows * config.columns)
    put(f"GEMM {SIZE}x{SIZE}x{SIZE}", gemm(config), data, (x @ w).astype(np.int32), limit)
    if config.output_stationary:
        data = [
            np.ascontiguousarray(v.astype(np.int8)).reshape(-1, 4 * lanes).view(np.int32) for v in (x.T, w)
        ]
        name = f"GEMM {SIZE}x{SIZE}x{SIZE}, output-stationary"
        put(name, gemm_of_sums(config), data, (x @ w).astype(np.int32), limit)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hardware", action="store_true")
    arguments = parser.parse_args()
    config = Config(output_stationary=True)
    machines: dict[Config, Hardware] = {}
    print("| kernel | cycles | limit | of the limit |\n|---|---|---|---|")
    found_cases = cases(config)
    for name in ("bf16", "fp32"):
        found_cases[f"GEMM {SIZE}x{SIZE}x{SIZE}, {name}"] = gemm_of_floats(Config(matrix_format=name))
    for name, (bundle, expected, limit) in found_cases.items():
        result = run_bundle(bundle)
        np.testing.assert_array_equal(result.outputs["r"], expected)
        if arguments.hardware:
            if bundle.config not in machines:
                machines[bundle.config] = Hardware(bundle.config, engine="levelized")
            found = machines[bundle.config].run_bundle(bundle)
            np.testing.assert_array_equal(found.outputs["r"], expected)
            assert found.cycles == result.cycles
        print(f"| {name} | {result.cycles} | {limit:.0f} | {100 * limit / result.cycles:.1f} % |")


if __name__ == "__main__":
    main()

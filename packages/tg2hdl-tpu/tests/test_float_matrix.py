"""BF16 and FP32 elements of the matrix unit."""

import numpy as np
import pytest

from comparison import check_random_programs, loaded_reference
from tg2hdl_ir import InputError
from tg2hdl_tpu import Bundle, Config, Region, assemble, disassemble, run_bundle
from tg2hdl_tpu.hardware.simulate import Hardware
from tg2hdl_tpu.isa import Trap
from tg2hdl_tpu.testing import random_bundle

SMALL = {"lanes": 4, "rows": 2, "columns": 4, "vmem_rows": 64, "xmem_rows": 64, "imem_depth": 64}
SIZE = 16
MACHINES = {
    "bf16": Config(**SMALL, matrix_format="bf16"),
    "fp32": Config(**SMALL | {"rows": 4}, matrix_format="fp32"),
}


@pytest.mark.parametrize("name", [pytest.param("bf16", marks=pytest.mark.slow), "fp32"])
def test_random_programs_give_the_same_bits_in_the_same_cycles(name):
    check_random_programs(MACHINES[name], 12)


@pytest.mark.parametrize("matrix_format", ["bf16", "fp32"])
@pytest.mark.parametrize(("rows", "columns"), [(4, 4), (2, 4), (8, 8)])
def test_the_simulator_is_the_reference(matrix_format, rows, columns):
    shape = {"lanes": max(4, columns), "rows": rows, "columns": columns, "matrix_format": matrix_format}
    config = Config(**SMALL | shape)
    for seed in range(100):
        bundle = random_bundle(seed, config, traps=seed % 2 == 1)
        expected, reference = run_bundle(bundle), loaded_reference(bundle)
        assert reference.run() == (expected.trap, expected.pc), seed
        if expected.trap == Trap.NONE:
            np.testing.assert_array_equal(reference.vmem, expected.outputs["vmem"])


def in_order(x, w, rows):
    """Numpy's sum: products of a tile as a tree of neighbours, then what was there before."""
    total = np.zeros((len(x), w.shape[1]), np.float32)
    for k in range(0, len(w), rows):
        terms = [x[:, k + i, None] * w[k + i] for i in range(rows)]
        while len(terms) > 1:
            terms = [a + b for a, b in zip(terms[::2], terms[1::2], strict=True)]
        total = terms[0] + total if k else terms[0]
    return total


@pytest.mark.parametrize(
    ("matrix_format", "cycles"), [("bf16", 379), pytest.param("fp32", 379, marks=pytest.mark.slow)]
)
def test_a_product_of_16_x_16_x_16(matrix_format, cycles):
    config = Config(**SMALL | {"rows": 4, "vmem_rows": 256, "matrix_format": matrix_format})
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(2, SIZE, SIZE)).astype(np.float32)
    if matrix_format == "bf16":
        x, w = ((v.view(np.uint32) & 0xFFFF0000).view(np.float32) for v in (x, w))
    # Words: four segments of a row of A are four rows; tile row by tile row, by columns of C.
    tiles = w.reshape(4, 4, 4, 4).transpose(2, 0, 1, 3)
    lines = []
    for j in range(4):
        for k in range(4):
            lines.append(f"weights v[{64 + 16 * j + 4 * k}], n=4 mxu")
            what = f"v[{128 + j}:4], v[{k}:4]"
            lines.append(f"fadd {what}, v[{128 + j}:4], n=16 mxu" if k else f"copy {what}, n=16 mxu")
    program = assemble("\n".join([*lines, "halt", ".out r vmem 128 64"]), config)
    data = [np.ascontiguousarray(v).view(np.int32).reshape(-1, 4) for v in (x, tiles)]
    bundle = Bundle(
        config, program.program, (Region("vmem", 0, data[0]), Region("vmem", 64, data[1])), program.outputs
    )
    expected = run_bundle(bundle)
    np.testing.assert_array_equal(
        expected.outputs["r"].view(np.float32).reshape(SIZE, SIZE), in_order(x, w, 4)
    )
    with Hardware(config, engine="levelized") as hardware:
        found = hardware.run_bundle(bundle)
    np.testing.assert_array_equal(found.outputs["r"], expected.outputs["r"])
    assert found.cycles == expected.cycles == cycles


def test_what_floats_do_not_have():
    for text, message in (
        ("add v[1], v[2], v[3], mxu", "is for copy or fadd"),
        ("fadd v[1], v[2], v[3], n=2 mxu acc reduce=add", "has no"),
    ):
        with pytest.raises(InputError, match=message):
            assemble(f"{text}\nhalt\n", MACHINES["bf16"])
    with pytest.raises(InputError, match="output_stationary"):
        Config(matrix_format="fp32", output_stationary=True)
    bundle = assemble("tile v[0], mxu16\nfadd v[1], v[2], v[3], mxu16 relu\nhalt\n", MACHINES["bf16"])
    assert assemble(disassemble(bundle), MACHINES["bf16"]) == bundle

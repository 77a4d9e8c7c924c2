"""Other elements of the matrix unit than int8."""

import numpy as np
import pytest

from comparison import check_random_programs, loaded_reference
from tg2hdl_ir import InputError
from tg2hdl_tpu import Bundle, Config, Machine, Region, assemble, disassemble, run_bundle
from tg2hdl_tpu.hardware.simulate import Hardware
from tg2hdl_tpu.isa import Trap
from tg2hdl_tpu.testing import random_bundle

SMALL = {"lanes": 4, "rows": 2, "columns": 4, "vmem_rows": 32, "xmem_rows": 64, "imem_depth": 64}
INT16 = Config(**SMALL, matrix_format="int16", output_stationary=True)
MACHINES = {
    "int16": INT16,
    "int16, registers": Config.ecp5(**SMALL, matrix_format="int16", output_stationary=True),
    "int16, larger": Config(
        lanes=8, rows=4, columns=2, vmem_rows=64, xmem_rows=64, pre_registers=2, matrix_format="int16"
    ),
}  # fmt: skip


def words(values):
    return np.ascontiguousarray(values).view(np.int32).reshape(-1, 4)


def in_int32(values):
    """Numpy's integers, wrapped."""
    return values.astype(np.int64).astype(np.int32)


def run_on_all(bundle):
    """The outputs, which simulator, reference and netlist share."""
    expected = run_bundle(bundle)
    assert expected.trap == Trap.NONE
    reference = loaded_reference(bundle)
    assert reference.run()[0] == Trap.NONE
    with Hardware(bundle.config, engine="levelized") as hardware:
        found = hardware.run_bundle(bundle)
    assert found.cycles == expected.cycles
    for output in bundle.outputs:
        rows = expected.outputs[output.name]
        np.testing.assert_array_equal(found.outputs[output.name], rows)
        np.testing.assert_array_equal(reference.vmem[output.start : output.start + output.count], rows)
    return expected.outputs


def bundle_of(text, config, *regions):
    program = assemble(text, config)
    data = tuple(Region("vmem", at, words(values)) for at, values in regions)
    return Bundle(config, program.program, data, program.outputs)


def test_int16_products_are_added_over_tiles_in_int32():
    rng = np.random.default_rng(0)
    a = rng.integers(-32768, 32768, (2, 4, 2)).astype(np.int16)  # two tiles of four rows
    w = rng.integers(-32768, 32768, (2, 2, 4)).astype(np.int16)
    w[0, :, 0] = a[0, 0] = -32768  # 2^31, which wraps
    text = """
    tile v[0], mxu16
    copy v[20], v[8], n=4 mxu16
    tile v[1], mxu16
    add v[20], v[12], v[20], n=4 mxu16
    copy v[24], v[20], relu
    requant v[25], v[20], #3, k=18
    halt
    .out sums vmem 20 4
    .out relu vmem 24 1
    .out small vmem 25 1
    """
    # Two segments of two halfwords are a tile; a row has four, of which two are used here by stride.
    outputs = run_on_all(bundle_of(text, INT16, (0, w), (2, a)))
    total = in_int32(sum(a[n].astype(np.int64) @ w[n].astype(np.int64) for n in range(2)))
    np.testing.assert_array_equal(outputs["sums"], total)
    np.testing.assert_array_equal(outputs["relu"][0], np.maximum(total[0], 0))
    scaled = np.floor((total[0].astype(object) * 3 + (1 << 17)) / (1 << 18)).astype(float)
    np.testing.assert_array_equal(outputs["small"][0], np.clip(scaled, -128, 127).astype(int))


def test_int16_words_are_checked():
    text = "weights v[0], n=2 mxu\ncopy v[4], v[4:2], n=2 mxu\nhalt\n.out r vmem 4 2"
    w = np.array([[1, -2, 32767, -32768], [5, 6, 7, 8]], np.int32)
    a = np.array([[-32768, 32767, 0, 0], [3, -4, 0, 0]], np.int32)
    outputs = run_on_all(bundle_of(text, INT16, (0, w), (2, a)))
    np.testing.assert_array_equal(outputs["r"], in_int32(a[:, :2].astype(np.int64) @ w.astype(np.int64)))
    with Hardware(INT16, engine="levelized") as hardware:
        for wrong in (32768, -32769):
            a[1, 1] = wrong
            bundle = bundle_of(text, INT16, (0, w), (2, a))
            found = run_bundle(bundle)
            assert (found.trap, found.pc) == (Trap.FORMAT, 1)
            result = hardware.run_bundle(bundle)
            assert (result.trap, result.pc) == (Trap.FORMAT, 1)


def test_int16_outer_products():
    rng = np.random.default_rng(1)
    a = rng.integers(-32768, 32768, (8, 8)).astype(np.int16)
    b = rng.integers(-32768, 32768, (8, 8)).astype(np.int16)
    bias = rng.integers(-(1 << 31), 1 << 31, (2, 4)).astype(np.int32)
    # A row has eight halfwords: four segments for `a`, of which the first is used, and two for `b`.
    text = "preload v[16], n=2\nouter v[0:4], v[16:2], n=8 mxu16 acc\ncopy v[20], s[0], n=2\nhalt\n.out r vmem 20 2"
    outputs = run_on_all(bundle_of(text, INT16, (0, a), (8, b), (16, bias)))
    total = bias + a[:, :2].T.astype(np.int64) @ b[:, :4].astype(np.int64)
    np.testing.assert_array_equal(outputs["r"], in_int32(total))


@pytest.mark.parametrize("name", MACHINES)
def test_random_programs_give_the_same_bits_in_the_same_cycles(name):
    check_random_programs(MACHINES[name], 24)


def test_the_simulator_is_the_reference():
    for config in MACHINES.values():
        seen = set()
        for seed in range(60):
            bundle = random_bundle(seed, config, traps=True)
            expected, reference = run_bundle(bundle), loaded_reference(bundle)
            assert reference.run() == (expected.trap, expected.pc), seed
            seen.add(expected.trap)
            # Rows before the one that traps may be written or not when a DMA transfer is under way.
            if expected.trap == Trap.NONE:
                np.testing.assert_array_equal(reference.vmem, expected.outputs["vmem"])
        assert Trap.FORMAT in seen


def test_text_round_trip_and_errors():
    text = "tile v[0], mxu16\ncopy v[1], v[2], mxu16 seg=4\ncopy v[1], v[2], mxu\nhalt\n"
    bundle = assemble(text, INT16)
    assert "mxu16" in disassemble(bundle)
    assert assemble(disassemble(bundle), INT16) == bundle
    with pytest.raises(InputError, match="mxu8: elements of the matrix unit are int16") as caught:
        assemble("tile v[0], mxu8", INT16)
    assert "use mxu16" in str(caught.value)
    with pytest.raises(InputError, match="mxu16: elements of the matrix unit are int8"):
        assemble("tile v[0], mxu16")
    with pytest.raises(InputError, match="matrix_format is int4"):
        Config(matrix_format="int4")
    with pytest.raises(InputError, match="matrix_format is 8"):
        Config(matrix_format=8)


def test_header_and_configuration_name_it():
    header = INT16.c_header()
    assert '#define TPU_MATRIX_FORMAT "int16"' in header
    assert "#define TPU_MATRIX_BITS 16" in header
    assert Config.from_json(INT16.to_json()) == INT16
    assert Machine(INT16).weights.dtype == np.int16

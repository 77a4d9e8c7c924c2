import gc
from dataclasses import replace

import numpy as np
import pytest

from comparison import loaded_reference
from tg2hdl_tpu import Config, Instruction, Machine, assemble, run_bundle
from tg2hdl_tpu.isa import Trap
from tg2hdl_tpu.machine import _loaded
from tg2hdl_tpu.testing import random_bundle

CONFIGS = (
    Config(vmem_rows=256, xmem_rows=256),
    Config(
        lanes=8, rows=8, columns=4, vmem_rows=64, xmem_rows=64, read_registers=1, pre_registers=2, alu_registers=2,
        reduce_registers=2, memory_latency=7, memory_interval=2, refresh_period=50, refresh_cycles=9,
    ),
    Config(float=True, functions=True, divide=True, vmem_rows=128, xmem_rows=64),
)  # fmt: skip


@pytest.mark.parametrize("config", CONFIGS, ids=["plain", "deep", "all"])
@pytest.mark.parametrize("traps", [False, True])
def test_random_programs_agree_with_the_reference(config, traps):
    seen = set()
    for seed in range(20):
        bundle = random_bundle(seed, config, traps=traps)
        machine, reference = Machine(config), loaded_reference(bundle)
        machine.load_bundle(bundle)
        result = machine.run(limit=100_000)
        assert (result.trap, result.pc) == reference.run()
        assert result.trap in (Trap.NONE, Trap.VMEM) or traps
        np.testing.assert_array_equal(machine.vmem, reference.vmem)
        np.testing.assert_array_equal(machine.xmem, reference.xmem)
        seen.add(result.trap)
    assert Trap.FORMAT in seen if traps else Trap.NONE in seen


def run(text, config=None, **options):
    return run_bundle(assemble(text, config), **options)


def test_a_vector_instruction_takes_a_cycle_a_row():
    for n in (1, 5, 16):
        for config in CONFIGS[:2]:
            cycles = run(f"add v[0], v[0], v[16], n={n}\nhalt", config).cycles
            assert cycles == n + config.latency + 1


def test_scalar_work_hides_behind_rows():
    body = "add v[512], v[0], v[100], n=16\n"
    plain = run(body * 4 + "halt")
    loop = run("loop #4\nset a1, a1, #1\n" + body + "set a2, a2, #3\nend\nhalt")
    assert loop.cycles == plain.cycles + 2  # before the first row


def test_loads_compute_and_stores_overlap():
    config = Config(memory_latency=4)
    chunk = "load v[0], x[0], n=32\nadd v[512], v[0], #1, n=32\nstore x[64], v[512], n=32\n"
    cycles = run(chunk + "halt", config).cycles
    assert 64 + 4 < cycles < 64 + 4 + 16  # rows are added as they arrive; the store follows the last addition


@pytest.mark.parametrize(
    ("text", "trap", "pc"),
    [
        ("set a1, #1024\nadd v[0], v[0+a1], v[0]\nhalt", Trap.VMEM, 1),
        ("set a1, #-1\nadd v[0+a1], v[0], v[0]\nhalt", Trap.VMEM, 1),
        ("set a1, #65536\nload v[0], x[0+a1]\nhalt", Trap.XMEM, 1),
        ("loop #2\nloop #2\nloop #2\nloop #2\nloop #2\nhalt", Trap.LOOP, 4),
        ("end", Trap.LOOP, 0),
        ("set a1, #0\nloop a1\nhalt", Trap.LOOP, 1),
        ("jump 511\n", Trap.ILLEGAL, 511),
        (".vmem 1 = 16\ncopy v[5], v[0], v[1] permute\nhalt", Trap.INDEX, 0),
        (".vmem 1 = 200\ncopy v[5], v[4], mxu\nhalt", Trap.FORMAT, 0),
        (".vmem 1 = 200\ntile v[1], mxu\nhalt", Trap.FORMAT, 0),
        (".vmem 1 = 0x800000\nlda a1, v[1], k=0\nhalt", Trap.REGISTER, 0),
        ("set a1, #0x7fffff\nset a1, a1, #1\nhalt", Trap.REGISTER, 1),
        ("x: jump x", Trap.LIMIT, 0),
    ],
)
def test_traps(text, trap, pc):
    result = run(text, limit=1000)
    assert (result.trap, result.pc) == (trap, pc)


def test_rows_before_a_trap_are_written():
    result = run(
        "set a1, #1021\ncopy v[0], v[0+a1], n=5\nhalt\n.vmem 1021 = 7\n.vmem 1022 = 8\n.vmem 1023 = 9\n.out r vmem 0 4"
    )
    assert result.trap is Trap.VMEM
    assert result.outputs["r"][:, 0].tolist() == [7, 8, 9, 0]


def test_a_matrix_product_with_bias_and_relu():
    rng = np.random.default_rng(0)
    a, w = (rng.integers(-128, 128, shape) for shape in ((8, 8), (8, 4)))
    bias = rng.integers(-9999, 9999, 4)
    config = Config()
    machine = Machine(config)
    machine.vmem[0:4] = a.reshape(4, 16)
    machine.vmem[4:6] = w.reshape(2, 16)
    machine.vmem[6] = np.tile(bias, 4)
    program = """
        tile v[4], mxu
        add v[2048], v[0:2], v[6:0], n=8 mxu seg=4    # segments 2048 to 2055 are rows 512 and 513
        tile v[5], mxu
        add v[2048], v[1:2], v[512:0], n=4 mxu seg=4 relu
        add v[2052], v[9:2], v[513:0], n=4 mxu seg=4 relu
        halt
    """
    machine.load_program(assemble(program, config).program)
    result = machine.run()
    assert result.trap is Trap.NONE
    np.testing.assert_array_equal(machine.vmem[512:514].reshape(8, 4), np.maximum(a @ w + bias, 0))
    assert result.cycles == 18 + config.latency + 1  # no cycle is lost


def test_sums_of_rows_and_columns():
    x = np.arange(64)
    data = ".vmem 0 = " + " ".join(map(str, x)) + "\n.out r vmem 512 1\n"
    rows = run(data + "copy v[4096], v[0], n=4 reduce=add levels=7 pack seg=2\nhalt")
    assert rows.outputs["r"][0, :8].tolist() == x.reshape(8, 8).sum(1).tolist()
    columns = run(data + "copy v[512], v[0], n=4 acc reduce=add levels=8\nhalt")
    assert columns.outputs["r"][0, :8].tolist() == x.reshape(8, 8).sum(0).tolist()
    total = run(data + "copy v[512], v[0], n=4 acc reduce=add levels=15\nhalt")
    assert total.outputs["r"][0].tolist() == [x.sum()] * 16
    assert [r.cycles for r in (rows, columns, total)] == [7, 7, 7]


def test_the_trace_accounts_for_every_cycle():
    result = run("add v[0], v[1], #1\nadd v[2], v[0], #1\nhalt", trace=100)
    assert result.trace is not None
    assert len(result.trace) == result.cycles
    assert result.trace["row"].tolist() == [0, 1, 2, 2, 1, 0, 0]
    assert result.trace["row_pc"].tolist() == [-1, 0, 1, 1, 1, -1, -1]


def test_words_that_are_no_instruction_trap():
    machine = Machine(Config())
    machine.load_program([Instruction("set", dst_reg=1, b=3), 0x7F])
    result = machine.run()
    assert (result.trap, result.pc) == (Trap.ILLEGAL, 1)


def test_division_and_conversions_of_edges():
    pairs = [(7, 2), (-7, 2), (7, -2), (-7, -2), (5, 0), (-5, 0), (-(1 << 31), -1), (-(1 << 31), 1), (0, 3)]
    a, b = ([pair[n] for pair in pairs] for n in (0, 1))
    data = f".vmem 0 = {' '.join(map(str, a))}\n.vmem 1 = {' '.join(map(str, b))}\n.out r vmem 16 7\n"
    data += ".vmem 2 = 2.5 -2.5 nan inf -inf 4294967808.0 -1e20 16777217.0 0.0\n"
    names = ("div", "mod", "divu", "modu")
    code = "".join(f"{name} v[{16 + n}], v[0], v[1]\n" for n, name in enumerate(names))
    code += "f2i v[20], v[2]\ni2f v[21], v[0]\nfdiv v[22], v[2], v[2]\nhalt"
    rows = run(data + code, CONFIGS[2]).outputs["r"][:, : len(pairs)]
    assert rows[0].tolist() == [3, -3, -3, 3, 0, 0, -(1 << 31), -(1 << 31), 0]
    assert rows[1].tolist() == [1, -1, 1, -1, 5, -5, 0, 0, 0]
    modulo = 1 << 32
    for n, (x, y) in enumerate(pairs):
        x, y = x % modulo, y % modulo
        assert (int(rows[2][n]) % modulo, int(rows[3][n]) % modulo) == ((x // y, x % y) if y else (0, x))
    wrapped = int(np.uint32(int(np.float32(-1e20)) % modulo).view(np.int32))
    assert rows[4].tolist() == [2, -2, 0, 0, 0, 512, wrapped, 16777216, 0]
    assert rows[5].view(np.float32).tolist() == [float(x) for x in a]
    one, nan = 0x3F800000, 0x7FC00000
    assert rows[6].tolist() == [one, one, nan, nan, nan, one, one, one, nan]


def test_functions_are_those_of_the_cores():
    x = np.array([0.5, -3.25, 1e-3, 100.0, 2.0], np.float32)
    data = f".vmem 0 = {' '.join(map(repr, x.tolist()))}\n.out r vmem 16 3\n"
    result = run(data + "fexp2 v[16], v[0]\nflog2 v[17], v[0]\nfsin v[18], v[0]\nhalt", CONFIGS[2])
    found = result.outputs["r"][:, :5].view(np.float32)
    with np.errstate(invalid="ignore"):
        expected = [np.exp2(x.astype(float)), np.log2(x.astype(float)), np.sin(x.astype(float))]
    np.testing.assert_allclose(found, np.array(expected), rtol=2.5e-7)


def test_functions_of_a_machine_outlive_all_others():
    """The simulator of a machine calls Python, also after many machines of other sizes were made."""
    first, others = Machine(CONFIGS[2]), []
    _loaded.cache_clear()
    for _ in range(3):
        gc.collect()
        others += [Machine(replace(CONFIGS[2], lanes=lanes)) for lanes in (4, 16)]
        _loaded.cache_clear()
    x = np.linspace(-2, 2, 16, dtype=np.float32)
    first.vmem[0] = x.view(np.int32)
    first.load_program(assemble("fexp2 v[1], v[0]\nhalt", CONFIGS[2]).program)
    first.run()
    np.testing.assert_allclose(first.vmem[1].view(np.float32), np.exp2(x.astype(float)), rtol=2.5e-7)

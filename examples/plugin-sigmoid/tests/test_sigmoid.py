import math
import os
import subprocess
import sys

import numpy as np
import pytest
from amaranth.sim import Simulator
from tg2hdl_sigmoid.golden import evaluate, result_type
from tg2hdl_sigmoid.rewrite import rewrite_sigmoid
from tg2hdl_sigmoid.unit import SigmoidTable

from tg2hdl_ir import BufferMeta, DType, IRBufLoad, IRBufStore, IRConst, IRCounter, IROp, KernelIR, LoopIR

SPECIAL = [0.0, -0.0, 8.0, -8.0, np.nextafter(np.float32(8), 0), np.nextafter(np.float32(-8), 0), math.inf]
SPECIAL += [
    -math.inf,
    math.nan,
    1e-45,
    -1e-45,
    1e-38,
    2.0**-9,
    2.0**-10,
    3 * 2.0**-9,
    -3 * 2.0**-9,
    3e38,
    -3e38,
]


def operands(count):
    rng = np.random.default_rng(0)
    spread = rng.normal(size=count) * np.exp2(rng.integers(-12, 5, count))
    patterns = rng.integers(0, 2**32, count, dtype=np.uint64).astype(np.uint32).view(np.float32)
    return np.concatenate([np.array(SPECIAL, np.float32), spread.astype(np.float32), patterns])


def golden(x):
    return evaluate((x,), (DType.FP32,), DType.FP32)


def test_golden_is_within_a_thousandth_of_the_real_function():
    x = operands(2000)
    x = x[np.isfinite(x)]
    with np.errstate(over="ignore"):
        exact = 1 / (1 + np.exp(-x.astype(np.float64)))
    assert np.abs(golden(x) - exact).max() < 1e-3
    assert np.isnan(golden(np.array([np.nan], np.float32)))[0]


def test_only_fp32_is_taken():
    assert result_type((DType.FP32,)) == DType.FP32
    assert result_type((DType.FP16,)) is None


def test_unit_gives_the_golden_bits_in_every_cycle_and_stalls():
    x = operands(400)
    bits = DType.FP32.array_to_bits(x)
    expected = DType.FP32.array_to_bits(golden(x))
    dut = SigmoidTable()
    seen = []

    async def testbench(ctx):
        rng = np.random.default_rng(1)
        issued = 0
        while len(seen) < len(x):
            enabled = bool(rng.random() < 0.8)
            ctx.set(dut.en, enabled)
            ctx.set(dut.a, int(bits[min(issued, len(x) - 1)]))
            await ctx.tick()
            if enabled:
                issued += 1
                if issued >= dut.latency:
                    seen.append(ctx.get(dut.result))

    simulator = Simulator(dut)
    simulator.add_clock(1e-8)
    simulator.add_testbench(testbench)
    simulator.run()
    np.testing.assert_array_equal(np.array(seen, np.uint64), expected)


FACTOR = -1 / math.log(2)


def kernel(factor=FACTOR, one=1.0, swap=False):
    counter = IRCounter(8, 0, 0)
    load = IRBufLoad(1, counter, DType.FP32)

    def binary(op, x, constant):
        pair = (IRConst(constant, DType.FP32), x)
        return IROp(op, DType.FP32, pair if swap else pair[::-1])

    power = IROp("exp2", DType.FP32, (binary("mul", load, factor),))
    value = IROp("reciprocal", DType.FP32, (binary("add", power, one),))
    store = IRBufStore(0, counter, value, DType.FP32)
    buffers = (BufferMeta(0, 8, DType.FP32, True), BufferMeta(1, 8, DType.FP32, False))
    return KernelIR(buffers, LoopIR.from_items((LoopIR.from_items((load, store), counter=counter),)))


def stored(result):
    return next(s.value for s in result.loop_tree.statements() if isinstance(s, IRBufStore))


@pytest.mark.parametrize("swap", [False, True])
def test_rewrite_finds_the_expression_in_both_orders(swap):
    value = stored(rewrite_sigmoid(kernel(swap=swap)))
    assert value.op == "sigmoid"
    assert isinstance(value.srcs[0], IRBufLoad)


@pytest.mark.parametrize("changed", [{"factor": -1.0}, {"one": 2.0}])
def test_rewrite_leaves_other_expressions_alone(changed):
    assert stored(rewrite_sigmoid(kernel(**changed))).op == "reciprocal"


def test_loading_the_plugin_imports_neither_amaranth_nor_tinygrad():
    code = "import sys, tg2hdl_sigmoid.plugin; print(sorted({'amaranth', 'tinygrad'} & set(sys.modules)))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert result.stdout == "[]\n"

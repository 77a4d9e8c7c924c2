import math
from fractions import Fraction

import pytest

from tg2hdl_fp32 import BF16, FP16, FP32, functions, quarter_wave
from tg2hdl_fp32 import exp2 as exp2_core
from tg2hdl_fp32 import log2 as log2_core
from tg2hdl_fp32 import reciprocal as reciprocal_core
from tg2hdl_fp32 import rsqrt as rsqrt_core
from tg2hdl_fp32.tables import fit

ONE = 1 << functions.PRECISION


@pytest.mark.parametrize("x", [0.015625, 0.3125, 0.71875, 0.984375])
def test_functions_agree_with_libm(x):
    fixed = int(x * ONE)
    assert functions.exp2(fixed) / ONE == pytest.approx(2**x, rel=1e-15)
    assert functions.log2_slope(fixed) / ONE == pytest.approx(math.log2(1 + x) / x, rel=1e-14)
    assert functions.log2_slope(-fixed) / ONE == pytest.approx(-math.log2(1 - x) / x, rel=1e-14)
    assert functions.reciprocal(ONE + fixed) / ONE == pytest.approx(1 / (1 + x), rel=1e-15)
    assert functions.rsqrt(ONE + fixed) / ONE == pytest.approx(1 / math.sqrt(1 + x), rel=1e-15)
    assert functions.sine_slope(fixed) / ONE == pytest.approx(math.sin(math.pi / 2 * x) / x, rel=1e-15)


def test_two_over_pi():
    # OEIS A060294.
    digits = 6366197723675813430755350534900574481378
    assert functions.two_over_pi(160) * 10**40 >> 160 in (digits, digits - 1)


def test_hardware_widths_fit_one_multiplier_block():
    for core in (exp2_core, log2_core, reciprocal_core, rsqrt_core, quarter_wave):
        for format in (FP32, FP16, BF16):
            table = core.table(format)
            assert max(table.widths[1:]) <= 18
            assert table.delta <= 18
            assert 2 * table.fold <= 18
            assert sum(table.widths) <= 72
            assert len(table.rows) <= 512


@pytest.mark.parametrize(
    ("core", "sign"), [(exp2_core, 1), (reciprocal_core, -1)], ids=["exp2", "reciprocal"]
)
def test_intervals_join_without_a_step_back(core, sign):
    table = core.table(FP32)
    last = (1 << table.delta) - 1
    for index in range(len(table.rows) - 1):
        assert sign * (table.evaluate(index + 1, 0) - table.evaluate(index, last)) >= 0


@pytest.mark.parametrize(
    ("core", "sign"),
    [(exp2_core, 1), (reciprocal_core, -1), (rsqrt_core, -1)],
    ids=["exp2", "reciprocal", "rsqrt"],
)
def test_no_interval_steps_back_where_the_square_steps(core, sign):
    table = core.table(FP32)
    step = 1 << table.delta - table.fold - 1
    squares = [table.square(u) for u in range(1 << table.delta)]
    assert all(squares[u] == squares[u - 1] for u in range(1, len(squares)) if u % step)
    for index in range(0, len(table.rows), 5):
        for u in range(step, 1 << table.delta, step):
            assert sign * (table.evaluate(index, u) - table.evaluate(index, u - 1)) >= 0


def test_fit_is_within_the_bound_of_its_last_bits():
    table = fit(
        functions.exp2,
        [(Fraction(0), Fraction(1, 256), 256)],
        delta=18,
        fraction=27,
        slope_bits=18,
        exact=(0,),
    )
    assert table.evaluate(0, 0) == 1 << 27
    for index in range(0, 256, 17):
        for u in range(0, 1 << 18, 4099):
            exact = 2 ** ((index + u / (1 << 18)) / 256)
            assert abs(table.evaluate(index, u) / (1 << 27) - exact) < 2**-24.5

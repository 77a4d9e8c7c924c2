"""What gates say about counters: never less than what holds."""

from hypothesis import assume, given
from hypothesis import strategies as st

from tg2hdl_ir import Affine, AffineAnalysis, DType, IRConst, IRCounter, IROp, RangeAnalysis
from tg2hdl_ir.analysis.constraints import Constraints

I32, BOOL = DType.INT32, DType.BOOL
COUNTER = IRCounter(20, 0, 0)


def constant(value):
    return IRConst(value, I32)


def less(a, b):
    return IROp("lt", BOOL, (a, b))


def scaled(factor):
    return IROp("mul", I32, (COUNTER, constant(factor)))


def interval_under(gate):
    ranges = RangeAnalysis()
    return Constraints(gate, ranges, AffineAnalysis(ranges)).interval(Affine(0, ((COUNTER, 1),)))


def test_a_multiple_bounds_the_counter():
    assert interval_under(less(constant(0), scaled(4))) == (1, 19)
    assert interval_under(less(scaled(4), constant(13))) == (0, 3)
    assert interval_under(less(scaled(-3), constant(-8))) == (3, 19)
    both = IROp("and", BOOL, (less(constant(2), COUNTER), less(scaled(2), constant(9))))
    assert interval_under(both) == (3, 4)


def test_a_multiple_bounds_a_sum():
    """2 * (i + j) + 1 < 16 says that i + j is at most 7."""
    other = IRCounter(20, 1, 1)
    both = IROp("add", I32, (COUNTER, other))
    odd = IROp("add", I32, (IROp("mul", I32, (both, constant(2))), constant(1)))
    ranges = RangeAnalysis()
    known = Constraints(less(odd, constant(16)), ranges, AffineAnalysis(ranges))
    assert known.interval(Affine(0, ((COUNTER, 1), (other, 1)))) == (0, 7)


@given(
    factor=st.integers(-9, 9).filter(bool),
    bound=st.integers(-60, 60),
    swap=st.booleans(),
    inverted=st.booleans(),
)
def test_bounds_are_exact(factor, bound, swap, inverted):
    sides = (scaled(factor), constant(bound))
    gate = less(*(sides[::-1] if swap else sides))
    if inverted:
        gate = IROp("xor", BOOL, (gate, IRConst(True, BOOL)))
    inside = [i for i in range(20) if ((bound < factor * i) if swap else (factor * i < bound)) != inverted]
    assume(inside)
    assert interval_under(gate) == (inside[0], inside[-1])

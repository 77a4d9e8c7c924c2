import pytest

from tg2hdl_lower import LowerOptions


@pytest.mark.parametrize(
    ("target", "multipliers", "latencies"),
    [
        ("generic", None, (2, 2)),
        ("generic", 63, (2, 2)),
        ("generic", 64, (2, 4)),
        ("generic", 96, (3, 4)),
        ("ecp5", 95, (2, 4)),
        ("ecp5", 96, (3, 4)),
    ],
)
def test_many_multipliers_have_registers_on_the_ways(target, multipliers, latencies):
    options = LowerOptions(target=target, multipliers=multipliers)
    assert (options.read_latency, options.product_latency) == latencies


def test_spread_is_by_the_multipliers_alone():
    assert not LowerOptions(read_latency=3, product_latency=4).spread
    assert not LowerOptions(multipliers=95).spread
    assert LowerOptions(multipliers=96, read_latency=1).spread


def test_latencies_that_are_given_are_kept():
    options = LowerOptions(multipliers=96, read_latency=1, product_latency=2)
    assert (options.read_latency, options.product_latency) == (1, 2)

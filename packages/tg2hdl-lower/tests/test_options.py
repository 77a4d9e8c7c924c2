from dataclasses import replace

import pytest

from tg2hdl_lower import LowerOptions


@pytest.mark.parametrize(
    ("target", "multipliers", "latencies"),
    [
        ("generic", None, (2, 2)),
        ("generic", 63, (2, 2)),
        ("generic", 64, (2, 4)),
        ("generic", 96, (3, 5)),
        ("ecp5", 95, (2, 4)),
        ("ecp5", 96, (3, 5)),
    ],
)
def test_many_multipliers_have_registers_on_the_ways(target, multipliers, latencies):
    options = LowerOptions(target=target, multipliers=multipliers)
    assert options.timing[1:] == latencies


def test_spread_is_by_the_multipliers_alone():
    assert not LowerOptions(read_latency=3, product_latency=4).spread
    assert not LowerOptions(multipliers=95).spread
    assert LowerOptions(multipliers=96, read_latency=1).spread


def test_latencies_that_are_given_are_kept():
    options = LowerOptions(multipliers=96, read_latency=1, product_latency=2)
    assert options.timing[1:] == (1, 2)


def test_what_is_chosen_follows_an_option_that_changes():
    options = LowerOptions()
    assert options.timing == (4, 2, 2)
    assert replace(options, target="ecp5").timing == (2, 2, 4)
    assert replace(options, multipliers=96).timing == (4, 3, 5)
    assert replace(options, multipliers=96) == LowerOptions(multipliers=96)

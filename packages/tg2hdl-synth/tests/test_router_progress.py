"""Whether a router is stopped that gets no nearer to a result, and no other."""

import pytest

from tg2hdl_synth import DesignTooLargeError
from tg2hdl_synth.router_progress import RouterProgress


def follow(overused, wires=640_000):
    progress = RouterProgress("nextpnr-ecp5")
    for n, number in enumerate(overused, 1):
        progress.follow(
            f"Info:     iter={n} wires={wires} overused={number} overuse={number + 7} archfail=NA"
        )
        progress.follow("Info: Routing globals...")


def test_a_router_that_gets_no_better_is_stopped():
    # As on an ECP5-85k: the best of the rounds is the sixteenth.
    falling = [56_702, 33_145, 22_373, 14_961, 10_890, 8_484, 7_128, 6_289, 5_485, 4_854, 4_754, 4_515, 4_363]
    plateau = [4_297, 4_179, 4_170, 4_259, 4_576, 4_734, 4_995, 5_369, 5_587, 6_021]
    follow(falling + plateau[:-1])
    with pytest.raises(
        DesignTooLargeError, match=r"cannot be routed(.|\n)*640,000 wires, 4,170 still"
    ) as found:
        follow([*falling, *plateau, 6_100])
    assert "take a larger part" in str(found.value)


def test_a_router_near_its_end_goes_on():
    follow([50_000, 9_000, 700, 90, 8, *[9] * 12, 1, 0])


def test_a_router_that_falls_slowly_goes_on():
    follow(range(30_000, 20_000, -100))

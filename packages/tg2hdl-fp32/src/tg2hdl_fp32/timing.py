"""Delay estimates of logic between registers, in nanoseconds (ECP5, speed grade 6).

They place the pipeline cuts, so that only their proportions matter; measured figures are in the docs.
"""

__all__ = ["PROFILES", "REGISTER", "add_delay", "lut_delay", "reduce_delay"]

from math import ceil, log

#: Clock-to-output, set-up and one hop of routing.
REGISTER = 0.9

#: Longest segment that a profile allows, in ns; ``comb`` has no registers at all.
PROFILES = {"comb": float("inf"), "small": 14.0, "balanced": 6.3, "fast": 4.1}


def lut_delay(levels: float = 1) -> float:
    """Delay of a chain of LUTs; a 2:1 multiplexer is one level."""
    return 0.75 * levels


def add_delay(width: int) -> float:
    """Delay of a carry chain."""
    return 1.5 + 0.04 * width


def reduce_delay(width: int) -> float:
    """Delay of an AND, OR or equality over `width` bits in LUTs of four inputs."""
    return lut_delay(max(1, ceil(log(max(width, 2), 4))))

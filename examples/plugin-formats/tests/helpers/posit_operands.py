"""Operands for posits: special patterns, neighbours, pairs that cancel, and random ones."""

import random

import numpy as np


def corners(width, count, seed=0):
    """Zero, NaR, ends of every regime and their neighbours, and random patterns, with signs."""
    rng = random.Random(seed)
    found = {0, 1 << (width - 1), 1}
    for k in range(width - 1):
        for base in (1 << k, (1 << (width - 1)) - (1 << k)):
            found |= {base - 1, base, base + 1, base ^ 1 << max(k - 3, 0)}
    found |= {-x for x in found} | {rng.getrandbits(width) for _ in range(count)}
    return sorted({x & (1 << width) - 1 for x in found})


def pairs(width, count, seed=1):
    """Pairs that are near each other, so that they cancel, far apart, and special."""
    rng = random.Random(seed)
    values = corners(width, 40)
    found = [(rng.choice(values), rng.choice(values)) for _ in range(count)]
    found += [(rng.getrandbits(width), rng.getrandbits(width)) for _ in range(count)]
    near = [(x, x + rng.randrange(-3, 4)) for x in (rng.getrandbits(width) for _ in range(count))]
    found += near + [(x, -y) for x, y in near]
    found += [(x, y) for x in (0, 1 << (width - 1), 1, 3 << (width - 3)) for y in values[::9]]
    return tuple(np.array(column, np.int64) & (1 << width) - 1 for column in zip(*found, strict=True))

"""Words of memories: lanes of any width in one integer, the first lane lowest."""

from __future__ import annotations

import numpy as np
import pytest

from tg2hdl_lower.memory.layout import joined_lanes


@pytest.mark.parametrize("width", [1, 3, 7, 8, 9, 16, 24, 31, 32, 33, 63, 64])
@pytest.mark.parametrize("lanes", [1, 2, 5, 16])
def test_joined_lanes(width: int, lanes: int):
    rng = np.random.default_rng(width * lanes)
    packed = rng.integers(0, 2**64, (37, lanes), dtype=np.uint64) >> np.uint64(64 - width)
    expected = [sum(int(bits) << (n * width) for n, bits in enumerate(row)) for row in packed]
    assert joined_lanes(packed, width) == expected

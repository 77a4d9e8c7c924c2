"""A rounding: numbers become the next whole number from 0.6 on, not from one half."""

from __future__ import annotations

from typing import Any

import numpy as np

from tg2hdl_ir import RoundingDef, hookimpl


def late(x: Any) -> Any:
    """Up from 0.6 on."""
    return np.floor(x + x.dtype.type(0.4))


@hookimpl
def tg2hdl_roundings() -> list[RoundingDef]:
    """For ``tg2hdl.quantize(model, samples, rounding="late")``: its multiplier and shift are proven for every sum."""
    return [RoundingDef("late", "up from 0.6 on", late, is_proven=True)]

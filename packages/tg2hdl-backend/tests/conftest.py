"""Shared fixtures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tinygrad import Tensor
from tinygrad.uop.ops import Ops, UOp

from tg2hdl_backend import linearize, schedule_of


@pytest.fixture
def kernels_of() -> Callable[..., list[list[UOp]]]:
    """Linearized UOps of each kernel that computes a tensor."""

    def kernels(tensor: Tensor, opts: Any = ()) -> list[list[UOp]]:
        linear, _ = schedule_of(tensor)
        return [linearize(c.src[0], opts) for c in linear.src if c.src[0].op is Ops.SINK]

    return kernels


@pytest.fixture
def uops_of(kernels_of: Callable[..., list[list[UOp]]]) -> Callable[..., list[UOp]]:
    """Linearized UOps of a tensor that one kernel computes."""

    def uops(tensor: Tensor, opts: Any = ()) -> list[UOp]:
        (only,) = kernels_of(tensor, opts)
        return only

    return uops


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out slow tests of this package unless ``-m`` asks for something."""
    if config.option.markexpr:
        return
    here = Path(__file__).parent
    slow = [i for i in items if here in i.path.parents and i.get_closest_marker("slow")]
    config.hook.pytest_deselected(items=slow)
    items[:] = [i for i in items if i not in slow]

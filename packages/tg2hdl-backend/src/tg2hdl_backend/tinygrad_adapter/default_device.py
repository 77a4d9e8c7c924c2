"""The tinygrad device of new tensors: the user's, or HDL if tinygrad finds none that works."""

from __future__ import annotations

import functools
import os
import shutil
from typing import Any

from tinygrad.device import Device
from tinygrad.helpers import DEV

__all__ = ["choose_when_needed", "default_device"]

_GOLDEN = "HDL::engine=golden"
"""The user did not ask for hardware, so that the golden model computes."""


def default_device() -> str:
    """Name of the device that tinygrad puts new tensors on.

    tinygrad's CPU device compiles with clang; without it, and without a GPU, even ``Tensor([1]) + 1`` fails.  HDL is
    then the default device.
    """
    if not DEV.device and not _is_usable(_chosen()):
        DEV.value = os.environ["DEV"] = _GOLDEN
    return str(Device.DEFAULT)


def choose_when_needed() -> None:
    """Have tinygrad choose as `default_device` does, when it first asks for a device; nothing is probed before."""
    inherited = vars(type(Device)).get("_select_device")
    if not isinstance(inherited, functools.cached_property) or hasattr(inherited.func, "before_hdl"):
        return  # another version of tinygrad, or already installed; `default_device` is enough for captures

    def select(device: Any) -> str:
        try:
            chosen = str(inherited.func(device))
        except RuntimeError:
            chosen = ""
        if not _is_usable(chosen):
            DEV.value = os.environ["DEV"] = _GOLDEN
            return "HDL"
        return chosen

    select.before_hdl = inherited.func  # type: ignore[attr-defined]
    choice = functools.cached_property(select)
    choice.__set_name__(type(Device), "_select_device")
    type(Device)._select_device = choice  # type: ignore[method-assign,assignment]


def _chosen() -> str:
    try:
        return str(Device.DEFAULT)
    except RuntimeError:
        return ""


def _is_usable(device: str) -> bool:
    return bool(device) and (device != "CPU" or shutil.which(os.environ.get("CC", "clang")) is not None)

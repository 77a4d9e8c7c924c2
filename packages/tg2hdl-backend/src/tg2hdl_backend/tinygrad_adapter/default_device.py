"""The tinygrad device of new tensors: the user's choice, or HDL where tinygrad finds none that works."""

from __future__ import annotations

import os
import shutil

from tinygrad.device import Device
from tinygrad.helpers import DEV

__all__ = ["default_device", "ensure_default_device"]


def default_device() -> str:
    """Name of the device that tinygrad puts new tensors on."""
    ensure_default_device()
    return str(Device.DEFAULT)


def ensure_default_device() -> None:
    """Make HDL the default device when the user named none and no other is usable.

    tinygrad's CPU device compiles with clang; without it, and without a GPU, even ``Tensor([1]) + 1`` fails.  The
    user did not ask for hardware, so that the golden model computes.
    """
    if DEV.device:
        return
    try:
        usable = Device.DEFAULT != "CPU" or shutil.which(os.environ.get("CC", "clang")) is not None
    except RuntimeError:
        usable = False
    if not usable:
        DEV.value = os.environ["DEV"] = "HDL::engine=golden"

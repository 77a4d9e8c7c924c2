"""Driver for hardware made by tg2hdl, on a board or simulated; needs numpy and pyserial only.

>>> device = tg2hdl_host.connect("/dev/ttyUSB0")  # doctest: +SKIP
>>> device(x)  # doctest: +SKIP
"""

from __future__ import annotations

from tg2hdl_host.async_device import AsyncDevice, connect_async
from tg2hdl_host.connection import SerialTransport, connect
from tg2hdl_host.description import Buffer, Description
from tg2hdl_host.device import Device
from tg2hdl_host.errors import (
    ConnectionFailedError,
    HostError,
    LinkError,
    RefusedError,
    UnfitInputError,
    WrongDesignError,
    WrongResultError,
)
from tg2hdl_host.image import MemoryImage
from tg2hdl_host.selftest import selftest
from tg2hdl_host.session import InferenceSession, TensorInfo

__all__ = [
    "AsyncDevice",
    "Buffer",
    "ConnectionFailedError",
    "Description",
    "Device",
    "HostError",
    "InferenceSession",
    "LinkError",
    "MemoryImage",
    "RefusedError",
    "SerialTransport",
    "TensorInfo",
    "UnfitInputError",
    "WrongDesignError",
    "WrongResultError",
    "connect",
    "connect_async",
    "selftest",
]

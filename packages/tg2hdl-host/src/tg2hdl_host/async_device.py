"""Devices for asyncio: calls wait in a thread, so that the event loop goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from os import PathLike
from typing import Any, TypeVar

import numpy.typing as npt

from tg2hdl_host.connection import connect
from tg2hdl_host.device import Device

__all__ = ["AsyncDevice", "connect_async"]

_Result = TypeVar("_Result")
_END = object()


class AsyncDevice:
    """A device whose methods are coroutines; an asynchronous context manager.

    Tasks may share it: their runs follow one another in the order of the calls.  A run whose task is cancelled ends on
    the device, and its result is dropped.

    Parameters
    ----------
    device : Device
        Used by this object only.

    Attributes
    ----------
    device : Device
        Its attributes, such as `description`, may be read at any time.
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tg2hdl-device")
        self._is_closed = False

    def __repr__(self) -> str:
        return f"<Async{repr(self.device)[1:]}"

    async def __aenter__(self) -> AsyncDevice:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def __call__(self, *inputs: Any, codes: bool | None = None, **variables: int) -> Any:
        """Run once; see `Device`."""
        return await self._do(self.device, *inputs, codes=codes, **variables)

    async def run(self, batch: Iterable[Any], **options: Any) -> list[Any]:
        """Run many inputs; see `Device.run`.

        Parameters
        ----------
        batch : iterable
            Inputs, or tuples or dicts of them.
        options
            Those of `Device.run`.
        """
        return await self._do(self.device.run, list(batch), **options)

    async def generate(self, first: npt.ArrayLike, **options: Any) -> AsyncIterator[Any]:
        """Results that are fed back; see `Device.generate`.

        Parameters
        ----------
        first : array or sequence of arrays
            The first input, or several.
        options
            Those of `Device.generate`.
        """
        results = self.device.generate(first, **options)
        while (result := await self._do(next, results, _END)) is not _END:
            yield result

    async def load_weights(self, weights: Mapping[str, npt.ArrayLike]) -> None:
        """Write loadable weights; see `Device.load_weights`."""
        await self._do(self.device.load_weights, weights)

    async def reset(self) -> None:
        """Start over: the state has its first contents."""
        await self._do(self.device.reset)

    async def counters(self) -> dict[str, int]:
        """Runs, clock cycles of the last run, and errors of the link."""
        return await self._do(lambda: self.device.counters)

    async def reconnect(self, seconds: float = 10.0) -> bool:
        """Open the device again; see `Device.reconnect`."""
        return await self._do(self.device.reconnect, seconds)

    async def close(self) -> None:
        """Release the device, after the runs that wait."""
        if not self._is_closed:
            self._is_closed = True
            await self._do(self.device.close)
            self._thread.shutdown(wait=False)

    async def _do(self, action: Callable[..., _Result], *inputs: Any, **options: Any) -> _Result:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, partial(action, *inputs, **options))


async def connect_async(
    device: str | PathLike[str],
    design: str | PathLike[str] | None = None,
    *,
    baud: int | None = None,
    timeout: float | None = None,
) -> AsyncDevice:
    """Connect as `connect` does; ``async with await connect_async(...) as device`` closes the device at the end.

    Parameters
    ----------
    device, design, baud, timeout
        Those of `connect`.
    """
    opened = await asyncio.to_thread(connect, device, design, baud=baud, timeout=timeout)
    return AsyncDevice(opened)

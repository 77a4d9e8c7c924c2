"""A design behind a link: its identity, weights, memory outside the chip, variables and state."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from threading import RLock
from types import TracebackType
from typing import Any, Self, TypeVar

import numpy as np
import numpy.typing as npt

from tg2hdl_host import protocol
from tg2hdl_host.border import Border
from tg2hdl_host.description import Buffer, Description
from tg2hdl_host.errors import ConnectionFailedError, UnfitInputError, WrongDesignError
from tg2hdl_host.image import MemoryImage
from tg2hdl_host.inputs import checked_value
from tg2hdl_host.link import Link, Transport
from tg2hdl_host.protocol import Request
from tg2hdl_host.runs import RUNS, Runs
from tg2hdl_host.state import DeviceState

__all__ = ["OpenDevice", "in_turn"]

_MAGIC = 0x00
_COUNTERS = {"runs": RUNS, "cycles": 0x24, "error": 0x28, "link_errors": 0x2C, "stalls": 0x30}
_HEADER_BYTES = 0x18
_PAUSE = 0.1
"""Seconds between attempts to open a device that is gone."""


_Method = TypeVar("_Method", bound=Callable[..., Any])


def in_turn(method: _Method) -> _Method:
    """Decorator: callers of a device in other threads wait; its link carries one conversation."""

    @functools.wraps(method)
    def run(self: OpenDevice, *given: Any, **options: Any) -> Any:
        with self._turn:
            return method(self, *given, **options)

    return run  # type: ignore[return-value]


class OpenDevice:
    """A design on a board or in a simulation, and its contents; parameters and errors are those of `Device`."""

    def __init__(
        self,
        transport: Transport,
        *,
        files: Mapping[str, Any] | None = None,
        weights: Mapping[str, Any] | None = None,
        state: Mapping[str, Any] | None = None,
        image: str | PathLike[str] | None = None,
        holds_image: bool = False,
        timeout: float = 1.0,
        attempts: int = 6,
        on_close: Callable[[], None] = lambda: None,
        reopen: Callable[[], Transport] | None = None,
    ) -> None:
        self._turn = RLock()
        self._link = Link(transport, timeout)
        self._on_close, self._reopen = on_close, reopen
        self._runs = Runs(self._link, attempts)
        self._loaded: dict[str, list[Request]] = {}  # weights and memory, to be loaded again after a restart
        self.rate = 0.0
        try:
            self.description = self._identify(files)
            self._borders, self._output_borders = self._scales((files or {}).get("borders"))
            self.gives_codes = bool((files or {}).get("codes", True))
            self._values = {
                name: checked_value(self.description, name, value)
                for name, value in self.description.values.items()
            }
            self._first = dict(state or {})
            self._state = DeviceState(self.description.states, self._read_state, self._write_state)
            self._missing = {b.name for b in self.description.weights}
            memory = self.description.memory
            if memory is not None and not holds_image:
                self._missing.add(memory.name)
                if image is not None:
                    self.load_image(image)
            if weights:
                self.load_weights(weights)
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        d = self.description
        return f"<Device {self._link.transport.name}: {d.name}, {d.identity}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @in_turn
    def close(self) -> None:
        """Release the link; a simulation ends."""
        self._link.transport.close()
        self._on_close()

    @in_turn
    def reconnect(self, seconds: float = 10.0) -> bool:
        """Open the device again, after its cable was unplugged or its power was off.

        The device must hold the same design.  One that was restarted gets its weights and the memory outside the chip
        again; variables are written by each run.

        Parameters
        ----------
        seconds : float
            How long to wait for the device.

        Returns
        -------
        bool
            Whether the device has gone on.  Else it was restarted, or has not run yet, and its state has its first
            contents, as after `reset`.

        Raises
        ------
        ConnectionFailedError
            When the device cannot be opened within that time.
        WrongDesignError
            When it holds another design.
        """
        if self._reopen is None:
            raise ConnectionFailedError(
                f"{self._link.transport.name} cannot be opened again", stage="link", hint="connect again"
            )
        self._link.transport.close()
        deadline = time.monotonic() + seconds
        while True:
            try:
                self._link.replace(self._reopen())
                break
            except ConnectionFailedError:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(_PAUSE)
        self._identify({"id": self.description.identity, "design": self.description.name})
        goes_on = self._runs.go_on()
        if not goes_on:
            for requests in self._loaded.values():
                self._perform(requests)
            if self.can_reset:
                self.reset()
            self._runs.begin_anew()
        return goes_on

    # Weights and counters

    @in_turn
    def load_weights(self, weights: Mapping[str, npt.ArrayLike]) -> None:
        """Write weights of a design that was made with ``weights="loadable"``.

        Parameters
        ----------
        weights : mapping of str to array
            The result of `Accelerator.load_weights`, or arrays by the names of the buffers.

        Raises
        ------
        UnfitInputError
            For an unknown name, another size or type, or no mapping; nothing is written then.
        """
        if not isinstance(weights, Mapping):
            raise UnfitInputError(
                f"weights are a {type(weights).__name__}",
                stage="weights",
                hint="give a mapping of names to arrays: {name: array}",
            )
        known = {b.name: b for b in self.description.weights}
        requests: dict[str, list[Request]] = {}
        for name, value in weights.items():
            if name not in known:
                raise UnfitInputError(
                    f"no weight {name!r} can be loaded",
                    stage=f"write {name}",
                    hint=f"weights are {', '.join(known) or 'part of the design: build it with --weights loadable'}",
                )
            buffer: Buffer = known[name]
            requests[name] = protocol.write(buffer.address, buffer.encode(value), f"write {name}")
        self._perform([request for some in requests.values() for request in some])
        self._loaded |= requests
        self._missing -= set(weights)

    @in_turn
    def load_image(self, image: MemoryImage | str | PathLike[str]) -> None:
        """Write the memory outside the chip, from an image or its file.

        Raises
        ------
        UnfitInputError
            For a file that is not an image, cut or damaged, and for a design that cannot write its memory.
        WrongDesignError
            For the image of another design.
        """
        image = image if isinstance(image, MemoryImage) else MemoryImage.load(image)
        image.check(self.description.identity)
        memory = self.description.memory
        if memory is None or memory.size != len(image.contents):
            room = "cannot be written here" if memory is None else f"takes {memory.size:,} bytes"
            raise UnfitInputError(
                f"an image of {len(image.contents):,} bytes, and the memory outside the chip {room}",
                stage="memory image",
                hint="build the design with --memory-port sdram, or load it through the bus of that memory",
            )
        requests = protocol.write(memory.address, image.contents, "memory image")
        self._perform(requests)
        self._loaded[memory.name] = requests
        self._missing.discard(memory.name)

    @in_turn
    def set_variable(self, name: str, value: int) -> None:
        """Set a run-time variable for the runs that give it no other value.

        Parameters
        ----------
        name : str
        value : int
            Within the range of the variable.
        """
        self._values[name] = checked_value(self.description, name, value)

    @property
    def state(self) -> DeviceState:
        """The state, which runs update, by name: ``device.state["cache"]`` reads it, an assignment writes it."""
        return self._state

    @in_turn
    def reset(self) -> None:
        """Start over: the state has its first contents.

        Raises
        ------
        UnfitInputError
            Without the folder of the design, which has them.
        """
        missing = [name for name in self.state if name not in self._first]
        if missing:
            raise UnfitInputError(
                f"the first contents of {', '.join(missing)} are not known",
                stage="reset",
                hint="connect with the folder that `tg2hdl build` wrote",
            )
        for name in self.state:
            dtype, first = self.description.buffers[name].type, np.asarray(self._first[name])
            # numpy's files have no short floats.
            self.state[name] = first if first.dtype == dtype else first.view(dtype)

    @property
    def can_reset(self) -> bool:
        """Whether `reset` reaches all that a run depends on."""
        return bool(self.state) and all(name in self._first for name in self.state)

    @in_turn
    def _read_state(self, name: str) -> npt.NDArray[Any]:
        buffer = self.description.buffers[name]
        found = buffer.decode(self._perform(protocol.read(buffer.address, buffer.size, f"read {name}")))
        return found.reshape(self.description.shapes.get(name, buffer.shape))

    @in_turn
    def _write_state(self, name: str, value: npt.ArrayLike) -> None:
        buffer, limits = self.description.buffers[name], self.description.states[name]
        array = np.asarray(value)
        data = buffer.encode(array.reshape(buffer.shape) if array.size == math.prod(buffer.shape) else array)
        if limits is not None and array.size and (array.min() < limits[0] or array.max() > limits[1]):
            raise UnfitInputError(
                f"{name!r} is given values from {array.min()} to {array.max()}",
                stage=f"write {name}",
                hint=f"give values from {limits[0]} to {limits[1]}",
            )
        self._perform(protocol.write(buffer.address, data, f"write {name}"))

    @property
    @in_turn
    def counters(self) -> dict[str, int]:
        """Runs, clock cycles of the last run, stalls, and errors of the link as either side saw them."""
        data = self._perform([r for a in _COUNTERS.values() for r in protocol.read(a, 4, "counters")])
        values = {
            name: int.from_bytes(word, "little")
            for name, word in zip(_COUNTERS, (data[n : n + 4] for n in range(0, len(data), 4)), strict=True)
        }
        return values | {"damaged_replies": self._link.damaged, "repeats": self._link.faults}

    def _scales(self, borders: Any) -> tuple[dict[str, Border], list[Border]]:
        """Scales of the inputs by name, and of the outputs, of a quantized model."""
        if not borders:
            return {}, []
        described = self.description
        try:
            inputs, outputs = borders["inputs"], borders["outputs"]
            pairs = list(zip(described.inputs, inputs, strict=True))
            results = list(zip(described.outputs, outputs, strict=True))
        except (KeyError, TypeError, ValueError) as error:
            raise ConnectionFailedError(
                f"the scales in device.json cannot be read: {error!r}",
                stage="identity",
                hint="build the folder again with `tg2hdl build`",
            ) from error
        return (
            {name: Border.parse(data, described.buffers.get(name)) for name, data in pairs},
            [Border.parse(data, None) for _, data in results],
        )

    # The link

    def _identify(self, files: Mapping[str, Any] | None) -> Description:
        head = self._perform(protocol.read(_MAGIC, _HEADER_BYTES, "identity"))
        magic, version, low, high, address, size = np.frombuffer(head, "<u4").tolist()
        if magic != 0x48324754 or version != 1:
            raise ConnectionFailedError(
                f"{self._link.transport.name} is not a device of this kind: magic {magic:#x}, version {version}",
                stage="identity",
                hint="check the bitstream, and that driver and design are of the same version",
            )
        identity = f"{(high << 32) | low:016x}"
        if files is not None and files["id"] != identity:
            raise WrongDesignError(
                f"{self._link.transport.name} holds the design {identity}, not {files['id']} ({files['design']})",
                stage="identity",
                hint="load the bitstream of this folder: tg2hdl program DIR",
            )
        text = self._perform(protocol.read(address, size, "identity"))[:size]
        return Description.parse(text, files)

    def _perform(self, requests: Sequence[Request]) -> bytes:
        """Data of all replies; repeated as a whole where the link fails."""
        return self._runs.perform(requests)

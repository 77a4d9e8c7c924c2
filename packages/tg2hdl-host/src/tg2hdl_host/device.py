"""A design behind a link, as a function of arrays."""

from __future__ import annotations

import functools
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from threading import RLock
from types import TracebackType
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from tg2hdl_host import protocol
from tg2hdl_host.border import Border
from tg2hdl_host.description import Buffer, Description, restored
from tg2hdl_host.errors import ConnectionFailedError, UnfitInputError, WrongDesignError
from tg2hdl_host.generation import ChipLoop, Tensor, feedback_of
from tg2hdl_host.image import MemoryImage
from tg2hdl_host.inputs import EncodedRun, checked_value, encoded_run
from tg2hdl_host.link import Link, Transport
from tg2hdl_host.protocol import Request
from tg2hdl_host.runs import RUNS, Runs
from tg2hdl_host.state import DeviceState

__all__ = ["Device"]

_MAGIC = 0x00
_COUNTERS = {"runs": RUNS, "cycles": 0x24, "error": 0x28, "link_errors": 0x2C, "stalls": 0x30}
_HEADER_BYTES = 0x18
_PAUSE = 0.1
"""Seconds between attempts to open a device that is gone."""


_Method = TypeVar("_Method", bound=Callable[..., Any])


def _in_turn(method: _Method) -> _Method:
    """Decorator: callers of a device in other threads wait; its link carries one conversation."""

    @functools.wraps(method)
    def run(self: Device, *given: Any, **options: Any) -> Any:
        with self._turn:
            return method(self, *given, **options)

    return run  # type: ignore[return-value]


class Device:
    """A design on a board or in a simulation; made by `connect`.

    A context manager.  ``device(x)`` returns what the model returns.  Several threads may call it: their runs follow
    one another, and a batch of `run` is not interrupted.

    Parameters
    ----------
    transport : Transport
    files : mapping, optional
        Contents of ``device.json``; the device must hold this design.
    weights : mapping of str to array, optional
        Written before the first run.
    state : mapping of str to array, optional
        First contents of the state, which `reset` writes.
    image : path, optional
        File of the memory outside the chip; written before the first run where the design can.
    holds_image : bool
        Whether that memory has its contents already, as in a simulation.
    timeout : float
        Seconds to wait for an answer.
    attempts : int
        How often something is tried before it is an error.
    on_close : callable
        Called by `close`, after the transport has been closed.
    reopen : callable, optional
        ``() -> Transport``: opens the device again, for `reconnect`.

    Attributes
    ----------
    description : Description
    rate : float
        Results per second of the last `run`.
    gives_codes : bool
        Whether outputs of a quantized model are integers unless a call says otherwise, as the folder has it.

    Raises
    ------
    ConnectionFailedError
        When there is no such device.
    WrongDesignError
        When it holds another design.
    """

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

    def __enter__(self) -> Device:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @_in_turn
    def close(self) -> None:
        """Release the link; a simulation ends."""
        self._link.transport.close()
        self._on_close()

    @_in_turn
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

    # Running

    def __call__(self, *inputs: Any, codes: bool | None = None, **variables: int) -> Any:
        """Run once.

        Parameters
        ----------
        inputs : arrays
            One per input of the model; or a dict of them by name, which may have values of variables too.
        codes : bool, optional
            Whether outputs of a quantized model are integers, or the values that they stand for; as `gives_codes`
            unless given.
        variables : int
            Values of run-time variables by name, such as ``pos=7``; the others have those of `set_variable`, or else
            those that the folder of the design has.

        Raises
        ------
        UnfitInputError
            For a missing input, one of another shape or type, or a variable without a value or out of its range.
            With the folder of a quantized model, inputs may be
            the float values that it was quantized for.
        LinkError
            When a stage does not answer.
        """
        return self._restored(self.flat(*inputs, **variables), codes)

    def _restored(self, outputs: Sequence[npt.NDArray[Any]], codes: bool | None) -> Any:
        """The model's result: integers, or with the folder of a quantized model the values."""
        if self._output_borders and not (self.gives_codes if codes is None else codes):
            outputs = self.dequantize(tuple(outputs))
        return restored(self.description.structure, outputs)

    @_in_turn
    def flat(self, *inputs: Any, **variables: int) -> list[npt.NDArray[Any]]:
        """Run once; all outputs in their order."""
        (outputs,) = self._results([inputs], variables)
        return outputs

    @_in_turn
    def values(self, *inputs: Any, **variables: int) -> list[npt.NDArray[Any]]:
        """Run once; all outputs in their order, in the forms of `output_forms`."""
        return self._converted(self.flat(*inputs, **variables))

    def _converted(self, outputs: list[npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
        if self._output_borders and not self.gives_codes:
            outputs = list(self.dequantize(tuple(outputs)))
        return [a.reshape(shape) for a, (shape, _) in zip(outputs, self.output_forms, strict=True)]

    def input_form(self, name: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
        """Shape and type of an input that the hardware has: of the values, for a quantized model."""
        buffer, border = self.description.buffers[name], self._borders.get(name)
        if border is not None and border.dtype.kind == "f":
            return buffer.shape, border.dtype
        return buffer.shape, buffer.dtype

    @property
    def output_forms(self) -> list[tuple[tuple[int, ...], np.dtype[Any]]]:
        """Shapes and types of the outputs in their order, as the model returns them."""
        described = self.description
        shapes = described.output_shapes
        if self._output_borders and not self.gives_codes:
            return [
                (shape if border.shape is None else border.shape, border.dtype)
                for border, shape in zip(self._output_borders, shapes, strict=True)
            ]
        return [
            (shape, described.buffers[n].dtype) for shape, n in zip(shapes, described.outputs, strict=True)
        ]

    @property
    def input_types(self) -> list[np.dtype[Any] | None]:
        """Types of the inputs; None for one that no result depends on."""
        known = self.description.buffers
        return [known[name].dtype if name in known else None for name in self.description.inputs]

    @_in_turn
    def run(
        self, batch: Iterable[Any], *, progress: bool = False, codes: bool | None = None, **variables: int
    ) -> list[Any]:
        """Run many inputs; the link is busy with the next ones while one is computed.

        Parameters
        ----------
        batch : iterable
            Inputs, or tuples of inputs where the model has several, or dicts of inputs and variables by name.  A first
            axis of size 1 may be left out.
        progress : bool
            Whether to print a line about it to the standard error.
        codes : bool, optional
            As for a single run.
        variables : int
            Values of run-time variables in all runs.

        Returns
        -------
        list
            The model's result for each.
        """
        inputs = [x if isinstance(x, tuple) else (x,) for x in batch]
        found: list[Any] = []
        begun = time.monotonic()
        for outputs in self._results(inputs, variables):
            found.append(self._restored(outputs, codes))
            self.rate = len(found) / max(1e-9, time.monotonic() - begun)
            if progress and (len(found) == len(inputs) or len(found) % 8 == 0):
                end = "\n" if len(found) == len(inputs) else ""
                text = f"\r{len(found)} of {len(inputs)}, {self.rate:,.1f} per second"
                print(text, end=end, file=sys.stderr, flush=True)
        return found

    def generate(
        self,
        first: npt.ArrayLike,
        *,
        stop: Any = None,
        limit: int | None = None,
        feedback: str | None = None,
        counter: str | None = None,
        start: int | None = None,
    ) -> Iterator[Any]:
        """Results that are fed back: each output is the input of the next run, and a variable counts the runs.

        The model's state continues from the runs before; call `reset` to start over.  A design with a
        loop, compiled with ``CompileOptions(loop=True)``, starts the runs from the last of `first` on by itself.  It
        runs ahead of the results that are taken, at most as far as `stop` and `limit` say; otherwise the host starts
        each run.

        Parameters
        ----------
        first : array or sequence of arrays
            The first input; or several, such as the tokens of a prompt: results start with that of the last one.
        stop : array or number, optional
            The result whose output equals it is the last one.
        limit : int, optional
            Most results; may be left out where a counter ends.
        feedback : str, optional
            Name of the output; the only one of the shape and type of the input unless given.
        counter : str, optional
            Name of the run-time variable; the only one unless given.
        start : int, optional
            First value of the counter; its lowest unless given.

        Returns
        -------
        iterator
            The model's results, run by run.

        Raises
        ------
        UnfitInputError
            When there is not one such input, output or variable, or nothing ends the runs.
        """
        described = self.description

        def tensors(names: Iterable[str]) -> list[Tensor]:
            known = [described.buffers[name] for name in names if name in described.buffers]
            return [Tensor(b.name, b.shape, b.dtype) for b in known]

        def run(value: npt.NDArray[Any], values: dict[str, int]) -> tuple[Any, npt.NDArray[Any]]:
            outputs = self.flat(value, **values)
            return self._restored(outputs, None), outputs[found.output]

        try:
            outputs = tensors(described.outputs)
            found = feedback_of(
                tensors(described.inputs), outputs, described.variables, feedback, counter, start
            )
            chip = described.loop if self.gives_codes or not self._output_borders else None
            loop = None if chip is None else ChipLoop(chip.counter, chip.most, self._run_loop)
            return found.results(run, first, stop, limit, loop)
        except ValueError as error:
            raise UnfitInputError(
                str(error), stage="generate", hint="give feedback=, counter=, start= or limit="
            ) from None

    @_in_turn
    def _run_loop(
        self, value: npt.NDArray[Any], values: Mapping[str, int], results: int, stop: int | None
    ) -> list[tuple[Any, npt.NDArray[Any]]]:
        """Start the loop once, also where answers are lost; as `ChipLoop.run`."""
        described = self.description
        assert described.loop is not None, "asked for a design with one"
        kept, output = described.buffers[described.loop.results], described.buffers[described.outputs[0]]
        controls = np.array([results, stop is not None, (stop or 0) & 0xFFFFFFFF, (stop or 0) >> 32], "<u4")
        (prepared,) = self._encoded_runs([(value,)], values)
        data = self._runs.loop(described, prepared, controls.tobytes(), results, self._lost)
        found = np.frombuffer(data, kept.dtype.newbyteorder("<")).astype(kept.dtype)
        return [(self._restored([row], None), row) for row in found.reshape(-1, *output.shape)]

    def _results(
        self, batch: Sequence[tuple[Any, ...]], variables: Mapping[str, int]
    ) -> Iterator[list[npt.NDArray[Any]]]:
        return self._runs.results(self.description, self._encoded_runs(batch, variables), self._lost)

    @property
    def _lost(self) -> list[str]:
        """Names of the contents that a restart of the device loses."""
        return [*self._loaded, *(["its state"] if self.description.keeps_state else [])]

    def _encoded_runs(
        self, batch: Sequence[tuple[Any, ...]], variables: Mapping[str, int]
    ) -> list[EncodedRun]:
        if self._missing:
            raise UnfitInputError(
                f"weights are not loaded: {', '.join(sorted(self._missing))}",
                stage="write weights",
                hint="call load_weights or load_image first, or connect with the folder that `tg2hdl build` wrote",
            )
        return [
            encoded_run(self.description, self._borders, self._values, inputs, variables) for inputs in batch
        ]

    def dequantize(self, outputs: Any) -> Any:
        """Values of the integer outputs of a quantized model: an array, a tuple or a dict, as they came.

        Values stay as they are.

        Raises
        ------
        UnfitInputError
            Without the scales, which are in the folder that ``tg2hdl build`` wrote for a quantized model.
        """
        if isinstance(outputs, Mapping):
            return dict(zip(outputs, self.dequantize(tuple(outputs.values())), strict=True))
        arrays = outputs if isinstance(outputs, tuple | list) else (outputs,)
        if len(arrays) != len(self._output_borders):
            raise UnfitInputError(
                f"{len(arrays)} outputs, and scales of {len(self._output_borders)}",
                stage="dequantize",
                hint="connect with the folder that `tg2hdl build` wrote for a quantized model",
            )
        try:
            values = tuple(
                border.dequantized(np.asarray(array))
                for border, array in zip(self._output_borders, arrays, strict=True)
            )
        except (ValueError, TypeError) as error:
            raise UnfitInputError(
                f"the outputs do not fit the scales: {error}",
                stage="dequantize",
                hint="give outputs of the device, and the folder of its model",
            ) from error
        return values if isinstance(outputs, tuple | list) else values[0]

    # Weights and counters

    @_in_turn
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

    @_in_turn
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

    @_in_turn
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

    @_in_turn
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
            dtype, first = self.description.buffers[name].dtype, np.asarray(self._first[name])
            # numpy's files have no short floats.
            self.state[name] = first if first.dtype == dtype else first.view(dtype)

    @property
    def can_reset(self) -> bool:
        """Whether `reset` reaches all that a run depends on."""
        return bool(self.state) and all(name in self._first for name in self.state)

    @_in_turn
    def _read_state(self, name: str) -> npt.NDArray[Any]:
        buffer = self.description.buffers[name]
        found = buffer.decode(self._perform(protocol.read(buffer.address, buffer.size, f"read {name}")))
        return found.reshape(self.description.shapes.get(name, buffer.shape))

    @_in_turn
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
    @_in_turn
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

"""A design behind a link, as a function of arrays."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_host.description import restored
from tg2hdl_host.errors import UnfitInputError
from tg2hdl_host.generation import ChipLoop, Tensor, feedback_of
from tg2hdl_host.inputs import EncodedRun, encoded_run
from tg2hdl_host.open_device import OpenDevice, in_turn

__all__ = ["Device"]


class Device(OpenDevice):
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

    @in_turn
    def flat(self, *inputs: Any, **variables: int) -> list[npt.NDArray[Any]]:
        """Run once; all outputs in their order."""
        (outputs,) = self._results([inputs], variables)
        return outputs

    @in_turn
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
            (shape, described.buffers[n].type) for shape, n in zip(shapes, described.outputs, strict=True)
        ]

    @property
    def input_types(self) -> list[np.dtype[Any] | None]:
        """Types of the inputs; None for one that no result depends on."""
        known = self.description.buffers
        return [known[name].dtype if name in known else None for name in self.description.inputs]

    @in_turn
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
            return [Tensor(b.name, b.shape, b.type) for b in known]

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

    @in_turn
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
        found = np.frombuffer(data, kept.dtype.newbyteorder("<")).astype(kept.type)
        return [(self._restored([row], None), row) for row in found.reshape(-1, *output.shape)]

    def _results(
        self, batch: Sequence[tuple[Any, ...]], variables: Mapping[str, int]
    ) -> Iterator[list[npt.NDArray[Any]]]:
        return self._runs.results(self.description, self._encoded_runs(batch, variables), self._lost)

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

    @property
    def _lost(self) -> list[str]:
        """Names of the contents that a restart of the device loses."""
        return [*self._loaded, *(["its state"] if self.description.keeps_state else [])]

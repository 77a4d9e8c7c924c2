"""Runs that feed a result back: its output is the next input, and a counter drives a run-time variable."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["ChipLoop", "Feedback", "Tensor", "feedback_of"]

Array = npt.NDArray[Any]


class Tensor(NamedTuple):
    """An input or output: its name, shape and numpy dtype."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


class ChipLoop(NamedTuple):
    """A loop that a design runs by itself.

    Parameters
    ----------
    counter : str or None
        Variable that it counts with.
    most : int
        Most results of a start.
    run : callable
        Takes the first input, values of variables, most results, and the bits of the elements of the last one, or None;
        returns the results, and their outputs.
    """

    counter: str | None
    most: int
    run: Callable[[Array, dict[str, int], int, int | None], Sequence[tuple[Any, Array]]]


class Feedback(NamedTuple):
    """How results are fed back.

    Parameters
    ----------
    output : int
        Number of the output that is the next input.
    target : Tensor
        The input.
    counter : str or None
        Variable that counts the runs.
    positions : range or None
        Its values.
    """

    output: int
    target: Tensor
    counter: str | None
    positions: range | None

    def results(
        self,
        run: Callable[[Array, dict[str, int]], tuple[Any, Array]],
        first: Any,
        stop: Any,
        limit: int | None,
        loop: ChipLoop | None = None,
    ) -> Iterator[Any]:
        """Results from the last of the first inputs on.

        Parameters
        ----------
        run : callable
            Takes an input and the values of variables; returns a result and its output that is fed back.
        first : array or sequence of arrays
            The first input, or several, whose results but the last are not wanted.
        stop : array, optional
            The result whose output equals it is the last.
        limit : int, optional
            Most results.
        loop : ChipLoop, optional
            Of the design; it serves where it counts with the same variable and `stop` has one value.  It runs ahead of
            the results that are taken: one run at first, then twice as many as before.

        Raises
        ------
        ValueError
            For a first input or `stop` that does not fit, or runs without an end.
        """
        given = self._inputs(first)
        if limit is None and self.positions is None:
            raise ValueError("limit is missing: there is no counter whose range ends the runs")
        if limit is not None and (isinstance(limit, bool) or limit < 1):
            raise ValueError(f"limit is {limit}, not a positive number of results")
        if self.positions is not None and len(given) > len(self.positions):
            last = self.positions[-1] if len(self.positions) else self.positions.start
            raise ValueError(f"{len(given)} first inputs do not fit: {self.counter} ends at {last}")
        wanted = None if stop is None else self._stop(stop)
        if loop is not None and (loop.counter != self.counter or not _has_one_value(wanted)):
            loop = None
        return self._results(run, given, wanted, limit, loop)

    def _results(
        self, run: Any, given: list[Array], stop: Array | None, limit: int | None, loop: ChipLoop | None
    ) -> Iterator[Any]:
        value, number, found, ahead = given[0], 0, 0, 1
        while self.positions is None or number < len(self.positions):
            values = {} if self.positions is None else {str(self.counter): self.positions[number]}
            if loop is None or number + 1 < len(given):
                turns: Sequence[tuple[Any, Array]] = [run(value, values)]
            else:
                most = min(ahead, loop.most, loop.most if limit is None else limit - found)
                turns = loop.run(value, values, most, _bits(stop, self.target.dtype))
                ahead *= 2
            for result, fed_back in turns:
                number += 1
                if number < len(given):
                    value = given[number]
                    continue
                found += 1
                yield result
                if found == limit or (stop is not None and np.array_equal(fed_back, stop)):
                    return
                value = fed_back

    def _stop(self, stop: Any) -> Array:
        """The value of the last output, for each element."""
        array = np.asarray(stop)
        try:
            return np.broadcast_to(array, self.target.shape)
        except ValueError:
            raise ValueError(f"stop has shape {array.shape}, and a result {self.target.shape}") from None

    def _inputs(self, first: Any) -> list[Array]:
        name, shape, dtype = self.target
        size, array = math.prod(shape), np.asarray(first)
        if array.size and array.dtype != dtype and np.array_equal(array, array.astype(dtype)):
            array = array.astype(dtype)  # exact, such as a list of Python's integers
        if array.size and array.dtype == dtype:
            if array.size == size and array.ndim <= len(shape):
                return [array.reshape(shape)]
            if array.ndim and array.size == len(array) * size:
                return [row.reshape(shape) for row in array]
        raise ValueError(
            f"first has shape {array.shape} and type {array.dtype}; input {name!r} takes "
            f"{shape} and {dtype}, or several of them"
        )


def _has_one_value(stop: Array | None) -> bool:
    return stop is None or bool((stop == stop.reshape(-1)[:1]).all())


def _bits(stop: Array | None, dtype: np.dtype[Any]) -> int | None:
    """Bits of the value that all elements have; None where no element of the type can equal it."""
    if stop is None:
        return None
    value = stop.reshape(-1)[:1]
    with np.errstate(all="ignore"):
        element = value.astype(dtype)
    if not np.array_equal(element, value):
        return None
    return int.from_bytes(element.tobytes(), "little")


def feedback_of(
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    variables: Mapping[str, tuple[int, int]],
    feedback: str | None,
    counter: str | None,
    start: int | None,
) -> Feedback:
    """The output that is fed back to the only input, and the variable that counts.

    Parameters
    ----------
    inputs, outputs : sequence of Tensor
        Of the model.
    variables : mapping of str to (low, high)
    feedback : str, optional
        Name of the output; the only one of the shape and type of the input unless given.
    counter : str, optional
        Name of the variable; the only one unless given.
    start : int, optional
        Its first value; the lowest unless given.

    Raises
    ------
    ValueError
        When there is not one such input, output or variable.
    """
    if len(inputs) != 1:
        names = ", ".join(t.name for t in inputs) or "none"
        raise ValueError(
            f"results are fed back to one input, and the inputs are {names}: keep the others as state"
        )
    (target,) = inputs
    fitting = [n for n, t in enumerate(outputs) if (t.shape, t.dtype) == (target.shape, target.dtype)]
    named = [n for n in fitting if feedback in (None, outputs[n].name)]
    if len(named) != 1:
        known = ", ".join(f"{t.name} {t.shape} {t.dtype}" for t in outputs)
        reason = "several outputs have" if len(named) > 1 else "no such output has"
        raise ValueError(
            f"{reason} the shape {target.shape} and type {target.dtype} of {target.name!r}; outputs are {known}"
        )
    if counter is None and len(variables) > 1:
        raise ValueError(f"several variables may count: name one of {', '.join(variables)} by counter=...")
    if counter is not None and counter not in variables:
        raise ValueError(f"the design has no variable {counter!r} to count with")
    counter = counter or next(iter(variables), None)
    if counter is None:
        return Feedback(named[0], target, None, None)
    low, high = variables[counter]
    begin = low if start is None else start
    if not low <= begin <= high:
        raise ValueError(f"start is {begin}, and {counter} goes from {low} to {high}")
    return Feedback(named[0], target, counter, range(begin, high + 1))

"""Runs a design on many inputs at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir import IRBufLoad, IRBufStore
from tg2hdl_lower import to_words
from tg2hdl_sim import BatchSimulation, SimulationModel, batch_size, open_batch
from tg2hdl_top import Design

__all__ = ["SideBySide", "keeps_nothing", "open_side_by_side", "stacked_words"]


class SideBySide:
    """A batch as the driver of a host port sees it: a word is an array of one word for each input."""

    def __init__(self, batch: BatchSimulation) -> None:
        self.batch = batch
        self.size = batch.size
        self.set, self.step, self.run_until = batch.set, batch.step, batch.run_until

    @property
    def cycles(self) -> int:
        """Rising clock edges since the start."""
        return self.batch.cycles

    def write_stream(self, addr: str, data: str, enable: str, addresses: Any, words: Any) -> int:
        """Write one word per edge; `words` has the shape (words, inputs) or (words, inputs, limbs).

        Parameters
        ----------
        addr, data, enable : str
            Names of ports.
        addresses
            One for each word.
        words
            Of shape (words, inputs) or (words, inputs, limbs).
        """
        return self.batch.write_stream_each(addr, data, enable, addresses, np.moveaxis(words, 1, 0))

    def read_stream(self, addr: str, data: str, addresses: Any, **options: Any) -> npt.NDArray[Any]:
        """Read one word per edge, in the shape of `write_stream`.

        Parameters
        ----------
        addr, data : str
            Names of ports.
        addresses
            One for each word.
        **options
            Of the batch's `read_stream_each`.
        """
        return np.stack(self.batch.read_stream_each(addr, data, addresses, **options), axis=1)


def open_side_by_side(model: SimulationModel, inputs: int, progress: Callable[[str], None]) -> SideBySide:
    """Open a batch in which only data ports vary; addresses and enables are the same for all inputs.

    Its size is chosen for the number of inputs.

    Parameters
    ----------
    model : SimulationModel
    inputs : int
        Number of runs, which decides the size of the batch.
    progress : callable
        Called with one line of text for each step.
    """
    ports = model.compact.ports.values()
    varying = [p.name for p in ports if p.direction == "in" and p.name.endswith("__wdata")]
    return SideBySide(open_batch(model, varying, size=batch_size(model, inputs), progress=progress))


def stacked_words(
    design: Design, inputs: Sequence[Mapping[str, npt.NDArray[Any]]], size: int
) -> dict[int, npt.NDArray[Any]]:
    """Words of each buffer that the host writes, of all inputs; the last one fills up the batch.

    Parameters
    ----------
    design : Design
    inputs : sequence of mapping of str to ndarray
        Flat arrays by name, for each run.
    size : int
        Of the batch.
    """
    padded = [*inputs, *[inputs[-1]] * (size - len(inputs))]
    loads = [design.loads(each) for each in padded]
    return {
        number: np.stack(
            [to_words(load[number], design.memory(number).dtype.bit_width) for load in loads], axis=1
        )
        for number in loads[0]
    }


def keeps_nothing(design: Design) -> bool:
    """Whether every run writes the same locations, and none reads results of the previous run."""
    program = design.program
    if program.variables:
        return False
    for call in program.calls:
        stores = [s for s in call.kernel.loop_tree.statements() if isinstance(s, IRBufStore)]
        if any(s.gate is not None or _reads_memory(s.addr) for s in stores):
            return False
        if any(program.buffers[n].initial is not None for n in call.accesses()[1]):
            return False
    return True


def _reads_memory(value: object) -> bool:
    if isinstance(value, IRBufLoad):
        return True
    if isinstance(value, tuple):
        return any(map(_reads_memory, value))
    return is_dataclass(value) and any(_reads_memory(getattr(value, f.name)) for f in fields(value))

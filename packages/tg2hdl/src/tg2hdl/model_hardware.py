"""The hardware of a model: what was decided, its cycles, memories and multipliers."""

from __future__ import annotations

from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np

from tg2hdl.kernel_summaries import kernel_summaries
from tg2hdl.memory_map import MemoryMap
from tg2hdl.multiplier_map import MultiplierMap
from tg2hdl.results import KernelSummary
from tg2hdl_backend import CapturedProgram
from tg2hdl_ir.files import write_file
from tg2hdl_top import CompileOptions, Design, TopModule

__all__ = ["ModelHardware"]


class ModelHardware:
    """A captured model and its design.

    Attributes
    ----------
    captured : CapturedProgram
        The model as kernels over buffers.
    design : Design
        Everything that was decided about the hardware.
    """

    def __init__(self, captured: CapturedProgram, design: Design) -> None:
        self.captured = captured
        self.design = design

    @property
    def name(self) -> str:
        """Name of the program."""
        return self.design.program.name

    @property
    def options(self) -> CompileOptions:
        """Options that it was compiled with."""
        return self.design.options

    @cached_property
    def top(self) -> TopModule:
        """The hardware: an ordinary Amaranth Component."""
        return TopModule(self.design)

    @cached_property
    def _simulated_top(self) -> TopModule:
        """The hardware with its surroundings in a simulation: memory outside the chip."""
        return TopModule(self.design, simulates_memory=True) if self.design.streams_weights else self.top

    @property
    def kernels(self) -> tuple[KernelSummary, ...]:
        """The kernels in execution order, as planned."""
        return kernel_summaries(self.captured, self.design)

    @property
    def predicted_cycles(self) -> int:
        """Clock cycles from start to done, before any simulation; exact."""
        return self.design.predicted_cycles(self.captured.var_vals)

    @property
    def predicted_interval(self) -> int:
        """Clock cycles from one start to the next, if runs follow each other without waiting for the host."""
        return self.design.timeline(self.captured.var_vals).interval

    def plan(self) -> str:
        """Printed design: ports, memories and the hardware plans of all kernels."""
        return self.design.format()

    @property
    def memory(self) -> MemoryMap:
        """The memories: bits, words, ports and layouts; prints as a table."""
        return MemoryMap(self.design)

    @property
    def multipliers(self) -> MultiplierMap:
        """The hardware multipliers: products, blocks, and the kernels that use them; prints as a table."""
        return MultiplierMap(self.design)

    def pack(self, name: str, array: Any) -> np.ndarray:
        """Words of a memory (Python integers) for an array of the model; see `MemoryMap.pack`.

        Parameters
        ----------
        name : str
            Of the buffer.
        array
            Of the model's shape.
        """
        return self.memory.pack(name, array)

    def unpack(self, name: str, words: Any) -> np.ndarray:
        """Array of the model from the words of a memory; see `MemoryMap.unpack`.

        Parameters
        ----------
        name : str
            Of the buffer.
        words
            Integers.
        """
        return self.memory.unpack(name, words)

    def memory_image(self) -> np.ndarray:
        """Bytes of the memory outside the chip, from the address `memory_base` on, where weights are ``external``.

        Tile by tile in the order of their use; the layout is under ``external_memory`` in the JSON of
        `tg2hdl compile`.

        Raises
        ------
        InputError
            When all weights are on the chip.
        """
        from tg2hdl_top.external.image import memory_image

        return memory_image(self.design)

    def save_memory_image(self, path: str | PathLike[str]) -> None:
        """Write `memory_image` with the identity of the design and a check, as `tg2hdl_host.MemoryImage` reads it.

        Raises
        ------
        InputError
            When all weights are on the chip.
        """
        from tg2hdl_host import MemoryImage

        contents = self.memory_image().tobytes()
        assert self.design.external is not None, "it has an image"
        image = MemoryImage(self.design.identity, self.design.external.model.alignment, contents)
        write_file(path, image.to_bytes())

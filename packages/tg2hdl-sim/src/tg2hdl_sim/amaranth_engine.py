"""Amaranth's own simulator, with the common interface."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from pathlib import Path

import numpy as np
from amaranth.sim.pysim import PySimEngine
from numpy.typing import NDArray

from tg2hdl_ir import InputError
from tg2hdl_sim.model import CLOCK, Elaboration, SimulationModel
from tg2hdl_sim.simulation import Simulation
from tg2hdl_sim.views import removed_when_full
from tg2hdl_sim.words import Chunks, from_ints, to_ints

__all__ = ["AmaranthSimulation", "open_amaranth"]

HALF_PERIOD = 5_000_000  # femtoseconds


class AmaranthSimulation(Simulation):
    """The interpreted engine: nothing to build, slow to run."""

    def __init__(self, elaboration: Elaboration, vcd: Path | None = None) -> None:
        super().__init__(elaboration, "amaranth")
        self._vcd = vcd
        self._engine = PySimEngine(elaboration.design)
        self._cycles = 0
        self._signals = list(elaboration.signals.values())
        self._widths = [port.width for port in elaboration.ports.values()]
        self._clock = elaboration.clock
        state = self._engine.state
        self._clock_slot = state.slots[state.get_signal(self._clock)]
        self._banks = [state.slots[state.get_memory(memory.data)] for memory in elaboration.memories]
        self._initialize()
        self._engine.step_design()
        self._wave = ExitStack()
        if vcd:
            try:
                file = self._wave.enter_context(vcd.open("w"))
            except OSError as error:
                raise InputError(
                    f"cannot write the waveform {str(vcd)!r}",
                    where=self.name,
                    hint="give a path in an existing directory that you may write to",
                ) from error
            ports = {CLOCK: self._clock, **elaboration.signals}
            self._wave.enter_context(
                self._engine.write_vcd(
                    vcd_file=file, gtkw_file=None, traces=list(ports.values()), fs_per_delta=0
                )
            )

    def _close(self) -> None:
        with removed_when_full(self._vcd) if self._vcd else nullcontext():
            self._wave.close()

    def _reset(self) -> None:
        self._refuse_reset_of_wave(self._vcd)
        self._engine.reset()
        self._cycles = 0

    def _initialize(self) -> None:
        self._engine.step_design()  # loads the initial contents of memories and inputs

    @property
    def cycles(self) -> int:
        """Rising clock edges since the start or the last reset."""
        return self._cycles

    def _edge(self) -> None:
        engine, timeline = self._engine, self._engine.state.timeline
        timeline.now += HALF_PERIOD
        self._clock_slot.update(0)
        engine.step_design()
        timeline.now += HALF_PERIOD
        self._clock_slot.update(1)
        engine.step_design()
        self._cycles += 1

    def _set(self, port: int, value: Chunks) -> None:
        self._assign(port, to_ints(value)[0])

    def _assign(self, port: int, value: int) -> None:
        self._engine.set_value(self._signals[port], value)

    def _value(self, port: int) -> int:
        self._engine.step_design()
        return int(self._engine.get_value(self._signals[port])) & ((1 << self._widths[port]) - 1)

    def _get(self, port: int, chunks: int) -> Chunks:
        return from_ints([self._value(port)], self._widths[port])

    def _step(self, count: int) -> None:
        for _ in range(count):
            self._edge()

    def _run_until(self, port: int, value: Chunks, limit: int) -> int | None:
        (wanted,) = to_ints(value)
        for used in range(limit + 1):
            if self._value(port) == wanted:
                return used
            if used < limit:
                self._edge()
        return None

    def _write_memory(self, memory: int, offset: int, chunks: Chunks) -> None:
        bank = self._banks[memory]
        for address, word in enumerate(to_ints(chunks), offset):
            bank.write(address, word)
        self._engine.step_design()

    def _read_memory(self, memory: int, offset: int, count: int, chunks: int) -> Chunks:
        width = self._elaboration.memories[memory].info.width
        return from_ints(self._banks[memory].data[offset : offset + count], width)

    def _write_stream(
        self,
        addr: int,
        data: int,
        enable: int,
        on: Chunks,
        addresses: NDArray[np.uint64],
        chunks: Chunks,
    ) -> None:
        self._set(enable, on)
        for address, word in zip(addresses.tolist(), to_ints(chunks), strict=True):
            self._assign(addr, address)
            self._assign(data, word)
            self._edge()
        self._assign(enable, 0)

    def _read_stream(
        self, addr: int, data: int, addresses: NDArray[np.uint64], latency: int, chunks: int
    ) -> Chunks:
        pending = addresses.tolist()
        found = []
        for index in range(len(pending) + max(latency, 1) - 1):
            if index < len(pending):
                self._assign(addr, pending[index])
            if latency == 0:
                found.append(self._value(data))
            self._edge()
            if latency and index + 1 >= latency:
                found.append(self._value(data))
        return from_ints(found, self._widths[data])


def open_amaranth(
    model: SimulationModel,
    *,
    vcd: Path | None = None,
    cache: bool = True,
    progress: Callable[[str], None],
) -> AmaranthSimulation:
    """Open a model with Amaranth's simulator; see `tg2hdl_sim.open_simulation`.

    Parameters
    ----------
    model : SimulationModel
    vcd : Path, optional
        Records a waveform in this file.
    cache : bool, default True
        Not used: nothing is compiled to a file.
    progress : callable
        Called with one line of text for each step.
    """
    progress(f"compiling {model.name} to Python")
    return AmaranthSimulation(model.elaboration, vcd)

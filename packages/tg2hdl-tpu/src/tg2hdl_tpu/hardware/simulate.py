"""Runs bundles on the simulated hardware."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace, TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tg2hdl_ir import SimulationError
from tg2hdl_ir.turns import in_turn
from tg2hdl_tpu.bundle import Bundle
from tg2hdl_tpu.config import Config
from tg2hdl_tpu.instruction_checks import is_illegal
from tg2hdl_tpu.isa import Trap, fields_of, predecoded
from tg2hdl_tpu.machine import Result, host_rows

__all__ = ["Hardware", "program_limbs"]


def program_limbs(bundle: Bundle) -> NDArray[np.uint64]:
    """Return a program as the program memory has it, with the flags of each word."""
    words = []
    for word in bundle.program:
        bits = (True, *predecoded(SimpleNamespace(**fields_of(word))))
        known = sum(bool(bit) << n for n, bit in enumerate(bits)) * (not is_illegal(word, bundle.config))
        words.append([word & (1 << 64) - 1, word >> 64, known])
    return np.array(words, dtype=np.uint64)


class Hardware:
    """The machine as a simulated netlist; a context manager.

    Parameters
    ----------
    config : Config
        Its parameters.
    engine : str
        Engine of `tg2hdl_sim`.
    """

    def __init__(self, config: Config, *, engine: str = "auto") -> None:
        from tg2hdl_sim import SimulationModel, open_simulation
        from tg2hdl_tpu.hardware.chip import Chip

        self.config = config
        chip = Chip(config)
        model = SimulationModel(chip, memories=chip.memories, name="tpu")
        self.simulation = open_simulation(model, engine=engine, expected_cycles=1_000_000)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.simulation.close()

    def _limbs(self, rows: NDArray[np.int32]) -> NDArray[Any]:
        return np.ascontiguousarray(rows).view(np.uint64)

    @in_turn
    def write(self, space: str, start: int, rows: NDArray[np.int32]) -> None:
        """Write rows of ``vmem`` or ``xmem``.

        Parameters
        ----------
        space : str
            ``vmem`` or ``xmem``.
        start : int
            First row.
        rows : ndarray of int32
            Words of 32 bits: one row for each of the memory, one column for each lane.
        """
        limbs, half = self._limbs(rows), self.config.vmem_rows // 2
        if space == "xmem":
            self.simulation.write_memory("xmem", limbs, start)
            return
        first = max(0, min(half - start, len(rows)))
        if first:
            self.simulation.write_memory("bank0", limbs[:first], start)
        if first < len(rows):
            self.simulation.write_memory("bank1", limbs[first:], max(start - half, 0))

    @in_turn
    def read(self, space: str) -> NDArray[np.int32]:
        """Return all rows of ``vmem`` or ``xmem``."""
        names = ("xmem",) if space == "xmem" else ("bank0", "bank1")
        limbs = np.concatenate([self.simulation.read_memory(name) for name in names])
        return np.ascontiguousarray(limbs).view(np.int32).reshape(-1, self.config.lanes)

    @in_turn
    def run_bundle(self, bundle: Bundle, *, limit: int = 1_000_000) -> Result:
        """Power on, load a bundle and run it.

        Parameters
        ----------
        bundle : Bundle
            Of the same configuration.
        limit : int
            In cycles from the start.

        Raises
        ------
        SimulationError
            When the processor has not halted by then.
        """
        simulation = self.simulation
        simulation.reset()
        if bundle.program:
            simulation.write_memory("program", program_limbs(bundle))
        for region in bundle.data:
            self.write(region.space, region.start, region.rows)
        simulation.step(2)
        simulation.set("start", 1)
        simulation.step()
        simulation.set("start", 0)
        simulation.run_until("done", limit=limit)
        return self._result(bundle)

    def _result(self, bundle: Bundle) -> Result:
        outputs = {o.name: self.read(o.space)[o.start : o.start + o.count] for o in bundle.outputs}
        get = self.simulation.get
        return Result(Trap(get("trap")), get("pc"), get("cycles"), 0, 0, outputs)

    @in_turn
    def run_streamed(
        self,
        bundle: Bundle,
        *,
        results: int = 0,
        pauses: Sequence[bool] = (),
        power_on: bool = True,
        limit: int = 1_000_000,
    ) -> tuple[Result, int, NDArray[np.int32], list[int]]:
        """Run a bundle whose program and rows come through the host port.

        Parameters
        ----------
        results : int
            First row whose writes are results.
        pauses : sequence of bool
            Whether the host sends nothing in a cycle after the first.
        power_on : bool
            Reset the machine before; else it is as the last run left it.
        limit : int
            In cycles from the first word.

        Returns
        -------
        tuple
            The result, the cycles from the first word to the last result, the scratchpad as the port shows it, and
            the cycles in which it shows a row.

        Raises
        ------
        SimulationError
            When the processor has not halted by then.
        """
        sim, region = self.simulation, host_rows(bundle)
        rows = [int.from_bytes(row.tobytes(), "little") for row in region.rows]
        seen = np.zeros((self.config.vmem_rows, self.config.lanes), np.int32)
        if power_on:
            sim.reset()
        sim.step(2)
        sim.set("host__first", region.start)
        sim.set("host__count", len(rows))
        sim.set("host__results", results)
        cycle = word = row = 0
        shown: list[int] = []
        while True:
            sends = not (cycle and cycle <= len(pauses) and pauses[cycle - 1])
            more = sends and word < len(bundle.program)
            sim.set("host__begin", cycle == 0)
            sim.set("host__word_valid", more)
            sim.set("host__word_last", word == len(bundle.program) - 1)
            sim.set("host__word", bundle.program[word] if more else 0)
            sim.set("host__row_valid", sends and row < len(rows))
            sim.set("host__row", rows[row] if row < len(rows) else 0)
            row += bool(sends and row < len(rows) and sim.get("host__row_ready"))
            word += more
            mask = sim.get("host__result_mask")
            if mask and cycle:
                shown.append(cycle)
                words = np.frombuffer(
                    sim.get("host__result").to_bytes(4 * self.config.lanes, "little"), np.int32
                )
                chosen = [bool(mask >> lane & 1) for lane in range(self.config.lanes)]
                seen[sim.get("host__result_row"), chosen] = words[chosen]
            if cycle and sim.get("done"):
                break
            if cycle >= limit:
                raise SimulationError(
                    f"the processor has not halted after {limit} cycles",
                    where=self.simulation.name,
                    hint="give a larger limit if the program takes longer",
                )
            sim.step()
            cycle += 1
        return self._result(bundle), cycle + 1, seen, shown

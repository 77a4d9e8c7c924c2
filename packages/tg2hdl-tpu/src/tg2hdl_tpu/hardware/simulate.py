"""Runs bundles on the simulated hardware."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tg2hdl_tpu.bundle import Bundle
from tg2hdl_tpu.config import Config
from tg2hdl_tpu.isa import Trap
from tg2hdl_tpu.machine import Result

__all__ = ["Hardware"]


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

    def write(self, space: str, start: int, rows: NDArray[np.int32]) -> None:
        """Write rows of ``vmem`` or ``xmem``."""
        limbs, half = self._limbs(rows), self.config.vmem_rows // 2
        if space == "xmem":
            self.simulation.write_memory("xmem", limbs, start)
            return
        first = max(0, min(half - start, len(rows)))
        if first:
            self.simulation.write_memory("bank0", limbs[:first], start)
        if first < len(rows):
            self.simulation.write_memory("bank1", limbs[first:], max(start - half, 0))

    def read(self, space: str) -> NDArray[np.int32]:
        """Return all rows of ``vmem`` or ``xmem``."""
        names = ("xmem",) if space == "xmem" else ("bank0", "bank1")
        limbs = np.concatenate([self.simulation.read_memory(name) for name in names])
        return np.ascontiguousarray(limbs).view(np.int32).reshape(-1, self.config.lanes)

    def run_bundle(self, bundle: Bundle, *, limit: int = 1_000_000) -> Result:
        """Power on, load a bundle and run it."""
        simulation = self.simulation
        simulation.reset()
        words = [[word & (1 << 64) - 1, word >> 64] for word in bundle.program]
        if words:
            simulation.write_memory("program", np.array(words, dtype=np.uint64))
        for region in bundle.data:
            self.write(region.space, region.start, region.rows)
        simulation.step(2)
        simulation.set("start", 1)
        simulation.step()
        simulation.set("start", 0)
        simulation.run_until("done", limit=limit)
        outputs = {o.name: self.read(o.space)[o.start : o.start + o.count] for o in bundle.outputs}
        get = simulation.get
        return Result(Trap(get("trap")), get("pc"), get("cycles"), 0, 0, outputs)

"""Run one compiled kernel on arrays, on the golden model or on simulated hardware."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from tg2hdl_backend.device_options import DeviceOptions
from tg2hdl_ir import KernelIR, UnsupportedError, evaluate, parse_kernel
from tg2hdl_ir.turns import compiles

if TYPE_CHECKING:
    from tg2hdl_backend.kernel_session import KernelSession
    from tg2hdl_top import Design

__all__ = ["KernelRun", "KernelRunner"]

_HEADER = "; options "


@dataclass(frozen=True)
class KernelRun:
    """Cost of a run on hardware.

    Parameters
    ----------
    cycles : int
        Clock cycles from start to done.
    seconds : float
        The same at the clock of the options (s).
    engine : str
        Simulation engine; ``golden`` where a simulation would have taken too long: the cycles are then predicted.
    """

    cycles: int
    seconds: float
    engine: str


@dataclass
class KernelRunner:
    """A kernel and how to run it.

    Parameters
    ----------
    kernel : KernelIR
    options : DeviceOptions
    """

    kernel: KernelIR
    options: DeviceOptions = field(default_factory=DeviceOptions)
    _session: KernelSession | None = field(default=None, repr=False)

    @staticmethod
    def source(kernel: KernelIR, options: DeviceOptions) -> str:
        """Printed kernel with its options: all that a worker process needs.

        Parameters
        ----------
        kernel : KernelIR
        options : DeviceOptions
            Of the device.
        """
        return f"{_HEADER}{options}\n{kernel.format()}"

    @classmethod
    def from_source(cls, text: str) -> KernelRunner:
        """Read the text of `source`."""
        header, _, body = text.partition("\n")
        return cls(parse_kernel(body), DeviceOptions.parse(header.removeprefix(_HEADER)))

    def run(self, arrays: Mapping[int, npt.NDArray[Any]], variables: Mapping[str, int]) -> KernelRun | None:
        """Run once on the buffers by slot, which are changed in place.

        Parameters
        ----------
        arrays : mapping of int to ndarray
            By slot; those that the kernel writes are changed.
        variables : mapping of str to int
            Values by name.

        Returns
        -------
        KernelRun or None
            None when only the golden model ran.
        """
        if self.options.engine == "golden":
            self._compute(arrays, variables)
            return None
        return self._simulate(arrays, variables)

    @compiles
    def _simulate(self, arrays: Mapping[int, npt.NDArray[Any]], variables: Mapping[str, int]) -> KernelRun:
        session = self.session()
        buffers = session.design.program.buffers
        names = {m.idx: b.name for m, b in zip(self.kernel.buffers, buffers, strict=True)}
        run = session.run({names[slot]: array for slot, array in arrays.items()}, variables)
        if run is None:
            self._compute(arrays, variables)
            return self._took(session.design.predicted_cycles(variables), "golden")
        written = [m.idx for m in self.kernel.buffers if m.is_output]
        for slot, result in zip(written, run.outputs, strict=True):
            arrays[slot][:] = result
        return self._took(run.compute, session.engine)

    def _compute(self, arrays: Mapping[int, npt.NDArray[Any]], variables: Mapping[str, int]) -> None:
        units = dict(self.options.units)
        results = evaluate(self.kernel, dict(arrays), dict(variables), units=units)
        for slot, result in results.items():
            arrays[slot][:] = result

    def _took(self, cycles: int, engine: str) -> KernelRun:
        return KernelRun(cycles, cycles / (self.options.clock_mhz * 1e6), engine)

    def prepare(self) -> None:
        """Plan the hardware, so that the first run finds it in the cache."""
        if self.options.engine != "golden":
            self._design()

    def _design(self) -> Design:
        from tg2hdl_backend.plan_cache import cached_design
        from tg2hdl_top import CompileOptions

        with _suggesting_golden():
            options = CompileOptions(
                multipliers=self.options.multipliers, units=dict(self.options.units), cut_kernels=False
            )
            return cached_design(self.kernel, options)

    def session(self) -> KernelSession:
        """The planned hardware and its simulation; made at the first use."""
        if self._session is None:
            from tg2hdl_backend.kernel_session import KernelSession

            self._session = KernelSession(self._design(), self.options)
        return self._session


@contextmanager
def _suggesting_golden() -> Iterator[None]:
    """Suggest the golden model in refusals: it needs no hardware."""
    try:
        yield
    except UnsupportedError as error:
        error.hint = f"{error.hint}; DEV=HDL::engine=golden computes it without hardware"
        raise

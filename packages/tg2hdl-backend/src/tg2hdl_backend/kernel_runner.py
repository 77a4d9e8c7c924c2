"""Run one compiled kernel on arrays, on the golden model or on simulated hardware."""

from __future__ import annotations

import base64
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt

from tg2hdl_backend.device_options import DeviceOptions
from tg2hdl_ir.nodes import KernelIR

__all__ = ["KernelRunner"]

_HEADER = "; options "


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

    @staticmethod
    def source(kernel: KernelIR, options: DeviceOptions) -> str:
        """Printed kernel with its options: all that a worker process needs."""
        return f"{_HEADER}{options}\n{base64.b64encode(pickle.dumps(kernel)).decode()}"

    @classmethod
    def from_source(cls, text: str) -> KernelRunner:
        """Read the text of `source`."""
        header, _, body = text.partition("\n")
        return cls(pickle.loads(base64.b64decode(body)), DeviceOptions.parse(header.removeprefix(_HEADER)))

    def run(self, arrays: Mapping[int, npt.NDArray[Any]], variables: Mapping[str, int]) -> float | None:
        """Run once on the buffers by slot, which are changed in place.

        Returns
        -------
        float or None
            Time on the hardware (s); None when only the golden model ran.
        """
        from tg2hdl_ir.golden import evaluate

        for slot, result in evaluate(self.kernel, dict(arrays), dict(variables)).items():
            arrays[slot][:] = result
        return None

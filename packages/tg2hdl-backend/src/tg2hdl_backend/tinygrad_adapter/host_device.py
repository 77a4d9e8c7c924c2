"""A tinygrad device whose buffers are host memory; a subclass defines how its programs run."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from tinygrad import codegen
from tinygrad.device import Allocator, Compiled
from tinygrad.helpers import DEBUG, DEV, NOOPT, Context

from tg2hdl_backend.tinygrad_adapter.renderer import SequentialRenderer

__all__ = ["HostAllocator", "HostDevice", "HostMemory", "HostProgram", "shows_kernels"]


class HostMemory(Allocator):  # type: ignore[type-arg]
    """Buffers that are bytes of this process; a subclass says whose."""

    def _copyin(self, dest: memoryview, src: memoryview) -> None:
        dest[:] = src.cast("B") if src.format != "B" or src.ndim != 1 else src

    def _copyout(self, dest: memoryview, src: memoryview) -> None:
        dest[:] = src

    def _map(self, buf: memoryview) -> memoryview:
        return buf

    def _offset(self, buf: memoryview, size: int, offset: int) -> memoryview:
        return buf[offset : offset + size]


class HostAllocator(HostMemory):
    """Buffers in host memory; a kernel's memories are filled from them and read back."""

    def _alloc(self, size: int, options: Any) -> memoryview:
        return memoryview(bytearray(size))

    def _free(self, opaque: memoryview, options: Any) -> None:
        pass

    def _as_buffer(self, src: memoryview) -> memoryview:
        return src


class HostProgram(ABC):
    """A compiled kernel, with the constructor and call signatures of all supported versions of tinygrad."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # tinygrad 0.13 passes (name, lib), 0.14 (dev, obj)
        lib = next((a for a in args if isinstance(a, bytes)), None)
        self.load(args[1].lib if lib is None else lib)

    @abstractmethod
    def load(self, lib: bytes) -> None:
        """Take the compiler's result."""

    @abstractmethod
    def run(self, buffers: Sequence[memoryview], values: Sequence[int]) -> float:
        """Run once on the buffers and the values of the variables; returns the time (s).

        Parameters
        ----------
        buffers : sequence of memoryview
            By slot; those that the program writes are changed.
        values : sequence of int
            Of the variables, in the order of the program.
        """

    def __call__(
        self,
        *bufs: memoryview,
        global_size: Sequence[int] = (1, 1, 1),
        local_size: Sequence[int] | None = (1, 1, 1),
        vals: Sequence[int | None] = (),
        wait: bool = False,
        timeout: int | None = None,
        **kwargs: Any,
    ) -> float:
        """Run once, as tinygrad calls it."""
        return self.run(bufs, [int(value or 0) for value in vals])


class HostDevice(Compiled):
    """A device of one sequential thread.

    Parameters
    ----------
    device : str
        tinygrad's name of it, e.g. ``HDL:1``.
    renderer, program, allocator : type
    arch : str, optional
        Options of the renderer's target, where ``DEV`` gives none.
    """

    def __init__(
        self,
        device: str,
        renderer: type[SequentialRenderer],
        program: type[HostProgram],
        allocator: type[Allocator] = HostAllocator,  # type: ignore[type-arg]
        arch: str | None = None,
    ) -> None:
        # 0.14 wants a subclass of its Program, which 0.13 does not have.
        runs: Any = program
        super().__init__(device, allocator(self), [renderer], runs, arch=arch)
        # tinygrad's unrolling and upcasting suit processors; hardware gets its lanes from plain loops.
        # tinygrad notes the device that it has chosen by itself in the environment.
        default = DEV.device or os.environ.get("DEV") or "CPU"
        if default == device.partition(":")[0] and "NOOPT" not in os.environ:
            NOOPT.value = 1


_OPTIMIZE: Any = codegen.apply_opts


def _optimized(ast: Any, renderer: Any, *arguments: Any, **options: Any) -> Any:
    """The loops of a kernel as tinygrad optimizes them: not at all where a renderer asks for that."""
    if getattr(renderer, "plain_loops", False) and "NOOPT" not in os.environ:
        with Context(NOOPT=1):
            return _OPTIMIZE(ast, renderer, *arguments, **options)
    return _OPTIMIZE(ast, renderer, *arguments, **options)


setattr(codegen, "apply_opts", _optimized)  # noqa: B010


def shows_kernels() -> bool:
    """Whether the user asks tinygrad for a line about each kernel."""
    return bool(DEBUG >= 2)

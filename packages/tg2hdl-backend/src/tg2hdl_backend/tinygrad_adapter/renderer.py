"""The hardware as tinygrad's lowering sees it: one sequential thread over flat buffers."""

from __future__ import annotations

from functools import cache
from typing import Any

from tinygrad.device import Compiler
from tinygrad.dtype import DType as TinygradDType
from tinygrad.dtype import dtypes
from tinygrad.helpers import Target
from tinygrad.renderer import Renderer
from tinygrad.uop.ops import Ops, PatternMatcher, UOp, UPat

from tg2hdl_backend.tinygrad_adapter.operations import NATIVE_OPERATIONS, mapped_operations
from tg2hdl_ir import DType, UnsupportedError

__all__ = ["MappedRenderer", "SequentialCompiler", "SequentialRenderer", "mapped_renderer"]

SequentialCompiler = Compiler
"""Base class of compilers; tinygrad's own one returns the text."""


def _never_called(*operands: str) -> str:
    raise NotImplementedError("code_for_op only names the ops that hardware has")


# tinygrad drops the cast of an index whose values are 0 and 1, although its grammar asks for an integer.
_BOOL_INDEX = PatternMatcher(
    [
        (
            UPat(Ops.INDEX, name="place"),
            lambda place: (
                place.replace(src=(place.src[0], place.src[1].cast(dtypes.int32), *place.src[2:]))
                if len(place.src) > 1 and place.src[1].dtype == dtypes.bool
                else None
            ),
        )
    ]
)


class SequentialRenderer(Renderer):
    """Asks tinygrad for plain loops over flat buffers: no work groups, no shared memory, no vectors.

    It renders nothing, so that it is enough for linearized UOps.

    Parameters
    ----------
    target : Target, optional
        tinygrad's target.

    Attributes
    ----------
    plain_loops : bool
        Whether loops stay as they are, on whatever device; only the environment's ``NOOPT=0`` has tinygrad unroll them.
    """

    device = "HDL"
    plain_loops = False
    has_local = False
    has_shared = False
    supports_float4 = False
    global_max: tuple[int, ...] | None = None
    local_max: tuple[int, ...] | None = None
    compiler: Compiler = SequentialCompiler()
    code_for_op: dict[Ops, Any] = dict.fromkeys(NATIVE_OPERATIONS, _never_called)
    extra_matcher = _BOOL_INDEX

    def __init__(self, target: Target | None = None) -> None:
        super().__init__(target or Target(self.device))

    def supported_dtypes(self) -> set[TinygradDType]:
        """Types that hardware stores and computes natively."""
        return {d for d in dtypes.all if _has_counterpart(d)}

    def render(self, uops: list[UOp]) -> str:
        """Nothing."""
        return ""


class MappedRenderer(SequentialRenderer):
    """Asks also for the operations that plugins map."""

    def __init__(self, target: Target | None = None) -> None:
        super().__init__(target)
        self.code_for_op = dict.fromkeys((*NATIVE_OPERATIONS, *mapped_operations()), _never_called)


def mapped_renderer() -> SequentialRenderer:
    """A `MappedRenderer` that only linearizes UOps, of a class for each set of operations.

    tinygrad keeps kernels by the class of the renderer.
    """
    return _renderer_class(frozenset(mapped_operations()))()


@cache
def _renderer_class(operations: frozenset[Ops]) -> type[MappedRenderer]:
    return type("MappedRenderer", (MappedRenderer,), {})


def _has_counterpart(dtype: TinygradDType) -> bool:
    try:
        DType.from_tinygrad(dtype)
    except UnsupportedError:
        return False
    return True

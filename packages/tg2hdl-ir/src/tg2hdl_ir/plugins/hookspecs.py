"""Hook specifications; implement them in a module named by an entry point of the group ``tg2hdl``.

A plugin module may say which version of this page it was written for: ``TG2HDL_HOOK_API = 1``.  A version that is not
supported is one line in ``tg2hdl plugins list``, and the plugin is left out.

Deprecation policy: a hook or a field of a descriptor is added without a new version.  Before one is removed or changes
its meaning, `HOOK_API` rises, the old form works with a `DeprecationWarning` for at least one minor release of
tg2hdl-ir, and then `OLDEST_HOOK_API` rises.
"""

from __future__ import annotations

import pluggy

from tg2hdl_ir.dtype import DType
from tg2hdl_ir.plugins.descriptors import (
    ArithmeticUnit,
    BoardDef,
    CommandDef,
    DimensionDef,
    ExportDef,
    FamilyDef,
    FlowDef,
    FrontEndDef,
    HostPortDef,
    MemoryKindDef,
    MemoryPortDef,
    OnnxOperatorDef,
    OpDef,
    OpLowering,
    PassDef,
    QuantizerDef,
    ReportSection,
    RoundingDef,
    SequencerDef,
    SimulatorDef,
    TargetDef,
    TinygradOpDef,
)

__all__ = ["API_ATTRIBUTE", "ENTRY_POINT_GROUP", "HOOK_API", "OLDEST_HOOK_API", "hookimpl", "hookspec"]

ENTRY_POINT_GROUP = "tg2hdl"
API_ATTRIBUTE = "TG2HDL_HOOK_API"
HOOK_API = OLDEST_HOOK_API = 1
hookspec = pluggy.HookspecMarker("tg2hdl")
hookimpl = pluggy.HookimplMarker("tg2hdl")


@hookspec
def tg2hdl_ops() -> list[OpDef]:  # type: ignore[empty-body]
    """Operations that `IROp.op` may name."""


@hookspec
def tg2hdl_op_lowerings() -> list[OpLowering]:  # type: ignore[empty-body]
    """Combinational hardware for cheap operations."""


@hookspec
def tg2hdl_arithmetic_units() -> list[ArithmeticUnit]:  # type: ignore[empty-body]
    """Pipelined arithmetic units."""


@hookspec
def tg2hdl_tinygrad_ops() -> list[TinygradOpDef]:  # type: ignore[empty-body]
    """Scalar operations of tinygrad that hardware has."""


@hookspec
def tg2hdl_passes() -> list[PassDef]:  # type: ignore[empty-body]
    """IR rewrites."""


@hookspec
def tg2hdl_simulators() -> list[SimulatorDef]:  # type: ignore[empty-body]
    """Simulation engines."""


@hookspec
def tg2hdl_targets() -> list[TargetDef]:  # type: ignore[empty-body]
    """FPGA parts, in addition to those of `FamilyDef.parts`."""


@hookspec
def tg2hdl_flows() -> list[FlowDef]:  # type: ignore[empty-body]
    """Tools of an FPGA family whose `FamilyDef` has none; superseded by `FamilyDef.tools`."""


@hookspec
def tg2hdl_families() -> list[FamilyDef]:  # type: ignore[empty-body]
    """FPGA families: figures for the planner, parts, boards and tools."""


@hookspec
def tg2hdl_memory_kinds() -> list[MemoryKindDef]:  # type: ignore[empty-body]
    """Kinds of memory that buffers may become."""


@hookspec
def tg2hdl_ports() -> list[HostPortDef]:  # type: ignore[empty-body]
    """Host ports of designs."""


@hookspec
def tg2hdl_memory_ports() -> list[MemoryPortDef]:  # type: ignore[empty-body]
    """Ports of designs to memory outside the chip."""


@hookspec
def tg2hdl_boards() -> list[BoardDef]:  # type: ignore[empty-body]
    """Boards that designs can be built for, in addition to those of `FamilyDef.boards`."""


@hookspec
def tg2hdl_sequencers() -> list[SequencerDef]:  # type: ignore[empty-body]
    """Policies for when each kernel of a design starts."""


@hookspec
def tg2hdl_quantizers() -> list[QuantizerDef]:  # type: ignore[empty-body]
    """Quantization methods."""


@hookspec
def tg2hdl_roundings() -> list[RoundingDef]:  # type: ignore[empty-body]
    """Roundings of numbers to codes."""


@hookspec
def tg2hdl_frontends() -> list[FrontEndDef]:  # type: ignore[empty-body]
    """Formats of model files."""


@hookspec
def tg2hdl_onnx_operators() -> list[OnnxOperatorDef]:  # type: ignore[empty-body]
    """Operators of ONNX files."""


@hookspec
def tg2hdl_report_sections() -> list[ReportSection]:  # type: ignore[empty-body]
    """Sections of the compile report."""


@hookspec
def tg2hdl_dimensions() -> list[DimensionDef]:  # type: ignore[empty-body]
    """Dimensions of the designs that `tg2hdl.explore` looks at."""


@hookspec
def tg2hdl_exports() -> list[ExportDef]:  # type: ignore[empty-body]
    """Systems that `tg2hdl export` writes folders for, such as LiteX."""


@hookspec
def tg2hdl_commands() -> list[CommandDef]:  # type: ignore[empty-body]
    """Subcommands of the ``tg2hdl`` command."""


@hookspec(firstresult=True)
def tg2hdl_select_unit(
    op: str, operands: tuple[DType, ...], result: DType, candidates: list[ArithmeticUnit]
) -> ArithmeticUnit | None:
    """Policy: choose one of the candidate units, or return None to leave the choice to the next policy."""

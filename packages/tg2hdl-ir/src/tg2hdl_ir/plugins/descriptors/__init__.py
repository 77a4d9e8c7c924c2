"""Frozen descriptors that plugins return from their hooks.

A factory is a callable or a string ``"module:attribute"`` that is imported when it is first used, so that loading a
plugin imports neither Amaranth nor tinygrad.
"""

from tg2hdl_ir.plugins.descriptors.compute import (
    PASS_STAGES,
    Area,
    ArithmeticUnit,
    OnnxOperatorDef,
    OpDef,
    OpLowering,
    PassDef,
    QuantizerDef,
    RoundingDef,
    TinygradOpDef,
)
from tg2hdl_ir.plugins.descriptors.design import HostPortDef, MemoryKindDef, MemoryPortDef, SequencerDef
from tg2hdl_ir.plugins.descriptors.factory import Factory, resolve
from tg2hdl_ir.plugins.descriptors.fpga import BoardDef, FamilyDef, FlowDef, MemoryFigures, TargetDef
from tg2hdl_ir.plugins.descriptors.tools import (
    CommandDef,
    DimensionDef,
    ExportDef,
    FrontEndDef,
    ReportSection,
    SimulatorDef,
)

__all__ = [
    "PASS_STAGES",
    "Area",
    "ArithmeticUnit",
    "BoardDef",
    "CommandDef",
    "DimensionDef",
    "ExportDef",
    "Factory",
    "FamilyDef",
    "FlowDef",
    "FrontEndDef",
    "HostPortDef",
    "MemoryFigures",
    "MemoryKindDef",
    "MemoryPortDef",
    "OnnxOperatorDef",
    "OpDef",
    "OpLowering",
    "PassDef",
    "QuantizerDef",
    "ReportSection",
    "RoundingDef",
    "SequencerDef",
    "SimulatorDef",
    "TargetDef",
    "TinygradOpDef",
    "resolve",
]

"""Typed kernel IR, verifier, golden model and plugin registry of tg2hdl."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tg2hdl_ir.lazy import lazy_names

if TYPE_CHECKING:
    from tg2hdl_ir.dtype import DType
    from tg2hdl_ir.errors import (
        BudgetError,
        CapacityError,
        InputError,
        IRVerificationError,
        PluginError,
        SimulationError,
        Tg2hdlError,
        ToolMissingError,
        UnsupportedError,
        ValidationError,
    )
    from tg2hdl_ir.golden import evaluate, evaluate_program
    from tg2hdl_ir.nodes import (
        BufferMeta,
        IRBufLoad,
        IRBufStore,
        IRConst,
        IRCounter,
        IROp,
        IRRegLoad,
        IRRegStore,
        IRStatement,
        IRValue,
        IRVariable,
        KernelIR,
        LoopIR,
        RegisterMeta,
    )
    from tg2hdl_ir.parser import parse_kernel, parse_program
    from tg2hdl_ir.plugins.descriptors import (
        Area,
        ArithmeticUnit,
        CommandDef,
        OnnxOperatorDef,
        OpDef,
        OpLowering,
        PassDef,
        QuantizerDef,
        ReportSection,
        SimulatorDef,
        TargetDef,
    )
    from tg2hdl_ir.plugins.hookspecs import hookimpl
    from tg2hdl_ir.plugins.registry import Registry, registry, use_registry
    from tg2hdl_ir.printer import format_kernel, format_program
    from tg2hdl_ir.program import KernelCall, ProgramBuffer, ProgramIR
    from tg2hdl_ir.verifier import verify

__all__ = [
    "Area",
    "ArithmeticUnit",
    "BudgetError",
    "BufferMeta",
    "CapacityError",
    "CommandDef",
    "DType",
    "IRBufLoad",
    "IRBufStore",
    "IRConst",
    "IRCounter",
    "IROp",
    "IRRegLoad",
    "IRRegStore",
    "IRStatement",
    "IRValue",
    "IRVariable",
    "IRVerificationError",
    "InputError",
    "KernelCall",
    "KernelIR",
    "LoopIR",
    "OnnxOperatorDef",
    "OpDef",
    "OpLowering",
    "PassDef",
    "PluginError",
    "ProgramBuffer",
    "ProgramIR",
    "QuantizerDef",
    "RegisterMeta",
    "Registry",
    "ReportSection",
    "SimulationError",
    "SimulatorDef",
    "TargetDef",
    "Tg2hdlError",
    "ToolMissingError",
    "UnsupportedError",
    "ValidationError",
    "evaluate",
    "evaluate_program",
    "format_kernel",
    "format_program",
    "hookimpl",
    "parse_kernel",
    "parse_program",
    "registry",
    "use_registry",
    "verify",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        ".dtype": ("DType",),
        ".errors": (
            "BudgetError",
            "CapacityError",
            "InputError",
            "IRVerificationError",
            "PluginError",
            "SimulationError",
            "Tg2hdlError",
            "ToolMissingError",
            "UnsupportedError",
            "ValidationError",
        ),
        ".golden": ("evaluate", "evaluate_program"),
        ".nodes": (
            "BufferMeta",
            "IRBufLoad",
            "IRBufStore",
            "IRConst",
            "IRCounter",
            "IROp",
            "IRRegLoad",
            "IRRegStore",
            "IRStatement",
            "IRValue",
            "IRVariable",
            "KernelIR",
            "LoopIR",
            "RegisterMeta",
        ),
        ".parser": ("parse_kernel", "parse_program"),
        ".plugins.descriptors": (
            "Area",
            "ArithmeticUnit",
            "CommandDef",
            "OnnxOperatorDef",
            "OpDef",
            "OpLowering",
            "PassDef",
            "QuantizerDef",
            "ReportSection",
            "SimulatorDef",
            "TargetDef",
        ),
        ".plugins.hookspecs": ("hookimpl",),
        ".plugins.registry": ("Registry", "registry", "use_registry"),
        ".printer": ("format_kernel", "format_program"),
        ".program": ("KernelCall", "ProgramBuffer", "ProgramIR"),
        ".verifier": ("verify",),
    },
)

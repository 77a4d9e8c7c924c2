"""Typed kernel IR, verifier, golden model and plugin registry of tg2hdl."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

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

_LAZY = {
    "tg2hdl_ir.dtype": ("DType",),
    "tg2hdl_ir.errors": (
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
    "tg2hdl_ir.nodes": (
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
    "tg2hdl_ir.program": (
        "KernelCall",
        "ProgramBuffer",
        "ProgramIR",
    ),
    "tg2hdl_ir.golden": ("evaluate", "evaluate_program"),
    "tg2hdl_ir.parser": ("parse_kernel", "parse_program"),
    "tg2hdl_ir.plugins.descriptors": (
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
    "tg2hdl_ir.plugins.hookspecs": ("hookimpl",),
    "tg2hdl_ir.plugins.registry": ("Registry", "registry", "use_registry"),
    "tg2hdl_ir.printer": ("format_kernel", "format_program"),
    "tg2hdl_ir.verifier": ("verify",),
}
_OWNER = {name: module for module, names in _LAZY.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _OWNER:
        return getattr(importlib.import_module(_OWNER[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

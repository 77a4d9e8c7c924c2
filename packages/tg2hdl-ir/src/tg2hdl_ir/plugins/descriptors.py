"""Frozen descriptors that plugins return from their hooks.

A factory is a callable or a string ``"module:attribute"`` that is imported when it is first used, so that loading a
plugin imports neither Amaranth nor tinygrad.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tg2hdl_ir.dtype import DType
from tg2hdl_ir.errors import PluginError, Tg2hdlError

__all__ = [
    "Area",
    "ArithmeticUnit",
    "BoardDef",
    "CommandDef",
    "Factory",
    "FamilyDef",
    "FlowDef",
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
    "SequencerDef",
    "SimulatorDef",
    "TargetDef",
    "resolve",
]

Factory = Callable[..., Any] | str


def resolve(factory: Factory) -> Callable[..., Any]:
    """Import a ``"module:attribute"`` factory; callables pass through.

    Raises
    ------
    PluginError
        When the module or the attribute cannot be imported.
    """
    if not isinstance(factory, str):
        return factory
    module, _, attribute = factory.partition(":")
    try:
        target: Any = importlib.import_module(module)
        for part in attribute.split("."):
            target = getattr(target, part)
    except Tg2hdlError:
        raise
    except Exception as error:  # whatever a module does when it is imported
        raised = "" if isinstance(error, ImportError | AttributeError) else f"{type(error).__name__}: "
        raise PluginError(
            f"cannot import {factory!r}: {raised}{error}", hint="reinstall the distribution that registers it"
        ) from error
    if not callable(target):
        raise PluginError(f"{factory!r} is not callable", hint="name a function or class")
    return target  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Area:
    """Rough cost of a unit on an ECP5: LUT4 equivalents, flip-flops, 18x18 multipliers, 18-kbit block RAMs."""

    lut: int = 0
    ff: int = 0
    dsp: int = 0
    bram: int = 0


@dataclass(frozen=True)
class OpDef:
    """An operation of the IR.

    Parameters
    ----------
    name : str
        Name in `IROp.op`.
    arity : int
        Number of operands.
    result_type : Factory
        ``(operand dtypes: tuple[DType, ...]) -> Collection[DType] | DType | None``: the allowed result types (a
        `tg2hdl_ir.ops.TypeClass` for an open set), or None when the operands do not fit.
    evaluate : Factory
        Golden evaluation ``(operands: tuple[ndarray, ...], operand dtypes, result dtype) -> ndarray``, elementwise and
        bit for bit what the hardware gives.
    description : str
        One line for `tg2hdl plugins list`.
    """

    name: str
    arity: int
    result_type: Factory
    evaluate: Factory
    description: str = ""


@dataclass(frozen=True)
class OpLowering:
    """Combinational hardware of a cheap op.

    Parameters
    ----------
    op : str
        Name of the op.
    matches : Factory
        ``(operand dtypes, result dtype) -> bool``.
    build : Factory
        ``(m: amaranth.Module, operands: list[Value], operand dtypes, result dtype) -> Value``.
    levels : Factory
        ``(operand dtypes, result dtype) -> float or None``: logic depth in units of one LUT level with routing; a carry
        chain of 16 bits counts as two.  The scheduler chains ops up to its stage budget; infinity reserves a
        whole stage, and None leaves the op to a pipelined unit where there is one.
    priority : int
        Of several that match, the highest wins; a tie is an error.  The built-in ones have 0.
    """

    name: str
    op: str
    matches: Factory
    build: Factory
    levels: Factory
    priority: int = 0


@dataclass(frozen=True)
class ArithmeticUnit:
    """A pipelined arithmetic unit with fixed latency.

    The factory returns an Amaranth Component with input ports ``a``, ``b``, ``c`` (as many as operands; unsigned bit
    patterns for floats), output ``result`` and input ``en``, which stalls all of its registers when low.  The result
    of operands that are present in cycle t is on ``result`` in cycle t + latency (enabled cycles).

    Parameters
    ----------
    name : str
        Unique name, e.g. ``fp32.add.balanced``.
    op : str
        The IR op that it computes.
    operands, result : DType
        Exact formats.
    latency, ii : int
        Cycles from operands to result, and between two operand sets.
    target : str
        ``generic`` or a target family such as ``ecp5``.
    priority : int
        Higher wins among units that match.
    fmax : float
        Estimated Fmax on the target (MHz); 0 when unknown.
    accuracy : str
        ``exact``, ``correctly rounded`` or a bound in ULP.
    golden : Factory, optional
        Bit-exact software model with the signature of `OpDef.evaluate`, for a unit that is not correctly rounded; the
        golden model then uses it in place of that of the op wherever this unit is selected.
    constant : Factory, optional
        Of a ``mul``, ``(bits: int) -> Component`` with ports ``a``, ``en`` and ``result`` and the same latency: the
        product by a constant, which is a bit pattern, without a multiplier.
    """

    name: str
    op: str
    operands: tuple[DType, ...]
    result: DType
    latency: int
    factory: Factory
    ii: int = 1
    area: Area = field(default_factory=Area)
    target: str = "generic"
    priority: int = 0
    fmax: float = 0.0
    accuracy: str = "exact"
    golden: Factory | None = None
    constant: Factory | None = None


@dataclass(frozen=True)
class PassDef:
    """An IR rewrite ``(kernel: KernelIR) -> KernelIR``.

    Parameters
    ----------
    order : int
        Place among the passes of all plugins; lower runs first.
    """

    name: str
    description: str
    run: Factory
    order: int = 100


@dataclass(frozen=True)
class SimulatorDef:
    """A simulation engine.

    Parameters
    ----------
    name : str
        For ``engine=`` and ``--engine``.
    available : Factory
        ``() -> str | None``: None when it can run here, otherwise the reason.
    open : Factory
        ``(model, **options) -> Simulation`` of `tg2hdl_sim`.
    build_seconds, cycles_per_second : Factory
        ``(cells: int) -> float``: cost model for selecting an engine.
    priority : int
        Position in lists, highest first; ``engine="auto"`` goes by the costs alone.
    """

    name: str
    description: str
    available: Factory
    open: Factory
    build_seconds: Factory
    cycles_per_second: Factory
    priority: int = 0


@dataclass(frozen=True)
class TargetDef:
    """An FPGA part.

    Parameters
    ----------
    name : str
        Name of the part for ``--part``, e.g. ``ecp5-45k``.
    family : str
        Its series, e.g. ``ecp5``: the name of a `FlowDef` with the tools, and of the units and figures for it.
    lut, ff, dsp, bram : int
        What the part has of LUTs, flip-flops, multipliers and block RAMs.
    bram_bits : int
        Bits of one block RAM.
    options : tuple of (str, str)
        Names and values that the flow passes to its tools, e.g. the package.
    """

    name: str
    family: str
    description: str
    lut: int
    ff: int
    dsp: int
    bram: int
    bram_bits: int
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class FlowDef:
    """Synthesis, and place and route, of an FPGA family.

    Parameters
    ----------
    name : str
        The family, as in `TargetDef.family`.
    flow : Factory
        ``() -> tg2hdl_synth.flows.SynthesisFlow``.
    """

    name: str
    description: str
    flow: Factory


@dataclass(frozen=True)
class MemoryFigures:
    """Memories of an FPGA family, as the planner sees them.

    Parameters
    ----------
    lut_bits : int
        Largest memory that may stay in LUT RAM (bits); larger ones are block RAM.
    lut_words : int
        Words of one row of LUT RAM, of whatever width.
    block_bits : int
        Bits of one block RAM.
    block_words : int
        Words of one block RAM of one bit; deeper memories select among blocks.
    wide_bits : int
        Minimum word width at which the address fan-out to the blocks gets its own register (bits).
    lut_ports, block_ports, large_ports : int
        Maximum read ports of a memory in LUT RAM, in one block RAM, and in several; every port is a copy of the memory.
    """

    lut_bits: int = 2048
    lut_words: int = 16
    block_bits: int = 18432
    block_words: int = 16384
    wide_bits: int = 1024
    lut_ports: int = 16
    block_ports: int = 4
    large_ports: int = 2

    def read_ports(self, bits: int) -> int:
        """Read ports that a memory of this size may have."""
        if bits <= self.lut_bits:
            return self.lut_ports
        return self.block_ports if bits <= self.block_bits else self.large_ports


@dataclass(frozen=True)
class FamilyDef:
    """An FPGA family: the figures that the planner uses before a part is known.

    Parameters
    ----------
    stage_levels : int
        Logic levels in a clock cycle.
    read_latency, product_latency : int
        Cycles of a memory read and of a hardware multiplier, with the registers inside the family's blocks.
    memory : MemoryFigures
    """

    name: str
    description: str
    stage_levels: int
    read_latency: int
    product_latency: int
    memory: MemoryFigures = field(default_factory=MemoryFigures)


@dataclass(frozen=True)
class MemoryKindDef:
    """A kind of memory that buffers may become.

    Parameters
    ----------
    kind : Factory
        ``() -> tg2hdl_lower.memory.kind.MemoryKind``.
    priority : int
        Among the kinds that suit a buffer, the highest priority wins.
    """

    name: str
    description: str
    kind: Factory
    priority: int = 0


@dataclass(frozen=True)
class HostPortDef:
    """A port through which a host loads, starts and reads a design.

    Parameters
    ----------
    port : Factory
        Subclass of `tg2hdl_top.ports.HostPort`, made of the `HostShape` that it serves.
    driver : Factory
        ``(serves: HostShape, simulation) -> tg2hdl_top.ports.HostDriver``: loads, starts and reads through the port.
    """

    name: str
    description: str
    port: Factory
    driver: Factory


@dataclass(frozen=True)
class BoardDef:
    """A board that a design can be built for, with a serial line to its host.

    Parameters
    ----------
    part : str
        FPGA part, one of `tg2hdl_targets`.
    platform : Factory
        ``() -> amaranth.build.Platform`` with a default clock and the resource ``uart`` 0.
    loader : str
        Name of the board for openFPGALoader.
    first_clock : float
        Clock that the first place-and-route run aims at (MHz).
    """

    name: str
    description: str
    part: str
    platform: Factory
    loader: str
    first_clock: float = 100.0


@dataclass(frozen=True)
class MemoryPortDef:
    """A port through which a design reads weights in memory outside the chip.

    Parameters
    ----------
    port : Factory
        Subclass of `tg2hdl_top.external.memory_port.MemoryPort`, made of the memory and the beats of its image.
    memory : Factory
        Subclass of `tg2hdl_top.external.memory_port.SimulatedMemory`: hardware that behaves as the model.
    times : Factory
        Subclass of `tg2hdl_top.external.memory_port.BeatTimes`: the same as a prediction.
    model : Factory
        ``() -> tg2hdl_top.external.memory_model.ExternalMemory``: the memory unless the user gives another of its type.
        A dataclass; a design is read back where the plugin is installed.
    """

    name: str
    description: str
    port: Factory
    memory: Factory
    times: Factory
    model: Factory


@dataclass(frozen=True)
class SequencerDef:
    """A policy for when each kernel of a design starts.

    Parameters
    ----------
    sequencer : Factory
        ``() -> tg2hdl_top.sequencer.Sequencer``.
    """

    name: str
    description: str
    sequencer: Factory


@dataclass(frozen=True)
class QuantizerDef:
    """A quantization method: of one tensor, of the ranges of tensors in a model, or of the weights of its layers.

    Parameters
    ----------
    quantize : Factory, optional
        ``(array, **options) -> (integers, scale)``.
    calibrate : Factory, optional
        ``(values, bits) -> (low, high)``: the range that a tensor of `bits` is quantized for, from values that it took
        on samples (float64, one axis, the smallest and the largest among them).  Deterministic.
    round_weights : Factory, optional
        ``(weights, scale, limit, inputs) -> codes``: whole numbers within ``+-limit`` for weights of shape (groups,
        outputs, terms), with `scale` of shape (groups, outputs, 1); `inputs` are what the weights were multiplied with
        on samples, of shape (groups, rows, terms).  Deterministic.
    equalize : Factory, optional
        ``(activations, weights) -> factors``: what each channel between layers is divided by, and the weights that read
        it multiplied with; from the largest magnitudes of each channel on samples and of those weights.  Positive,
        deterministic.
    """

    name: str
    description: str
    quantize: Factory | None = None
    calibrate: Factory | None = None
    round_weights: Factory | None = None
    equalize: Factory | None = None


@dataclass(frozen=True)
class OnnxOperatorDef:
    """How an operator of ONNX files is computed with tinygrad tensors.

    Of the definitions of an operator that its model's opset may use (``since_version`` at most that of the opset), the
    highest priority wins, then the newest version.

    Parameters
    ----------
    op_type : str
        Name of the operator, e.g. ``ConvInteger``.
    build : Factory
        ``(node, *inputs) -> Tensor | tuple[Tensor | None, ...]``.  An input is a Tensor, or None where the file leaves
        it out; `node` is a `tg2hdl_backend.onnx.OnnxNode` with the attributes.
    domain : str
        Operator set; empty for ONNX's own.
    since_version : int
        First version of the operator set with this meaning.
    constants : tuple of int
        Positions of inputs that decide shapes or what is computed: they come as numpy arrays, and a model in which
        they depend on data is refused.
    priority : int
        A definition that replaces a built-in one has a positive priority.
    """

    op_type: str
    build: Factory
    domain: str = ""
    since_version: int = 1
    constants: tuple[int, ...] = ()
    priority: int = 0

    @property
    def name(self) -> str:
        """Domain, operator, version, and the priority when it is not 0; unique."""
        name = f"{self.domain or 'ai.onnx'}:{self.op_type}-{self.since_version}"
        return f"{name}+{self.priority}" if self.priority else name


@dataclass(frozen=True)
class ReportSection:
    """A section of the report of a model.

    Parameters
    ----------
    name : str
        Unique; the anchor of the section in the page.
    title : str
    render : Factory
        ``(context) -> str``: HTML of the section's body, or ``""`` to leave it out.  The context has the accelerator,
        the figures of the report as plain data, the result of synthesis if there is one, and the figures of an earlier
        report if one is compared: `tg2hdl.report.ReportContext`.
    order : int
        Position in the page; the built-in sections are at 10 to 80.
    """

    name: str
    title: str
    render: Factory
    order: int = 100


@dataclass(frozen=True)
class CommandDef:
    """A subcommand of ``tg2hdl``: the factory is a click command."""

    name: str
    description: str
    command: Factory

"""Descriptors of operations, and of the hardware and software that compute them."""

from __future__ import annotations

from dataclasses import dataclass, field

from tg2hdl_ir.dtype import DType
from tg2hdl_ir.plugins.descriptors.factory import Factory

__all__ = [
    "PASS_STAGES",
    "Area",
    "ArithmeticUnit",
    "OnnxOperatorDef",
    "OpDef",
    "OpLowering",
    "PassDef",
    "QuantizerDef",
    "RoundingDef",
    "TinygradOpDef",
]


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
        bit for bit equal to the hardware.
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
    name : str
        Unique name.
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
class Area:
    """Rough cost of a unit on an ECP5.

    Parameters
    ----------
    lut : int
        LUT4 equivalents.
    ff : int
        Flip-flops.
    dsp : int
        Multipliers of 18x18 bits.
    bram : int
        Block RAMs of 18 kbit.
    """

    lut: int = 0
    ff: int = 0
    dsp: int = 0
    bram: int = 0


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
    factory : Factory
        ``() -> Component``.
    area : Area
        Estimate for an ECP5.
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
class TinygradOpDef:
    """A scalar operation of tinygrad that hardware has; without it tinygrad decomposes it, or it is refused.

    Parameters
    ----------
    name : str
        Of a member of tinygrad's `Ops`, e.g. ``FDIV`` or ``MULACC``.
    op : str
        The op of the IR that it becomes, with the same operands, for all types.
    """

    name: str
    op: str


PASS_STAGES = {
    "captured": "captured kernels, before all others",
    "weights": "tables instead of weights",
    "canonical": "the form that analyses and planning start from, of captured kernels and of all that are made of them",
    "calls": "equal kernels of a program",
    "merges": "candidates: branches that share products",
    "producers": "candidates: values in kernels of their own",
    "forms": "candidates: other forms of a kernel",
    "cuts": "candidates of the steps of the search",
    "search": "steps of the search, over all kernels of a program",
    "designs": "steps of the search whose results are compared as designs",
    "lanes": "one flat sequence of steps with the chosen lanes, of each kernel that is planned",
    "loops": "other loops for these steps; the planner tries several",
    "registers": "the registers of a sequence of steps, before it is scheduled",
    "parts": "parts of other rewrites",
}
"""Stages of rewrites and their subjects, in the order in which they run."""


@dataclass(frozen=True)
class PassDef:
    """An IR rewrite ``(kernel: KernelIR, ...) -> KernelIR``; the built-in ones are registered in the same way.

    Parameters
    ----------
    name : str
        For ``--print-after`` and ``--pass``.
    description : str
        One line.
    run : Factory
        The rewrite; with `proposes` one that returns a list of candidates.  Further parameters get facts of its stage
        by name, such as `info` in ``lanes``; ``tg2hdl ir-opt --list`` shows those that the built-in rewrites take.
    order : int
        Place among the passes of all plugins in its stage that have neither `before` nor `after`; lower runs first,
        after the built-in ones.
    changes_numbers : bool
        Whether results may differ, as where a function becomes an op of its own with other roundings.  Validation then
        takes the program after this pass as the reference, and says so: the plugin answers for the difference.
    proposes : bool
        Whether it proposes forms instead of rewriting: ``(kernel) -> list of KernelIR or of tuples of KernelIR``, which
        run one after the other in its place, over its slots and further ones between them.  The search plans each, and
        takes the one with the fewest cycles where it is worth it; of equal ones the first.  The kernel is canonical.
    stage : str
        When it runs, see `PASS_STAGES`.  A plugin's rewrite runs on captured kernels (``captured``), or on every kernel
        that is made canonical (``canonical``), gets lanes (``lanes``) or is prepared for scheduling (``registers``);
        one that proposes is asked with the other forms (``forms``, also where no stage is given), or before them for
        merged branches (``merges``) or values of kernels of their own (``producers``).
    term : str
        Name in textbooks, e.g. *loop fission*; empty where there is none.
    before, after : str
        Name of a rewrite of the same stage, built-in or of a plugin, before or after which it runs.
    exclusive : bool
        For a pass that proposes: whether it is skipped for a kernel for which an earlier exclusive pass of its stage
        has proposed a form.  The built-in passes of the stage ``forms`` are exclusive.
    """

    name: str
    description: str
    run: Factory
    order: int = 100
    changes_numbers: bool = False
    proposes: bool = False
    stage: str = "captured"
    term: str = ""
    before: str = ""
    after: str = ""
    exclusive: bool = False

    @property
    def place(self) -> str:
        """Stage that it belongs to."""
        return "forms" if self.proposes and self.stage == "captured" else self.stage

    @property
    def anchor(self) -> str:
        """Name of the rewrite before or after which it runs; empty where there is none."""
        return self.before or self.after


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
        Positions of inputs that decide shapes or the computation: they come as numpy arrays, and a model in which
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
class QuantizerDef:
    """A quantization method: of one tensor, of the ranges of tensors in a model, or of the weights of its layers.

    Parameters
    ----------
    name : str
        For ``calibration=``, ``weight_rounding=`` or ``equalization=``.
    description : str
        One line.
    quantize : Factory, optional
        ``(array, **options) -> (integers, scale)``.
    calibrate : Factory, optional
        ``(values, bits) -> (low, high)``: the range that a tensor of `bits` is quantized for, from values that it took
        on samples (float64, one axis, the smallest and the largest among them).  Deterministic.
    round_weights : Factory, optional
        ``(weights, scale, limit, inputs) -> codes``: whole numbers within ``+-limit`` for weights of shape (groups,
        outputs, terms), with `scale` of shape (groups, outputs, 1), or of one for each weight with `group=`; `inputs`
        are the factors of the weights on samples, of shape (groups, rows, terms).  Deterministic.
    equalize : Factory, optional
        ``(activations, weights) -> factors``: a channel between layers is divided by its factor, and the weights that
        read it are multiplied with it.  The arguments are the largest magnitudes of each channel on samples and of
        those weights.  Positive, deterministic.
    """

    name: str
    description: str
    quantize: Factory | None = None
    calibrate: Factory | None = None
    round_weights: Factory | None = None
    equalize: Factory | None = None


@dataclass(frozen=True)
class RoundingDef:
    """How numbers become whole numbers, and scaled sums codes.

    Sums become codes by an integer form: a right shift, `product`, or else the narrowest multiplier and shift that
    are proven to give the codes of `sums` for every sum; where there is none the model is refused.

    Parameters
    ----------
    name : str
        For ``rounding=`` and ``--rounding``.
    description : str
        One line.
    numbers : Factory
        ``(ndarray of float) -> ndarray``: whole numbers in numpy, elementwise, never falling; 0 of 0.
    bias : Factory, optional
        ``(shift: ndarray of int64) -> ndarray``: ``(x + bias) >> shift`` is ``x / 2**shift``, rounded; 0 of 0.  Without
        it sums of several terms are rounded half to even.
    correction : Factory, optional
        ``(builder: tg2hdl_ir.tensors.GraphBuilder, node, shift, dtype) -> node``: -1, 0 or 1, added to the bias where
        it depends on x; 0 for a shift by 0.
    sums : Factory, optional
        ``(sums: ndarray of int64, multiplier: float) -> ndarray``: codes of sums in numpy, where they are not `numbers`
        of ``sums * multiplier`` in float64.
    product : Factory, optional
        ``(builder, total, scale, low, high, where) -> (node, reach) or None``: `sums` in integer operations, for a
        `tg2hdl_quant.graph.values.Sum` of one term; the result is clipped to [low, high] afterwards, where its largest
        magnitude `reach` asks for it.  None leaves it to the shift.
    floats : Factory, optional
        ``(builder, node) -> node``: `numbers` in float32 operations, for codes of tensors that stay in float.
    any_scale : bool
        Whether scales are not powers of two unless the user asks for them.
    is_proven : bool
        Whether the integer form gives `sums` for every sum; otherwise, as where the multiplier of a shift is rounded to
        `multiplier_bits`, a code next to a tie may be one off.
    """

    name: str
    description: str
    numbers: Factory
    bias: Factory | None = None
    correction: Factory | None = None
    sums: Factory | None = None
    product: Factory | None = None
    floats: Factory | None = None
    any_scale: bool = False
    is_proven: bool = False

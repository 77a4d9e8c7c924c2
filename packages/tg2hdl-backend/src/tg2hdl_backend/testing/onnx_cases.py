"""The backend node tests that the onnx package ships, run through the ONNX front end.

Each is compiled, with inputs for shapes or axes fixed to the test's values, and the golden model's results are
compared with the expected outputs.  Operators of plugins are tested in the same way.
"""

from __future__ import annotations

import signal
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from tg2hdl_backend.onnx import DependsOnData, OnnxModel
from tg2hdl_backend.tinygrad_adapter.capture import capture
from tg2hdl_ir import IRVerificationError, Tg2hdlError, evaluate_program

__all__ = [
    "ARITHMETIC",
    "NOISE_IN_FILE",
    "SHAPE_INPUTS",
    "CaseResult",
    "Door",
    "Opened",
    "difference",
    "is_arithmetic",
    "load_cases",
    "run_case",
]

# Positions of inputs that mean shapes, axes, counts, windows or modes: the user fixes them.  All others stay inputs.
SHAPE_INPUTS: dict[str, tuple[int, ...]] = {
    "AffineGrid": (1,),
    "BlackmanWindow": (0,),
    "CenterCropPad": (1,),
    "Col2Im": (1, 2),
    "ConstantOfShape": (0,),
    "CumProd": (1,),
    "CumSum": (1,),
    "DFT": (1, 2),
    "Dropout": (2,),
    "Expand": (1,),
    "HammingWindow": (0,),
    "HannWindow": (0,),
    "Loop": (0, 1),
    "MaxUnpool": (2,),
    "MelWeightMatrix": (0, 1, 2, 3, 4),
    "OneHot": (1,),
    "Pad": (1, 3),
    "Range": (0, 1, 2),
    "Reshape": (1,),
    "Resize": (1, 2, 3),
    "STFT": (1, 3),
    "SequenceAt": (1,),
    "SequenceErase": (1,),
    "SequenceInsert": (2,),
    "Slice": (1, 2, 3, 4),
    "Split": (1,),
    "SplitToSequence": (1,),
    "Squeeze": (1,),
    "Tile": (1,),
    "TopK": (1,),
    "Trilu": (1,),
    "Unsqueeze": (1,),
    "Upsample": (1,),
    **{
        f"Reduce{r}": (1,)
        for r in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
    },
}

# Tests whose file has a rounding error where the exact result is zero, beyond the suite's absolute tolerance.
NOISE_IN_FILE = dict.fromkeys(("test_dft_inverse", "test_dft_inverse_opset19"), 1.91e-7)

# Operators that are run in simulated hardware too: numbers to numbers, without elementary functions of tinygrad.
_NAMES = """
    Abs Add And AveragePool BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Ceil Clip Conv
    ConvInteger CumSum DequantizeLinear Div Equal Floor Gemm Greater GreaterOrEqual LeakyRelu Less
    LessOrEqual MatMul MatMulInteger Max MaxPool Mean Min Mod Mul Neg Not Or PRelu QLinearConv
    QLinearMatMul QuantizeLinear Reciprocal ReduceMax ReduceMean ReduceMin ReduceSum Relu Round Sign
    Sqrt Sub Sum Where Xor
"""
ARITHMETIC = frozenset(_NAMES.split())


@dataclass
class CaseResult:
    """Outcome of a test.

    Parameters
    ----------
    name, operator : str
        Of the test, and of its first node.
    opset : int
        Version of the operator's set.
    status : str
        ``right``, ``wrong`` (compiles and gives another result), ``refused`` (a `Tg2hdlError` says why), ``error`` (any
        other exception) or ``time limit``.
    reason : str
        Why it is not right.
    fixed : list of str
        Inputs that were fixed to the test's values.
    rtl : str
        Outcome in simulated hardware; empty when that was not asked for.
    seconds : float
        Time that it took (s).
    """

    name: str
    operator: str
    opset: int
    status: str
    reason: str = ""
    fixed: list[str] = field(default_factory=list)
    rtl: str = ""
    seconds: float = 0.0

    def record(self) -> dict[str, Any]:
        """Plain data, without the time, which differs from run to run."""
        return {k: v for k, v in asdict(self).items() if k != "seconds"}


@dataclass(frozen=True)
class Opened:
    """A test's file, compiled.

    Parameters
    ----------
    inputs, outputs : sequence of str
        Names.
    golden : callable
        Results of the golden model, in the order of the outputs, for arrays by input.
    simulate : callable
        For the same arrays, the outcome of the simulated hardware, as in `CaseResult.rtl`.
    """

    inputs: Sequence[str]
    outputs: Sequence[str]
    golden: Callable[[Mapping[str, Any]], Sequence[Any]]
    simulate: Callable[[Mapping[str, Any]], str]


Door = Callable[[Path, Mapping[str, Any]], Opened]
"""Compiles a file with values of the inputs that are fixed."""


class _TimeLimit(BaseException):
    pass


@cache
def load_cases() -> list[Any]:
    """All node tests of the installed onnx package, by name."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sorted(load_model_tests(kind="node"), key=lambda c: c.name)


def run_case(case: Any, limit: float, rtl: bool = False, door: Door | None = None) -> CaseResult:
    """Run a test, in at most `limit` seconds.

    Parameters
    ----------
    door : callable, optional
        Compiles the file; by default `OnnxModel`, `capture` and the golden model.
    """
    node = case.model.graph.node[0] if case.model.graph.node else None
    versions = {o.domain: o.version for o in case.model.opset_import}
    domain = "" if node is None else node.domain
    operator = "" if node is None else f"{domain}:{node.op_type}".lstrip(":")
    result = CaseResult(case.name, operator, versions.get(domain, 0), "right")
    start = time.perf_counter()

    def stop(*_: Any) -> None:
        raise _TimeLimit

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, limit)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            _compare(case, result, rtl, door or _captured)
    except _TimeLimit:
        result.status, result.reason = "time limit", f"more than {limit:g} s"
    except IRVerificationError as error:  # A bug of a pass, not of the file.
        result.status, result.reason = "error", error.message
    except Tg2hdlError as error:
        result.status, result.reason = "refused", error.message
    except Exception as error:
        result.status, result.reason = "error", f"{type(error).__name__}: {error}".split("\n")[0]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    result.seconds = time.perf_counter() - start
    return result


def _compare(case: Any, result: CaseResult, rtl: bool, door: Door) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        onnx.save(case.model, str(path))
        names = [i.name for i in case.model.graph.input]
        if not case.data_sets:
            result.status, result.reason = "refused", "the test has no data"
        for inputs, expected in case.data_sets:
            given = {n: _array(v) for n, v in zip(names, inputs, strict=False)}
            opened = _opened(door, path, given, result)
            arrays = {name: np.asarray(given[name]) for name in opened.inputs}
            golden = opened.golden(arrays)
            for name, got, want in zip(opened.outputs, golden, expected, strict=True):
                atol = max(case.atol, NOISE_IN_FILE.get(case.name, 0))
                problem = difference(got, _array(want), case.rtol, atol)
                if problem:
                    result.status, result.reason = "wrong", f"{name}: {problem}"
                    return
            if rtl and is_arithmetic(case):
                result.rtl = opened.simulate(arrays)
                if result.rtl.startswith("differs"):
                    result.status, result.reason = "wrong", f"simulated hardware {result.rtl}"


def _opened(door: Door, path: Path, given: dict[str, Any], result: CaseResult) -> Opened:
    """The file, with inputs for shapes or axes fixed to the test's values."""
    fixed: dict[str, Any] = {}
    while True:
        try:
            opened = door(path, fixed)
        except DependsOnData as error:
            new = [n for n in error.inputs if n not in fixed]
            if not new or error.position not in SHAPE_INPUTS.get(error.operator, ()):
                raise
            fixed |= {n: given[n] for n in new}
            continue
        result.fixed = sorted(fixed)
        return opened


def _captured(path: Path, fixed: Mapping[str, Any]) -> Opened:
    model = OnnxModel(path, fixed=fixed)
    captured = capture(model, *model.example_inputs())
    program = captured.program

    def golden(arrays: Mapping[str, Any]) -> list[Any]:
        contents = evaluate_program(program, captured.bind(*(arrays[n] for n in model.input_names)))
        return [contents[program.buffers[s.buffer].name].reshape(s.shape) for s in captured.outputs]

    def simulate(arrays: Mapping[str, Any]) -> str:
        return _simulate(model, [arrays[n] for n in model.input_names])

    return Opened(model.input_names, model.output_names, golden, simulate)


def _array(value: Any) -> Any:
    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else value


def difference(got: np.ndarray[Any, Any], want: Any, rtol: float, atol: float) -> str:
    """Differences from the expected output; empty when there are none.

    Parameters
    ----------
    got : ndarray
    want
    rtol, atol : float
        As of `numpy.isclose`, for floats.
    """
    want = np.asarray(want)
    if got.dtype != want.dtype:
        return f"dtype {got.dtype}, expected {want.dtype}"
    if got.shape != want.shape:
        return f"shape {got.shape}, expected {want.shape}"
    if want.dtype.kind in "biu":
        wrong = int((got != want).sum())
        return f"{wrong} of {want.size} differ" if wrong else ""
    if want.dtype.name == "bfloat16":
        rtol = max(rtol, 2**-6)  # The suite's runner allows two units in the last place of bfloat16.
    one, two = got.astype(np.float64), want.astype(np.float64)
    close = np.isclose(one, two, rtol, atol, equal_nan=True)
    if close.all():
        return ""
    worst = np.nanmax(np.where(close, 0, np.abs(one - two)))
    return f"{int((~close).sum())} of {want.size} differ, by up to {worst:.3g}"


def is_arithmetic(case: Any) -> bool:
    """Whether a test is of one arithmetic operator, and small enough to be simulated."""
    nodes = case.model.graph.node
    if len(nodes) != 1 or nodes[0].op_type not in ARITHMETIC or not case.data_sets:
        return False
    values = (*case.data_sets[0][0], *case.data_sets[0][1])
    return sum(np.asarray(_array(v)).size for v in values) <= 4096


def _simulate(model: OnnxModel, arrays: list[np.ndarray[Any, Any]]) -> str:
    from tg2hdl_backend.testing.hardware import compare_with_hardware

    try:
        mismatches = compare_with_hardware(model, *arrays).mismatches
    except Tg2hdlError as error:
        return f"refused: {error.message}"
    return f"differs: {mismatches[0]}" if mismatches else "bits of the golden model"

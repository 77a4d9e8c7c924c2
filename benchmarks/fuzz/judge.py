"""Compile a file through the door that users take, and compare its results with ONNX Runtime and onnx.reference."""

from __future__ import annotations

import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from forms import inputs_of
from graphs import TimeLimit, run, time_limit
from onnx import numpy_helper
from onnx.version_converter import convert_version
from qonnx import plain

__all__ = ["KINDS", "Verdict", "compiled", "judge"]

Array = npt.NDArray[Any]
KINDS = ("right", "ties", "unstable", "reference", "refused", "unjudged", "wrong", "error", "time")
"""Of these only ``wrong``, ``error`` and ``time`` are faults.  ``reference``: the result is that of onnx.reference, not
of ONNX Runtime; ``unstable``: a change of inputs and weights by 2e-6 explains it; ``ties``: a sum lies on a tie."""
LIMIT = 60
"""CPU seconds that a file may take."""
_EPSILON = 2e-6
_NEAR_TIE = 2e-4
"""Distance from a tie (codes) below which float32 sums of the reference may round either way."""
_NO_SPECIALS = frozenset(
    (
        *("ArgMax", "ArgMin", "Cast", "Clip", "GlobalMaxPool", "Hardmax", "LRN", "MaxPool", "ReduceMax"),
        *("ReduceMin", "Resize"),
    )
)
"""Operators that NaN and infinities are not given to: the references differ, as ONNX Runtime's result depends on where
in a row or window NaN is, on a running sum (LRN), on neighbours times 0 (Resize), or on the order of sums that overflow
(behind Clip, which makes the largest finite numbers of infinities); of Cast it is undefined."""


@dataclass(frozen=True)
class Verdict:
    """What became of a file: one of `KINDS`, and why."""

    kind: str
    reason: str = ""

    @property
    def is_fault(self) -> bool:
        return self.kind in ("wrong", "error", "time")

    def like(self, other: Verdict) -> bool:
        """Whether it is the same fault in another file."""
        return (self.kind, self.signature) == (other.kind, other.signature)

    @property
    def signature(self) -> str:
        """The reason without what differs from file to file."""
        return self.reason.split(":")[0]

    def record(self) -> dict[str, str]:
        return asdict(self)


def judge(model: onnx.ModelProto, limit: int = LIMIT) -> Verdict:
    """Verdict on a model of `forms.file_of`, or on a part of one that has its metadata."""
    return _within(limit, partial(_judged, model))


def compiled(model: onnx.ModelProto, limit: int = LIMIT) -> Verdict:
    """Verdict on the compilation of a model only: ``right`` where it compiles."""
    return _within(limit, partial(_made, model, lambda accelerator: Verdict("right")))


def _within(limit: int, run: Callable[[], Verdict]) -> Verdict:
    try:
        with time_limit(limit), warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return run()
    except TimeLimit as error:
        return Verdict("time", str(error))


def _judged(model: onnx.ModelProto) -> Verdict:
    try:
        reference = _Reference(model)
    except Exception as error:
        return Verdict("unjudged", f"ONNX Runtime: {_line(error)}")
    if not reference.cases:
        return Verdict("unjudged", "all inputs lie on ties or give infinities")

    def compare(accelerator: Any) -> Verdict:
        kinds: list[Verdict] = []
        for case in reference.cases:
            found = _outputs(model, accelerator, case.feeds)
            kinds.append(reference.verdict(found, case, _is_exact(accelerator)))
            if kinds[-1].is_fault:
                return kinds[-1]
        return next((v for v in kinds if v.kind != "right"), kinds[0])

    return _made(model, compare)


def _made(model: onnx.ModelProto, verdict: Callable[[Any], Verdict]) -> Verdict:
    """Compile a model and judge what came of it; errors are verdicts."""
    from tg2hdl_ir import IRVerificationError, SimulationError, Tg2hdlError, ValidationError

    try:
        import tg2hdl

        with tempfile.TemporaryDirectory() as folder:
            onnx.save(model, f"{folder}/m.onnx")
            accelerator = tg2hdl.compile(Path(folder) / "m.onnx")
        return verdict(accelerator)
    except (IRVerificationError, SimulationError) as error:
        return Verdict("error", f"{type(error).__name__}: {_line(error)}")
    except ValidationError as error:
        return Verdict("error", f"ValidationError: {error.message}, {error.where}")
    except Tg2hdlError as error:
        return Verdict("refused", error.message)
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{type(error).__name__} in {frame.name} of {Path(frame.filename).name}"
        return Verdict("error", f"{place}: {_line(error)}")


def _line(error: Exception) -> str:
    return str(error).strip().split("\n")[0][:200]


def _outputs(model: onnx.ModelProto, accelerator: Any, feeds: dict[str, Array]) -> list[Array]:
    """Results in the order of the file."""
    found = accelerator.golden(*(feeds[i.name] for i in model.graph.input))
    if isinstance(found, dict):
        found = [found[o.name] for o in model.graph.output]
    return [np.asarray(a) for a in (found if isinstance(found, tuple | list) else (found,))]


def _is_exact(accelerator: Any) -> bool:
    """Whether the importer claims that every code is ONNX Runtime's."""
    return bool(getattr(getattr(accelerator.captured.model, "report", None), "is_exact", False))


@dataclass(frozen=True, eq=False)
class _Case:
    """Inputs with their results; `near_tie`: an operand of a quantizer may round either way."""

    feeds: dict[str, Array]
    expected: list[Array]
    near_tie: bool

    @property
    def is_special(self) -> bool:
        return any(_has_infinity(a) for a in self.feeds.values())


class _Reference:
    """ONNX Runtime's results for the inputs of a file."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.plain = plain(model)
        self.names = [o.name for o in model.graph.output]
        self.quantizers = list(_quantizers(self.plain))
        operators = {n.op_type for n in model.graph.node}
        self.is_quantized = any("Quant" in o or "QLinear" in o for o in operators)
        numbers = range(10) if self.is_quantized else (0, 1, 2, 3)
        if operators & _NO_SPECIALS:
            numbers = [n for n in numbers if n != 3]
        every = [c for c in (self._case(inputs_of(model, n)) for n in numbers) if c is not None]
        self.cases = ([c for c in every if not c.near_tie] or every)[: 3 if self.is_quantized else 4]

    def _case(self, feeds: dict[str, Array]) -> _Case | None:
        """None where what a quantizer gets is not finite, or NaN in an input."""
        first = {n.input[0] for n in self.plain.graph.node if n.op_type == "QuantizeLinear"} & feeds.keys()
        if any(np.isnan(feeds[name]).any() for name in first):
            return None  # ONNX leaves the integer of NaN open.
        taps = [q.operand for q in self.quantizers if q.operand not in self.names]
        tapped = onnx.ModelProto.FromString(self.plain.SerializeToString())
        tapped.graph.output.extend(onnx.ValueInfoProto(name=t) for t in dict.fromkeys(taps))
        names = [*self.names, *dict.fromkeys(taps)]
        found = dict(zip(names, run(tapped, feeds, names), strict=True))
        if self.is_quantized and any(map(_has_infinity, found.values())):
            return None
        distances = [float(q.distances(found[q.operand]).min(initial=1.0)) for q in self.quantizers]
        return _Case(feeds, [found[n] for n in self.names], min(distances, default=1.0) < _NEAR_TIE)

    def verdict(self, found: list[Array], case: _Case, is_exact: bool) -> Verdict:
        problems = list(map(_problem, self.names, found, case.expected))
        if not any(problems):
            return Verdict("right")
        text = next(p for p in problems if p)
        if is_exact:
            # Exact means the integer kernels, which it has with optimizations.
            optimized = run(self.plain, case.feeds, is_optimized=True)
            if not any(map(_problem, self.names, found, optimized)):
                return Verdict("right")
            return Verdict("wrong", "the report says exact, " + text)
        if case.near_tie:
            return Verdict("ties", text)
        spread = self._spread(case)
        problems = list(map(_problem, self.names, found, case.expected, spread))
        if not any(problems):
            return Verdict("unstable", text)
        text = next(p for p in problems if p)
        if self.is_quantized:
            # Without optimizations, sums of pairs of products saturate on x86 processors without VNNI.
            optimized = run(self.plain, case.feeds, is_optimized=True)
            if not any(map(_problem, self.names, found, optimized, spread)):
                return Verdict("right")
        second = self._second(case.feeds)
        if second is not None and not any(map(_problem, self.names, found, second, spread)):
            return Verdict("reference", text)
        return Verdict("wrong", ("NaN or infinity in the input, " if case.is_special else "") + text)

    def _second(self, feeds: dict[str, Array]) -> list[Array] | None:
        """Results of onnx.reference, where it has all operators."""
        from onnx.reference import ReferenceEvaluator

        try:
            return [np.asarray(a) for a in ReferenceEvaluator(self.plain).run(None, feeds)]
        except Exception:  # It fails in many ways, and lacks quantizers of old versions.
            pass
        try:
            newer = convert_version(self.plain, 21)
            return [np.asarray(a) for a in ReferenceEvaluator(newer).run(None, feeds)]
        except Exception:
            return None

    def _spread(self, case: _Case) -> list[Array]:
        """How far results move when numbers change by their last bits."""
        rng = np.random.default_rng(5)
        most = [np.zeros(a.shape) for a in case.expected]
        for _ in range(4):
            moved = self._changed_codes(rng) if self.is_quantized else self._changed_weights(rng)
            feeds = case.feeds
            if not self.is_quantized:
                feeds = {n: _moved(a, rng) if a.dtype == np.float32 else a for n, a in feeds.items()}
            for n, (a, b) in enumerate(zip(case.expected, run(moved, feeds), strict=True)):
                if a.shape == b.shape and a.dtype.kind in "fiub":
                    difference = np.abs(a.astype(np.float64) - b.astype(np.float64))
                    most[n] = np.maximum(most[n], np.nan_to_num(difference, nan=np.inf, posinf=np.inf))
        return most

    def _changed_weights(self, rng: np.random.Generator) -> onnx.ModelProto:
        """The model with other float constants; those of Resize are sizes."""
        moved = onnx.ModelProto.FromString(self.plain.SerializeToString())
        sizes = {n for node in moved.graph.node if node.op_type == "Resize" for n in node.input}
        for tensor in moved.graph.initializer:
            if tensor.data_type == onnx.TensorProto.FLOAT and tensor.name not in sizes:
                array = _moved(numpy_helper.to_array(tensor), rng)
                tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
        return moved

    def _changed_codes(self, rng: np.random.Generator) -> onnx.ModelProto:
        """The model with other values of the same codes, so little that no code behind them changes."""
        moved = onnx.ModelProto.FromString(self.plain.SerializeToString())
        known = {t.name: numpy_helper.to_array(t) for t in moved.graph.initializer}
        for number, node in enumerate(moved.graph.node):
            is_value = node.op_type == "DequantizeLinear" or any(n.endswith(".moved") for n in node.input)
            if is_value and node.input[1] in known:
                array = _moved(known[node.input[1]], rng, _NEAR_TIE / 1000)
                node.input[1] = f"{node.input[1]} of {number}"
                moved.graph.initializer.append(numpy_helper.from_array(array, node.input[1]))
        return moved


def _moved(array: Array, rng: np.random.Generator, share: float = _EPSILON) -> Array:
    return np.asarray(array * (1 + share * rng.choice([-1.0, 1.0], array.shape)), np.float32)


def _has_infinity(array: Array) -> bool:
    return array.dtype.kind == "f" and not bool(np.isfinite(array).all())


def _problem(name: str, got: Array, want: Array, spread: Array | None = None) -> str:
    """What differs; empty when nothing does.  Zeros of both signs are equal, as ONNX does not say which it is."""
    if got.dtype != want.dtype:
        return f"dtype {got.dtype}, expected {want.dtype}: output {name!r}"
    if got.shape != want.shape:
        return f"shape {got.shape}, expected {want.shape}: output {name!r}"
    one, two = got.astype(np.float64), want.astype(np.float64)
    finite = np.isfinite(two)
    if want.dtype.kind == "f":
        largest = float(np.abs(two[finite]).max(initial=0.0))
        eps = max(float(np.finfo(want.dtype).eps), 1.2e-7)
        allowed = 60 * eps * np.abs(two) + 20 * eps * largest + 1e-30
    else:
        allowed = np.zeros(two.shape)
    if spread is not None:
        allowed = allowed + 8 * spread
    special = np.where(finite, False, ~((one == two) | (np.isnan(one) & np.isnan(two))))
    different = special | (finite & ~(np.abs(one - two) <= allowed))
    if not different.any():
        return ""
    at = tuple(int(n) for n in np.argwhere(different)[0])
    count = f"{int(different.sum())} of {want.size} elements"
    kind = "numbers" if want.dtype.kind == "f" else "integers"
    return f"{kind} differ: output {name!r}, {count}, first at {list(at)}: {got[at]} instead of {want[at]}"


# Quantizers


@dataclass(frozen=True, eq=False)
class _Quantizer:
    """Where numbers that a reference computed become integers.

    Parameters
    ----------
    exact : tuple of float
        Operands of ``Floor`` and ``Ceil`` that are not sums, and so not near a step by chance.
    """

    operand: str
    op: str
    scale: Array
    zero: Array
    exact: tuple[float, ...] = ()

    def distances(self, operand: Array) -> Array:
        """From the place where the code changes (codes); 1 where it is clipped anyway."""
        steps = operand.astype(np.float64) / self.scale
        if self.op in ("Floor", "Ceil"):
            return np.where(np.isin(operand, self.exact), 1.0, np.abs(steps - np.rint(steps)))
        from_half = np.abs(steps - np.floor(steps) - 0.5)
        if self.op == "Round":
            return from_half
        info, codes = np.iinfo(self.zero.dtype), steps + self.zero.astype(np.float64)
        return np.where((codes < info.min - 1) | (codes > info.max + 1), 1.0, from_half)


def _quantizers(model: onnx.ModelProto) -> Iterator[_Quantizer]:
    """All whose operand is computed: what is divided once, as inputs and constants are, rounds the same everywhere."""
    known = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    ranks = _ranks(model)
    first = {i.name for i in model.graph.input} | known.keys()
    for node in model.graph.node:
        if node.op_type == "QuantizeLinear" and node.input[0] not in first and node.input[1] in known:
            scale = known[node.input[1]].astype(np.float64)
            zero = known.get(node.input[2]) if len(node.input) > 2 else None
            zero = np.zeros(scale.shape, np.uint8) if zero is None else zero
            if scale.size > 1:
                axis = next((a.i for a in node.attribute if a.name == "axis"), 1)
                shape = [-1 if n == axis % ranks[node.input[0]] else 1 for n in range(ranks[node.input[0]])]
                scale, zero = scale.reshape(shape), zero.reshape(shape)
            yield _Quantizer(node.input[0], node.op_type, scale, zero)
        elif node.name.startswith("plain "):
            exact = tuple(float(n) for n in node.doc_string.split())
            yield _Quantizer(node.input[0], node.op_type, np.array(1.0), np.array(0), exact)


def _ranks(model: onnx.ModelProto) -> dict[str, int]:
    inferred = onnx.shape_inference.infer_shapes(model).graph
    return {v.name: len(v.type.tensor_type.shape.dim) for v in inferred.value_info}

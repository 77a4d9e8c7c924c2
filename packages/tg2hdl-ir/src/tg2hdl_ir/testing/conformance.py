"""Conformance suites that plugin authors run on their own ops and arithmetic units.

In a plugin's tests::

    @pytest.mark.parametrize("unit", my_plugin.tg2hdl_arithmetic_units(), ids=lambda u: u.name)
    def test_unit(unit):
        check_unit(unit, simulate)

where ``simulate(unit, operands) -> result`` streams arrays of bit patterns through the hardware, one operand set in
every `ii` cycles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tg2hdl_ir.dtype import DType
from tg2hdl_ir.errors import PluginError
from tg2hdl_ir.golden import evaluate
from tg2hdl_ir.nodes import KernelIR
from tg2hdl_ir.ops import result_types
from tg2hdl_ir.plugins.arithmetic import ArithmeticSet
from tg2hdl_ir.plugins.descriptors import ArithmeticUnit, OpDef, OpLowering, PassDef, resolve
from tg2hdl_ir.plugins.registry import registry
from tg2hdl_ir.verifier import verify

__all__ = [
    "Simulate",
    "check_lowering",
    "check_op",
    "check_pass",
    "check_policy",
    "check_unit",
    "operand_sets",
]

Bits: TypeAlias = npt.NDArray[np.uint64]
Simulate: TypeAlias = Callable[[Any, tuple[Bits, ...]], Bits]


def special_values(dtype: DType) -> list[int]:
    """Bit patterns at which implementations go wrong."""
    top = 1 << (dtype.bit_width - 1)
    if not dtype.is_float:
        values = {0, 1, 2, 3, top - 1, top, top + 1, 2 * top - 1, 2 * top - 2, dtype.bit_width}
        return sorted(v & (2 * top - 1) for v in values)
    tiny = 1 << dtype.fraction_bits
    inf = ((1 << dtype.exponent_bits) - 1) << dtype.fraction_bits
    one = ((1 << (dtype.exponent_bits - 1)) - 1) << dtype.fraction_bits
    positive = {0, 1, 2, tiny - 1, tiny, tiny + 1, one - 1, one, one + 1, one + tiny, one - tiny}
    positive |= {inf - 1, inf, inf + 1, inf | (tiny >> 1), top - 1}
    return sorted(p | sign for p in positive if 0 <= p < top for sign in (0, top))


def operand_sets(types: Sequence[DType], count: int, seed: int = 0) -> tuple[Bits, ...]:
    """Operands as bit patterns: all combinations of special values (at most 4096), then `count` random sets.

    Of the random float sets one half has exponents near each other, where rounding and cancellation happen.

    Parameters
    ----------
    types : sequence of DType
        One for each operand.
    count : int
        Random sets beyond the special values.
    seed : int, default 0
    """
    rng = np.random.default_rng(seed)
    specials = [np.array(special_values(t), np.uint64) for t in types]
    grid = np.meshgrid(*specials, indexing="ij")
    flat = [g.reshape(-1) for g in grid]
    if flat[0].size > 4096:
        chosen = rng.choice(flat[0].size, 4096, replace=False)
        flat = [f[chosen] for f in flat]
    columns: list[Bits] = []
    for dtype, special in zip(types, flat, strict=True):
        mask = np.uint64((1 << dtype.bit_width) - 1)
        random = rng.integers(0, 1 << 64, count, dtype=np.uint64, endpoint=False) & mask
        if dtype.is_float:
            near = (rng.standard_normal(count // 2) * 2.0).astype(dtype.numpy())
            random[: count // 2] = dtype.array_to_bits(near)
        columns.append(np.concatenate([special, random]).astype(np.uint64))
    return tuple(columns)


def check_op(op: OpDef, operands: tuple[DType, ...], result: DType, *, count: int = 1000) -> None:
    """Check that an op's golden evaluation keeps the contract.

    The type rule allows the types; the evaluation is elementwise and deterministic, and gives the numpy type of the
    result and values that fit its width.

    Parameters
    ----------
    op : OpDef
    operands : tuple of DType
        Types that the op's rule must allow.
    result : DType
        Types that the op's rule must allow.
    count : int, default 1000
        Random sets of operands beyond the special values.

    Raises
    ------
    AssertionError
        Naming the op and the first rule that it breaks.
    """
    label = f"op {op.name} on ({', '.join(map(str, operands))}) -> {result}"
    assert result in result_types(op, operands), f"{label}: the type rule does not allow these types"
    patterns = operand_sets(operands, count)
    arrays = tuple(t.bits_to_array(p) for t, p in zip(operands, patterns, strict=True))
    evaluate = resolve(op.evaluate)
    with np.errstate(all="ignore"):
        whole = np.asarray(evaluate(arrays, operands, result))
        again = np.asarray(evaluate(arrays, operands, result))
    assert whole.dtype == result.numpy(), f"{label}: gives {whole.dtype}, expected {result.numpy()}"
    assert whole.shape == arrays[0].shape, f"{label}: gives shape {whole.shape} for {arrays[0].shape}"
    bits = result.array_to_bits(whole)
    assert np.array_equal(bits, result.array_to_bits(again)), f"{label}: a second evaluation differs"
    fits = result.is_float or np.array_equal(result.bits_to_array(bits), whole)
    assert fits, f"{label}: a value does not fit {result.bit_width} bits"
    for n in range(0, whole.size, max(1, whole.size // 50)):
        with np.errstate(all="ignore"):
            one = np.asarray(evaluate(tuple(a[n : n + 1] for a in arrays), operands, result))
        same = np.array_equal(result.array_to_bits(one), bits[n : n + 1])
        assert same, (
            f"{label}: element {n} differs when it is computed by itself, so the op is not elementwise"
        )


def check_unit(unit: ArithmeticUnit, simulate: Simulate, *, count: int = 1000, seed: int = 0) -> int:
    """Check a unit's hardware against the golden evaluation, bit for bit.

    Parameters
    ----------
    simulate : callable
        ``(unit, operands) -> results``: arrays of bit patterns in and out.
    count : int
        Number of random operand sets, besides the combinations of special values.

    Returns
    -------
    int
        Number of operand sets that were compared.

    Raises
    ------
    AssertionError
        With the first operands whose result differs, or when the descriptor itself is wrong.
    """
    op = registry().op(unit.op)
    assert unit.result in result_types(op, unit.operands), (
        f"unit {unit.name}: op {unit.op} does not take these formats"
    )
    sane = unit.latency >= 0 and unit.ii >= 1
    assert sane, f"unit {unit.name}: latency {unit.latency}, II {unit.ii}"
    golden = resolve(unit.golden if unit.golden is not None else op.evaluate)
    return _compare(f"unit {unit.name}", unit, simulate, golden, unit.operands, unit.result, count, seed)


def check_lowering(
    lowering: OpLowering,
    operands: tuple[DType, ...],
    result: DType,
    simulate: Simulate,
    *,
    count: int = 1000,
    seed: int = 0,
) -> int:
    """Check combinational hardware against the golden evaluation; see `check_unit`.

    Parameters
    ----------
    lowering : OpLowering
    operands : tuple of DType
        Types that the lowering must match.
    result : DType
        Types that the lowering must match.
    simulate : Simulate
        Runs the hardware on bit patterns and returns those of the result.
    count : int, default 1000
        Random sets of operands beyond the special values.
    seed : int, default 0

    Raises
    ------
    AssertionError
        When a bit differs; it names the operands.
    """
    assert resolve(lowering.matches)(operands, result), f"lowering {lowering.name} does not match these types"
    levels = resolve(lowering.levels)(operands, result)
    assert levels >= 0, f"lowering {lowering.name}: {levels} levels"
    golden = resolve(registry().op(lowering.op).evaluate)
    return _compare(f"lowering {lowering.name}", lowering, simulate, golden, operands, result, count, seed)


def check_pass(definition: PassDef, kernels: Iterable[KernelIR], *, seed: int = 0) -> int:
    """Check that a rewrite keeps the rules of the IR and every bit of the results; or each form that one proposes.

    Parameters
    ----------
    kernels : iterable of KernelIR
        Kernels without run-time variables, such as those of `tg2hdl_ir.testing.samples` and some that it rewrites.

    Returns
    -------
    int
        Number of kernels that it changed, or of forms that it proposed.

    Raises
    ------
    AssertionError
        With the first kernel whose results differ, or when no kernel is changed.
    IRVerificationError
        When it breaks a rule.
    """
    changed = 0
    run = resolve(definition.run)
    rng = np.random.default_rng(seed)
    for kernel in kernels:
        before = kernel.format()
        forms = run(kernel) if definition.proposes else [run(kernel)]
        assert kernel.format() == before, f"pass {definition.name} changes its argument"
        inputs = {}
        for buffer in kernel.buffers:
            bits = rng.integers(0, 1 << buffer.dtype.bit_width, buffer.depth, dtype=np.uint64, endpoint=False)
            inputs[buffer.idx] = buffer.dtype.bits_to_array(bits)
        for form in forms:
            steps = form if isinstance(form, tuple) else (form,)
            for made in steps:
                assert isinstance(made, KernelIR), f"pass {definition.name} returned {type(made).__name__}"
                verify(made)
            changed += "".join(made.format() for made in steps) != before
            with np.errstate(all="ignore"):
                wanted, got = evaluate(kernel, inputs), _evaluate_steps(steps, inputs)
            for meta in (b for b in kernel.buffers if b.is_output):
                one, two = (meta.dtype.array_to_bits(found[meta.idx]) for found in (wanted, got))
                same = np.array_equal(one, two)
                assert same, f"pass {definition.name}: buffer {meta.idx} of kernel {kernel.name} differs"
    assert changed, f"pass {definition.name} changes none of these kernels"
    return changed


def _evaluate_steps(kernels: Iterable[KernelIR], inputs: dict[int, Any]) -> dict[int, Any]:
    """Contents after kernels that run one after the other over the same slots."""
    contents = dict(inputs)
    for kernel in kernels:
        for meta in kernel.buffers:
            if meta.idx not in contents:
                contents[meta.idx] = np.zeros(meta.depth, meta.dtype.numpy())
        contents |= evaluate(kernel, {meta.idx: contents[meta.idx] for meta in kernel.buffers})
    return contents


def check_policy(plugin: object, *, target: str = "generic") -> int:
    """Check a policy among units on every op and its formats: it must choose one of the units that it was given.

    Parameters
    ----------
    plugin : module or object
        With the function ``tg2hdl_select_unit``.
    target : str
        FPGA family; units of other families are not candidates.

    Returns
    -------
    int
        For how many ops and formats it chose a unit.

    Raises
    ------
    AssertionError
        Naming the op and the first rule that it breaks.
    """
    groups: dict[Any, list[ArithmeticUnit]] = {}
    for unit in registry().units():
        if unit.target in ("generic", target):
            groups.setdefault((unit.op, unit.operands, unit.result), []).append(unit)
    assert groups, "no unit is registered"
    count = 0
    with ArithmeticSet([]).extended(plugin, distribution="policy") as plugins:
        for (op, operands, result), units in groups.items():
            label = f"policy for {op} on ({', '.join(map(str, operands))}) -> {result}"
            chosen = []
            for candidates in (list(units), list(reversed(units))):
                kept = list(candidates)
                try:
                    chosen.append(plugins.policy(op, operands, result, candidates))
                except PluginError as error:
                    raise AssertionError(f"{label}: {error.message}") from error
                assert candidates == kept, f"{label}: it changes the list of candidates"
            assert chosen[0] == chosen[1], f"{label}: it depends on the order of the candidates"
            count += chosen[0] is not None
    assert count, "the policy chooses no unit for any op"
    return count


def _compare(
    label: str,
    subject: Any,
    simulate: Simulate,
    golden: Callable[..., Any],
    types: tuple[DType, ...],
    result: DType,
    count: int,
    seed: int,
) -> int:
    patterns = operand_sets(types, count, seed)
    arrays = tuple(t.bits_to_array(p) for t, p in zip(types, patterns, strict=True))
    with np.errstate(all="ignore"):
        wanted = result.array_to_bits(np.asarray(golden(arrays, types, result)))
    got = np.asarray(simulate(subject, patterns)).astype(np.uint64)
    assert got.shape == wanted.shape, f"{label}: {got.size} results for {wanted.size} operand sets"
    wrong = np.flatnonzero(got != wanted)
    if wrong.size:
        n = wrong[0]
        shown = ", ".join(f"{hex(p[n])} ({a[n]})" for p, a in zip(patterns, arrays, strict=True))
        raise AssertionError(
            f"{label}: {wrong.size} of {wanted.size} results differ; first: ({shown}) gives {hex(got[n])}, "
            f"expected {hex(wanted[n])}"
        )
    return int(wanted.size)

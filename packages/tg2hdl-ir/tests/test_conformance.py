"""The conformance suites accept what is right and say what is wrong."""

from __future__ import annotations

import numpy as np
import pytest

from tg2hdl_ir import (
    ArithmeticUnit,
    DType,
    IROp,
    OpDef,
    OpLowering,
    PassDef,
    Registry,
    hookimpl,
    registry,
    use_registry,
)
from tg2hdl_ir.ops import result_types
from tg2hdl_ir.passes.pattern import op, rewrite, value
from tg2hdl_ir.testing.conformance import (
    check_lowering,
    check_op,
    check_pass,
    check_policy,
    check_unit,
    operand_sets,
    special_values,
)
from tg2hdl_ir.testing.samples import elementwise

F, H, INT = DType.FP32, DType.FP16, DType.INT32
ADD = ArithmeticUnit("test.add", "add", (F, F), F, 3, "nowhere:Unit")


def by_numpy(subject, operands):
    a, b = (F.bits_to_array(p) for p in operands)
    with np.errstate(all="ignore"):
        total = a + b
    bits = F.array_to_bits(total)
    bits[np.isnan(total)] = 0x7FC00000
    return bits


def test_right_unit():
    assert check_unit(ADD, by_numpy, count=200) == 200 + len(special_values(F)) ** 2


def test_wrong_unit():
    def wrong(subject, operands):
        bits = by_numpy(subject, operands)
        bits[-1] ^= np.uint64(1)
        return bits

    with pytest.raises(AssertionError, match=r"unit test.add: 1 of \d+ results differ; first: \(0x"):
        check_unit(ADD, wrong, count=10)
    with pytest.raises(AssertionError, match=r"unit test.add: 0 results for \d+ operand sets"):
        check_unit(ADD, lambda subject, operands: np.array([], np.uint64), count=10)


def test_wrong_descriptors():
    with pytest.raises(AssertionError, match="unit bad: op add does not take these formats"):
        check_unit(ArithmeticUnit("bad", "add", (F, H), F, 1, "x:y"), by_numpy)
    with pytest.raises(AssertionError, match="unit bad: latency -1, II 1"):
        check_unit(ArithmeticUnit("bad", "add", (F, F), F, -1, "x:y"), by_numpy)


def test_unit_with_its_own_golden_evaluation():
    def golden(operands, types, result):
        return operands[0]

    unit = ArithmeticUnit("test.sin", "sin", (F,), F, 1, "x:y", golden=golden)
    assert check_unit(unit, lambda subject, operands: operands[0], count=50) > 50


def test_lowerings():
    lowering = OpLowering("xor", "xor", lambda o, r: r == INT, "x:y", lambda o, r: 1)
    assert check_lowering(lowering, (INT, INT), INT, lambda subject, p: p[0] ^ p[1], count=50) > 50
    with pytest.raises(AssertionError, match="lowering xor does not match these types"):
        check_lowering(lowering, (F, F), F, lambda subject, p: p[0])
    deep = OpLowering("deep", "xor", lambda o, r: True, "x:y", lambda o, r: -2)
    with pytest.raises(AssertionError, match="lowering deep: -2 levels"):
        check_lowering(deep, (INT, INT), INT, lambda subject, p: p[0])


@pytest.mark.parametrize("op", registry().ops(), ids=lambda o: o.name)
@pytest.mark.parametrize(
    "dtype", [F, DType.BF16, DType.FP8_E4M3, INT, DType.from_width(20, True), DType.BOOL], ids=str
)
def test_built_in_ops_keep_the_contract(op, dtype):
    if registry().distribution(op) != "tg2hdl-ir":
        pytest.skip("an op of another distribution")
    operands = (DType.BOOL, dtype, dtype) if op.name == "where" else (dtype,) * op.arity
    results = tuple(result_types(op, operands))
    if not results:
        pytest.skip("not an op on this type")
    for result in results:
        check_op(op, operands, result, count=100)


@pytest.mark.parametrize(
    ("evaluate", "text"),
    [
        (lambda o, t, r: o[0].astype(np.float64), "gives float64, expected float32"),
        (lambda o, t, r: o[0][:1], r"gives shape \(1,\) for"),
        (lambda o, t, r: np.sort(o[0]), "not elementwise"),
    ],
)
def test_wrong_ops(evaluate, text):
    with pytest.raises(AssertionError, match=text):
        check_op(OpDef("odd", 1, lambda types: types[0], evaluate), (F,), F)


def test_types_that_the_rule_refuses():
    with pytest.raises(
        AssertionError, match=r"op add on \(fp32, fp16\) -> fp32: the type rule does not allow"
    ):
        check_op(registry().op("add"), (F, H), F)


def test_values_that_do_not_fit():
    five = DType.from_width(5, True)
    op = OpDef("wide", 1, lambda types: types[0], lambda o, t, r: np.full_like(o[0], 100))
    with pytest.raises(AssertionError, match="a value does not fit 5 bits"):
        check_op(op, (five,), five)


def test_evaluation_that_changes():
    rng = np.random.default_rng(0)
    op = OpDef(
        "dice", 1, lambda types: types[0], lambda o, t, r: rng.integers(0, 9, o[0].shape).astype(np.int32)
    )
    with pytest.raises(AssertionError, match="a second evaluation differs"):
        check_op(op, (INT,), INT)


def test_operands_contain_the_special_values():
    (column,) = operand_sets((H,), 10)
    assert {0x0000, 0x8000, 0x0001, 0x03FF, 0x0400, 0x7BFF, 0x7C00, 0xFC00, 0x7E00} <= set(column.tolist())
    a, b, c = operand_sets((F, F, F), 10)
    assert a.size == b.size == c.size == 4096 + 10


def test_a_pass_keeps_every_bit():
    kernels = [elementwise(5, "add", "int32"), elementwise(5, "sub", "int32"), elementwise(4, "add", "fp32")]
    sums, swap = op("add", value("a"), value("b")), lambda node, a, b: IROp("add", node.dtype, (b, a))
    exact = PassDef("swap", "", lambda kernel: rewrite(kernel, sums, swap))
    assert check_pass(exact, kernels) == 2
    wrong = PassDef("drop", "", lambda kernel: rewrite(kernel, sums, lambda node, a, b: a))
    with pytest.raises(AssertionError, match=r"pass drop: buffer \d of kernel \w+ differs"):
        check_pass(wrong, kernels)
    with pytest.raises(AssertionError, match="pass none changes none of these kernels"):
        check_pass(PassDef("none", "", lambda kernel: kernel), kernels)


def test_each_form_that_a_pass_proposes_keeps_every_bit():
    kernel = elementwise(5, "add", "int32")
    sums = op("add", value("a"), value("b"))
    swapped = rewrite(kernel, sums, lambda node, a, b: IROp("add", node.dtype, (b, a)))
    wrong = rewrite(kernel, sums, lambda node, a, b: a)

    def proposes(*forms):
        return PassDef("forms", "", lambda kernel: list(forms), proposes=True)

    assert check_pass(proposes(swapped, (swapped,), kernel), [kernel]) == 2
    with pytest.raises(AssertionError, match=r"pass forms: buffer \d of kernel \w+ differs"):
        check_pass(proposes(swapped, (kernel, wrong)), [kernel])
    with pytest.raises(AssertionError, match="pass forms returned str"):
        check_pass(proposes("a form"), [kernel])


def unit_of(name, latency):
    return ArithmeticUnit(name, "add", (F, F), F, latency, "nowhere:Unit")


class Units:
    @hookimpl
    def tg2hdl_arithmetic_units(self):
        return [unit_of("test.slow", 9), unit_of("test.quick", 2)]


def policy(function):
    return type("Policy", (), {"tg2hdl_select_unit": staticmethod(hookimpl(function))})()


POLICIES = {
    "the policy chooses no unit for any op": lambda candidates: None,
    "policy for add on (fp32, fp32) -> fp32: it depends on the order of the candidates": lambda candidates: (
        candidates[0]
    ),
    "policy for add on (fp32, fp32) -> fp32: it changes the list of candidates": lambda candidates: (
        candidates.reverse()
    ),
    "policy for add on (fp32, fp32) -> fp32: the policy tg2hdl_select_unit of plugin 'policy:Policy.0' chose "
    "'quick' for op 'add', which is not a candidate": lambda candidates: "quick",
    "policy for add on (fp32, fp32) -> fp32: the policy tg2hdl_select_unit of plugin 'policy:Policy.0' raised "
    "ZeroDivisionError: integer division or modulo by zero": lambda candidates: 1 // 0,
}


def quickest(candidates):
    return min(candidates, key=lambda unit: (unit.latency, unit.name))


def test_a_policy_chooses_one_of_its_candidates():
    with use_registry(Registry([])) as known, known.extended(Units()):
        assert check_policy(policy(quickest)) == 1


@pytest.mark.parametrize("text", POLICIES)
def test_faulty_policies_are_named(text):
    with (
        use_registry(Registry([])) as known,
        known.extended(Units()),
        pytest.raises(AssertionError) as caught,
    ):
        check_policy(policy(POLICIES[text]))
    assert str(caught.value) == text

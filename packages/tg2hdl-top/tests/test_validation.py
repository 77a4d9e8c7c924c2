"""Validation: wrong rewrites are refused and named, right ones are not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tg2hdl_ir import (
    BufferMeta,
    DType,
    InputError,
    IRBufLoad,
    IRBufStore,
    IRConst,
    IRCounter,
    IROp,
    IRRegLoad,
    IRRegStore,
    KernelCall,
    KernelIR,
    LoopIR,
    PassDef,
    ProgramBuffer,
    ProgramIR,
    RegisterMeta,
    ValidationError,
    evaluate,
    hookimpl,
    parse_kernel,
    registry,
)
from tg2hdl_ir.golden.kernel import evaluate_within
from tg2hdl_ir.passes.rewrite import Rewriter
from tg2hdl_lower import plan_kernel
from tg2hdl_top import CompileOptions, Design, compile_program
from tg2hdl_top.joining import join_kernels
from tg2hdl_top.testing import I8, I32, buffer, changed_pass, elementwise, gemv, layer
from tg2hdl_top.validation.compare import WrongResult
from tg2hdl_top.validation.rewrites import RewriteCheck
from tg2hdl_top.validation.slices import few_iterations, iterations_at

PROGRAM, *_ = layer()


def with_other_ops(kernel, old: str, new: str):
    """The kernel with one op for another, such that it stays well-formed."""

    def other(op: IROp):
        return IROp(new, op.dtype, op.srcs) if op.op == old and op.dtype == I32 else None

    return replace(kernel, loop_tree=Rewriter(replace=other).loop(kernel.loop_tree))


class Plugin:
    """A plugin whose pass takes the smaller of two numbers for the larger one."""

    @hookimpl
    def tg2hdl_passes(self):
        return [PassDef("pw", "a wrong pass", lambda kernel: with_other_ops(kernel, "max", "min"))]


@pytest.mark.parametrize("mode", ["auto", "full", "each"])
def test_a_wrong_pass_of_a_plugin_is_refused_and_named(mode):
    with registry().extended(Plugin(), distribution="x-passwrong"):
        with pytest.raises(ValidationError) as caught:
            compile_program(PROGRAM, CompileOptions(validate=mode))
        compile_program(PROGRAM, CompileOptions(validate="off"))
    error = caught.value
    assert error.kind == "compiler bug"
    assert error.exit_status == 3
    assert error.message.startswith("a rewrite changed a result: ")
    assert error.where == "program layer"
    assert any(
        note == "first made wrong by pass pw of plugin x-passwrong:Plugin.0 (x-passwrong), in elementwise"
        for note in error.notes
    )
    assert error.hint == "upgrade the plugin, or disable it with --no-plugin x-passwrong:Plugin.0"


def test_the_text_names_output_elements_values_inputs_and_pass():
    with registry().extended(Plugin(), distribution="x-passwrong"), pytest.raises(ValidationError) as caught:
        compile_program(PROGRAM)
    first, *others = str(caught.value).splitlines()
    assert first.startswith("compiler bug: a rewrite changed a result: output 'y': ")
    assert " of 6 elements differ, first at 0: " in first
    assert " became " in first
    assert others[0] == "  at: program layer"
    assert others[1] == '  note: inputs "distinct"'
    assert (
        others[-2] == "  note: nothing was written; --validate-keep FOLDER writes both forms and their inputs"
    )


def test_the_reproducer_shows_the_difference(tmp_path):
    folder = tmp_path / "kept"
    with registry().extended(Plugin(), distribution="x-passwrong"), pytest.raises(ValidationError) as caught:
        compile_program(PROGRAM, CompileOptions(validate_keep=str(folder)))
    assert f"both forms and their inputs are in {folder}" in caught.value.notes
    before, after = (parse_kernel((folder / f"{name}.ir").read_text()) for name in ("before", "after"))
    with np.load(folder / "inputs.npz") as file:
        contents = {b.idx: file[f"b{b.idx}"] for b in before.buffers}
    results = [evaluate(kernel, contents) for kernel in (before, after)]
    assert (results[0][0] != results[1][0]).any()


def with_minimum(kernel):
    return with_other_ops(kernel, "max", "min")


def with_sum(kernel):
    return with_other_ops(kernel, "mul", "add")


def test_a_wrong_pass_of_planning_is_named():
    with (
        changed_pass("forward-registers", with_minimum),
        pytest.raises(ValidationError) as caught,
    ):
        compile_program(PROGRAM)
    assert caught.value.message.startswith(
        "a rewrite changed a result: kernel elementwise as planned, buffer "
    )
    assert "first made wrong by pass forward-registers of tg2hdl-ir, in elementwise" in caught.value.notes


def reduced(op: str) -> ProgramIR:
    """A sum or an extremum of 12 integers."""
    k = IRCounter(12, 0, 0)
    x, before, after = IRBufLoad(1, k, I32), IRRegLoad(I32), IRRegLoad(I32)
    initial = {"add": 0, "max": I32.min_value, "min": I32.max_value}[op]
    inner = LoopIR.from_items((x, before, IRRegStore(IROp(op, I32, (before, x)))), counter=k)
    items = (IRRegStore(IRConst(initial, I32)), inner, after, IRBufStore(0, IRConst(0, I32), after, I32))
    buffers = BufferMeta(0, 1, I32, True), BufferMeta(1, 12, I32, False)
    kernel = KernelIR(buffers, LoopIR.from_items(items), (RegisterMeta(0, I32),), name="reduced")
    arrays = buffer("y", "output", size=1), buffer("x", "input", size=12)
    return ProgramIR("reduced", arrays, (KernelCall(kernel, (0, 1)),), (0,))


def without_first(kernel):
    """The kernel whose accumulators go on from what they hold: no initial value is selected."""

    def kept(op: IROp):
        chosen = [s for s in op.srcs if isinstance(s, IRRegLoad)]
        return chosen[0] if op.op == "where" and isinstance(op.srcs[1], IRConst) and chosen else None

    return replace(kernel, loop_tree=Rewriter(replace=kept).loop(kernel.loop_tree))


@pytest.mark.parametrize("mode", ["auto", "full", "each"])
@pytest.mark.parametrize("op", ["add", "max", "min"])
def test_an_accumulator_that_goes_on_from_the_last_run_is_refused_and_named(op, mode):
    program = reduced(op)
    with (
        changed_pass("forward-registers", without_first),
        pytest.raises(ValidationError) as caught,
    ):
        compile_program(program, CompileOptions(validate=mode))
    assert "first made wrong by pass forward-registers of tg2hdl-ir, in reduced" in caught.value.notes
    assert "in a second run: a register is read before it is written" in str(caught.value)
    compile_program(program, CompileOptions(validate=mode))


def test_a_lost_sign_of_zero_is_seen_in_a_planned_kernel():
    def with_zero_added(kernel):
        def added(op):
            is_product = isinstance(op, IROp) and op.op == "mul" and op.dtype == DType.FP32
            return IROp("add", DType.FP32, (op, IRConst(0.0, DType.FP32))) if is_product else None

        return replace(kernel, loop_tree=Rewriter(replace=added).loop(kernel.loop_tree))

    with (
        changed_pass("forward-registers", with_zero_added),
        pytest.raises(ValidationError, match="-0 became 0"),
    ):
        compile_program(scaled(2.0))


def test_lost_elements_are_seen_where_few_iterations_are_evaluated():
    def without_the_middle(kernel):
        def gated(_, statement):
            if not isinstance(statement, IRBufStore):
                return statement
            inside = IROp("ne", DType.BOOL, (statement.addr, IRConst(700, statement.addr.dtype)))
            return replace(statement, gate=inside)

        return replace(kernel, loop_tree=Rewriter(change=gated).loop(kernel.loop_tree))

    buffers = (buffer("x", "input", size=1500), buffer("y", "output", size=1500))
    program = ProgramIR("p", buffers, (KernelCall(elementwise("max", 1, 1500), (1, 0)),), (1,))
    for mode in ("auto", "full"):
        with (
            changed_pass("forward-registers", without_the_middle),
            pytest.raises(ValidationError, match=r"1 of 1,500 elements differ, first at 700"),
        ):
            compile_program(program, CompileOptions(validate=mode))


def test_values_must_fit_the_types_of_their_memories(monkeypatch):
    monkeypatch.setattr(
        "tg2hdl_top.element_types._narrowest", lambda interval, dtype: DType.from_width(4, True)
    )
    with pytest.raises(ValidationError) as caught:
        compile_program(PROGRAM)
    assert "buffer 't': values from " in caught.value.message
    assert caught.value.message.endswith(" do not fit int4, the type of its memory")
    assert "first made wrong by pass element-types of tg2hdl-top, in gemv" in caught.value.notes


def test_the_design_says_what_was_compared():
    design = compile_program(PROGRAM, CompileOptions(validate="full"))
    assert (
        "  validated: 2 of 2 kernels as planned, the program with inputs distinct, negative, corners, specials"
        in design.format().splitlines()
    )
    assert design.validation.is_complete
    assert Design.from_json(design.to_json()).validation == design.validation
    off = compile_program(PROGRAM, CompileOptions(validate="off"))
    assert "  validated: no" in off.format().splitlines()
    assert off.identity == design.identity
    assert not off.validation.is_complete


def test_a_kernel_that_takes_more_steps_than_its_share_is_compared_all_the_same(monkeypatch):
    limits = "tg2hdl_top.validation.planned"
    for name in ("WORK", "LEAST_WORK"):
        monkeypatch.setattr(f"{limits}.{name}", 0.0)
    assert compile_program(PROGRAM).validation.is_complete
    monkeypatch.setattr(f"{limits}.RESERVE", 0.0)
    found = compile_program(PROGRAM).validation
    assert not found.is_complete
    assert "2 kernels as planned take too long to evaluate" in found.notes


def test_the_environment_replaces_auto(monkeypatch):
    monkeypatch.setenv("TG2HDL_VALIDATE", "off")
    assert not compile_program(PROGRAM).validation.inputs
    assert compile_program(PROGRAM, CompileOptions(validate="full")).validation.inputs
    monkeypatch.setenv("TG2HDL_VALIDATE", "some")
    with pytest.raises(InputError, match="TG2HDL_VALIDATE='some' is unknown"):
        compile_program(PROGRAM)


def test_an_unknown_mode_is_refused():
    with pytest.raises(
        InputError, match=r"validate='some' is unknown\n  hint: choose 'auto', 'full', 'each', 'off'"
    ):
        CompileOptions(validate="some")


@pytest.mark.parametrize("multipliers", [1, 4])
def test_loadable_weights_are_compared_with_others_too(multipliers):
    options = CompileOptions(validate="full", weights="loadable", multipliers=multipliers)
    assert "other weights" in compile_program(PROGRAM, options).validation.inputs


def large(rows: int = 1500, depth: int = 800) -> ProgramIR:
    """A program of more statements than those that are evaluated whole."""
    weights = np.random.default_rng(0).integers(-128, 128, rows * depth).astype(np.int8)
    buffers = (
        ProgramBuffer("y", I32, (rows,), "output"),
        ProgramBuffer("w", I8, (rows * depth,), "weight", weights),
        ProgramBuffer("x", I8, (depth,), "input"),
    )
    return ProgramIR("large", buffers, (KernelCall(gemv(rows, depth), (0, 1, 2)),), (0,))


@pytest.mark.parametrize("multipliers", [1, 4])
def test_of_large_programs_some_elements_are_compared(multipliers):
    design = compile_program(large(), CompileOptions(validate="auto", multipliers=multipliers))
    found = design.validation
    assert (found.kernels, found.whole, found.sliced) == (1, 0, 1)
    assert found.inputs == ("distinct", "negative")
    assert found.notes == ("of the results of each call some elements are compared",)


def test_a_wrong_pass_is_refused_and_named_in_large_programs():
    with (
        changed_pass("forward-registers", with_sum),
        pytest.raises(ValidationError, match=r"kernel gemv as planned, buffer .* elements differ") as caught,
    ):
        compile_program(large(), CompileOptions(validate="auto", multipliers=4))
    (note,) = (note for note in caught.value.notes if note.startswith("first made wrong"))
    assert note.startswith("first made wrong by pass forward-registers of ")


def test_iterations_are_those_that_write_the_elements():
    kernel = gemv(50, 7)
    places = np.zeros(50, np.bool_)
    places[[3, 20, 49]] = True
    chosen = iterations_at(kernel, {0: places})
    assert {axis: values.tolist() for axis, values in chosen.items()} == {0: [3, 20, 49]}
    rng = np.random.default_rng(0)
    contents = {1: rng.integers(-9, 9, 350).astype(np.int8), 2: rng.integers(-9, 9, 7).astype(np.int8)}
    trace = evaluate_within(1e6, kernel, contents, iterations=chosen)
    np.testing.assert_array_equal(trace.written[0], places)
    np.testing.assert_array_equal(trace.results[0][places], evaluate(kernel, contents)[0][places])
    few = few_iterations(kernel, 70)
    assert {0, 49} < set(few[0].tolist())
    assert len(few[0]) == 10
    assert few_iterations(kernel, 350) == {}


def test_a_lost_iteration_of_a_part_of_a_program_is_seen():
    check = RewriteCheck(PROGRAM, CompileOptions())
    before = replace(PROGRAM, name="part")
    kernel = before.calls[-1].kernel
    (loop,) = kernel.loop_tree.loops
    rewriter = Rewriter()
    rewriter.memo[loop.counter] = replace(loop.counter, bound=loop.counter.bound - 1)
    lost = replace(kernel, loop_tree=rewriter.loop(kernel.loop_tree))
    after = replace(before, calls=(*before.calls[:-1], replace(before.calls[-1], kernel=lost)))
    with pytest.raises(WrongResult, match=r"buffer 'y': 1 of 6 elements differ, first at 5: .* became 0"):
        check("a-pass", before, after)


def test_a_form_that_breaks_the_rules_is_named_whatever_it_gives():
    """numpy reads an address below zero from the end, where it may be right by chance."""
    check = RewriteCheck(PROGRAM, CompileOptions())
    kernel = PROGRAM.calls[-1].kernel

    def lower(old, new):
        if not isinstance(old, IRBufStore):
            return new
        return replace(new, addr=IROp("sub", new.addr.dtype, (new.addr, IRConst(1, new.addr.dtype))))

    outside = replace(kernel, loop_tree=Rewriter(change=lower).loop(kernel.loop_tree))
    text = r"kernel elementwise breaks the rules of the IR: addresses -1 to 4 of buffer 0"
    with pytest.raises(WrongResult, match=text) as caught:
        check("a-pass", kernel, outside)
    assert caught.value.blamed == ("a-pass", "elementwise")


def scaled(*factors: float) -> ProgramIR:
    """``y = x * a * b ...`` in float32."""
    lines = [f"%{n + 1} = mul fp32 %{n}, {factor}:fp32" for n, factor in enumerate(factors)]
    text = (
        "kernel scaled\n  b0 y: fp32[8] output\n  b1 x: fp32[8]\nRANGE i0 < 8 loop\n%0 = LOAD fp32 b1[i0]\n"
    )
    text += "\n".join((*lines, f"STORE fp32 b0[i0] = %{len(factors)}", "END i0\n"))
    buffers = (
        buffer("y", "output", size=8, dtype=DType.FP32),
        buffer("x", "input", size=8, dtype=DType.FP32),
    )
    return ProgramIR("scaled", buffers, (KernelCall(parse_kernel(text), (0, 1)),), (0,))


def below_half(size: int) -> ProgramIR:
    """Two outputs for numbers below and above one half."""
    text = f"kernel below\n  b0 y: fp32[{size}] output\n  b1 x: fp32[{size}]\nRANGE i0 < {size} loop\n"
    text += "%0 = LOAD fp32 b1[i0]\n%1 = lt bool %0, 0.5:fp32\n%2 = where fp32 %1, 1.0:fp32, 2.0:fp32\n"
    text += "STORE fp32 b0[i0] = %2\nEND i0\n"
    arrays = (
        buffer("y", "output", size=size, dtype=DType.FP32),
        buffer("x", "input", size=size, dtype=DType.FP32),
    )
    return ProgramIR("below", arrays, (KernelCall(parse_kernel(text), (0, 1)),), (0,))


def test_a_comparison_that_is_wrong_for_nan_is_seen_in_a_planned_kernel():
    def inverted(op):
        if not isinstance(op, IROp) or op.op != "lt":
            return None
        others = (IROp("lt", DType.BOOL, op.srcs[::-1]), IROp("eq", DType.BOOL, op.srcs))
        return IROp("xor", DType.BOOL, (IROp("or", DType.BOOL, others), IRConst(True, DType.BOOL)))

    def without_nan(kernel):
        return replace(kernel, loop_tree=Rewriter(replace=inverted).loop(kernel.loop_tree))

    with (
        changed_pass("forward-registers", without_nan),
        pytest.raises(ValidationError, match='inputs "negative" with special values') as caught,
    ):
        compile_program(below_half(12), CompileOptions(validate="auto"))
    assert "kernel below as planned" in caught.value.message
    assert "first made wrong by pass forward-registers of tg2hdl-ir, in below" in caught.value.notes


def test_what_rounds_elsewhere_may_overflow_elsewhere():
    """The ends of a type tell nothing of scales that become part of weights."""
    before, after = scaled(4.0, 0.25), scaled(1.0)
    check = RewriteCheck(before, CompileOptions())
    check("fold-scales", before, after)
    with pytest.raises(WrongResult, match=r"buffer 'y': . of 8 elements differ, first at .: -?inf became"):
        check("a-pass", before, after)
    with pytest.raises(WrongResult, match="buffer 'y': 8 of 8 elements differ"):
        check("fold-scales", before, scaled(2.0))


def join(mode="auto"):
    plans = [plan_kernel(gemv(3, 6)), plan_kernel(elementwise("max", 1, 3))]
    return join_kernels(plans, [(0, 0, 1, 1)], options=CompileOptions(schedule="serial", validate=mode))


def test_joined_plans_are_compared_with_their_kernels():
    found = join().validation
    assert (found.inputs, found.kernels, found.whole) == (("distinct", "negative"), 2, 2)
    assert join("off").validation.inputs == ()
    with changed_pass("forward-registers", with_minimum):
        with pytest.raises(ValidationError) as caught:
            join()
        join("off")
    assert str(caught.value) == (
        "compiler bug: a plan does not compute its kernel: kernel elementwise as planned, "
        "buffer 0: 3 of 3 elements differ, first at 0: 3 became -11\n"
        "  at: kernel elementwise\n"
        '  note: inputs "distinct"\n'
        '  hint: report this; options=CompileOptions(validate="off") joins it anyway'
    )

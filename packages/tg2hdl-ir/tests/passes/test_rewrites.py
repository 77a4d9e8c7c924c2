"""Each rewrite of kernels alone: printed IR in, printed IR out, and equal results on random contents."""

from __future__ import annotations

import os
import pkgutil
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from tg2hdl_ir import InputError, KernelIR, PassDef, evaluate, hookimpl, parse_kernel, passes, registry
from tg2hdl_ir.opt import PARAMETERS, rewrite_text, rewritten_forms
from tg2hdl_ir.pipeline import all_rewrites
from tg2hdl_ir.testing.rewrites import check_rewrite_of_programs
from tg2hdl_ir.testing.samples import matmul

FOLDER = Path(__file__).parent / "ir"
OPTIONS = {"constant-taps": {"b2": [1, 0, -1, 2, 0, -2, 1, 0, -1]}}
OWN = [all_rewrites()[d.name] for d in registry().passes() if registry().distribution(d) == "tg2hdl-ir"]
NAMES = [entry.name for entry in OWN if entry.scope == "kernel"]
PROGRAMS = [entry.name for entry in OWN if entry.scope == "program"]


def test_every_marked_function_is_in_the_table():
    modules = [import_module(m.name) for m in pkgutil.iter_modules(passes.__path__, f"{passes.__name__}.")]
    marked = {f.__dict__["ir_pass"].name for m in modules for f in vars(m).values() if hasattr(f, "ir_pass")}
    assert "rows" in marked
    assert marked <= set(all_rewrites())


def read(name: str) -> str:
    return (FOLDER / f"{name}.ir").read_text()


@pytest.mark.parametrize("name", NAMES)
def test_the_result_is_the_expected_text(name):
    text = rewrite_text(read(name), [name], OPTIONS.get(name))
    path = FOLDER / f"{name}.expect"
    if os.environ.get("UPDATE_EXPECT") == "1":
        path.write_text(text)
    assert text == path.read_text()
    assert text.strip() != parse_kernel(read(name)).format().strip(), "the rewrite does something"


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_rewrite_of_programs_makes_the_expected_text_and_results(name):
    check_rewrite_of_programs(FOLDER, name, {}, tolerance=1e-6 if name == "fold-scales" else 0)


def contents(kernel: KernelIR, name: str) -> dict[int, np.ndarray]:
    """Whole numbers: sums and products of floats are exact in any order."""
    rng = np.random.default_rng(3)
    found = {}
    for b in kernel.buffers:
        low = max(-4, int(b.dtype.min_value)) if not b.dtype.is_float else -4
        high = min(4, int(b.dtype.max_value)) if not b.dtype.is_float else 4
        found[b.idx] = rng.integers(low, high + 1, b.depth).astype(b.dtype.numpy())
        if (fixed := OPTIONS.get(name, {}).get(f"b{b.idx}")) is not None:
            found[b.idx] = np.array(fixed, b.dtype.numpy())
    return found


def after(kernels, arrays, variables):
    held = dict(arrays)
    for kernel in kernels:
        for b in kernel.buffers:
            held.setdefault(b.idx, np.zeros(b.depth, b.dtype.numpy()))
        given = {b.idx: held[b.idx] for b in kernel.buffers}
        held |= evaluate(kernel, given, {v.name: variables for v in kernel.variables})
    return held


@pytest.mark.parametrize("name", NAMES)
def test_every_form_computes_what_the_kernel_does(name):
    kernel = parse_kernel(read(name))
    arrays = contents(kernel, name)
    written = [b.idx for b in kernel.buffers if b.is_output]
    expected = after([kernel], arrays, 3)
    forms = rewritten_forms(name, kernel, OPTIONS.get(name, {}))
    assert forms
    for form in forms:
        found = after(form, arrays, 3)
        for slot in written:
            np.testing.assert_array_equal(found[slot], expected[slot])


def test_parameters_are_those_of_rewrites_of_kernels():
    assert {name for name in PARAMETERS if name in {entry.name for entry in OWN}} <= set(NAMES)


def test_a_parameter_changes_the_result_and_rewrites_follow_one_another():
    text = matmul(2, 3, 4).format()
    assert "RANGE i3 < 4" in rewrite_text(text, ["split-axis"], {"axis": [1], "inner": [4]})
    twice = rewrite_text(text, ["split-axis", "split-axis"], {"axis": [1], "inner": [2]})
    assert "RANGE i4 < 2" in twice


REFUSED = {
    "unknown": (["split-axes"], {}, 1, "bad input: there is no rewrite 'split-axes'"),
    "parameter": (
        ["split-axis"],
        {"by": [2]},
        1,
        "bad input: split-axis has no parameter 'by'\n  hint: choose one of axis, inner",
    ),
    "no parameter": (
        ["flatten"],
        {"by": [2]},
        1,
        "bad input: flatten has no parameter 'by'\n  hint: leave it out",
    ),
    "form": (
        ["flatten"],
        {},
        2,
        "bad input: flatten has 1 form of kernel matmul\n  hint: give a form from 1 to 1",
    ),
    "scope": (
        ["common-kernels"],
        {},
        1,
        "bad input: common-kernels is run on programs\n  hint: give a program, or a rewrite of kernels",
    ),
    "axis": (
        ["split-axis"],
        {"inner": [5]},
        1,
        "bad input: axis 2 cannot be split by 5\n  at: kernel matmul\n"
        "  hint: give an axis with a constant trip count, and a divisor of it",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name):
    names, options, form, text = REFUSED[name]
    with pytest.raises(InputError) as caught:
        rewrite_text(matmul(2, 3, 4).format(), names, options, form)
    assert str(caught.value).startswith(text)


def test_a_rewrite_of_programs_runs_on_a_printed_program():
    text = (Path(__file__).parent.parent / "expect" / "program.expect").read_text()
    assert rewrite_text(text, ["bind-values"]).startswith("program net")
    with pytest.raises(InputError) as caught:
        rewrite_text(text, ["flatten"])
    assert str(caught.value) == (
        "bad input: flatten is run on kernels\n  hint: give a kernel, or a rewrite of programs"
    )


def test_a_plugins_pass_runs_alone_and_its_candidates_are_forms():
    class Plugin:
        @hookimpl
        def tg2hdl_passes(self):
            return [
                PassDef("same", "nothing", lambda kernel: kernel),
                PassDef("both", "two forms", lambda kernel: [kernel, (kernel,)], proposes=True),
            ]

    text = matmul(2, 3, 4).format()
    with registry().extended(Plugin(), distribution="dist"):
        assert rewrite_text(text, ["same"]).strip() == text.strip()
        assert rewrite_text(text, ["both"], form=2).strip() == text.strip()

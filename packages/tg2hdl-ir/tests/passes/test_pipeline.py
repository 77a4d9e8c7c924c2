"""The table of passes, and what watches them."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import replace

import pytest

import tg2hdl_ir.passes
from tg2hdl_ir import IRVerificationError, KernelIR, PassDef, hookimpl, registry
from tg2hdl_ir.passes.instrument import Rewrite, ir_pass, watch_passes
from tg2hdl_ir.pipeline import (
    ChangeLog,
    all_rewrites,
    canonicalize,
    exchange,
    pass_names,
    rewrites,
    run_stage,
)
from tg2hdl_ir.plugins.descriptors import PASS_STAGES
from tg2hdl_ir.testing.samples import matmul


def marked() -> dict[str, Rewrite]:
    found = {}
    for info in pkgutil.iter_modules(tg2hdl_ir.passes.__path__):
        module = importlib.import_module(f"tg2hdl_ir.passes.{info.name}")
        for value in vars(module).values():
            if isinstance(value, type(canonicalize)) and "ir_pass" in vars(value):
                found[value.__dict__["ir_pass"].name] = value.__dict__["ir_pass"]
    return found


def test_every_pass_is_registered_by_the_hook():
    own = {name for name, entry in marked().items() if entry.description}
    registered = {d.name for d in registry().passes() if registry().distribution(d) == "tg2hdl-ir"}
    assert registered == own
    assert pass_names() == list(all_rewrites())
    assert all(definition.description for definition in registry().passes())
    stages = [list(PASS_STAGES).index(definition.place) for definition in registry().passes()]
    assert stages == sorted(stages)


def some_kernel() -> KernelIR:
    return matmul(2, 3, 4)


def test_watchers_see_each_pass_in_order():
    seen = []
    with watch_passes(lambda name, before, after: seen.append(name)):
        canonicalize(some_kernel())
    canonicalize(some_kernel())
    inner = {"split-axis"}
    assert [name for name in seen if name not in inner] == [entry.name for entry in rewrites("canonical")]


@ir_pass("break", "makes a wrong kernel")
def broken(kernel: KernelIR) -> KernelIR:
    return replace(kernel, loop_tree=replace(kernel.loop_tree, depth=5))


def test_a_pass_that_breaks_the_rules_is_named(monkeypatch):
    monkeypatch.setenv("TG2HDL_VERIFY_EACH", "1")
    with pytest.raises(IRVerificationError) as caught:
        broken(some_kernel())
    assert caught.value.notes == ("pass break made it of a kernel that it was given",)
    monkeypatch.setenv("TG2HDL_VERIFY_EACH", "0")
    assert broken(some_kernel()).loop_tree.depth == 5


def test_the_log_names_passes_that_changed_something():
    log, kernel = ChangeLog(), some_kernel()
    log("same", kernel, kernel)
    log("equal", kernel, replace(kernel))
    log("other", kernel, replace(kernel, registers=(), buffers=kernel.buffers[:1]))
    assert log.changes == {kernel.name: ["other"]}


def test_what_the_table_has_is_what_runs():
    seen = []

    def noted(kernel):
        seen.append(kernel.name)
        return kernel

    right = exchange("guard-loops", Rewrite("guard-loops", "", noted))
    canonicalize(some_kernel())
    assert exchange("guard-loops", right).run is noted
    canonicalize(some_kernel())
    assert seen == [some_kernel().name]


def test_a_rewrite_gets_the_facts_that_it_needs_and_is_left_out_where_one_is_none():
    seen = []

    def noted(kernel, info, limit=3):
        seen.append((info, limit))
        return kernel

    class Plugin:
        @hookimpl
        def tg2hdl_passes(self):
            return [PassDef("noted", "", noted, stage="registers", before="forward-registers")]

    facts = {"regroup_floats": False, "floats": True}
    with registry().extended(Plugin(), distribution="dist"):
        run_stage("registers", some_kernel(), info=1, other=2, **facts)
        run_stage("registers", some_kernel(), info=1, limit=None, **facts)
        run_stage("registers", some_kernel(), info=1, limit=4, **facts)
    assert seen == [(1, 3), (1, 4)]


def test_candidates_are_forms_of_kernels():
    kernel = some_kernel()
    made = {
        "same": (lambda kernel: kernel, []),
        "none": (lambda kernel: None, []),
        "list": (lambda kernel: [kernel, (kernel, kernel)], [(kernel,), (kernel, kernel)]),
        "cut": (lambda kernel: (kernel, kernel, 7), [(kernel, kernel)]),
    }
    for run, expected in made.values():
        assert Rewrite("r", "", run).candidates(kernel, unknown=1) == expected
    other = replace(kernel)
    assert Rewrite("r", "", lambda kernel: other).candidates(kernel) == [(other,)]


def test_a_plugins_pass_runs_in_its_stage_after_ours():
    def renamed(kernel):
        return replace(kernel, name=f"{kernel.name}_seen")

    class Plugin:
        @hookimpl
        def tg2hdl_passes(self):
            return [PassDef("seen", "", renamed, stage="canonical", term="renaming")]

    with registry().extended(Plugin(), distribution="dist"):
        assert [entry.name for entry in rewrites("canonical")][-1] == "seen"
        assert rewrites("canonical")[-1].term == "renaming"
        assert "seen" not in [entry.name for entry in rewrites("captured")]
        assert canonicalize(some_kernel()).name == "matmul_seen"
    assert canonicalize(some_kernel()).name == "matmul"


def test_a_plugins_pass_runs_before_or_after_a_named_one():
    def placed(name, **place):
        return PassDef(name, "", lambda kernel: kernel, stage="canonical", **place)

    class Plugin:
        @hookimpl
        def tg2hdl_passes(self):
            return [
                placed("last"),
                placed("b", after="guard-loops"),
                placed("a", after="guard-loops"),
                placed("c", before="a"),
                placed("first", before="expand-mulacc"),
                placed("early", order=1),
            ]

    own = [entry.name for entry in rewrites("canonical")]
    at = own.index("guard-loops") + 1
    expected = ["first", *own[:at], "c", "a", "b", *own[at:], "early", "last"]
    seen = []
    with registry().extended(Plugin(), distribution="dist"):
        assert [entry.name for entry in rewrites("canonical")] == expected
        with watch_passes(lambda name, before, after: seen.append(name)):
            canonicalize(some_kernel())
    assert [name for name in seen if name != "split-axis"] == expected
    assert [entry.name for entry in rewrites("canonical")] == own

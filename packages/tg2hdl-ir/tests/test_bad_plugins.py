"""A bad plugin is one line, and fails only what needs it."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from tg2hdl_ir import DType, InputError, PluginError, Registry

HEAD = "from tg2hdl_ir import *\nfrom tg2hdl_ir.plugins.descriptors import *\nF = DType.FP32\n"
BUILT_IN = ("tg2hdl-ir", EntryPoint("ir", "tg2hdl_ir.plugin", "tg2hdl"))
GOOD = ("dist-good", EntryPoint("good", "good_plugin", "tg2hdl"))


def op(name: str) -> str:
    return f"OpDef({name!r}, 1, lambda types: types[0], lambda operands, types, result: operands[0])"


def returns(hook: str, *descriptors: str) -> str:
    return f"@hookimpl\ndef {hook}():\n    return [{', '.join(descriptors)}]\n"


UNIT = "ArithmeticUnit({name!r}, {op!r}, {operands}, {result}, 3, 'nowhere:Unit')"

BAD = {
    "a second op of a built-in name": (
        returns("tg2hdl_ops", op("add")),
        "hook tg2hdl_ops: op 'add' is taken by tg2hdl-ir; this one is left out; hint: rename it, e.g. myext.add",
    ),
    "a name that another plugin has": (
        returns("tg2hdl_targets", "TargetDef('good-part', 'good', '', 1, 1, 1, 1, 1)"),
        "hook tg2hdl_targets: target 'good-part' is registered by dist-bad too; neither is used; "
        "hint: rename one, or disable one with --no-plugin dist-good:good",
    ),
    "strings where descriptors belong": (
        returns("tg2hdl_ops", "'sigmoid'"),
        "hook tg2hdl_ops: returned 'sigmoid' of type str where OpDef belongs; hint: return a list of OpDef",
    ),
    "no list": (
        "@hookimpl\ndef tg2hdl_ops(): return None\n",
        "hook tg2hdl_ops: it raised TypeError: it returned None, not a list; "
        "hint: upgrade or uninstall dist-bad, or disable it with --no-plugin dist-bad:bad",
    ),
    "SystemExit at import": (
        "raise SystemExit(3)\n",
        ": loading raised SystemExit: 3; "
        "hint: upgrade or uninstall dist-bad, or disable it with --no-plugin dist-bad:bad",
    ),
    "SystemExit in a hook": (
        "@hookimpl\ndef tg2hdl_ops():\n    raise SystemExit(3)\n",
        "hook tg2hdl_ops: it raised SystemExit: 3; "
        "hint: upgrade or uninstall dist-bad, or disable it with --no-plugin dist-bad:bad",
    ),
    "string dtypes": (
        returns("tg2hdl_arithmetic_units", UNIT.format(name="u", op="add", operands="('fp32',)", result="F")),
        "hook tg2hdl_arithmetic_units: ArithmeticUnit 'u' has operands=('fp32',); "
        "hint: give a tuple of DType, e.g. (DType.FP32, DType.FP32)",
    ),
    "a string dtype of the result": (
        returns(
            "tg2hdl_arithmetic_units", UNIT.format(name="u", op="add", operands="(F,F)", result="'fp32'")
        ),
        "hook tg2hdl_arithmetic_units: ArithmeticUnit 'u' has result='fp32'; hint: give a DType, e.g. DType.FP32",
    ),
    "an interval of zero": (
        returns("tg2hdl_arithmetic_units", "ArithmeticUnit('u', 'add', (F, F), F, 3, 'a:b', ii=0)"),
        "hook tg2hdl_arithmetic_units: ArithmeticUnit 'u' has ii=0; hint: give at least 1",
    ),
    "a negative latency": (
        returns("tg2hdl_arithmetic_units", "ArithmeticUnit('u', 'add', (F, F), F, -1, 'a:b')"),
        "hook tg2hdl_arithmetic_units: ArithmeticUnit 'u' has latency=-1; hint: give at least 0",
    ),
    "a clock that is NaN": (
        returns(
            "tg2hdl_arithmetic_units", "ArithmeticUnit('u', 'add', (F, F), F, 3, 'a:b', fmax=float('nan'))"
        ),
        "hook tg2hdl_arithmetic_units: ArithmeticUnit 'u' has fmax=nan; hint: give a finite number",
    ),
    "an area below zero": (
        returns(
            "tg2hdl_arithmetic_units", "ArithmeticUnit('u', 'add', (F, F), F, 3, 'a:b', area=Area(lut=-1))"
        ),
        "hook tg2hdl_arithmetic_units: area of ArithmeticUnit 'u' has lut=-1; hint: give at least 0",
    ),
    "an area of another type": (
        returns("tg2hdl_arithmetic_units", "ArithmeticUnit('u', 'add', (F, F), F, 3, 'a:b', area=700)"),
        "hook tg2hdl_arithmetic_units: ArithmeticUnit 'u' has area=700; hint: give an Area, e.g. Area(lut=100)",
    ),
    "a family without a read latency": (
        returns("tg2hdl_families", "FamilyDef('f', '', 4, 0, 2)"),
        "hook tg2hdl_families: FamilyDef 'f' has read_latency=0; hint: give at least 1",
    ),
    "a family whose multiplier is ready before its operands": (
        returns("tg2hdl_families", "FamilyDef('f', '', 4, 2, -1)"),
        "hook tg2hdl_families: FamilyDef 'f' has product_latency=-1; hint: give at least 0",
    ),
    "a family with blocks of no bits": (
        returns("tg2hdl_families", "FamilyDef('f', '', 4, 2, 2, memory=MemoryFigures(block_bits=0))"),
        "hook tg2hdl_families: memory of FamilyDef 'f' has block_bits=0; hint: give at least 1",
    ),
    "a shape of a block without words": (
        returns(
            "tg2hdl_families", "FamilyDef('f', '', 4, 2, 2, memory=MemoryFigures(block_modes=((36, 0),)))"
        ),
        "hook tg2hdl_families: memory of FamilyDef 'f' has block_modes=((36, 0),); hint: give pairs above 0",
    ),
    "a board on an unknown part": (
        returns("tg2hdl_boards", "BoardDef('b', '', 'ecp5-1k', 'a:b', 'b')"),
        "hook tg2hdl_boards: board 'b' is on the part 'ecp5-1k', which nothing registers; "
        "hint: return its TargetDef from tg2hdl_targets, or name one of: good-part",
    ),
    "a board without a clock": (
        returns("tg2hdl_boards", "BoardDef('b', '', 'good-part', 'a:b', 'b', first_clock=0)"),
        "hook tg2hdl_boards: BoardDef 'b' has first_clock=0; hint: give at least 1",
    ),
    "options that are not pairs": (
        returns("tg2hdl_targets", "TargetDef('t', 'f', '', 1, 1, 1, 1, 1, options=('package',))"),
        "hook tg2hdl_targets: TargetDef 't' has options=('package',); hint: give a tuple of pairs of strings",
    ),
    "a factory without a colon": (
        returns("tg2hdl_passes", "PassDef('p', '', 'module.function')"),
        "hook tg2hdl_passes: PassDef 'p' has run='module.function'; "
        'hint: give a callable or "module:attribute"',
    ),
    "a stage that does not exist": (
        returns("tg2hdl_passes", "PassDef('p', '', 'a:b', stage='late')"),
        "hook tg2hdl_passes: PassDef 'p' has stage='late'; "
        "hint: give one of captured, canonical, lanes, registers",
    ),
    "candidates in a stage": (
        returns("tg2hdl_passes", "PassDef('p', '', 'a:b', stage='lanes', proposes=True)"),
        "hook tg2hdl_passes: PassDef 'p' has stage='lanes' and proposes=True; "
        "hint: give one of captured, merges, producers, forms",
    ),
    "a stage of candidates": (
        returns("tg2hdl_passes", "PassDef('p', '', 'a:b', stage='forms')"),
        "hook tg2hdl_passes: PassDef 'p' has stage='forms' and proposes=False; "
        "hint: give one of captured, canonical, lanes, registers",
    ),
    "a stage of built-in rewrites only": (
        returns("tg2hdl_passes", "PassDef('p', '', 'a:b', stage='loops')"),
        "hook tg2hdl_passes: PassDef 'p' has stage='loops'; "
        "hint: give one of captured, canonical, lanes, registers",
    ),
    "two places": (
        returns("tg2hdl_passes", "PassDef('p', '', 'a:b', before='q', after='r')"),
        "hook tg2hdl_passes: PassDef 'p' has before='q' and after='r'; hint: leave out one of them",
    ),
    "a place that does not exist": (
        returns("tg2hdl_passes", "PassDef('p', '', 'a:b', stage='lanes', before='guard-loops')"),
        "hook tg2hdl_passes: pass 'p' has before='guard-loops', which no rewrite of stage 'lanes' is; "
        "hint: name one of flatten, unroll, pack-products",
    ),
    "a place without any rewrite": (
        returns("tg2hdl_passes", "PassDef('p', '', 'a:b', after='q')"),
        "hook tg2hdl_passes: pass 'p' has after='q', which no rewrite of stage 'captured' is; "
        "hint: leave out after",
    ),
    "other numbers in a stage": (
        returns("tg2hdl_passes", "PassDef('p', '', 'a:b', stage='lanes', changes_numbers=True)"),
        "hook tg2hdl_passes: PassDef 'p' has stage='lanes' and changes_numbers=True; "
        "hint: leave out one of them",
    ),
    "a forgotten hookimpl": (
        f"def tg2hdl_ops():\n    return [{op('lost')}]\n" + returns("tg2hdl_passes"),
        "hook tg2hdl_ops: tg2hdl_ops is not marked; hint: write @hookimpl before def tg2hdl_ops",
    ),
    "nothing": ("", ": it implements no hook; hint: mark its hook functions with tg2hdl_ir.hookimpl"),
    "an op name that cannot be printed": (
        returns("tg2hdl_ops", op("my op")),
        "hook tg2hdl_ops: OpDef 'my op' has no name for the printed IR; "
        "hint: use letters, digits, _ and dots: myext.sigmoid",
    ),
    "a newer hook API": (
        "TG2HDL_HOOK_API = 7\n" + returns("tg2hdl_ops", op("late")),
        ": plugin 'dist-bad:bad' of dist-bad needs version 7 of the hook API; tg2hdl-ir has 1 to 1; "
        "hint: upgrade tg2hdl-ir",
    ),
    "an older hook API": (
        "TG2HDL_HOOK_API = 0\n" + returns("tg2hdl_ops", op("early")),
        ": plugin 'dist-bad:bad' of dist-bad needs version 0 of the hook API; tg2hdl-ir has 1 to 1; "
        "hint: upgrade dist-bad",
    ),
}


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Registry with a bad plugin between the built-in one and a good one."""
    modules = []

    def write(code: str) -> Registry:
        (tmp_path / f"bad_plugin_{len(modules)}.py").write_text(HEAD + code)
        good = returns("tg2hdl_ops", op("good.op")) + returns(
            "tg2hdl_targets", "TargetDef('good-part', 'good', '', 1, 1, 1, 1, 1)"
        )
        (tmp_path / "good_plugin.py").write_text(HEAD + good)
        bad = ("dist-bad", EntryPoint("bad", f"bad_plugin_{len(modules)}", "tg2hdl"))
        modules.append(bad)
        return Registry([BUILT_IN, bad, GOOD])

    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv("TG2HDL_DISABLE_PLUGINS", raising=False)
    yield write
    import sys

    for name in [n for n in sys.modules if n.startswith("bad_plugin_") or n == "good_plugin"]:
        del sys.modules[name]


@pytest.mark.parametrize("case", BAD)
def test_each_is_one_line_and_the_rest_works(load, case):
    code, line = BAD[case]
    registry = load(code)
    (problem,) = registry.problems
    assert str(problem).split(": ", 1)[1].endswith(line.split(": ", 1)[1])
    assert line in str(problem)
    assert "\n" not in str(problem)
    assert registry.op("add").description == "a + b; or of bools"
    assert registry.op("good.op").arity == 1
    assert {p["name"] for p in registry.describe()["plugins"]} == {
        "tg2hdl-ir:ir",
        "dist-bad:bad",
        "dist-good:good",
    }


def test_a_unit_for_an_unknown_op(load):
    unit = UNIT.format(name="u", op="addd", operands="(F, F)", result="F")
    registry = load(returns("tg2hdl_arithmetic_units", unit))
    (problem,) = registry.problems
    assert "arithmetic unit 'u' is for op 'addd', which nothing registers; hint: return its OpDef" in str(
        problem
    )
    assert registry.units() == ()


def test_a_contested_name_is_refused_where_it_is_needed(load):
    registry = load(returns("tg2hdl_targets", "TargetDef('good-part', 'bad', '', 1, 1, 1, 1, 1)"))
    with pytest.raises(PluginError) as caught:
        registry.target("good-part")
    assert str(caught.value) == (
        "plugin: target 'good-part' is registered twice: by dist-bad and by dist-good\n"
        "  hint: disable one of them: --no-plugin dist-good:good"
    )
    assert registry.targets() == ()


@pytest.mark.parametrize("name", ["dist-bad", "bad", "dist-bad:bad"])
@pytest.mark.parametrize("by", ["variable", "call"])
def test_plugins_can_be_disabled(load, monkeypatch, name, by):
    registry = load("raise RuntimeError('no license')")
    if by == "variable":
        monkeypatch.setenv("TG2HDL_DISABLE_PLUGINS", f"{name},unused")
    else:
        registry.disable(name)
    assert registry.problems == ()
    status = {p["name"]: p["status"] for p in registry.describe()["plugins"]}
    assert status == {"tg2hdl-ir:ir": "loaded", "dist-bad:bad": "disabled", "dist-good:good": "loaded"}
    with pytest.raises(PluginError, match="plugins are loaded already"):
        registry.disable("late")


def test_disabling_what_is_not_there_is_said(load, caplog):
    registry = load(returns("tg2hdl_passes"))
    registry.disable("sigmiod")
    assert registry.problems == ()
    assert [r.message for r in caplog.records] == [
        "no plugin named 'sigmiod' is installed; nothing is disabled by it"
    ]


def test_a_policy_that_raises_is_named(load):
    unit = UNIT.format(name="u", op="add", operands="(F, F)", result="F")
    policy = "@hookimpl\ndef tg2hdl_select_unit(op, candidates):\n    raise ValueError('no idea')\n"
    registry = load(returns("tg2hdl_arithmetic_units", unit) + policy)
    float32 = registry.units()[0].result
    with pytest.raises(PluginError) as caught:
        registry.select_unit("add", (float32, float32), float32)
    assert str(caught.value) == (
        "plugin: the policy tg2hdl_select_unit of plugin 'dist-bad:bad' raised ValueError: no idea\n  at: op 'add'\n"
        "  hint: upgrade or uninstall dist-bad, or disable it with --no-plugin dist-bad:bad"
    )


def test_an_engine_whose_check_raises_cannot_run(load):
    engine = "SimulatorDef('e', '', broken, 'a:b', 'a:b', 'a:b')"
    registry = load("def broken():\n    raise OSError('no display')\n" + returns("tg2hdl_simulators", engine))
    assert registry.unavailable(registry.simulator("e")) == (
        "plugin 'dist-bad:bad': available raised OSError: no display"
    )


def test_a_lowering_whose_match_raises_is_named(load):
    lowering = "OpLowering('l', 'add', lambda operands: True, 'a:b', 'a:b')"
    registry = load(returns("tg2hdl_op_lowerings", lowering))
    with pytest.raises(PluginError) as caught:
        registry.select_lowering("add", (DType.INT32,) * 2, DType.INT32)
    assert str(caught.value) == (
        "plugin: matches of op lowering 'l' of plugin 'dist-bad:bad' raised TypeError: "
        "tg2hdl_op_lowerings.<locals>.<lambda>() takes 1 positional argument but 2 were given\n"
        "  at: op 'add' on (int32, int32) -> int32\n"
        "  hint: upgrade the plugin, or disable it with --no-plugin dist-bad:bad"
    )


def test_units_that_are_chosen_must_exist(load):
    registry = load(
        returns(
            "tg2hdl_arithmetic_units", UNIT.format(name="my.add", op="add", operands="(F, F)", result="F")
        )
    )
    registry.check_units({"add": "my.add"})
    with pytest.raises(InputError, match="a unit is chosen for op 'addd', which nothing registers"):
        registry.check_units({"addd": "my.add"})
    with pytest.raises(InputError, match=r"no unit for op 'add' is named 'my\.mul'"):
        registry.check_units({"add": "my.mul"})

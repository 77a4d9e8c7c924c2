"""Plugin loading, conflicts, selection and the text of every error."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint, entry_points
from types import SimpleNamespace

import pytest

from tg2hdl_ir import (
    ArithmeticUnit,
    DType,
    InputError,
    OnnxOperatorDef,
    OpDef,
    OpLowering,
    PluginError,
    Registry,
    TargetDef,
    UnsupportedError,
    hookimpl,
    registry,
    resolve,
    use_registry,
)

F = DType.FP32
INT = DType.INT32


def plugin(**hooks):
    """Plugin object from lists of descriptors, or from functions."""

    def implement(name, value):
        def hook():
            return value

        function = value if callable(value) else hook
        function.__name__ = f"tg2hdl_{name}"
        return hookimpl(function)

    return SimpleNamespace(**{f"tg2hdl_{n}": implement(n, v) for n, v in hooks.items()})


def unit(name, op="add", types=(F, F), result=F, **more):
    return ArithmeticUnit(name, op, types, result, 3, "nowhere:Unit", **more)


def lowering(name, **more):
    return OpLowering(name, "add", lambda operands, result: result == INT, "x:y", "x:z", **more)


def op(name):
    return OpDef(name, 1, lambda types: types[0], lambda operands, types, result: operands[0])


def test_built_in_ops_come_through_the_entry_point():
    names = [o.name for o in registry().ops()]
    assert names == sorted(names)
    assert {"add", "where", "mulacc", "cast", "bitcast", "exp2"} <= set(names)
    assert registry().distribution(registry().op("add")) == "tg2hdl-ir"


def test_unknown_op():
    with pytest.raises(UnsupportedError) as error:
        Registry([]).op("frobnicate")
    assert (
        str(error.value) == "unsupported: unknown op 'frobnicate'\n  hint: known: ; a plugin may add others"
    )


def test_conflict_names_both_distributions():
    one, two = plugin(ops=[op("sigmoid")]), plugin(ops=[op("sigmoid"), op("gelu")])
    reg = Registry([])
    with reg.extended(one, distribution="dist-a"), reg.extended(two, distribution="dist-b"):
        with pytest.raises(PluginError) as error:
            reg.op("sigmoid")
        assert reg.op("gelu").arity == 1
        assert [o.name for o in reg.ops()] == ["gelu"]
        assert [str(p) for p in reg.problems] == [
            "plugin 'dist-b:SimpleNamespace.0' of dist-b, hook tg2hdl_ops: op 'sigmoid' is registered by dist-a too; "
            "neither is used; hint: rename one, or disable one with --no-plugin dist-b:SimpleNamespace.0"
        ]
    assert str(error.value) == (
        "plugin: op 'sigmoid' is registered twice: by dist-a and by dist-b\n"
        "  hint: disable one of them: --no-plugin dist-b:SimpleNamespace.0"
    )
    with reg.extended(one, distribution="dist-a"):
        assert reg.op("sigmoid").arity == 1


def test_selection_by_target_and_priority():
    units = [
        unit("plain"),
        unit("better", priority=5),
        unit("fast", target="ecp5"),
        unit("half", types=(INT, INT), result=INT),
    ]
    reg = Registry([])
    with reg.extended(plugin(arithmetic_units=units)):
        assert reg.select_unit("add", (F, F), F).name == "better"
        assert reg.select_unit("add", (F, F), F, target="ecp5").name == "fast"
        assert reg.select_unit("add", (F, F), F, target="ice40").name == "better"
        assert reg.select_unit("add", (F, F), F, explicit={"add": "plain"}).name == "plain"
        assert reg.select_unit("add", (F, F), F, explicit={"add": ["half", "plain"]}).name == "plain"
        assert reg.select_unit("add", (INT, INT), INT, explicit={"add": "plain"}).name == "half"
        assert reg.select_unit("mul", (F, F), F) is None
        assert [u.name for u in reg.units("add", (F, F), F)] == ["better", "fast", "plain"]


def test_tie_names_both_distributions():
    reg = Registry([])
    one, two = plugin(arithmetic_units=[unit("a")]), plugin(arithmetic_units=[unit("b")])
    with reg.extended(one, distribution="dist-a"), reg.extended(two, distribution="dist-b"):
        with pytest.raises(PluginError) as error:
            reg.select_unit("add", (F, F), F)
        assert reg.select_unit("add", (F, F), F, explicit={"add": "b"}).name == "b"
    assert str(error.value) == (
        "plugin: units 'a' of dist-a and 'b' of dist-b tie for op 'add' on (fp32, fp32) -> fp32: "
        "target generic, priority 0\n"
        "  hint: choose one explicitly: {'add': 'a'}, on the command line --unit add=a"
    )


def test_explicit_choice_must_exist():
    reg = Registry([])
    with reg.extended(plugin(arithmetic_units=[unit("a")])), pytest.raises(InputError) as error:
        reg.select_unit("add", (F, F), F, explicit={"add": "z"})
    assert str(error.value) == "bad input: no unit for op 'add' is named 'z'\n  hint: choose one of: a"


def test_policy_chooses_among_the_candidates():
    units = [unit("a"), unit("b", priority=9)]

    class Policy:
        @staticmethod
        @hookimpl
        def tg2hdl_select_unit(op, candidates):
            return next(u for u in candidates if u.name == "a")

    class Rogue:
        @staticmethod
        @hookimpl
        def tg2hdl_select_unit(op, candidates):
            return unit("elsewhere")

    reg = Registry([])
    with reg.extended(plugin(arithmetic_units=units), Policy):
        assert reg.select_unit("add", (F, F), F).name == "a"
    with reg.extended(plugin(arithmetic_units=units), Rogue), pytest.raises(PluginError) as error:
        reg.select_unit("add", (F, F), F)
    assert str(error.value) == (
        "plugin: the policy tg2hdl_select_unit of plugin 'extra:Rogue.1' chose "
        f"{unit('elsewhere')!r:.80} for op 'add', which is not a candidate\n"
        "  hint: return one of the candidates, or None"
    )


def test_lowerings_by_priority_and_tie():
    reg = Registry([])
    with reg.extended(plugin(op_lowerings=[lowering("low"), lowering("high", priority=1)])):
        assert reg.select_lowering("add", (INT, INT), INT).name == "high"
        assert reg.select_lowering("add", (F, F), F) is None
        assert reg.select_lowering("mul", (INT, INT), INT) is None
    tied = plugin(op_lowerings=[lowering("a"), lowering("b")])
    with reg.extended(tied, distribution="d"), pytest.raises(PluginError) as error:
        reg.select_lowering("add", (INT, INT), INT)
    assert str(error.value) == (
        "plugin: lowerings 'a' of d and 'b' of d tie for op 'add' on (int32, int32) -> int32: priority 0\n"
        "  hint: give one of them a higher priority"
    )


def test_unit_may_bring_its_own_golden_evaluation():
    reg = Registry([])

    def approximate(operands, types, result):
        return operands[0] + 1

    with reg.extended(
        plugin(ops=[op("exp2")], arithmetic_units=[unit("e", "exp2", (F,), golden=approximate)])
    ):
        assert reg.evaluation("exp2", (F,), F) is approximate
        assert reg.evaluation("exp2", (INT,), INT) is reg.op("exp2").evaluate


def test_a_tie_does_not_matter_where_the_units_agree():
    def golden(operands, types, result):
        return operands[0]

    reg = Registry([])
    exact = [unit("a"), unit("b")]
    with reg.extended(plugin(ops=[op("add")], arithmetic_units=exact)):
        assert reg.evaluation("add", (F, F), F) is reg.op("add").evaluate
    alike = [unit("a", golden=golden), unit("b", golden=golden)]
    with reg.extended(plugin(ops=[op("add")], arithmetic_units=alike)):
        assert reg.evaluation("add", (F, F), F) is golden
    different = [unit("a", golden=golden), unit("b")]
    with reg.extended(plugin(ops=[op("add")], arithmetic_units=different)):
        with pytest.raises(PluginError, match="units 'a' of extra and 'b' of extra tie"):
            reg.evaluation("add", (F, F), F)
        assert reg.evaluation("add", (F, F), F, explicit={"add": "a"}) is golden


def test_named_lookups():
    reg = Registry([])
    with reg.extended(plugin(targets=[TargetDef("ecp5-85k", "ecp5", "", 1, 1, 1, 1, 1)])):
        assert reg.target("ecp5-85k").family == "ecp5"
        with pytest.raises(InputError) as error:
            reg.target("zynq")
    assert str(error.value) == "bad input: no target is named 'zynq'\n  hint: choose one of: ecp5-85k"
    with pytest.raises(InputError) as error:
        reg.simulator("verilator")
    assert str(error.value) == "bad input: no simulator is named 'verilator'\n  hint: none is registered"
    with pytest.raises(InputError) as error:
        reg.quantizer("int3")
    assert str(error.value) == "bad input: no quantizer is named 'int3'\n  hint: none is registered"


def test_onnx_operator_is_the_newest_that_the_opset_knows_unless_one_has_priority():
    old, new = OnnxOperatorDef("Softmax", "m:old"), OnnxOperatorDef("Softmax", "m:new", since_version=13)
    other = OnnxOperatorDef("Softmax", "m:other", domain="com.example")
    reg = Registry([])
    with reg.extended(plugin(onnx_operators=[old, new, other])):
        assert reg.onnx_operator("Softmax", "", 12) is old
        assert reg.onnx_operator("Softmax", "", 13) is new
        assert reg.onnx_operator("Softmax", "com.example", 1) is other
        assert reg.onnx_operator("Softmin", "", 13) is None
        own = OnnxOperatorDef("Softmax", "m:own", priority=1)
        with reg.extended(plugin(onnx_operators=[own]), distribution="faster"):
            assert reg.onnx_operator("Softmax", "", 13) is own
        twice = reg.extended(plugin(onnx_operators=[new]), distribution="twice")
        with twice, pytest.raises(PluginError) as error:
            reg.onnx_operator("Softmax", "", 13)
    assert str(error.value) == (
        "plugin: ONNX operator 'ai.onnx:Softmax-13' is registered twice: by extra and by twice\n"
        "  hint: disable one of them: --no-plugin twice:SimpleNamespace.0"
    )


def test_descriptor_of_nobody():
    with pytest.raises(PluginError) as error:
        Registry([]).distribution("thing")
    assert str(error.value) == (
        "plugin: 'thing' is not registered\n  hint: give a descriptor that the registry returned"
    )


def test_misspelt_hook_is_an_error():
    bad = plugin(opps=[])
    with pytest.raises(PluginError) as error, Registry([]).extended(bad, distribution="typo"):
        pass
    assert str(error.value) == (
        "plugin: plugin 'typo:SimpleNamespace.0' of typo implements a hook that does not exist: "
        "unknown hook 'tg2hdl_opps' in plugin " + repr(bad) + "\n"
        "  hint: known hooks: tg2hdl_ops, tg2hdl_op_lowerings, tg2hdl_arithmetic_units, tg2hdl_tinygrad_ops, "
        "tg2hdl_passes, tg2hdl_simulators, tg2hdl_targets, tg2hdl_flows, tg2hdl_families, "
        "tg2hdl_memory_kinds, tg2hdl_ports, "
        "tg2hdl_memory_ports, tg2hdl_boards, tg2hdl_sequencers, tg2hdl_quantizers, tg2hdl_roundings, "
        "tg2hdl_frontends, tg2hdl_onnx_operators, tg2hdl_report_sections, tg2hdl_dimensions, "
        "tg2hdl_exports, tg2hdl_commands, tg2hdl_select_unit"
    )


@pytest.fixture
def broken_modules(tmp_path, monkeypatch):
    (tmp_path / "plugin_that_fails.py").write_text("raise RuntimeError('no license')\n")
    (tmp_path / "plugin_with_typo.py").write_text(
        "from tg2hdl_ir.plugins.hookspecs import hookimpl\n\n@hookimpl\ndef tg2hdl_oops():\n    return []\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    return [
        ("dist-fail", EntryPoint("fail", "plugin_that_fails", "tg2hdl")),
        ("dist-typo", EntryPoint("typo", "plugin_with_typo", "tg2hdl")),
        ("tg2hdl-ir", EntryPoint("ir", "tg2hdl_ir.plugin", "tg2hdl")),
    ]


def test_broken_plugins_are_reported_and_fail_only_what_needs_them(broken_modules, caplog):
    reg = Registry(broken_modules)
    assert reg.op("add").name == "add"
    fail, typo = reg.problems
    assert str(fail) == (
        "plugin 'dist-fail:fail' of dist-fail: loading raised RuntimeError: no license; hint: upgrade or uninstall "
        "dist-fail, or disable it with --no-plugin dist-fail:fail"
    )
    assert typo.reason.startswith(
        "plugin 'dist-typo:typo' of dist-typo implements a hook that does not exist"
    )
    assert [r.message for r in caplog.records] == [str(fail), str(typo)]
    with pytest.raises(UnsupportedError) as error:
        reg.op("sigmoid")
    assert error.value.notes == (str(fail), str(typo))
    status = {p["name"]: p["status"] for p in reg.describe()["plugins"]}
    assert status == {"dist-fail:fail": "broken", "dist-typo:typo": "broken", "tg2hdl-ir:ir": "loaded"}


def test_hook_that_raises_breaks_its_plugin():
    def tg2hdl_ops():
        raise KeyError("x")

    reg = Registry([])
    with reg.extended(
        plugin(ops=tg2hdl_ops, targets=[TargetDef("t", "f", "", 1, 1, 1, 1, 1)]), distribution="d"
    ):
        assert reg.ops() == ()
        assert [str(p) for p in reg.problems] == [
            "plugin 'd:SimpleNamespace.0' of d, hook tg2hdl_ops: it raised KeyError: 'x'; hint: upgrade or "
            "uninstall d, or disable it with --no-plugin d:SimpleNamespace.0"
        ]
        assert reg.target("t").name == "t"
    assert reg.problems == ()


def test_describe_lists_what_each_plugin_provides():
    reg = Registry([])
    with reg.extended(plugin(ops=[op("b"), op("a")]), distribution="d"):
        assert reg.describe() == {
            "plugins": [
                {
                    "name": "d:SimpleNamespace.0",
                    "distribution": "d",
                    "version": "",
                    "status": "loaded",
                    "provides": {"tg2hdl_ops": ["a", "b"]},
                }
            ],
            "problems": [],
        }


def test_use_registry_replaces_the_default():
    other = Registry([])
    before = registry()
    with use_registry(other) as used:
        assert registry() is used is other
    assert registry() is before


@pytest.mark.parametrize("module", sorted(e.value for e in entry_points(group="tg2hdl")))
def test_loading_a_plugin_imports_neither_amaranth_nor_tinygrad(module):
    code = (
        f"import sys, importlib; m = importlib.import_module({module!r})\n"
        "for name in dir(m):\n"
        "    if name.startswith('tg2hdl_') and name != 'tg2hdl_select_unit': getattr(m, name)()\n"
        "print([m for m in ('amaranth', 'tinygrad') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_factories_that_cannot_be_imported():
    assert resolve("math:sqrt")(4.0) == 2.0
    with pytest.raises(PluginError) as error:
        resolve("nowhere_at_all:Unit")
    assert str(error.value) == (
        "plugin: cannot import 'nowhere_at_all:Unit': No module named 'nowhere_at_all'\n"
        "  hint: reinstall the distribution that registers it"
    )
    with pytest.raises(PluginError) as error:
        resolve("math:pi")
    assert str(error.value) == "plugin: 'math:pi' is not callable\n  hint: name a function or class"


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        ("nowhere_at_all:build", "cannot import 'nowhere_at_all:build': No module named 'nowhere_at_all'"),
        (
            "tg2hdl_fault_at_import:x",
            "cannot import 'tg2hdl_fault_at_import:x': ZeroDivisionError: division by zero",
        ),
        (lambda: 1 / 0, "build raised ZeroDivisionError: division by zero"),
        (lambda: sys.exit(3), "build raised SystemExit: 3"),
        (lambda: "hardware", "build made str, not int"),
    ],
)
def test_a_factory_that_fails_is_an_error_that_names_the_plugin(build, reason, tmp_path, monkeypatch):
    (tmp_path / "tg2hdl_fault_at_import.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    faulty = OpLowering("l", "add", "x:y", build, "x:z")
    with registry().extended(plugin(op_lowerings=[faulty]), distribution="dist-a") as known:
        with pytest.raises(PluginError) as error:
            known.make(faulty, "build", int)
        name = known.plugin(faulty)
    assert str(error.value) == (
        f"plugin: op lowering 'l' of plugin {name!r}: {reason}\n"
        f"  hint: upgrade the plugin, or disable it with --no-plugin {name}"
    )


def test_a_class_that_a_descriptor_names_is_of_its_kind():
    known = ArithmeticUnit("mine", "add", (F, F), F, 3, OSError)
    with registry().extended(plugin(arithmetic_units=[known]), distribution="dist-a") as found:
        assert found.subclass(known, "factory", Exception) is OSError
        with pytest.raises(PluginError, match=r"'mine' of plugin '.*': factory is not a subclass of dict"):
            found.subclass(known, "factory", dict)


def test_every_hook_is_documented():
    from tg2hdl_ir.plugins import hookspecs

    hooks = [v for n, v in vars(hookspecs).items() if n.startswith("tg2hdl_")]
    assert len(hooks) == 23
    assert all(h.__doc__ and h.__doc__.strip() for h in hooks)

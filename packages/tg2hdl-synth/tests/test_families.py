"""A family is one object: nothing else compares names of families, and what it lacks is said."""

import ast
from dataclasses import replace
from pathlib import Path

import pytest
from amaranth import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tg2hdl_ir import BoardDef, CapacityError, FamilyDef, InputError, TargetDef, hookimpl, registry
from tg2hdl_lower import family_named
from tg2hdl_synth import check_weights_fit, part_named, synthesize
from tg2hdl_synth.boards.board_tools import check_tools
from tg2hdl_synth.boards.pll import pll_settings
from tg2hdl_synth.boards.usage import BoardComponent, usage_by_part
from tg2hdl_synth.families import Family, tools_of
from tg2hdl_synth.parts import FAMILIES, known_parts
from tg2hdl_synth.testing import check_target
from tg2hdl_synth.tools import yowasp
from tg2hdl_top.testing import layer

PACKAGES = Path(__file__).parents[2]
NAMES = {family.name for family in FAMILIES}
ELSEWHERE = {
    "tg2hdl_fp32",  # targets of cores, which have units for some families and know no plugins
    "tg2hdl_tpu/cli_common.py",  # a machine of this name
}


def compared_names(tree):
    """Names of families that a module tests or looks up: in comparisons, dictionaries, subscripts and patterns."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            inside = [node.left, *node.comparators]
        elif isinstance(node, ast.Dict):
            inside = [key for key in node.keys if key is not None]
        elif isinstance(node, ast.Subscript):
            inside = [node.slice]
        elif isinstance(node, ast.MatchValue):
            inside = [node.value]
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") in (
            "startswith",
            "get",
            "setdefault",
        ):
            inside = node.args[:1]
        else:
            continue
        for part in inside:
            yield from (
                found.lineno
                for found in ast.walk(part)
                if isinstance(found, ast.Constant) and found.value in NAMES
            )


def test_nothing_else_compares_names_of_families():
    found = []
    for path in sorted(PACKAGES.glob("*/src/**/*.py")):
        name = path.relative_to(PACKAGES).as_posix().split("/src/")[1]
        if name.startswith("tg2hdl_synth/families/") or any(name.startswith(other) for other in ELSEWHERE):
            continue
        found += [f"{name}:{line}" for line in compared_names(ast.parse(path.read_text()))]
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        'if part.family == "ecp5": pass',
        'x = {"gowin": 1}',
        'x = table["ice40"]',
        'if family in ("ecp5", "ice40"): pass',
        'table.get("ecp5")',
        'match family:\n    case "ecp5": pass',
    ],
)
def test_comparisons_are_found(text):
    assert list(compared_names(ast.parse(text)))


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.name)
def test_families_of_this_package(family):
    assert registry().family(family.name) is family is family_named(family.name)
    assert set(family.parts) <= set(registry().targets())
    assert all(part_named(board.part) in family.parts for board in family.boards)
    tools = tools_of(family.name)
    assert isinstance(tools, Family)
    assert tools.board_tools
    for part in family.parts:
        check_target(part)
        assert part.bram_bits == family.memory.block_bits


class Bare(Family):
    """Tools that can count cells and make bitstreams, without a PLL."""

    cells = {"comb": "CELL", "ff": "FLOP"}
    board_tools = (yowasp("yosys"),)
    requirement = "toy[tools]"
    suffix = "toy"


PART = TargetDef("toy-1", "toy", "of a test", lut=10**6, ff=10**6, dsp=9, bram=999, bram_bits=18432)
BOARD = BoardDef("toy-board", "of a test", "toy-1", "amaranth_boards.versa_ecp5:VersaECP5Platform", "toy")


def plugin(**changes):
    definition = FamilyDef(
        "toy", "of a test", 3, 2, 3, **{"parts": (PART,), "boards": (BOARD,), "tools": Bare, **changes}
    )

    class Plugin:
        tg2hdl_families = staticmethod(hookimpl(lambda: [definition]))

    return registry().extended(Plugin, distribution="toy")


def test_one_object_reaches_every_step_to_a_bitstream():
    with plugin():
        assert family_named("toy").stage_levels == 3
        assert registry().board("toy-board").part == part_named("toy-1").name
        check_tools("toy")
        assert pll_settings("toy", 10.0, 50.0).frequency == 10.0  # without a PLL, the board's clock
        cells = {"design.core.a": {"type": "CELL", "parameters": {}, "connections": {}}}
        subject = BoardComponent("echo", Module, {"core": "echo"}, "")
        used = usage_by_part({"modules": {"top": {"cells": cells}}}, "toy", subject)
        assert used == {"echo": {"LUT": 1, "FF": 0, "DSP": 0, "RAM": 0}}
        assert tools_of("toy").suffix == "toy"
    with pytest.raises(InputError, match="no tools are known that make bitstreams for the family 'toy'"):
        check_tools("toy")


class Buffer(wiring.Component):
    x: In(1)
    y: Out(1)

    def elaborate(self, platform):
        m = Module()
        m.d.sync += self.y.eq(self.x)
        return m


def test_a_family_says_what_it_lacks():
    with plugin():
        with pytest.raises(InputError) as caught:
            synthesize(Buffer(), "toy-1")
        assert str(caught.value) == (
            "bad input: part toy-1 is of the family 'toy', for which there is no flow\n"
            "  hint: families with a flow: ecp5, ice40"
        )
        with pytest.raises(InputError) as caught:
            tools_of("toy").simulation_models({}, Path())
        assert str(caught.value) == (
            "bad input: the cells of the netlist have no models for simulation\n"
            "  hint: simulate the design itself, or a netlist of another family"
        )


def test_parts_of_another_family_are_refused():
    known = len(registry().problems)
    with plugin(parts=(part_named("ecp5-25k"),)) as plugins:
        (problem,) = plugins.problems[known:]
        assert "FamilyDef 'toy' has a part of the family 'ecp5'" in str(problem)
        assert registry().family("toy") is None


def test_hints_name_parts_of_plugins():
    small = replace(PART, name="toy-small", lut=1, bram=0)
    with plugin(parts=(small, PART)), pytest.raises(CapacityError, match="hint: choose a larger part: toy-1"):
        check_weights_fit(layer()[0], "toy-small")
    with plugin():
        assert [part.name for part in known_parts()][-1] == "toy-1"
        with pytest.raises(InputError, match=r"choose one of: ecp5-25k, .*gw2ar-18c, toy-1"):
            part_named("toy-2")
        with pytest.raises(InputError, match="families with tools: ecp5, gowin, ice40, toy"):
            check_tools("other")

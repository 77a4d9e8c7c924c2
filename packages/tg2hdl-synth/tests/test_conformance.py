"""The conformance suite of flows: on those of this package, and on flows with one fault each."""

from dataclasses import replace

import pytest
from amaranth.build import Platform

from tg2hdl_ir import (
    BoardDef,
    FamilyDef,
    FlowDef,
    InputError,
    PluginError,
    ToolMissingError,
    hookimpl,
    registry,
)
from tg2hdl_synth import part_named, synthesize
from tg2hdl_synth.families import Family
from tg2hdl_synth.families.ice40.tools import Ice40
from tg2hdl_synth.flows import SynthesisFlow
from tg2hdl_synth.place import PathStep, PlaceAndRoute
from tg2hdl_synth.plugin import tg2hdl_families
from tg2hdl_synth.testing import _Sample, check_board, check_family, check_flow, check_target

FAMILIES = {family.name: family for family in tg2hdl_families()}
TOY = replace(part_named("ice40-hx8k"), name="toy-1", family="toy")


class Toy(Ice40):
    """A family of its own, with the cells of another."""

    def versions(self):
        return {"toy": "1"}

    place = Family.place


class Placed(Toy):
    used = 50

    def place(self, netlist, part, *, seed, **options):
        path = (PathStep("sum", "sum", 4.0), PathStep("sum", "", 5.0))
        return PlaceAndRoute(seed, 200.0, "toy", {"CELL": (self.used, 100)}, path, netlist.folder, False)


class Overfull(Placed):
    used = 101


class NoTools(Toy):
    def versions(self):
        return {}


class NoRegisters(Toy):
    def synthesize(self, *arguments, **options):
        netlist = super().synthesize(*arguments, **options)
        return replace(netlist, modules={name: {**n, "ff": 0} for name, n in netlist.modules.items()})


class Flat(Toy):
    def synthesize(self, *arguments, **options):
        netlist = super().synthesize(*arguments, **options)
        return replace(netlist, modules={"": netlist.total})


def family(tools, *parts):
    return FamilyDef("toy", "of a test", 4, 2, 2, parts=parts, tools=tools)


def plugin(tools, *parts):
    class Plugin:
        tg2hdl_families = staticmethod(hookimpl(lambda: [family(tools, *parts)]))

    return Plugin


@pytest.mark.parametrize("target", [p for f in FAMILIES.values() for p in f.parts], ids=lambda t: t.name)
def test_parts_of_this_package(target):
    check_target(target)


def test_flows_of_this_package():
    # Both are placed and routed in test_flow.py and test_ice40.py, where the netlist of the second is simulated.
    check_flow(FAMILIES["ecp5"], part_named("ecp5-25k"), place=False)


def test_a_family_of_a_plugin():
    check_flow(FAMILIES["ice40"], part_named("ice40-hx8k"), place=False, simulate=False)
    with registry().extended(plugin(Toy, TOY)):
        check_flow(family(Toy), TOY, place=False, simulate=False)
        result = synthesize(_Sample(), "toy-1", place=False)
        assert (result.part, result.versions, result.speed) == ("toy-1", {"toy": "1"}, None)
        with pytest.raises(ToolMissingError) as caught:
            synthesize(_Sample(), "toy-1", seeds=1)
    assert str(caught.value) == (
        "missing tool: the flow of the family 'toy' has no place and route\n"
        "  hint: give place=False, on the command line --seeds 0, for the cells only"
    )


@pytest.mark.parametrize(
    ("flow", "message"),
    [
        (NoTools, r"flow toy: versions\(\) names no tool"),
        (NoRegisters, "flow toy: 0 flip-flops where the sum has 32"),
        (Flat, "flow toy: modules below the top are not counted one by one"),
        (Overfull, "flow toy: more is used than there is"),
        (dict, "flow toy: its factory returned dict"),
    ],
)
def test_faults_are_found(flow, message):
    with registry().extended(plugin(flow, TOY)), pytest.raises(AssertionError, match=message):
        check_flow(family(flow), TOY, simulate=False)


def test_place_and_route_of_a_plugin():
    with registry().extended(plugin(Placed, TOY)):
        check_flow(family(Placed), TOY, simulate=False)


def test_a_flow_that_is_none_is_named():
    with (
        registry().extended(plugin(dict, TOY)),
        pytest.raises(PluginError, match=r"'toy' of plugin .*: flow made dict, not"),
    ):
        synthesize(_Sample(), "toy-1")


def test_a_family_that_two_plugins_claim():
    with (
        registry().extended(plugin(Toy, TOY), distribution="one"),
        registry().extended(plugin(Toy), distribution="two"),
        pytest.raises(
            InputError, match=r"part 'toy-1' is unknown(.|\n)*family 'toy' is registered by one too"
        ),
    ):
        synthesize(_Sample(), "toy-1")


class FirstForm:
    """A plugin from before families had parts and tools."""

    tg2hdl_families = staticmethod(hookimpl(lambda: [FamilyDef("toy", "of a test", 4, 2, 2)]))
    tg2hdl_flows = staticmethod(hookimpl(lambda: [FlowDef("toy", "of a test", Toy)]))
    tg2hdl_targets = staticmethod(hookimpl(lambda: [TOY]))


def test_a_plugin_of_the_first_form():
    assert SynthesisFlow is Family
    with registry().extended(FirstForm):
        check_flow(FlowDef("toy", "", Toy), TOY, place=False, simulate=False)
        assert synthesize(_Sample(), "toy-1", place=False).versions == {"toy": "1"}
        with pytest.raises(InputError, match="families with a flow: ecp5, ice40, toy"):
            synthesize(_Sample(), replace(TOY, family="none"))


def test_wrong_figures_of_a_part():
    with pytest.raises(AssertionError, match="target toy-1: a block RAM of 32 bits"):
        check_target(replace(TOY, bram_bits=32))
    with pytest.raises(InputError, match="for which there is no flow"):
        synthesize(_Sample(), replace(TOY, family="none"))


@pytest.mark.parametrize("family", registry().families(), ids=lambda family: family.name)
def test_families_of_this_project_with_their_parts_and_boards(family):
    if family.boards:
        pytest.importorskip("amaranth_boards")
    check_family(family)


class _Clockless(Platform):
    resources = connectors = ()
    default_clk = required_tools = None
    toolchain_prepare = None


FIGURES = {
    "family ecp5: block_modes begins with the widest shape: [9, 18]": {
        "block_modes": ((9, 2048), (18, 1024))
    },
    "family ecp5: a shape has 36864 bits of 18432": {"block_modes": ((36, 1024),)},
    "family ecp5: block_words=16384, a shape has 512 words": {"block_modes": ((36, 512),)},
    "family ecp5: dual_bits=72, the widest shape has 36": {"dual_bits": 72},
    "family ecp5: a block RAM has no shape": {"block_modes": ()},
}


@pytest.mark.parametrize("text", FIGURES)
def test_figures_that_cannot_be_are_named(text):
    family = registry().family("ecp5")
    memory = replace(family.memory, block_bits=18432, **FIGURES[text])
    with pytest.raises(AssertionError) as caught:
        check_family(replace(family, memory=memory))
    assert str(caught.value) == text


BOARDS = {
    "board b: nothing registers the part 'ecp5-1k'": {"part": "ecp5-1k"},
    "board b: no name for openFPGALoader, and no note how it is loaded": {"loader": ""},
    "board b: memories are ('rom',), not sram, flash or both": {"memories": ("rom",)},
    "board b: its serial line has 300 baud": {"baud": 300},
    "board b: platform made dict, not a Platform": {"platform": dict},
    "board b: its platform has no default clock": {"platform": _Clockless},
}


@pytest.mark.parametrize("text", BOARDS)
def test_boards_that_cannot_be_are_named(text):
    board = replace(BoardDef("b", "", "ecp5-45k", dict, "b"), **BOARDS[text])
    with pytest.raises(AssertionError) as caught:
        check_board(board)
    assert str(caught.value) == text

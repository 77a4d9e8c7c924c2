"""The conformance suites for families, their tools and parts, and for boards.

In the tests of a plugin::

    def test_my_family():
        (family,) = my_plugin.tg2hdl_families()
        check_family(family)
        for part in family.parts:
            check_flow(family, part)
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from amaranth import Module, Signal
from amaranth.build import Platform
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from tg2hdl_ir import BoardDef, FamilyDef, FlowDef, TargetDef, registry, resolve
from tg2hdl_synth.errors import DesignTooLargeError
from tg2hdl_synth.families import Family
from tg2hdl_synth.flow import synthesize
from tg2hdl_synth.netlist import KINDS
from tg2hdl_synth.netlist_simulation import open_netlist
from tg2hdl_synth.result import SynthesisResult

__all__ = ["check_board", "check_family", "check_flow", "check_target"]

_TABLE = [(37 * n * n + 11 * n) % 65536 for n in range(512)]


class _Accumulator(wiring.Component):
    """A running sum."""

    def __init__(self, width: int) -> None:
        super().__init__({"x": In(width), "y": Out(width)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.d.sync += self.y.eq(self.y + self.x)
        return m


class _Sample(wiring.Component):
    """A word of a table times an input, summed in a module of its own."""

    def __init__(self) -> None:
        super().__init__({"addr": In(9), "x": In(16), "product": Out(32), "sum": Out(32)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.memory_w = memory = Memory(shape=16, depth=len(_TABLE), init=_TABLE)
        m.submodules.kernel_0 = total = _Accumulator(32)
        read = memory.read_port()
        x = Signal(16, reset_less=True)
        m.d.comb += [read.addr.eq(self.addr), total.x.eq(self.product), self.sum.eq(total.y)]
        m.d.sync += [x.eq(self.x), self.product.eq(read.data * x)]
        return m


def check_target(target: TargetDef) -> None:
    """Check the figures of a part.

    Raises
    ------
    AssertionError
        Naming the part and the first figure that cannot be.
    """
    label = f"target {target.name}"
    assert target.lut > 0, f"{label}: lut={target.lut}"
    assert target.ff > 0, f"{label}: ff={target.ff}"
    assert not target.bram or target.bram_bits >= 1024, (
        f"{label}: a block RAM of {target.bram_bits} bits; bram_bits is that of one block"
    )
    names = [name for name, _ in target.options]
    assert len(set(names)) == len(names), f"{label}: an option is given twice: {names}"


def check_family(family: FamilyDef) -> None:
    """Check the figures of a family, its parts and its boards; `check_flow` checks its tools.

    Raises
    ------
    AssertionError
        Naming the family, and the first figure that cannot be.
    """
    label = f"family {family.name}"
    figures = family.memory
    modes = figures.block_modes
    assert modes, f"{label}: a block RAM has no shape"
    widths = [bits for bits, _ in modes]
    assert widths == sorted(widths, reverse=True), (
        f"{label}: block_modes begins with the widest shape: {widths}"
    )
    largest = max(bits * words for bits, words in modes)
    assert largest <= figures.block_bits, f"{label}: a shape has {largest} bits of {figures.block_bits}"
    deepest = max(words for _, words in modes)
    assert deepest == figures.block_words, (
        f"{label}: block_words={figures.block_words}, a shape has {deepest} words"
    )
    assert figures.dual_bits <= widths[0], (
        f"{label}: dual_bits={figures.dual_bits}, the widest shape has {widths[0]}"
    )
    for part in family.parts:
        assert part.family == family.name, f"{label}: part {part.name} is of the family {part.family!r}"
        check_target(part)
    for board in family.boards:
        check_board(board)


def check_board(board: BoardDef) -> None:
    """Check a board: its part, and a platform with a clock and a serial line.

    Raises
    ------
    AssertionError
        Naming the board and the first rule that it breaks.
    """
    label = f"board {board.name}"
    part = next((p for p in registry().targets() if p.name == board.part), None)
    assert part is not None, f"{label}: nothing registers the part {board.part!r}"
    assert board.loader or board.note, f"{label}: no name for openFPGALoader, and no note how it is loaded"
    assert set(board.memories) in ({"sram"}, {"flash"}, {"sram", "flash"}), (
        f"{label}: memories are {board.memories!r}, not sram, flash or both"
    )
    assert board.baud >= 9600, f"{label}: its serial line has {board.baud} baud"
    platform = resolve(board.platform)()
    assert isinstance(platform, Platform), f"{label}: platform made {type(platform).__name__}, not a Platform"
    assert platform.default_clk, f"{label}: its platform has no default clock"
    clock = platform.default_clk_frequency / 1e6
    assert 1 <= clock <= 1000, f"{label}: its clock has {clock} MHz"
    assert ("uart", 0) in platform.resources, f"{label}: its platform has no resource uart 0"
    line = platform.resources["uart", 0]
    directions = {io.name: io.ios[0].dir for io in line.ios if hasattr(io, "ios")}
    for name, direction in {"rx": "i", "tx": "o"}.items():
        found = directions.get(name)
        assert found == direction, f"{label}: {name} of uart 0 has the direction {found!r}, not {direction!r}"


def check_flow(
    definition: FamilyDef | FlowDef, part: TargetDef, *, place: bool = True, simulate: bool = True
) -> None:
    """Check the tools of a family on one of its parts: cells, their limits, bits of the netlist, place and route.

    Parameters
    ----------
    place : bool
        Whether the family has place and route.
    simulate : bool
        Whether the family has `simulation_models`.

    Raises
    ------
    AssertionError
        Naming the family and the first rule that it breaks.
    """
    label = f"flow {definition.name}"
    check_target(part)
    assert part.family == definition.name, f"{label}: part {part.name} is of the family {part.family!r}"
    factory = definition.tools if isinstance(definition, FamilyDef) else definition.flow
    assert factory is not None, f"{label}: it has no tools"
    flow = resolve(factory)()
    assert isinstance(flow, Family), f"{label}: its factory returned {type(flow).__name__}"
    versions = flow.versions()
    assert versions, f"{label}: versions() names no tool"
    result = synthesize(_Sample(), part, place=False, speed=_speed(flow))
    cells = result.cells
    assert set(cells) == set(KINDS), f"{label}: cells of the kinds {sorted(cells)}, not {sorted(KINDS)}"
    assert cells["ff"] >= 32, f"{label}: {cells['ff']} flip-flops where the sum has 32"
    assert cells["comb"] >= 16, f"{label}: {cells['comb']} LUTs for a sum of 32 bits"
    assert cells["bram"] or cells["comb"] >= 512, f"{label}: nothing holds a table of 8 kbit"
    assert cells["dsp"] or cells["comb"] >= 128, f"{label}: nothing computes a product of 16 bits"
    kernel = next((n for name, n in result.by_kernel.items() if name != "shared"), None)
    assert kernel is not None, f"{label}: modules below the top are not counted one by one"
    assert kernel["ff"] >= 32, f"{label}: the sum's own module has {kernel['ff']} flip-flops, not 32"
    assert kernel["bram"] == 0, f"{label}: the sum's own module has the table"
    try:
        synthesize(_Sample(), replace(part, ff=31), place=False, speed=_speed(flow))
    except DesignTooLargeError:
        pass
    else:
        raise AssertionError(f"{label}: a part of 31 flip-flops holds a sum of 32 bits")
    if simulate:
        _check_bits(label, result)
    if place:
        placed = synthesize(_Sample(), part, seeds=1, speed=_speed(flow))
        assert placed.fmax > 1, f"{label}: Fmax is {placed.fmax} MHz"
        used = placed.utilization
        assert used, f"{label}: place and route gives no utilization"
        # nextpnr-himbaechel says 0 where cells of a kind have no sites of their own.
        over = {kind: (n, most) for kind, (n, most) in used.items() if most and n > most}
        assert not over, f"{label}: more is used than there is: {over}"
        assert placed.critical_path, f"{label}: no critical path"


def _speed(flow: Family) -> int:
    return flow.speeds[0] if flow.speeds else 6


def _check_bits(label: str, result: SynthesisResult) -> None:
    total = 0
    with open_netlist(result) as simulation:
        simulation.set("x", 0)
        simulation.step(4)
        for address, x in ((0, 65535), (511, 51200), (17, 3), (300, 40000)):
            simulation.set("addr", address)
            simulation.set("x", x)
            simulation.step(2)
            product = _TABLE[address] * x
            found = simulation.get("product")
            assert found == product, f"{label}: {_TABLE[address]} * {x} is {found} in the netlist"
            # The sum has seen the product before and adds this one in the next edge.
            before = simulation.get("sum")
            simulation.step()
            total = (before + product) % 2**32
            assert simulation.get("sum") == total, f"{label}: the sum is wrong in the netlist"

"""Block RAM."""

from __future__ import annotations

from amaranth import Module, Mux, Signal, unsigned
from amaranth.hdl import Cat, Value
from amaranth.lib.memory import Memory

from tg2hdl_ir import Area, FamilyDef
from tg2hdl_lower.memory.blocks import Piece, block_rams, pieces_of
from tg2hdl_lower.memory.kind import ArrayStyle, BuiltMemory, MemoryKind
from tg2hdl_lower.memory.plan import MemoryPlan
from tg2hdl_lower.memory.ram import Ram, registered
from tg2hdl_lower.memory.use import MemoryUse

__all__ = ["BankedRom", "BlockRam"]


class BlockRam(MemoryKind):
    """Block RAM in one array or in pieces; deeper than a block, a register follows the multiplexer of blocks."""

    def suits(self, use: MemoryUse, family: FamilyDef) -> bool:
        """Whether the memory is too large for LUT RAM."""
        return use.bits > family.memory.lut_bits and use.words > family.memory.lut_words

    def extra_latency(self, use: MemoryUse, family: FamilyDef) -> int:
        """A register for the multiplexer of the blocks."""
        return int(use.words > family.memory.block_words)

    def sampled(self, memory: MemoryPlan) -> tuple[int, int]:
        """In the cycle of the address."""
        return 0, 0

    def pieces(self, use: MemoryUse, family: FamilyDef, ports: int) -> tuple[Piece, ...]:
        """Pieces where there is a cycle for output registers before their multiplexer."""
        if use.latency > 1 and not use.role.streamed:
            return pieces_of(use.width, use.words, max(1, ports), family.memory, written=not use.role.is_rom)
        return super().pieces(use, family, ports)

    def area(self, use: MemoryUse, family: FamilyDef, ports: int) -> Area:
        """Blocks of all arrays, and LUTs of their multiplexers."""
        role, pieces = use.role, self.pieces(use, family, ports)
        written = role.written or role.host_writes or role.streamed
        counts = [
            block_rams(p.bits, p.words, ports, family.memory, written=written, lane=use.lane, turns=use.turns)
            for p in pieces
        ]
        return Area(bram=sum(counts), lut=max(1, ports) * (sum(p.bits for p in pieces) - use.width))

    def style(self, use: MemoryUse, ports: int) -> ArrayStyle:
        """Block RAM by attribute."""
        return ArrayStyle("block")

    def build(self, m: Module, memory: MemoryPlan) -> BuiltMemory:
        """Add the arrays."""
        return Ram(m, memory) if len(memory.pieces) == 1 else _Pieces(m, memory)


class BankedRom(BlockRam):
    """ROM of several blocks' depth, whose pieces are multiplexed after their output registers.

    In one array the multiplexer would be between the blocks and their registers, so that the registers could not move
    into the blocks.
    """

    def suits(self, use: MemoryUse, family: FamilyDef) -> bool:
        """Whether a read-only memory is deeper than a block, and there is a cycle for output registers."""
        return use.words > family.memory.block_words and use.role.is_rom and use.latency > 1


class _Pieces(BuiltMemory):
    def __init__(self, m: Module, memory: MemoryPlan) -> None:
        self.memory = memory
        words = memory.words() or [0] * memory.depth
        self.arrays: dict[Piece, Memory] = {}
        for piece in memory.pieces:
            mask = (1 << piece.bits) - 1
            contents = [word >> piece.bit & mask for word in words[piece.word : piece.word + piece.words]]
            array = Memory(
                shape=unsigned(piece.bits),
                depth=piece.words,
                init=contents,
                attrs={"ram_style": memory.style.ram_style},
            )
            m.submodules[memory.array_name(piece)] = array
            self.arrays[piece] = array

    def write(self, m: Module, address: Value, data: Value, enable: Value) -> None:
        lane = self.memory.dtype.bit_width if self.memory.layout.lanes > 1 else None
        for piece, array in self.arrays.items():
            port = array.write_port(granularity=lane)
            low = (piece.words - 1).bit_length()
            chosen = address[low:] == piece.word >> low
            m.d.comb += [port.addr.eq(address), port.data.eq(data), port.en.eq(Mux(chosen, enable, 0))]

    def read(self, m: Module, number: int, address: Value) -> Value:
        memory = self.memory
        chosen = registered(m, address, memory.read_latency, f"{memory.name}_a{number}")
        found: dict[int, list[tuple[int, Value]]] = {}
        for piece, array in self.arrays.items():
            if piece.word >> len(address):
                continue  # no address of this port is that large
            port = array.read_port()
            m.d.comb += port.addr.eq(address)
            name = f"{memory.name}_r{number}_bit{piece.bit}_from{piece.word}"
            data = registered(m, port.data, memory.read_latency - 1, name)
            found.setdefault(piece.bit, []).append((piece.word, data))
        top = len(address) - 1
        word = Signal(memory.word_width, name=f"{memory.name}_r{number}")
        m.d.comb += word.eq(Cat(_selected(parts, chosen, top) for _, parts in sorted(found.items())))
        return word


def _selected(parts: list[tuple[int, Value]], address: Value, bit: int) -> Value:
    """The word at an address among those of pieces, given their first words, whose upper bits are equal."""
    if len(parts) == 1:
        return parts[0][1]
    low, high = ([p for p in parts if p[0] >> bit & 1 == side] for side in (0, 1))
    if not low or not high:
        return _selected(low or high, address, bit - 1)
    return Mux(address[bit], _selected(high, address, bit - 1), _selected(low, address, bit - 1))

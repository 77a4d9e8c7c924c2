"""Which weights stay on the chip, and the tiles of the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tg2hdl_ir import CapacityError, ProgramIR
from tg2hdl_lower import Alternative, Cost, Decision, family_named
from tg2hdl_lower.decisions import decide
from tg2hdl_lower.memory.array import RING
from tg2hdl_top.element_types import element_types
from tg2hdl_top.external.budget import larger_part
from tg2hdl_top.external.memory_port import check_memory
from tg2hdl_top.external.tiles import Tiling, tilings, with_tiles
from tg2hdl_top.lane_choice import LaneChooser
from tg2hdl_top.options import CompileOptions
from tg2hdl_top.roles import buffer_roles

__all__ = ["WeightPlaces", "place_weights"]

_TILE_BITS = 1 << 17
"""Bits of a tile that suffice: larger ones hide no more, but the first one is waited for."""
_START = 16
"""Cycles of a run before its first and after its last step, and until the next one starts; of products of bytes."""
_TRIED = 4
"""Sizes of tiles that are compared by the cycles of their kernel."""


@dataclass(frozen=True)
class WeightPlaces:
    """The program with its tiles.

    Parameters
    ----------
    bits : int
        Of the memory on the chip, without copies for further readers.
    tiled : bool
        Whether a weight is external.
    notes : tuple of str
        Why each weight is where it is.
    decisions : tuple of Decision
        How each kernel with such a weight is cut.
    """

    program: ProgramIR
    bits: int
    tiled: bool
    notes: tuple[str, ...]
    decisions: tuple[Decision, ...]


def place_weights(program: ProgramIR, options: CompileOptions, budget: int) -> WeightPlaces:
    """Keep as many weights on the chip as `budget` (bits) has place for; the largest go out first.

    Parameters
    ----------
    program : ProgramIR
    options : CompileOptions
    budget : int
        Bits on the chip.

    Raises
    ------
    CapacityError
        When nothing fits, with the figures.
    """
    return _Places(program, options, budget).found()


class _Places:
    def __init__(self, program: ProgramIR, options: CompileOptions, budget: int) -> None:
        self.program = program
        self.options = options
        self.budget = budget
        self.figures = family_named(options.target).memory
        self.roles = buffer_roles(program, options)
        self.storage = element_types(program, self.roles)
        self.users: dict[int, list[int]] = {}
        for number, call in enumerate(program.calls):
            for n in dict.fromkeys(call.buffers):
                self.users.setdefault(n, []).append(number)
        self.bits = {n: program.buffers[n].depth * self.storage[n].bit_width for n in self.users}
        self.outside: dict[int, set[int]] = {}
        self.fixed: dict[int, str] = {}
        self._known: dict[tuple[int, frozenset[int]], list[Tiling]] = {}
        self._cycles: dict[tuple[int, Tiling], int] = {}

    def found(self) -> WeightPlaces:
        """Send weights out until all fits."""
        weights = sorted(filter(self._may_leave, self.users), key=lambda n: -self.bits[n])
        while True:
            gone = {n for found in self.outside.values() for n in found}
            resident = self._blocks(self.bits[n] for n in self.users if n not in gone)
            # Rings below a block save nothing where they are block RAM: other weights go out before that.
            least = 1 if not weights else self.figures.block_bits // RING
            found = self._tiles(self.budget - resident, least) if resident <= self.budget else None
            if found is not None:
                chosen = {number: tiling for number, (tiling, _) in found.items()}
                rings = self._rings(chosen)
                cut = {k: (self.outside[k], tiling) for k, tiling in chosen.items()}
                notes = self._notes(gone, chosen)
                program = with_tiles(self.program, cut)
                decisions = tuple(decision for _, decision in found.values())
                return WeightPlaces(program, resident + rings, bool(chosen), notes, decisions)
            if not weights:
                raise self._refusal(resident)
            self._send_out(weights.pop(0))

    def _may_leave(self, n: int) -> bool:
        buffer = self.program.buffers[n]
        return buffer.role == "weight" and buffer.initial is not None and not self.roles[n].written

    def _send_out(self, n: int) -> None:
        trial = {number: self.outside.get(number, set()) | {n} for number in self.users[n]}
        if all((found := self._tilings(k, w)) and found[-1].runs > RING for k, w in trial.items()):
            self.outside |= trial
        else:
            self.fixed[n] = "no loop of its kernel cuts it into tiles"

    def _tilings(self, number: int, weights: set[int]) -> list[Tiling]:
        key = number, frozenset(weights)
        if key not in self._known:
            self._known[key] = tilings(self.program, self.program.calls[number], weights)
        return self._known[key]

    def _blocks(self, bits: Iterable[int]) -> int:
        """Bits of the blocks that so many memories take; small ones are made of LUTs."""
        block = self.figures.block_bits
        return sum(-(-b // block) * block for b in bits if b > self.figures.lut_bits)

    def _tile_bits(self, number: int, tiling: Tiling) -> list[int]:
        slots, axis = self.program.calls[number].slots, tiling.axis
        return [self.bits[slots[slot]] // axis.bound * tiling.count for slot in axis.strides]

    def _rings(self, chosen: dict[int, Tiling]) -> int:
        # A region has a power of two of words.
        tiles = (b for k, tiling in chosen.items() for b in self._tile_bits(k, tiling))
        return self._blocks(RING << (b - 1).bit_length() for b in tiles)

    def _tiles(self, left: int, least: int) -> dict[int, tuple[Tiling, Decision]] | None:
        """Tiles whose rings take at most `left` bits, large ones first; None where those of `least` bits take more."""
        options = {number: self._tilings(number, found) for number, found in self.outside.items()}
        limit = _TILE_BITS
        while True:
            chosen = {number: self._best(number, found, limit) for number, found in options.items()}
            if self._rings({number: tiling for number, (tiling, _) in chosen.items()}) <= left:
                return chosen
            if limit < least or all(tiling is options[k][-1] for k, (tiling, _) in chosen.items()):
                return None
            limit //= 2

    def _best(self, number: int, found: list[Tiling], limit: int) -> tuple[Tiling, Decision]:
        """Of some tilings with tiles of at most `limit` bits the one in which the kernel takes the fewest cycles."""
        small = [t for t in found if t.runs > RING and max(self._tile_bits(number, t)) <= limit] or found[-1:]
        # Of equal cycles tiles that divide the loop: they need no gates.
        tried = [t for ragged in (False, True) for t in [t for t in small if t.ragged is ragged][:_TRIED]]

        def trials() -> Iterator[tuple[Alternative, Tiling]]:
            for tiling in tried:
                name = f"{tiling.runs} runs, each of {tiling.count} iterations of i{tiling.axis.axis}"
                note = f"steps and arrivals; tiles of {max(self._tile_bits(number, tiling)):,} bits"
                yield Alternative(name, Cost(self._kernel_cycles(number, tiling)), note), tiling

        kernel = self.program.calls[number].kernel.name
        before = Alternative("one run", None, "its weights do not fit on the chip")
        tiling, decision = decide("slice-axis", kernel, "tiles", before, trials(), prefer=self.options.prefer)
        assert tiling is not None, "a tiling is better than none"
        return tiling, decision

    def _kernel_cycles(self, number: int, tiling: Tiling) -> int:
        """Cycles of all runs and of their tiles, with the lanes that the kernel would have by itself.

        A tile arrives while the one before it is used, or while earlier kernels run; the last run is after all.
        """
        if (number, tiling) not in self._cycles:
            call = self.program.calls[number]
            kernel, _ = next(tiling.kernels(call.kernel))
            storage = {idx: self.storage[n] for idx, n in call.slots.items()}
            roles = {idx: self.roles[n] for idx, n in call.slots.items()}
            choice = LaneChooser(kernel, {}, storage, roles, self.options, sparing=False).choose()
            model, arrives = check_memory(self.options.memory_port, self.options.memory), 0
            for slot in tiling.axis.strides:
                layout = choice.layouts[slot]
                beats = -(-layout.lanes * storage[slot].bit_width // model.bits)
                arrives += layout.words * beats * getattr(model, "cycles_per_beat", 1)
            run = choice.cycles + _START
            first = 0 if number else arrives
            self._cycles[number, tiling] = first + (tiling.runs - 1) * max(arrives, run) + run
        return self._cycles[number, tiling]

    def _notes(self, gone: set[int], chosen: dict[int, Tiling]) -> tuple[str, ...]:
        total = sum(self.bits.values())
        notes = [f"all buffers would take {total:,} bits, without copies for further readers"]
        least = min((self.bits[n] for n in gone), default=0)
        for n in sorted(self.users):
            buffer, bits = self.program.buffers[n], self.bits[n]
            if n in gone:
                cuts = [chosen[number] for number in self.users[n]]
                sizes = [(cut.runs, bits // cut.axis.bound * cut.count) for cut in cuts]
                tiles = " and ".join(f"{runs} tiles of {size:,} bits" for runs, size in sizes)
                notes.append(f"{buffer.name}: external, {bits:,} bits in {tiles}, {RING} of them on the chip")
            elif buffer.role == "weight":
                reason = self.fixed.get(n) or ("the external part is larger" if least else "all fits")
                notes.append(f"{buffer.name}: on the chip, {bits:,} bits: {reason}")
        return tuple(notes)

    def _refusal(self, resident: int) -> CapacityError:
        tilings = {k: self._tilings(k, w)[-1] for k, w in self.outside.items()}
        least = resident + self._rings(tilings)
        largest = sorted(self.bits, key=lambda n: -self.bits[n])[:3]
        named = {n: self.program.buffers[n] for n in (*largest, *self.fixed)}
        staying = self._blocks(b for n, b in self.bits.items() if self.program.buffers[n].role != "weight")
        return CapacityError(
            f"{least:,} bits are needed on the chip even with the smallest tiles, and there are {self.budget:,}",
            where=f"program {self.program.name}",
            notes=(
                f"inputs, outputs and activations stay on the chip: {staying:,} bits in whole blocks",
                *(
                    f"{b.name} ({b.role}): {self.bits[n]:,} bits"
                    + (f"; {self.fixed[n]}" if n in self.fixed else "")
                    for n, b in named.items()
                ),
            ),
            hint=f"{larger_part(self.options, least)}, or make the model smaller",
        )

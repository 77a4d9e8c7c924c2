"""The stream of weights: tiles in the order of the runs that use them, and the image of the memory that holds them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tg2hdl_ir import CapacityError
from tg2hdl_lower import MemoryArray, MemoryPlan
from tg2hdl_lower.memory.array import RING
from tg2hdl_top.external.memory_model import ExternalMemory
from tg2hdl_top.external.tiles import ROLE

__all__ = ["ExternalPlan", "StreamedTile", "plan_external"]


@dataclass(frozen=True)
class StreamedTile:
    """A tile of weights.

    Parameters
    ----------
    buffer : int
        Of the program.
    run : int
        Which uses it.
    array : str
        Memory on the chip.
    region : int
        Where it is there.
    words : int
        Of that memory.
    beats : int
        Beats of each word.
    offset : int
        Byte of the image in which it begins.
    after : int
        Runs that must be done before its first word may be written.
    """

    buffer: int
    run: int
    array: str
    region: int
    words: int
    beats: int
    offset: int
    after: int


@dataclass(frozen=True)
class ExternalPlan:
    """The stream of a run: arrays in order, and their places.

    Parameters
    ----------
    port : str
        Kind of the memory port.
    model : ExternalMemory
    tiles : tuple of StreamedTile
        As they follow each other in the image.
    notes : tuple of str
        Why each weight is where it is.
    """

    port: str
    model: ExternalMemory
    tiles: tuple[StreamedTile, ...]
    notes: tuple[str, ...]

    @property
    def beats(self) -> int:
        """Beats of the whole stream."""
        return sum(tile.words * tile.beats for tile in self.tiles)

    @property
    def bytes(self) -> int:
        """Bytes of the image."""
        return self.beats * self.model.beat_bytes

    def needed(self, runs: int) -> list[int]:
        """Tiles that must have arrived before each run starts."""
        return [sum(tile.run <= run for tile in self.tiles) for run in range(runs)]

    def format(self) -> list[str]:
        """Lines for the printed design."""
        lines = [
            f"  external memory: {self.port}, {self.bytes:,} bytes in {len(self.tiles)} tiles, {self.model}"
        ]
        return lines + [f"  note: {note}" for note in self.notes]


def plan_external(
    port: str,
    model: ExternalMemory,
    calls: Sequence[Any],
    roles: Sequence[str],
    memories: dict[int, MemoryPlan],
    arrays: Sequence[MemoryArray],
    notes: Sequence[str],
) -> ExternalPlan:
    """Put the tiles of all kernel calls in the order of their runs.

    Parameters
    ----------
    calls : sequence of KernelCall
    roles : sequence of str
        Of the program's buffers.

    Raises
    ------
    CapacityError
        When they are more than the memory has.
    """
    place = {name: array for array in arrays for name in array.members}
    tiles: list[StreamedTile] = []
    users: dict[str, list[int]] = {}
    offset = 0
    for run, call in enumerate(calls):
        for buffer in dict.fromkeys(call.buffers):
            if roles[buffer] != ROLE:
                continue
            memory = memories[buffer]
            array = place[memory.name]
            before = users.setdefault(array.memory.name, [])
            beats = -(-memory.word_width // model.bits)
            words = memory.layout.words
            tiles.append(
                StreamedTile(
                    buffer,
                    run,
                    array.memory.name,
                    array.region(memory.name),
                    words,
                    beats,
                    offset,
                    1 + before[-RING] if len(before) >= RING else 0,
                )
            )
            before.append(run)
            offset += words * beats * model.beat_bytes
    if model.capacity is not None and offset > model.capacity:
        raise CapacityError(
            f"the weights take {offset:,} bytes outside the chip, and the memory has {model.capacity:,}",
            hint="choose a larger memory, or make the model smaller",
        )
    return ExternalPlan(port, model, tuple(tiles), tuple(notes))

"""The image of the external memory of a design: its bytes, and where each weight is."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir import InputError
from tg2hdl_lower import to_words
from tg2hdl_top.design import Design
from tg2hdl_top.external.plan import ExternalPlan

__all__ = ["describe_image", "image_beats", "memory_image"]


def memory_image(design: Design) -> npt.NDArray[np.uint8]:
    """Bytes of the external memory, from the address on that the design is given.

    Raises
    ------
    InputError
        When the design streams nothing.
    """
    plan = _plan(design)
    parts = []
    for tile in plan.tiles:
        memory, contents = design.memory(tile.buffer), design.program.buffers[tile.buffer].initial
        packed = memory.layout.pack(np.asarray(contents).astype(memory.dtype.numpy()), memory.dtype)
        words = to_words(packed, memory.dtype.bit_width).reshape(tile.words, -1)
        octets = np.ascontiguousarray(words.astype("<u8")).view(np.uint8).reshape(tile.words, -1)
        width = tile.beats * plan.model.beat_bytes
        octets = np.pad(octets, ((0, 0), (0, max(0, width - octets.shape[1]))))[:, :width]
        parts.append(octets.reshape(-1))
    return np.concatenate(parts)


def image_beats(design: Design) -> list[int]:
    """The image of a design as beats of its port."""
    beats = memory_image(design).reshape(-1, _plan(design).model.beat_bytes)
    return [int.from_bytes(row.tobytes(), "little") for row in beats]


def describe_image(design: Design) -> dict[str, Any]:
    """The layout of the image, as plain data."""
    plan = _plan(design)
    tiles = []
    for tile in plan.tiles:
        memory = design.memory(tile.buffer)
        tiles.append(
            {
                "tile": design.program.buffers[tile.buffer].name,
                "offset": tile.offset,
                "words": tile.words,
                "word_bits": memory.word_width,
                "word_bytes": tile.beats * plan.model.beat_bytes,
                "element_bits": memory.dtype.bit_width,
                "dims": list(memory.layout.dims),
                "split": list(memory.layout.split),
            }
        )
    return {
        "port": plan.port,
        "identity": design.identity,
        "beat_bits": plan.model.bits,
        "bytes": plan.bytes,
        "alignment": plan.model.alignment,
        "layout": "words of each tile in the order of their addresses, little-endian, padded to whole beats; the "
        "position of elements in words as in `memories`",
        "tiles": tiles,
    }


def _plan(design: Design) -> ExternalPlan:
    plan = design.external
    if plan is None or not plan.tiles:
        raise InputError(
            "the design has no weights in external memory",
            where=f"design {design.program.name}",
            hint="all of them are on the chip: there is nothing to load",
        )
    return plan

"""A small decoder with random weights, for tests."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

from tg2hdl.language.checkpoint import shapes_of

__all__ = ["PIECES", "write_checkpoint", "write_tokenizer"]

_SIZES = {"dim": 16, "hidden": 24, "layers": 2, "heads": 4, "kv_heads": 2, "vocabulary": 300}

PIECES = [b"<unk>", b"\n<s>\n", b"\n</s>\n", *(f"<0x{n:02X}>".encode() for n in range(256))]
"""Of the tokenizer; later ones have better scores."""
PIECES += [b" ", b"a", b"b", b"c", b" a", b"ab", b" ab", b"bc"]
PIECES += [f"{n}".encode() for n in range(300 - len(PIECES))]


def write_checkpoint(path: Path, *, context: int) -> Path:
    """Write a checkpoint whose classifier is the embedding.

    Parameters
    ----------
    path : Path
    context : int
        Positions.
    """
    random = np.random.default_rng(7)
    sizes = [_SIZES[name] for name in ("dim", "hidden", "layers", "heads", "kv_heads", "vocabulary")]
    parts = [struct.pack("<7i", *sizes, context)]
    for name, shape in shapes_of(**_SIZES).items():
        values = random.normal(size=shape) / np.sqrt(shape[-1]) + (1 if name.startswith("rms") else 0)
        parts.append(values.astype(np.float32).tobytes())
    parts.append(np.zeros(context * _SIZES["dim"] // _SIZES["heads"], np.float32).tobytes())
    path.write_bytes(b"".join(parts))
    return path


def write_tokenizer(path: Path) -> Path:
    """Write the tokenizer of these checkpoints."""
    records = b"".join(struct.pack("<fi", float(n), len(p)) + p for n, p in enumerate(PIECES))
    path.write_bytes(struct.pack("<i", max(map(len, PIECES))) + records)
    return path

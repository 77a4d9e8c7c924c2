"""The small model of fairy tales that the package ships; ``examples/language_model/train.py`` trained it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tg2hdl.language.checkpoint import Checkpoint, Tokenizer

__all__ = ["load_story"]

_FILE = Path(__file__).parents[1] / "demo_story" / "story.npz"


def load_story() -> tuple[Checkpoint, Tokenizer]:
    """The model, 251,840 parameters over 61 characters, and its tokenizer."""
    with np.load(_FILE) as file:
        weights = {
            name: file[name] * file[f"{name}_scale"] if f"{name}_scale" in file else file[name]
            for name in file.files
            if name not in ("characters", "sizes", "loss") and not name.endswith("_scale")
        }
        characters, (heads, kv_heads, context) = str(file["characters"]), map(int, file["sizes"])
    weights = {name: array.astype(np.float32) for name, array in weights.items()}
    weights["cls"] = weights["emb"]
    (layers, hidden, dim), vocabulary = weights["w1"].shape, len(weights["emb"])
    pieces = [b"<unk>", b"<s>", b"</s>", *(c.encode() for c in characters)]
    model = Checkpoint(dim, hidden, layers, heads, kv_heads, vocabulary, context, weights)
    return model, Tokenizer(pieces, [0.0] * len(pieces), prefix="")

"""Checkpoints and tokenizers in the format of llama2.c."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from os import PathLike
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tg2hdl_ir import InputError

__all__ = ["Checkpoint", "Tokenizer", "read_checkpoint", "read_tokenizer"]

_HEADER = struct.Struct("<7i")
_PIECE = struct.Struct("<fi")
FIRST_BYTE = 3
"""Token of byte 0, in a vocabulary that begins with unknown, start and end."""

START = 1


@dataclass(frozen=True)
class Checkpoint:
    """A decoder of the llama family in float32.

    Parameters
    ----------
    dim, hidden, layers, heads, kv_heads, vocabulary, context : int
    weights : dict of str to array
        ``emb (vocabulary, dim)``, ``rms1 (layers, dim)``, ``wq, wo (layers, dim, dim)``,
        ``wk, wv (layers, kv_heads * head, dim)``, ``rms2 (layers, dim)``, ``w1, w3 (layers, hidden, dim)``,
        ``w2 (layers, dim, hidden)``, ``rmsf (dim,)`` and ``cls (vocabulary, dim)``.
    """

    dim: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    vocabulary: int
    context: int
    weights: dict[str, npt.NDArray[np.float32]] = field(repr=False)

    @property
    def head(self) -> int:
        """Width of a head."""
        return self.dim // self.heads

    @property
    def size(self) -> int:
        """Number of parameters; an embedding that is the classifier too counts once."""
        shared = self.weights["cls"] is self.weights["emb"]
        return sum(w.size for name, w in self.weights.items() if not (shared and name == "cls"))


def shapes_of(
    dim: int, hidden: int, layers: int, heads: int, kv_heads: int, vocabulary: int
) -> dict[str, tuple[int, ...]]:
    """Shapes of the weights, in the order of the file; without the classifier."""
    kv = kv_heads * (dim // heads)
    return {
        "emb": (vocabulary, dim),
        "rms1": (layers, dim),
        "wq": (layers, dim, dim),
        "wk": (layers, kv, dim),
        "wv": (layers, kv, dim),
        "wo": (layers, dim, dim),
        "rms2": (layers, dim),
        "w1": (layers, hidden, dim),
        "w2": (layers, dim, hidden),
        "w3": (layers, hidden, dim),
        "rmsf": (dim,),
    }


def read_checkpoint(path: str | PathLike[str]) -> Checkpoint:
    """Read a checkpoint of llama2.c (version 0: seven integers, then float32).

    Raises
    ------
    InputError
        For a file that cannot be read or is not such a checkpoint.
    """
    data = _bytes(path, "weights")
    hint = "give a .bin file as llama2.c's export writes it, version 0"
    if len(data) < _HEADER.size:
        raise InputError(f"{Path(path).name} is not a checkpoint: {len(data)} bytes", hint=hint)
    dim, hidden, layers, heads, kv_heads, vocabulary, context = _HEADER.unpack_from(data)
    shared, vocabulary = vocabulary > 0, abs(vocabulary)
    numbers = (dim, hidden, layers, heads, kv_heads, vocabulary, context)
    if min(numbers) < 1 or max(numbers) > 1 << 24 or dim % heads or heads % kv_heads or (dim // heads) % 2:
        raise InputError(f"{Path(path).name} is not a checkpoint: its header is {numbers}", hint=hint)
    shapes = shapes_of(dim, hidden, layers, heads, kv_heads, vocabulary)
    tables = {"cos": (context, dim // heads // 2), "sin": (context, dim // heads // 2)}
    shapes |= tables if shared else {**tables, "cls": (vocabulary, dim)}
    expected = _HEADER.size + 4 * sum(_size(shape) for shape in shapes.values())
    if len(data) != expected:
        raise InputError(
            f"{Path(path).name} is not a checkpoint: {len(data):,} bytes, {expected:,} by its header",
            hint=hint,
        )
    flat, at = np.frombuffer(data, np.float32, offset=_HEADER.size), 0
    weights: dict[str, npt.NDArray[np.float32]] = {}
    for name, shape in shapes.items():
        weights[name] = flat[at : at + _size(shape)].reshape(shape)
        at += _size(shape)
        if not np.isfinite(weights[name]).all() and name not in tables:
            raise InputError(f"{Path(path).name}: {name} has numbers that are not finite", hint=hint)
    for name in tables:
        del weights[name]
    weights.setdefault("cls", weights["emb"])
    return Checkpoint(dim, hidden, layers, heads, kv_heads, vocabulary, context, weights)


def _size(shape: tuple[int, ...]) -> int:
    size = 1
    for extent in shape:
        size *= extent
    return size


def _bytes(path: str | PathLike[str], what: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InputError(
            f"{what} cannot be read: {error.strerror or error}: {path}", hint="check the path of the file"
        ) from None


def read_tokenizer(path: str | PathLike[str]) -> Tokenizer:
    """Read a ``tokenizer.bin`` of llama2.c.

    Raises
    ------
    InputError
        For a file that cannot be read or is not a tokenizer.
    """
    data, at = _bytes(path, "tokenizer"), 4
    pieces, scores = list[bytes](), list[float]()
    while at < len(data):
        score, length = _PIECE.unpack_from(data, at) if at + _PIECE.size <= len(data) else (0.0, -1)
        at += _PIECE.size
        if length < 0 or at + length > len(data):
            raise InputError(
                f"{Path(path).name} is not a tokenizer: piece {len(pieces)} is cut off",
                hint="give the tokenizer .bin that llama2.c wrote for these weights",
            )
        pieces.append(data[at : at + length])
        scores.append(score)
        at += length
    return Tokenizer(pieces, scores)


class Tokenizer:
    """Byte-pair encoding: the neighbours whose piece has the best score are merged until none is left.

    Parameters
    ----------
    pieces : sequence of bytes
        Unknown, start and end, then the texts of tokens; all bytes (``<0x00>`` and so on) come first where they are.
    scores : sequence of float
    prefix : str, optional
        Begins each text.
    """

    def __init__(self, pieces: Sequence[bytes], scores: Sequence[float], prefix: str = " ") -> None:
        self.pieces, self._scores, self._prefix = list(pieces), list(scores), prefix
        self._ids = {piece: number for number, piece in enumerate(pieces)}
        self._has_bytes = b"<0x00>" in self.pieces[FIRST_BYTE : FIRST_BYTE + 1]

    def check(self, checkpoint: Checkpoint) -> None:
        """Raise unless the vocabulary is that of a checkpoint."""
        if len(self.pieces) != checkpoint.vocabulary:
            raise InputError(
                f"the tokenizer has {len(self.pieces)} pieces, the weights {checkpoint.vocabulary}",
                hint="give the tokenizer that the weights were trained with",
            )

    def encode(self, text: str) -> list[int]:
        """Tokens of a text, after the token of the start; characters that the pieces cannot spell are left out."""
        tokens: list[int] = []
        for character in f"{self._prefix}{text}" if text else "":
            known = self._ids.get(character.encode())
            if known is not None:
                tokens.append(known)
            elif self._has_bytes:
                tokens += [FIRST_BYTE + byte for byte in character.encode()]
        while True:
            pairs = (
                (self._scores[merged], -at, merged)
                for at, pair in enumerate(pairwise(tokens))
                if (merged := self._ids.get(self.pieces[pair[0]] + self.pieces[pair[1]])) is not None
            )
            best = max(pairs, default=None)
            if best is None:
                return [START, *tokens]
            tokens[-best[1] : 2 - best[1]] = [best[2]]

    def decode(self, token: int, before: int = START) -> bytes:
        """Bytes of a token; the piece after the start loses the prefix.

        Parameters
        ----------
        token : int
        before : int, optional
            The token before it.

        Raises
        ------
        InputError
            For a token that is not in the vocabulary.
        """
        if not 0 <= token < len(self.pieces):
            raise InputError(
                f"token {token} of a tokenizer of {len(self.pieces)} pieces",
                hint="give the tokenizer that the weights were trained with",
            )
        piece = self.pieces[token]
        if token < FIRST_BYTE:
            return b""
        if self._has_bytes and token < FIRST_BYTE + 256:
            return bytes([token - FIRST_BYTE])
        return piece.removeprefix(self._prefix.encode()) if before == START else piece

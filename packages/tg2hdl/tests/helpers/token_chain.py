"""A model that is run on its own results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from tinygrad import Tensor, Variable

__all__ = ["POSITION", "Chain", "chain_of"]

POSITION = Variable("pos", 0, 5)


class Chain:
    """The next token by a table of the token and the position, and of a sum of all tokens before."""

    def __init__(self, table: np.ndarray) -> None:
        self.total = Tensor.zeros(1, dtype="int32").contiguous().realize()
        self.table = Tensor(table)

    def __call__(self, token: Tensor, pos: Variable) -> Tensor:
        self.total.assign(self.total + token).realize()
        return (self.table[token[0], pos] + self.total) % 8


def chain_of(table: np.ndarray, tokens: Sequence[int], positions: Iterable[int] = range(6)) -> list[int]:
    """Tokens that follow the given ones."""
    total, found = 0, []
    for n, pos in enumerate(positions):
        token = tokens[n] if n < len(tokens) else found[-1]
        total += token
        found.append(int((table[token, pos] + total) % 8))
    return found[len(tokens) - 1 :]

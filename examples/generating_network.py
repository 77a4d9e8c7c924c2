"""A recurrent network of integers that writes a sentence, letter by letter, in a loop on the chip.

The recurrent weights are random (an echo state network); only the output layer is trained, by least squares on one
sentence.  The letter that comes out goes back in on the chip, until the full stop.

Run it: ``python generating_network.py``, with ``--simulate`` on simulated hardware.
"""

from __future__ import annotations

import sys

import numpy as np
from tinygrad import Tensor

import tg2hdl

__all__ = ["Writer", "run"]

TEXT = "a small network remembers where it is in a sentence."
LETTERS = sorted(set(TEXT))
HIDDEN = 48


class Writer:
    """``h = clip((h u + w[letter]) / 64)`` and the letter with the largest ``h r``; `h` is state."""

    def __init__(self, seed: int = 1) -> None:
        rng = np.random.default_rng(seed)
        self.recurrent = rng.integers(-12, 13, (HIDDEN, HIDDEN))
        self.entry = rng.integers(-2000, 2001, (len(LETTERS), HIDDEN))
        self.readout = self._trained([LETTERS.index(c) for c in TEXT])
        self.h = Tensor.zeros(1, HIDDEN, dtype="int32").contiguous().realize()
        self.weights = [Tensor(w.astype(np.int32)) for w in (self.recurrent, self.entry, self.readout)]

    def step(self, h: np.ndarray, letter: int) -> np.ndarray:
        """The next state, in numpy."""
        return np.clip((h @ self.recurrent + self.entry[letter]) >> 6, -100, 100)

    def _trained(self, letters: list[int]) -> np.ndarray:
        states, h = [], np.zeros(HIDDEN, int)
        for letter in letters[:-1]:
            states.append(h := self.step(h, letter))
        wanted = np.eye(len(LETTERS))[letters[1:]]
        found = np.linalg.lstsq(np.array(states, float), wanted, rcond=1e-6)[0]
        return np.rint(found * 127 / np.abs(found).max()).astype(int)

    def __call__(self, letter: Tensor) -> Tensor:
        recurrent, entry, readout = self.weights
        h = ((self.h @ recurrent + entry[letter[0]]) >> 6).clip(-100, 100).contiguous()
        self.h.assign(h).realize()
        return (h @ readout)[0].argmax().reshape(1).cast("int32")


def run(*, simulate: bool = False) -> str:
    """Compile it, and let it write the sentence."""
    options = tg2hdl.CompileOptions(multipliers=8, loop=True)
    accelerator = tg2hdl.compile(Writer(), np.zeros(1, np.int32), options=options)
    stop = LETTERS.index(".")
    first = LETTERS.index(TEXT[0])
    engine = "auto" if simulate else "golden"
    letters = accelerator.generate(first, stop=stop, limit=200, engine=engine)
    text = TEXT[0] + "".join(LETTERS[int(letter[0])] for letter in letters)
    print(text)
    print(f"{accelerator.predicted_cycles} cycles a letter, and {accelerator.design.loop.gap} for the loop")
    return text


if __name__ == "__main__":
    run(simulate="--simulate" in sys.argv)

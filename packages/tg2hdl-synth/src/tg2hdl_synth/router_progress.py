"""Stops a router that gets no nearer to a result: nextpnr's ``router2`` has no end of its own."""

from __future__ import annotations

import re

from tg2hdl_synth.errors import DesignTooLargeError

__all__ = ["RouterProgress"]

_ROUND = re.compile(r"iter=(\d+) wires=(\d+) overused=(\d+)")
_PATIENCE = 8
"""Rounds without a new best.  Where it gets to an end, each is better than the one before, but for the last ones."""

_FEW = 0.001
"""Share of wires with more than one net below which rounds may come that are no better."""


class RouterProgress:
    """Reads nextpnr's lines.

    Parameters
    ----------
    tool : str
        Where an error says that it happened.
    """

    def __init__(self, tool: str) -> None:
        self.tool = tool
        self._best = self._at = -1

    def follow(self, line: str) -> None:
        """Take the next line.

        Raises
        ------
        DesignTooLargeError
            When wires with more than one net have not become fewer for 8 rounds, and are many.
        """
        found = _ROUND.search(line)
        if found is None:
            return
        number, wires, overused = map(int, found.groups())
        if self._best < 0 or overused < self._best:
            self._best, self._at = overused, number
        if number - self._at >= _PATIENCE and self._best > _FEW * wires:
            raise DesignTooLargeError(
                "the design cannot be routed in the part",
                where=self.tool,
                notes=(
                    f"of {wires:,} wires, {self._best:,} still had more than one net in the best of {number} rounds",
                ),
                hint="take a larger part or a smaller design",
            )

"""The option of a loop on the chip."""

from __future__ import annotations

from dataclasses import dataclass

from tg2hdl_ir import InputError

__all__ = ["Loop"]

MOST = 1 << 16


@dataclass(frozen=True)
class Loop:
    """A loop on the chip, for `CompileOptions.loop`: the only output goes back to the only input.

    Parameters
    ----------
    counter : str, optional
        Run-time variable that counts the runs; the only one unless given.
    results : int
        Most runs that one start may ask for. Behind a register map, the design keeps their results until the host
        reads them.
    """

    counter: str | None = None
    results: int = 64

    def __post_init__(self) -> None:
        is_whole = isinstance(self.results, int) and not isinstance(self.results, bool)
        if not is_whole or not 1 <= self.results <= MOST:
            raise InputError(f"Loop(results={self.results!r})", hint=f"give 1 to {MOST:,} results")

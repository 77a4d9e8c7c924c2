"""Where block RAMs and multipliers of a core belong on an FPGA whose rows of these lie one above the other."""

from __future__ import annotations

from tg2hdl_tpu.config import Config

__all__ = ["core_floorplan"]


def core_floorplan(config: Config) -> dict[str, tuple[float, float]]:
    """Return places for `tg2hdl_synth.synthesize`: lanes side by side in two rows, the matrix unit among them.

    None for 4 lanes, which fill little of a part.
    Words of a lane, their memory, multipliers and adders, are next to each other; lanes exchange words with their
    neighbours in a row, or with the other row.
    """
    found: dict[str, tuple[float, float]] = {}
    if config.lanes == 4:
        return found
    for j in range(config.columns):
        # Products that are added are neighbours.
        place = _place(config, j, -(-config.columns // 2))
        found |= {f"matrix.p_{i}_{j}_*": place for i in range(config.rows)}
    for lane in range(config.lanes):
        place = _place(config, lane, config.lanes // 2)
        found |= {f"lane{lane}.*": place, f"vmem.bank?.?.{lane}": place}
    return found


def _place(config: Config, number: int, in_row: int) -> tuple[float, float]:
    # Many lanes need all the room that there is between and around the two rows.
    second = 0.87 if config.lanes >= 16 else 0.75
    return (number % in_row + 0.5) / in_row, 0.2 if number < in_row else second

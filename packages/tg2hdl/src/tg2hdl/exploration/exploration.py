"""The result of `tg2hdl.explore`: the designs that it found, with their page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tg2hdl.exploration.design_points import DesignPoints

if TYPE_CHECKING:
    from tg2hdl.report import Report

__all__ = ["Exploration"]


class Exploration(DesignPoints):
    """The points of an exploration, the best of them and the Pareto front; prints as a table."""

    def report(self, source: str = "MODEL") -> Report:
        """One HTML page: the front, and for each of its points decisions, memories and command line.

        Parameters
        ----------
        source : str
            Model in the command lines, e.g. ``model.py``.

        Returns
        -------
        Report
            Saved by ``.save("front.html")``; shows itself in Jupyter.
        """
        from tg2hdl.report.exploration import exploration_page

        return exploration_page(self, source)

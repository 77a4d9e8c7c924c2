"""Exploring the designs of a model: the fastest that fits a part, or the smallest that is fast enough."""

from tg2hdl.exploration.exploration import Exploration
from tg2hdl.exploration.explore import explore, fitted_options
from tg2hdl.exploration.goals import GOALS
from tg2hdl.exploration.points import Point

__all__ = ["GOALS", "Exploration", "Point", "explore", "fitted_options"]

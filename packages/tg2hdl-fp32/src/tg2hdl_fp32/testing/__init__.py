"""Checks for float units: a fast simulation, vectors, exact references and a conformance suite.

Needs numpy, unlike the cores.
"""

from .conformance import Conformance, check_unit
from .references import reference
from .simulation import BitSlicedSimulation
from .vectors import special_patterns, vectors

__all__ = ["BitSlicedSimulation", "Conformance", "check_unit", "reference", "special_patterns", "vectors"]

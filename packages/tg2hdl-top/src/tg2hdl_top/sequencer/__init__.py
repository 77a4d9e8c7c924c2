"""Policies for when each kernel of a design starts."""

from __future__ import annotations

from tg2hdl_top.sequencer.base import (
    Arrangement,
    RunSequencerComponent,
    Sequencer,
    SequencerComponent,
    Timeline,
    sequencer_named,
)
from tg2hdl_top.sequencer.plan import SequencerPlan, SharedWindow, Sharing

__all__ = [
    "Arrangement",
    "RunSequencerComponent",
    "Sequencer",
    "SequencerComponent",
    "SequencerPlan",
    "SharedWindow",
    "Sharing",
    "Timeline",
    "sequencer_named",
]

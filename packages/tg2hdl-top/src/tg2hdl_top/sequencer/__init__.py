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
from tg2hdl_top.sequencer.plan import SequencerPlan, Sharing, Window

__all__ = [
    "Arrangement",
    "RunSequencerComponent",
    "Sequencer",
    "SequencerComponent",
    "SequencerPlan",
    "Sharing",
    "Timeline",
    "Window",
    "sequencer_named",
]

"""Policies for when each kernel of a design starts."""

from __future__ import annotations

from tg2hdl_top.sequencer.base import Sequencer, SequencerComponent, Timeline, sequencer_named

__all__ = ["Sequencer", "SequencerComponent", "Timeline", "sequencer_named"]

"""The suites for sequencers and kinds of memory: the built-in ones pass, faulty ones do not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tg2hdl_backend.testing.designs import check_memory_kind, check_sequencer
from tg2hdl_ir import FamilyDef, MemoryFigures, MemoryKindDef, SequencerDef, hookimpl, registry
from tg2hdl_lower.memory.lut import LutRam
from tg2hdl_top.sequencer.serial import SerialSequencer


@pytest.mark.parametrize("name", ["overlap", "dataflow"])
def test_built_in_sequencers_pass(name):
    check_sequencer(registry().sequencer(name))


@pytest.mark.parametrize("name", ["lut", "block", "run-constant"])
def test_built_in_kinds_of_memory_pass(name):
    assert check_memory_kind(registry().memory_kind(name)) > 0


class Tiny:
    """A family whose block RAMs have few words, so that small memories take several."""

    @hookimpl
    def tg2hdl_families(self):
        return [FamilyDef("tiny", "", 4, 2, 2, memory=MemoryFigures(block_words=512))]


def test_the_kind_of_memories_of_several_blocks_passes():
    with registry().extended(Tiny(), distribution="acme"):
        assert check_memory_kind(registry().memory_kind("banked"), target="tiny") > 0


class Hasty(SerialSequencer):
    """Predicts one cycle too few."""

    def predict(self, cycles, plan):
        found = super().predict(cycles, plan)
        return replace(found, ends=(*found.ends[:-1], found.ends[-1] - 1))


class Shy(LutRam):
    """A kind of memory that suits no buffer."""

    def suits(self, use, family):
        return False


class Plugin:
    """A sequencer with a wrong prediction, one that is none, and a kind of memory that nothing suits."""

    @hookimpl
    def tg2hdl_sequencers(self):
        return [SequencerDef("hasty", "", Hasty), SequencerDef("none", "", dict)]

    @hookimpl
    def tg2hdl_memory_kinds(self):
        return [MemoryKindDef("shy", "", Shy, 99)]


FAULTY = {
    "sequencer hasty, 6 rows, run 0: the design was done after ": ("sequencer", "hasty"),
    "sequencer none: its factory made dict, not a Sequencer": ("sequencer", "none"),
    "memory kind shy: none of the buffers suits it": ("memory_kind", "shy"),
}


@pytest.mark.parametrize("text", FAULTY)
def test_faulty_ones_are_named(text):
    kind, name = FAULTY[text]
    check = {"sequencer": check_sequencer, "memory_kind": check_memory_kind}[kind]
    with registry().extended(Plugin(), distribution="acme"), pytest.raises(AssertionError) as caught:
        check(getattr(registry(), kind)(name))
    assert str(caught.value).startswith(text)

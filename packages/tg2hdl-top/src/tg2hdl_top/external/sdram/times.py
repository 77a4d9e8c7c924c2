"""When the controller gives the words of an image; exact, refreshes counted."""

from __future__ import annotations

from tg2hdl_top.external.memory_port import BeatTimes
from tg2hdl_top.external.sdram.model import BURST, QUEUE, SdramModel

__all__ = ["SdramTimes"]


class SdramTimes(BeatTimes):
    """Bursts follow each other without a gap while the queue has room, but for refreshes."""

    model: SdramModel

    def __init__(self, model: SdramModel, beats: int) -> None:
        super().__init__(model, beats)
        refresh = 1 + model.settle
        self.refresh_due = refresh + 1 + model.refresh_interval
        self.free = refresh + model.cycles(model.t_rfc) + model.cycles(model.t_rcd)
        """First cycle in which a read command may be given."""
        self.ends = [0] * (QUEUE // BURST)
        """Cycles in which the last words of the latest bursts are taken; zeros before the first."""
        self.burst = 0
        """Words to come of the latest burst."""
        self.arrival = 0
        """Cycle in which the next word of it is in the queue."""

    def take(self, beats: int, begin: int) -> int:
        """Cycle of the last of the next beats."""
        while beats:
            if not self.burst:
                self.read()
            count = min(beats, self.burst)
            first = max(self.arrival, self.latest + 1, begin)
            self.latest = first + count - 1
            self.arrival += count
            beats, self.burst = beats - count, self.burst - count
            if not self.burst:
                self.ends.append(self.latest)
        return self.latest

    def read(self) -> None:
        """Give the next read command."""
        model = self.model
        room = self.ends[-QUEUE // BURST] + 1
        cycle = max(self.free, room)
        while self.refresh_due <= cycle:
            self.free = max(self.free, self.refresh_due) + model.reopen
            self.refresh_due += model.refresh_interval
            cycle = max(self.free, room)
        self.free = cycle + BURST
        self.burst = min(BURST, self.left)
        self.left -= self.burst
        self.arrival = cycle + model.cas_latency + 3

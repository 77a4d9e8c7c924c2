"""Models on several devices, one after the other: a cut, the parts, and both simulated together."""

from __future__ import annotations

from tg2hdl.splitting.cut import ModelCut
from tg2hdl.splitting.model import SplitModel, split
from tg2hdl.splitting.system import StreamedRuns

__all__ = ["ModelCut", "SplitModel", "StreamedRuns", "split"]

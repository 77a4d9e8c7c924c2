"""Settings of all tests."""

import gc
import os
import sys
from pathlib import Path

import pytest
from hypothesis import settings

# Several tests run at once, so that the time of one example says nothing.
settings.register_profile("tests", deadline=None)
settings.load_profile("tests")

# Every kernel is verified after every pass, also in the processes that tests start.
os.environ.setdefault("TG2HDL_VERIFY_EACH", "1")


def pytest_collection_finish() -> None:
    """Search rarely for garbage, and not among the modules that all tests share: the searches took noticeable time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    """Each test starts with the seed 0: tinygrad's counter of random numbers would be one lazy graph of all tests."""
    tinygrad = sys.modules.get("tinygrad")
    if tinygrad is not None:
        tinygrad.Tensor.manual_seed(0)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List the skipped tests in a file, so that `.ci/run` can run them where the programs are that they need."""
    path = os.environ.get("TG2HDL_SKIPPED_TESTS")
    if path:
        skipped = {report.nodeid for report in terminalreporter.stats.get("skipped", [])}
        Path(path).write_text("".join(f"{nodeid}\n" for nodeid in sorted(skipped)))

"""Options and fixtures of the tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tg2hdl_ir import registry


@pytest.fixture(scope="session", autouse=True)
def loaded_plugins():
    """Load the installed plugins before hypothesis starts, since imports may change process-wide settings."""
    registry().ops()


@pytest.fixture
def expect():
    """Compare text with a file in tests/expect, or rewrite it when UPDATE_EXPECT=1 is in the environment."""

    def check(name: str, text: str) -> None:
        path = Path(__file__).parent / "expect" / name
        if os.environ.get("UPDATE_EXPECT") == "1":
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        assert path.exists(), f"{path} is missing; run pytest with UPDATE_EXPECT=1"
        assert text == path.read_text()

    return check

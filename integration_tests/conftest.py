"""Wheels of all packages, built once per run."""

from __future__ import annotations

import pytest
from environments import ROOT, build_wheel


@pytest.fixture(scope="session")
def wheels(tmp_path_factory):
    """Return a wheel per package, by the name of its folder."""
    target = tmp_path_factory.mktemp("wheels")
    return {folder.name: build_wheel(folder, target) for folder in sorted((ROOT / "packages").iterdir())}


@pytest.fixture(scope="session")
def plugin_wheel(tmp_path_factory):
    """Return the wheel of the example plugin."""
    return build_wheel(ROOT / "examples" / "plugin-sigmoid", tmp_path_factory.mktemp("plugin"))

"""Names that are imported when they are first used."""

from __future__ import annotations

import sys
from importlib import import_module

import pytest

LAZY = "from tg2hdl_ir.lazy import lazy_face\n\n__all__, __getattr__, __dir__ = lazy_face(__name__)\n"


@pytest.fixture
def late(tmp_path, monkeypatch):
    """A package whose face has one name that its module lacks."""
    (tmp_path / "late").mkdir()
    (tmp_path / "late/__init__.py").write_text(LAZY)
    (tmp_path / "late/__init__.pyi").write_text(
        "from .inner import run as go\nfrom .inner import stop as stop\nfrom json import dumps as dumps\n\n"
        "__version__: str\n"
    )
    (tmp_path / "late/inner.py").write_text("def run(): return 7\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield import_module("late")
    for name in ("late", "late.inner"):
        sys.modules.pop(name, None)


def test_names_come_from_modules_beside_the_package_and_elsewhere(late):
    assert "late.inner" not in sys.modules
    assert (late.go(), late.dumps([1])) == (7, "[1]")
    assert late.__all__ == ["dumps", "go", "stop"]
    assert {name for name in dir(late) if not name.startswith("__")} == set(late.__all__)
    with pytest.raises(AttributeError, match=r"^module 'late' has no attribute 'run'$"):
        late.run  # noqa: B018


def test_a_name_that_its_module_lacks_is_an_error(late):
    with pytest.raises(AttributeError, match=r"module 'late\.inner' has no attribute 'stop'"):
        late.stop  # noqa: B018

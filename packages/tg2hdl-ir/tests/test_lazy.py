"""Names that are imported when they are first used."""

from __future__ import annotations

import sys

import pytest

from tg2hdl_ir.lazy import lazy_names


def test_names_come_from_modules_beside_the_package_and_elsewhere(tmp_path, monkeypatch):
    (tmp_path / "late").mkdir()
    (tmp_path / "late/__init__.py").write_text(
        "from tg2hdl_ir.lazy import lazy_names\n"
        '__getattr__, __dir__ = lazy_names(__name__, {".inner": ("run as go",), "json": ("dumps",)})\n'
    )
    (tmp_path / "late/inner.py").write_text("def run(): return 7\n")
    monkeypatch.syspath_prepend(tmp_path)
    import late

    assert "late.inner" not in sys.modules
    assert (late.go(), late.dumps([1])) == (7, "[1]")
    assert [name for name in dir(late) if not name.startswith("__")] == ["dumps", "go"]
    with pytest.raises(AttributeError, match=r"^module 'late' has no attribute 'run'$"):
        late.run  # noqa: B018
    monkeypatch.delitem(sys.modules, "late")


def test_a_name_that_its_module_lacks_is_an_error():
    get, _ = lazy_names("tg2hdl_ir", {".dtype": ("Nothing",)})
    with pytest.raises(AttributeError, match=r"module 'tg2hdl_ir\.dtype' has no attribute 'Nothing'"):
        get("Nothing")

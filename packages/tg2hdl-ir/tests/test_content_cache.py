"""The cache of results on disk."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tg2hdl_ir import InputError, cache_folder
from tg2hdl_ir.content_cache import ContentCache, cache_entries, cache_root, clear_cache, content_key


def builder(content: bytes, calls: list[bytes] | None = None) -> Callable[[Path], object]:
    def build(folder: Path) -> None:
        assert not list(folder.iterdir())
        if calls is not None:
            calls.append(content)
        (folder / "out").write_bytes(content)

    return build


def test_an_entry_is_built_once(tmp_path):
    cache, calls = ContentCache("sim", root=tmp_path), []
    first = cache.get("a", builder(b"one", calls))
    again = cache.get("a", builder(b"two", calls))
    assert (first.folder, first.cached, again.cached) == (again.folder, False, True)
    assert ((again.folder / "out").read_bytes(), calls) == (b"one", [b"one"])


def test_kinds_are_apart(tmp_path):
    ContentCache("sim", root=tmp_path).get("a", builder(b"one"))
    assert ContentCache("synth", root=tmp_path).lookup("a") is None


@pytest.mark.parametrize("victim", ["out", "manifest.json"])
@pytest.mark.parametrize("damage", ["truncate", "change", "remove"])
def test_damaged_entries_are_rebuilt(tmp_path, victim, damage):
    cache = ContentCache("sim", root=tmp_path)
    file = cache.get("a", builder(b"contents")).folder / victim
    raw = file.read_bytes()
    if damage == "remove":
        file.unlink()
    else:
        file.write_bytes(raw[:5] if damage == "truncate" else raw[:3] + b"?" + raw[4:])
    assert cache.lookup("a") is None
    assert (cache.get("a", builder(b"new")).folder / "out").read_bytes() == b"new"
    assert [p.name for p in (tmp_path / "sim").iterdir()] == ["a"]


def test_a_file_that_was_added_is_damage(tmp_path):
    cache = ContentCache("sim", root=tmp_path)
    (cache.get("a", builder(b"contents")).folder / "more").write_text("more")
    assert cache.lookup("a") is None


def test_nothing_stays_when_a_build_fails(tmp_path):
    cache = ContentCache("sim", root=tmp_path)

    def build(folder: Path) -> None:
        (folder / "half").write_bytes(b"half")
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        cache.get("a", build)
    assert list((tmp_path / "sim").iterdir()) == []


def test_the_longest_unused_of_all_kinds_go_first(tmp_path):
    sim, synth = (ContentCache(kind, root=tmp_path, limit=2600) for kind in ("sim", "synth"))
    for age, (cache, key) in enumerate([(sim, "a"), (synth, "b"), (sim, "c")]):
        folder = cache.get(key, builder(bytes(700))).folder
        os.utime(folder / "manifest.json", (1000 + age, 1000 + age))
    assert sim.lookup("a") is not None  # a use, so that b is the oldest
    sim.get("d", builder(bytes(700)))
    assert sorted(entry.key for entry in cache_entries(tmp_path)) == ["a", "c", "d"]


def test_an_entry_of_any_size_is_kept_for_its_use(tmp_path):
    found = ContentCache("sim", root=tmp_path, limit=1).get("a", builder(bytes(100)))
    assert (found.folder / "out").exists()


def test_folders_of_processes_that_ended_are_removed(tmp_path):
    cache = ContentCache("sim", root=tmp_path)
    (tmp_path / "sim" / ".new-old").mkdir(parents=True)
    os.utime(tmp_path / "sim" / ".new-old", (1000, 1000))
    (tmp_path / "sim" / ".new-busy").mkdir()
    cache.get("a", builder(b"one"))
    assert sorted(p.name for p in (tmp_path / "sim").iterdir()) == [".new-busy", "a"]


def test_another_process_may_be_first(tmp_path):
    cache = ContentCache("sim", root=tmp_path)

    def build(folder: Path) -> None:
        ContentCache("sim", root=tmp_path).get("a", builder(b"first"))
        builder(b"second")(folder)

    assert (cache.get("a", build).folder / "out").read_bytes() == b"first"
    assert [p.name for p in (tmp_path / "sim").iterdir()] == ["a"]


def test_two_threads_at_the_same_work(tmp_path):
    inside = threading.Barrier(2, timeout=30)
    found: list[str] = []

    def build(folder: Path) -> None:
        (folder / "first").write_text("1")
        inside.wait()
        (folder / "second").write_text((folder / "first").read_text())
        inside.wait()

    def call() -> None:
        found.append((ContentCache("sim", root=tmp_path).get("a", build).folder / "second").read_text())

    threads = [threading.Thread(target=call) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == ["1", "1"]


def test_limit_from_the_environment(monkeypatch):
    monkeypatch.setenv("TG2HDL_CACHE_LIMIT", "123")
    assert ContentCache("sim").limit == 123
    monkeypatch.setenv("TG2HDL_CACHE_LIMIT", "1 GB")
    with pytest.raises(InputError) as caught:
        ContentCache("sim")
    assert str(caught.value) == (
        "bad input: TG2HDL_CACHE_LIMIT is '1 GB', not a number of bytes\n  hint: the default is 2147483648"
    )


def test_the_folder_comes_from_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("TG2HDL_CACHE_DIR", str(tmp_path / "named"))
    assert cache_root() == tmp_path / "named"
    monkeypatch.delenv("TG2HDL_CACHE_DIR")
    if sys.platform == "linux":
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
        assert cache_root() == tmp_path / "xdg" / "tg2hdl"


def test_keys_depend_on_where_parts_end():
    assert content_key("ab", "c") != content_key("a", "bc")
    assert content_key("a", b"b") == content_key("a", "b")


def test_blobs_come_back_unless_they_are_damaged(tmp_path):
    cache = ContentCache("plans", root=tmp_path)
    assert cache.read("a") is None
    cache.write("a", b"blob")
    assert cache.read("a") == b"blob"
    (tmp_path / "plans" / "a" / "blob").write_bytes(b"blo")
    assert cache.read("a") is None
    cache.write("a", b"another")
    assert cache.read("a") == b"another"


@pytest.fixture
def temporary(monkeypatch, tmp_path):
    """Folder for temporary files of the test alone."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    cache_folder._warn.cache_clear()
    return folder


def used_instead(root, reason, temporary):
    place = temporary / f"tg2hdl-{os.geteuid()}" / root.name
    return (
        f"the cache {root} {reason}; {place} is used instead (set TG2HDL_CACHE_DIR to a folder of your own)"
    )


def test_a_cache_that_cannot_be_made_is_a_temporary_one(tmp_path, temporary, caplog):
    root = tmp_path / "file"
    root.write_text("")
    cache = ContentCache("sim", root=root)
    cache.write("a", b"blob")
    assert cache.read("a") == b"blob"
    assert ContentCache("sim", root=root).get("b", builder(b"one")).folder.is_relative_to(temporary)
    assert [record.message for record in caplog.records] == [used_instead(root, "is not a folder", temporary)]
    again = ContentCache("sim", root=root)  # as in the next process
    assert again.read("a") == b"blob"


def test_what_cannot_be_kept_anywhere_is_an_error(tmp_path, temporary, monkeypatch):
    cache = ContentCache("sim", root=tmp_path / "cache")

    def full(*given, **options):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(tempfile, "mkdtemp", full)
    cache.write("a", b"blob")
    with pytest.raises(InputError) as caught:
        cache.get("a", builder(b"one"))
    assert str(caught.value) == (
        f"bad input: the cache {tmp_path / 'cache' / 'sim'} does not keep files that are written to it\n"
        "  hint: set TG2HDL_CACHE_DIR to a writable folder"
    )


def test_a_cache_that_is_made_is_for_its_user_alone(tmp_path):
    before = os.umask(0o002)
    try:
        ContentCache("sim", root=tmp_path / "new" / "root").get("a", builder(b"one"))
    finally:
        os.umask(before)
    for folder in (tmp_path / "new" / "root", tmp_path / "new" / "root" / "sim"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize("place", ["", "sim"])
@pytest.mark.parametrize("mode", [0o777, 0o770, 0o1777, 0o702])
def test_an_entry_that_others_could_have_written_is_not_used(tmp_path, temporary, caplog, place, mode):
    root = tmp_path / "root"
    theirs = ContentCache("sim", root=root).get("a", builder(b"theirs")).folder
    (root / place).chmod(mode)
    cache = ContentCache("sim", root=root)
    assert cache.lookup("a") is None
    found = cache.get("a", builder(b"mine"))
    assert (found.folder / "out").read_bytes() == b"mine"
    assert found.folder.is_relative_to(temporary)
    assert (theirs / "out").read_bytes() == b"theirs"
    assert [r.message for r in caplog.records] == [
        used_instead(root / place, "can be written by others", temporary)
    ]
    (root / place).chmod(0o755)
    assert cache.lookup("a") == theirs


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives folders away")
def test_an_entry_of_another_user_is_not_used(tmp_path, temporary, caplog):
    root = tmp_path / "root"
    ContentCache("sim", root=root).get("a", builder(b"theirs"))
    os.chown(root, 12345, -1)
    cache = ContentCache("sim", root=root)
    assert cache.lookup("a") is None
    assert cache.get("a", builder(b"mine")).folder.is_relative_to(temporary)
    assert [r.message for r in caplog.records] == [used_instead(root, "belongs to user 12345", temporary)]


def test_a_temporary_cache_that_others_made_is_not_used(tmp_path, temporary):
    shared = temporary / f"tg2hdl-{os.geteuid()}"
    shared.mkdir()
    shared.chmod(0o777)
    (tmp_path / "file").write_text("")
    found = ContentCache("sim", root=tmp_path / "file").get("a", builder(b"one")).folder
    assert found.is_relative_to(temporary)
    assert not found.is_relative_to(shared)


@pytest.mark.parametrize("variable", ["YOWASP_CACHE_DIR", "ZIG_GLOBAL_CACHE_DIR"])
def test_tools_get_a_cache_that_they_can_write(tmp_path, monkeypatch, variable):
    monkeypatch.setenv("TG2HDL_CACHE_DIR", str(tmp_path / "ours"))
    wanted = tmp_path / "tool"
    monkeypatch.setenv(variable, str(wanted))
    assert cache_folder.tool_cache(variable) == wanted
    wanted.chmod(0o777)
    assert cache_folder.with_tool_cache(variable)[variable] == str(tmp_path / "ours" / "tool")
    assert (tmp_path / "ours" / "tool").is_dir()


def test_clearing_frees_what_it_says(tmp_path):
    for kind, size in (("sim", 100), ("synth", 1000)):
        ContentCache(kind, root=tmp_path).get("a", builder(bytes(size)))
    sizes = {entry.kind: entry.size for entry in cache_entries(tmp_path)}
    assert clear_cache(["sim"], tmp_path) == sizes["sim"] > 100
    assert [entry.kind for entry in cache_entries(tmp_path)] == ["synth"]
    assert clear_cache(root=tmp_path) == sizes["synth"] > 1000
    assert list(cache_entries(tmp_path)) == []


WRITE_AND_READ = """
import pathlib, sys
from tg2hdl_ir.content_cache import ContentCache
cache, seed = ContentCache("plans", root=pathlib.Path(sys.argv[1]), limit=6_500), int(sys.argv[2])
hits = 0
for n in range(150):
    cache.write(str(n % 7), bytes([n % 7]) * 1000)
    read = (n + seed) % 7
    found = cache.read(str(read))
    assert found in (None, bytes([read]) * 1000)
    hits += found is not None
assert hits
"""


def test_two_processes_at_once(tmp_path):
    command = [sys.executable, "-c", WRITE_AND_READ, str(tmp_path)]
    started = [subprocess.Popen([*command, seed]) for seed in ("1", "3")]
    assert [process.wait(timeout=60) for process in started] == [0, 0]

"""The cache of results on disk."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tg2hdl_ir.content_cache import ContentCache, cache_entries, cache_root, clear_cache, content_key
from tg2hdl_ir.errors import InputError


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


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    cache = ContentCache("sim", root=tmp_path / "file")
    cache.write("a", b"blob")
    assert cache.read("a") is None
    with pytest.raises(InputError) as caught:
        cache.get("a", builder(b"one"))
    assert str(caught.value) == (
        f"bad input: the cache {tmp_path / 'file' / 'sim'} does not keep what is written to it\n"
        "  hint: set TG2HDL_CACHE_DIR to a writable folder"
    )


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
cache, seed = ContentCache("plans", root=pathlib.Path(sys.argv[1]), limit=5_000), int(sys.argv[2])
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

"""The cache of blobs on disk."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tg2hdl_backend.compile_cache import CompileCache, content_key


def files(directory: Path) -> list[Path]:
    return [p for p in directory.rglob("*") if p.is_file()]


def test_blobs_come_back(tmp_path):
    cache = CompileCache(tmp_path)
    key = content_key("kernel", b"options")
    assert cache.get(key) is None
    cache.put(key, b"blob")
    assert cache.get(key) == b"blob"
    assert CompileCache(tmp_path).get(key) == b"blob"


def test_keys_depend_on_the_boundaries_of_parts():
    assert content_key("ab", "c") != content_key("a", "bc")
    assert content_key("a", b"b") == content_key("a", "b")


@pytest.mark.parametrize("keep", [0, 5, 8, 20, 41])
def test_truncated_files_are_dropped(tmp_path, keep):
    cache, key = CompileCache(tmp_path), content_key("x")
    cache.put(key, b"contents")
    (path,) = files(tmp_path)
    path.write_bytes(path.read_bytes()[:keep])
    assert cache.get(key) is None
    assert not files(tmp_path)
    cache.put(key, b"contents")
    assert cache.get(key) == b"contents"


def test_damaged_files_are_dropped(tmp_path):
    cache, key = CompileCache(tmp_path), content_key("x")
    cache.put(key, b"contents")
    (path,) = files(tmp_path)
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    assert cache.get(key) is None


def test_least_recently_used_blobs_make_room(tmp_path):
    cache = CompileCache(tmp_path, limit=3 * 140)
    keys = [content_key(str(n)) for n in range(4)]
    for n, key in enumerate(keys[:3]):
        cache.put(key, bytes(100))
        os.utime(tmp_path / key[:2] / key, (n, n))
    assert cache.get(keys[0]) is not None
    cache.put(keys[3], bytes(100))
    assert cache.get(keys[1]) is None
    assert [cache.get(keys[n]) is not None for n in (0, 2, 3)] == [True, True, True]


def test_unwritable_directory_is_no_error(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    cache = CompileCache(blocked)
    cache.put(content_key("x"), b"blob")
    assert cache.get(content_key("x")) is None


def test_directory_comes_from_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("TG2HDL_CACHE_DIR", str(tmp_path / "named"))
    assert CompileCache().directory == tmp_path / "named"
    monkeypatch.delenv("TG2HDL_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert CompileCache().directory == tmp_path / "xdg" / "tg2hdl"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert CompileCache().directory == Path.home() / ".cache" / "tg2hdl"


def test_limit_must_be_positive(tmp_path):
    with pytest.raises(ValueError, match=r"^limit is 0 bytes, expected at least 1$"):
        CompileCache(tmp_path, limit=0)


WRITE_AND_READ = """
import sys
from tg2hdl_backend.compile_cache import CompileCache, content_key
cache, seed = CompileCache(sys.argv[1], limit=20_000), int(sys.argv[2])
for n in range(150):
    cache.put(content_key(str(n % 7)), bytes([n % 7]) * 1000)
    read = (n + seed) % 7
    assert cache.get(content_key(str(read))) in (None, bytes([read]) * 1000)
"""


def test_two_processes_at_once(tmp_path):
    command = [sys.executable, "-c", WRITE_AND_READ, str(tmp_path)]
    started = [subprocess.Popen([*command, seed]) for seed in ("1", "3")]
    assert [process.wait(timeout=60) for process in started] == [0, 0]

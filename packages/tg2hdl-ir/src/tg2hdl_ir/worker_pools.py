"""Pools of workers: processes of this machine, and the workers of a Dask cluster."""

from __future__ import annotations

import importlib
import multiprocessing
import pickle
import signal
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Protocol

from tg2hdl_ir.content_cache import content_key
from tg2hdl_ir.errors import InputError, ToolMissingError
from tg2hdl_ir.installation import installation

__all__ = ["DaskPool", "ProcessPool", "WorkerPool"]

_TIMEOUT = 20
"""Time for a scheduler to answer, and for its first worker to come (s)."""
_KEPT = 4
"""Shared values that a process keeps."""


class WorkerPool(Protocol):
    """Where tasks are run."""

    @property
    def lost(self) -> tuple[type[BaseException], ...]:
        """Errors of a task whose worker has ended."""

    def share(self, blob: bytes) -> None:
        """Give all workers a pickled value, which the tasks from now on share."""

    def submit(self, function: Callable[[Any, Any], Any], item: Any) -> Future[Any]:
        """Start a task.

        Parameters
        ----------
        function : callable
            ``(shared, item) -> result``, importable by name.
        item
            Pickled.
        """

    def width(self) -> int:
        """Tasks that can run at the same time."""

    def restart(self) -> None:
        """Replace workers that have ended."""

    def close(self) -> None:
        """Cancel running tasks."""


class ProcessPool:
    """Processes of this machine."""

    lost: tuple[type[BaseException], ...] = (BrokenProcessPool,)

    def __init__(self, count: int, renewed_after: int | None = None) -> None:
        self._count, self._renewed_after, self._blob = count, renewed_after, b""
        self._executor: ProcessPoolExecutor | None = None

    def share(self, blob: bytes) -> None:
        """Give all workers a pickled value."""
        if blob != self._blob:
            self.close()
            self._blob = blob

    def submit(self, function: Callable[[Any, Any], Any], item: Any) -> Future[Any]:
        """Start a task.

        Parameters
        ----------
        function : callable
            ``(shared, item) -> result``, importable by name.
        item
            Pickled.
        """
        if self._executor is None:
            # Not forked: a thread of this process may hold a lock.
            context = multiprocessing.get_context("spawn")
            self._executor = ProcessPoolExecutor(
                self._count, context, _begin, (self._blob,), max_tasks_per_child=self._renewed_after
            )
        return self._executor.submit(_of_process, function, item)

    def width(self) -> int:
        """Tasks that can run at the same time."""
        return self._count

    def restart(self) -> None:
        """Replace processes that have ended."""
        if self._executor is not None and self._executor._broken:
            self.close()

    def close(self) -> None:
        """Cancel running tasks."""
        executor, self._executor = self._executor, None
        if executor is None:
            return
        for process in list((executor._processes or {}).values()):
            process.terminate()
        executor.shutdown(wait=True, cancel_futures=True)


_shared: dict[str, Any] = {}
"""Shared values of this process by their content; the newest last."""
_blob = b""
"""That of a process of a pool."""


def _begin(blob: bytes) -> None:
    global _blob
    _blob = blob
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started it


def _of_process(function: Callable[[Any, Any], Any], item: Any) -> Any:
    return function(_value(_blob), item)


def _value(blob: bytes) -> Any:
    """The value of a blob, unpickled once."""
    key = content_key(blob)
    if key not in _shared:
        _shared[key] = pickle.loads(blob)
        for old in list(_shared)[:-_KEPT]:
            del _shared[old]
    return _shared[key]


class DaskPool:
    """The workers of a Dask cluster, which may come and go."""

    def __init__(self, address: str) -> None:
        distributed, client = _connected(address)
        self.lost: tuple[type[BaseException], ...] = (
            distributed.scheduler.KilledWorker,
            distributed.comm.CommClosedError,
        )
        self._client, self._address, self._blob = client, address, b""
        self._payload: Any = None
        try:
            client.wait_for_workers(1, timeout=_TIMEOUT)
        except TimeoutError:
            client.close()
            raise InputError(
                f"the cluster {address} has no workers", hint=f"start one: dask worker {address} --nthreads 1"
            ) from None
        for worker, found in client.run(_installed).items():
            try:
                _check(worker, found)
            except InputError:
                client.close()
                raise
        self._executor = client.get_executor(pure=False)

    def share(self, blob: bytes) -> None:
        """Give all workers a pickled value."""
        if self._payload is None or blob != self._blob:
            self._blob = blob
            # A task, not scattered data: the scheduler makes it again when its worker ends.
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self._payload = self._client.submit(bytes, blob, key=f"tg2hdl-{content_key(blob)}")

    def submit(self, function: Callable[[Any, Any], Any], item: Any) -> Future[Any]:
        """Start a task.

        Parameters
        ----------
        function : callable
            ``(shared, item) -> result``, importable by name.
        item
            Pickled.
        """
        future: Future[Any] = self._executor.submit(
            _of_cluster, self._payload, installation(), function, item
        )
        return future

    def width(self) -> int:
        """Tasks that can run at the same time."""
        return sum(self._client.nthreads().values())

    def restart(self) -> None:
        """The scheduler does it."""

    def close(self) -> None:
        """Cancel running tasks."""
        self._payload = None
        self._client.close()


def _installed() -> dict[str, str]:
    """Of the worker that runs it."""
    return installation()


def _connected(address: str) -> tuple[Any, Any]:
    try:
        distributed = importlib.import_module("distributed")
    except ImportError:
        raise ToolMissingError(
            "the Python package distributed is not installed",
            notes=("it connects to a Dask cluster",),
            hint='pip install "tg2hdl[cluster]", or leave out --cluster: --workers N needs nothing',
        ) from None
    if not address.partition("://")[2].rpartition(":")[2].isdecimal():
        raise InputError(
            f"{address!r} is not the address of a Dask scheduler", hint="give e.g. tcp://host:8786"
        )
    try:
        client = distributed.Client(address, timeout=_TIMEOUT, set_as_default=False)
    except (OSError, TimeoutError, ValueError, TypeError, RuntimeError) as error:
        raise InputError(
            f"no Dask scheduler answers at {address}",
            notes=(f"{type(error).__name__}: {error}"[:200],),
            hint="start one: dask scheduler --host ADDRESS; tls:// takes certificates from Dask's configuration",
        ) from None
    return distributed, client


def _of_cluster(
    blob: bytes, expected: Mapping[str, str], function: Callable[[Any, Any], Any], item: Any
) -> Any:
    """A task on a worker of a cluster; one that joined late is checked here."""
    _check("of a task", installation(), expected)
    return function(_value(blob), item)


def _check(worker: str, found: Mapping[str, str], expected: Mapping[str, str] | None = None) -> None:
    expected = installation() if expected is None else expected
    differing = [n for n in sorted({*expected, *found}) if expected.get(n) != found.get(n)]
    if differing:
        notes = tuple(
            f"{n}: {found.get(n, 'missing')[:12]} there, {expected.get(n, 'missing')[:12]} here"
            for n in differing
        )
        raise InputError(
            f"worker {worker} has another installation, whose results may differ",
            notes=notes,
            hint="install the same versions of tg2hdl, its plugins and its tools there",
        )

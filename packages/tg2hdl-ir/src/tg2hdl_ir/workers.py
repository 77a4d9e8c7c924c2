"""Independent tasks in this process, in processes of this machine, or on a Dask cluster, with equal results.

A task is a function of a value that all tasks share, and of an item.  The shared value goes to each worker once, by its
content.  Tasks depend on nothing else, so one whose worker ended, or had no memory or disk left, is run again
elsewhere; at the end of a run, when workers are idle, a task that takes much longer than the others is also started a
second time, and the first result counts.
"""

from __future__ import annotations

import pickle
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from typing import Any

from tg2hdl_ir.errors import InputError, SimulationError, Tg2hdlError
from tg2hdl_ir.worker_pools import DaskPool, ProcessPool, WorkerPool

__all__ = ["TRIES", "Workers", "WorkersError"]

TRIES = 4
"""Times that a task is started before its failure is that of the run."""
_LOOK = 0.2
"""Longest time between two looks for idle workers (s)."""
_SLOW, _SLOW_SECONDS = 4.0, 20.0
"""A task is slow that takes so many times the median, and at least so long (s)."""


class WorkersError(SimulationError):
    """A task that ended all workers which tried it."""

    kind = "workers"


class Workers:
    """Where tasks run; a context manager.

    Parameters
    ----------
    count : int
        Processes; with 1 tasks run in this process.  They talk through pipes: no port is opened.
    cluster : str, optional
        Address of a Dask scheduler, ``tcp://host:8786`` or ``tls://host:8786``, in place of processes; certificates
        come from Dask's own configuration.
    progress : callable
        Called with a message when a task is started again.
    renewed_after : int, optional
        Tasks after which a process is replaced by a new one, whose caches are empty; also with one process.

    Raises
    ------
    InputError
        For a count that is not a positive integer, an address where no scheduler answers, or a worker whose sources,
        libraries or tools are of other versions.
    ToolMissingError
        When the package ``distributed`` is not installed.
    """

    def __init__(
        self,
        count: int = 1,
        cluster: str | None = None,
        progress: Callable[[str], None] = lambda message: None,
        renewed_after: int | None = None,
    ) -> None:
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise InputError(
                f"workers={count!r} is not a positive integer", hint="give the number of processes, e.g. 2"
            )
        self._progress = progress
        self._pool: WorkerPool | None = None
        if cluster is not None:
            self._pool = DaskPool(cluster)
        elif count > 1 or renewed_after is not None:
            self._pool = ProcessPool(count, renewed_after)

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the processes, or leave the cluster; tasks that run are given up."""
        if self._pool is not None:
            self._pool.close()

    @property
    def is_here(self) -> bool:
        """Whether tasks run in this process."""
        return self._pool is None

    @property
    def width(self) -> int:
        """Tasks that can run at the same time; of a cluster, now."""
        return 1 if self._pool is None else max(1, self._pool.width())

    def run(
        self, function: Callable[[Any, Any], Any], items: Iterable[Any], shared: Any = None
    ) -> Iterator[tuple[int, Any]]:
        """Number and result of each item, as they are done.

        Parameters
        ----------
        function : callable
            ``(shared, item) -> result``; the same result wherever and how often it runs.
        items : iterable
        shared : object
            A value that is pickled once; changes that a task makes to it are seen by later tasks of the same process.

        Raises
        ------
        WorkersError
            When a task ended its worker `TRIES` times.
        Exception
            As raised by the function.
        """
        given = list(items)
        if self._pool is None:
            for number, item in enumerate(given):
                yield number, function(shared, item)
            return
        run = _Run(self._pool, function, given, pickle.dumps(shared), self._progress)
        try:
            yield from run.results()
        finally:
            run.cancel()

    def map(
        self, function: Callable[[Any, Any], Any], items: Iterable[Any], shared: Any = None
    ) -> Iterator[Any]:
        """Results in the order of the items; parameters and errors as of `run`.

        Parameters
        ----------
        function : callable
            ``(shared, item) -> result``.
        items : iterable
        shared : optional
            Pickled once for each process.
        """
        early: dict[int, Any] = {}
        following = 0
        for number, result in self.run(function, items, shared):
            early[number] = result
            while following in early:
                yield early.pop(following)
                following += 1


class _Run:
    """The tasks of one call of `Workers.run`."""

    def __init__(
        self,
        pool: WorkerPool,
        function: Callable[[Any, Any], Any],
        items: list[Any],
        shared: bytes,
        progress: Callable[[str], None],
    ) -> None:
        self._pool, self._function, self._items, self._progress = pool, function, items, progress
        self._waiting = deque(range(len(items)))
        self._tries = [0] * len(items)
        self._done: set[int] = set()
        self._running: dict[Future[Any], tuple[int, float]] = {}
        self._seconds: list[float] = []
        self._lost: tuple[type[BaseException], ...] = (
            BrokenProcessPool,
            CancelledError,
            MemoryError,
            OSError,
            *pool.lost,
        )
        pool.share(shared)

    def results(self) -> Iterator[tuple[int, Any]]:
        while len(self._done) < len(self._items):
            self._start()
            finished, _ = wait(self._running, timeout=_LOOK, return_when=FIRST_COMPLETED)
            for future in finished:
                number, began = self._running.pop(future, (-1, 0.0))
                if number < 0 or number in self._done:
                    continue
                try:
                    result = future.result()
                except self._lost as error:
                    self._again(number, error)
                else:
                    self._done.add(number)
                    self._seconds.append(time.monotonic() - began)
                    yield number, result

    def _start(self) -> None:
        width = self._pool.width()
        while self._waiting and len(self._running) < width:
            self._submit(self._waiting.popleft())
        if self._waiting or not self._seconds:
            return
        bound = max(_SLOW_SECONDS, _SLOW * statistics.median(self._seconds))
        copies = [number for number, _ in self._running.values()]
        for number, began in list(self._running.values()):
            slow = time.monotonic() - began > bound and copies.count(number) == 1
            if slow and number not in self._done and len(self._running) < width:
                self._progress(f"task {number + 1} is slow: started a second time")
                self._submit(number)

    def _submit(self, number: int) -> None:
        try:
            future = self._pool.submit(self._function, self._items[number])
        except (BrokenProcessPool, RuntimeError) as error:
            self._again(number, error)
            return
        self._running[future] = number, time.monotonic()

    def _again(self, number: int, error: BaseException) -> None:
        """Put back a task that was lost."""
        self._tries[number] += 1
        if isinstance(error, BrokenProcessPool | RuntimeError):
            self._pool.restart()
        if self._tries[number] >= TRIES:
            if isinstance(error, MemoryError | OSError) and not isinstance(error, Tg2hdlError):
                raise error
            raise WorkersError(
                f"task {number + 1} of {len(self._items)} lost its worker {TRIES} times",
                notes=(f"the last time: {type(error).__name__}: {error}"[:200],),
                hint="a worker may have too little memory: give it more, or use fewer workers",
            ) from error
        if not any(other == number for other, _ in self._running.values()):
            self._progress(f"task {number + 1} lost its worker: started again")
            self._waiting.append(number)

    def cancel(self) -> None:
        for future in self._running:
            with suppress(Exception):
                future.cancel()

"""Runs over a link: each is started once, by its number, and repeated after faults."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy.typing as npt

from tg2hdl_host import protocol
from tg2hdl_host.description import Description
from tg2hdl_host.errors import ConnectionFailedError
from tg2hdl_host.inputs import EncodedRun
from tg2hdl_host.link import Fault, Link
from tg2hdl_host.protocol import STALE_CODE, Request

__all__ = ["RUNS", "Runs"]

RUNS, _START = 0x20, 0x18
_LAST = 0xFFFFFFFF
_SLOWEST_CLOCK = 1e6
"""Clock of the slowest design (Hz), for timeouts."""


class Runs:
    """Starts runs and reads their results.

    The device refuses a start with another number than that of the next run, and does not expect one that it has
    started.  So a run whose answer was lost is not started again, and the run after a complete one is started without
    a question.

    Parameters
    ----------
    link : Link
    attempts : int
        How often something is tried before it is an error.
    """

    def __init__(self, link: Link, attempts: int) -> None:
        self._link, self._attempts = link, attempts
        self._next: int | None = None  # number of the next run, where it is known
        self._before = 0  # the last number that was known

    def perform(self, requests: Sequence[Request]) -> bytes:
        """Data of all replies; repeated as a whole where the link fails.

        Raises
        ------
        LinkError
            When a stage does not answer.
        RefusedError
            When the device refuses an access.
        """
        for attempt in range(1, self._attempts + 1):
            try:
                return b"".join(data for _, data in self._link.exchange(requests))
            except Fault as fault:
                if attempt == self._attempts:
                    raise fault.error(self._link.transport.name, attempt) from None
        raise AssertionError("attempts is positive")

    def go_on(self) -> bool:
        """Whether a device that was opened again has not been restarted since its last run; there must be one."""
        self._next = None
        runs = _number(self.perform(protocol.read(RUNS, 4, "link")))
        return self._before > 0 and not _is_less(runs, self._before)

    def begin_anew(self) -> None:
        """The device was restarted, and has its weights again."""
        self._next, self._before = None, 0

    def results(
        self, described: Description, batch: Sequence[EncodedRun], lost: Sequence[str]
    ) -> Iterator[list[npt.NDArray[Any]]]:
        """Outputs of run after run.

        Parameters
        ----------
        described : Description
        batch : sequence of EncodedRun
        lost : sequence of str
            Contents that a restart would have lost.

        Raises
        ------
        ConnectionFailedError
            When the device was restarted since the last run, and has lost something.
        LinkError
            When a stage does not answer.
        """
        done, attempts = 0, 0
        started: int | None = None  # number of the run that was asked for last and has no result yet
        while done < len(batch):
            runs, self._next = self._next, None
            is_assumed, resumes = runs is not None, False
            try:
                if runs is None:
                    runs = self._ask(lost)
                    resumes = described.keeps_state and started is not None and runs == (started + 1) & _LAST
                some = batch[done : done + (1 if described.keeps_state else len(batch))]
                first = started = (runs - 1) & _LAST if resumes else runs
                for outputs in self._collected(described, _requests(described, some, first, resumes)):
                    yield outputs
                    done, attempts, started = done + 1, 0, None
                self._next = self._before = (first + len(some)) & _LAST
            except Fault as fault:
                if fault.code == STALE_CODE:  # nothing was started
                    started = None
                attempts += not (is_assumed and fault.code == STALE_CODE)
                if attempts >= self._attempts:
                    raise fault.error(self._link.transport.name, attempts) from None

    def loop(
        self, described: Description, prepared: EncodedRun, controls: bytes, results: int, lost: Sequence[str]
    ) -> bytes:
        """Start the loop of a design once; the bytes of its results.

        Parameters
        ----------
        described : Description
        prepared : EncodedRun
            Variables and input of the first run.
        controls : bytes
            For the registers LIMIT, STOPS, STOP and STOP_HIGH.
        results : int
            Most results.
        lost : sequence of str
            As for `results`.

        Raises
        ------
        ConnectionFailedError
            As for `results`.
        LinkError
            When a stage does not answer.
        """
        loop = described.loop
        assert loop is not None, "asked for a design with one"
        name, size = loop.results, described.buffers[described.outputs[0]].size
        address = described.buffers[name].address
        seconds = results * (described.cycles + loop.gap) / _SLOWEST_CLOCK
        started: int | None = None
        self._next = None
        for attempt in range(1, self._attempts + 1):
            try:
                runs = self._ask(lost)
                requests: list[Request] = []
                if started is None or runs != (started + 1) & _LAST:
                    started = runs
                    requests = [
                        *prepared[0],
                        *prepared[1],
                        *protocol.write(loop.address + 4, controls, "run"),
                    ]
                    requests += protocol.write(loop.address, runs.to_bytes(4, "little"), "run")
                # A buffer is read when the runs have ended, a register at once.
                requests += protocol.read(address, size, f"read {name}")
                requests += protocol.read(loop.address + 20, 4, "run")
                *_, (_, count) = self._link.exchange(requests, extra=seconds)
                whole = _number(count) * size
                data = b"".join(
                    part for _, part in self._link.exchange(protocol.read(address, whole, f"read {name}"))
                )
                self._next = self._before = (started + 1) & _LAST
                return data[:whole]
            except Fault as fault:
                if fault.code == STALE_CODE:  # nothing was started
                    started = None
                if attempt == self._attempts:
                    raise fault.error(self._link.transport.name, attempt) from None
        raise AssertionError("attempts is positive")

    def _ask(self, lost: Sequence[str]) -> int:
        """Number of the next run; a device that was restarted is refused where that changes results."""
        ((_, data),) = self._link.exchange(protocol.read(RUNS, 4, "link"))
        runs = _number(data)
        if _is_less(runs, self._before) and lost:
            raise ConnectionFailedError(
                f"{self._link.transport.name} was restarted since the last run, and has lost {', '.join(lost)}",
                stage="run",
                hint="call device.reconnect(), which loads weights again; state begins anew",
            )
        self._before = runs
        return runs

    def _collected(
        self, described: Description, requests: Iterator[Request]
    ) -> Iterator[list[npt.NDArray[Any]]]:
        """Outputs of run after run, from the replies."""
        outputs = described.outputs
        sizes = {name: -(-described.buffers[name].size // 4) * 4 for name in outputs}
        order = list(sizes)
        data = bytearray()
        found: dict[str, npt.NDArray[Any]] = {}
        for request, reply in self._link.exchange(requests, extra=described.cycles / _SLOWEST_CLOCK):
            if not request.answer:
                continue
            data += reply
            name = order[len(found)]
            if len(data) == sizes[name]:
                found[name] = described.buffers[name].decode(bytes(data))
                data.clear()
            if len(found) == len(order):
                yield [found[n] for n in outputs]
                found = {}


def _requests(
    described: Description, batch: Sequence[EncodedRun], first: int, resumes: bool
) -> Iterator[Request]:
    """Write inputs, start and read results of runs from a number on; only read, where the run has begun."""
    names = list(dict.fromkeys(described.outputs))
    for number, (values, writes) in enumerate(batch):
        if not resumes:
            count = (first + number) & _LAST
            yield from values
            if described.packet_run:
                yield protocol.run(count, writes[0].data, described.buffers[names[0]].size)
                continue
            yield from writes
            yield from protocol.write(_START, count.to_bytes(4, "little"), "run")
        for name in names:
            buffer = described.buffers[name]
            yield from protocol.read(buffer.address, buffer.size, f"read {name}")


def _number(data: bytes) -> int:
    return int.from_bytes(data, "little")


def _is_less(runs: int, before: int) -> bool:
    """Whether a number of runs, which wraps around, is less than one before."""
    return (runs - before) & _LAST > _LAST // 2

"""Many requests in flight, answered in order."""

from __future__ import annotations

import secrets
import time
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Protocol

from tg2hdl_host.errors import HostError, LinkError, RefusedError
from tg2hdl_host.protocol import BUFFER_BYTES, SEQUENCE_CODE, Decoder, Reply, Request, synchronize

__all__ = ["Fault", "Link", "Transport"]

_MEANING = (
    "done",
    "nothing can be accessed so at this address",
    "a buffer is accessed from its first word on, word by word",
    "the design runs",
    "there is no result",
    "another run was started in between",
    "an input is written in part",
    "a variable is written with a value out of its range",
)


class Transport(Protocol):
    """A way to send and receive bytes."""

    name: str

    def write(self, data: bytes) -> None:
        """Send bytes."""

    def read(self, timeout: float) -> bytes:
        """Receive the bytes that have arrived; wait for the first one up to a time (s), and return nothing after it."""

    def close(self) -> None:
        """Release the device."""


class Fault(Exception):
    """An exchange that broke off; `stage` is that of the first request without an answer."""

    def __init__(self, what: str, stage: str, code: int = 0) -> None:
        super().__init__(what)
        self.what, self.stage, self.code = what, stage, code

    def error(self, name: str, attempts: int) -> HostError:
        """The error for the user, when repeating did not help.

        Parameters
        ----------
        name : str
            Of the device, as the user gave it.
        attempts : int
            Times that the request was sent.
        """
        if self.code:
            return RefusedError(
                f"{name} refuses: {_meaning(self.code)}",
                stage=self.stage,
                hint="another program may use the device; else reset it and connect again",
            )
        if name.startswith("udp:"):
            hint = "ping its address, check the network and its power, and end other programs that use the design"
            return LinkError(f"{name}: {self.what}, {attempts} times", stage=self.stage, hint=hint)
        return LinkError(
            f"{name}: {self.what}, {attempts} times",
            stage=self.stage,
            hint="check cable, power and baud rate, and that the board holds a design with this port; "
            "`tg2hdl loopback` tells which",
        )


class Link:
    """Numbers requests, sends them, and matches the replies.

    Parameters
    ----------
    transport : Transport
    timeout : float
        Seconds without progress after which an exchange counts as broken.

    Attributes
    ----------
    faults : int
        Exchanges that broke off.
    damaged : int
        Replies that came damaged.
    """

    def __init__(self, transport: Transport, timeout: float) -> None:
        self.transport, self.timeout = transport, timeout
        self.faults = 0
        self._decoder = Decoder()
        self._next: int | None = None

    def replace(self, transport: Transport) -> None:
        """Go on over another transport; nothing that the old one carried is waited for."""
        self.transport, self._next = transport, None
        self._decoder.drop()

    @property
    def damaged(self) -> int:
        """Replies that came damaged."""
        return self._decoder.damaged

    def exchange(self, requests: Iterable[Request], *, extra: float = 0.0) -> Iterator[tuple[Request, bytes]]:
        """Send requests and yield each with the data of its reply, in order.

        Parameters
        ----------
        extra : float
            Seconds that a request may take beyond the timeout.

        Raises
        ------
        Fault
            When the device does not answer, or refuses.
        """
        try:
            if self._next is None:
                self._next = secrets.randbits(16)
                # Marks before it end whatever came before.
                self.transport.write(b"\xc0\xc0")
                for _ in self._flow(iter([synchronize()]), self.timeout):
                    pass
            yield from self._flow(iter(requests), self.timeout + extra)
        except Fault:
            self.faults += 1
            self._next = None
            raise

    def _flow(self, requests: Iterator[Request], timeout: float) -> Iterator[tuple[Request, bytes]]:
        pending: deque[tuple[int, Request]] = deque()
        waiting = next(requests, None)
        room = BUFFER_BYTES
        deadline = time.monotonic() + timeout
        while waiting is not None or pending:
            outgoing = b""
            while waiting is not None and waiting.size <= room:
                assert self._next is not None
                outgoing += waiting.encode(self._next)
                pending.append((self._next, waiting))
                self._next = (self._next + 1) & 0xFFFF
                room -= waiting.size
                waiting = next(requests, None)
            if outgoing:
                self.transport.write(outgoing)
            left = deadline - time.monotonic()
            data = self.transport.read(max(0.0, left))
            for reply in self._decoder.feed(data):
                sequence, request = pending[0] if pending else (None, None)
                if request is None or reply.sequence != sequence:
                    if any(number == reply.sequence for number, _ in pending):
                        raise Fault("an answer is missing", pending[0][1].stage)
                    continue  # an answer to something before
                yield request, self._data(request, reply)
                pending.popleft()
                room += request.size
                deadline = time.monotonic() + timeout
            if pending and (not data or time.monotonic() >= deadline):
                raise Fault("no answer", pending[0][1].stage)

    def _data(self, request: Request, reply: Reply) -> bytes:
        if not request.answered_by(reply):
            raise Fault("an answer of the wrong form", request.stage)
        if reply.code == SEQUENCE_CODE:
            raise Fault("a request was lost", request.stage)
        if reply.code:
            raise Fault(_meaning(reply.code), request.stage, reply.code)
        return reply.data


def _meaning(code: int) -> str:
    return _MEANING[code] if code < len(_MEANING) else f"code {code:#x}"

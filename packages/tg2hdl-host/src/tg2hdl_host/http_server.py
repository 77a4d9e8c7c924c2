"""The open inference protocol over HTTP."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import BoundedSemaphore
from typing import Any
from urllib.parse import quote

from tg2hdl_host.errors import ConnectionFailedError
from tg2hdl_host.open_inference import ModelServer, RequestError

__all__ = ["InferenceServer"]

_HEADER = "Inference-Header-Content-Length"
"""Header with the bytes of the JSON, where elements come after it."""
_CONNECTIONS = 32
_PATIENCE = 30.0
"""Seconds that a client may take for a part of its request."""

_LINGER, _REST = 1.0, 1 << 20
"""Seconds, and bytes, that the rest of a refused request is waited for."""


class InferenceServer(ThreadingHTTPServer):
    """Serves a model by HTTP until `shutdown`; a context manager.

    Requests of web pages are refused: a page of another site in a browser of this machine could send some.

    Parameters
    ----------
    model : ModelServer
    host : str
        Address or name to listen at.
    port : int
        TCP port; any free one when 0.

    Attributes
    ----------
    url : str
        Of the model.

    Raises
    ------
    ConnectionFailedError
        When it cannot listen there.
    """

    daemon_threads, request_queue_size = True, _CONNECTIONS

    def __init__(self, model: ModelServer, host: str = "127.0.0.1", port: int = 0) -> None:
        self.model = model
        self._free = BoundedSemaphore(_CONNECTIONS)
        try:
            self.address_family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            super().__init__((str(address[0]), int(address[1])), _Handler)
        except (OSError, OverflowError) as error:
            raise ConnectionFailedError(
                f"cannot listen at {host} port {port}: {error}",
                stage="serve",
                hint="give another port, or 0 for a free one",
            ) from None
        name = f"[{address[0]}]" if ":" in str(address[0]) else address[0]
        self.url = f"http://{name}:{self.server_address[1]}/v2/models/{quote(model.name, safe='')}"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a connection in a thread of its own, up to a number of them.

        Parameters
        ----------
        request, client_address
            As of `socketserver.BaseServer`.
        """
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            request.sendall(
                b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            )
            super().shutdown_request(request)

    def shutdown_request(self, request: Any) -> None:
        """End a connection; the rest of a refused request is read, as its client would else lose the answer."""
        with suppress(OSError):
            request.shutdown(socket.SHUT_WR)
            request.settimeout(_LINGER)
            for _ in range(_REST // 4096):
                if not request.recv(4096):
                    break
        self.close_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer a connection.

        Parameters
        ----------
        request, client_address
            As of `socketserver.BaseServer`.
        """
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that disconnects is not an error of the server.

        Parameters
        ----------
        request, client_address
            As of `socketserver.BaseServer`.
        """


class _Handler(BaseHTTPRequestHandler):
    protocol_version, server_version, sys_version = "HTTP/1.1", "tg2hdl", ""
    timeout = _PATIENCE
    server: InferenceServer

    def do_GET(self) -> None:
        # The body of a GET, if any, is not read.
        self.close_connection |= "Transfer-Encoding" in self.headers or "Content-Length" in self.headers
        self._answer(lambda: (self.server.model.get(self._path), b""))

    def do_POST(self) -> None:
        self._answer(lambda: self.server.model.post(self._path, self._body(), self._number(_HEADER)))

    @property
    def _path(self) -> str:
        return self.path.partition("?")[0]

    def _body(self) -> bytes:
        """Contents of a request; the connection ends where they are not read."""
        self.close_connection = True
        size = self._number("Content-Length")
        if "Transfer-Encoding" in self.headers or size is None:
            raise RequestError(HTTPStatus.LENGTH_REQUIRED, "the request needs a Content-Length")
        if size > self.server.model.most_bytes:
            raise RequestError(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"the request has {size:,} bytes; this model takes at most {self.server.model.most_bytes:,}",
            )
        body = self.rfile.read(size)
        if len(body) < size:
            raise RequestError(HTTPStatus.BAD_REQUEST, "the request is shorter than its Content-Length")
        self.close_connection = self.headers.get("Connection", "").lower() == "close"
        return body

    def _number(self, name: str) -> int | None:
        """The number in a header; None without it."""
        text = self.headers.get(name)
        if text is None:
            return None
        if not (text.isascii() and text.isdigit() and len(text) < 16):
            raise RequestError(HTTPStatus.BAD_REQUEST, f"{name} is {text!r:.40}, not a number")
        return int(text)

    def _answer(self, action: Callable[[], tuple[dict[str, Any], bytes]]) -> None:
        try:
            if "Origin" in self.headers:
                self.close_connection = True
                raise RequestError(HTTPStatus.FORBIDDEN, "requests of web pages are not answered")
            self._send(HTTPStatus.OK, *action())
        except RequestError as error:
            self._send(error.status, {"error": error.message})
        except TimeoutError:
            self.close_connection = True
        except Exception as error:
            self._send(HTTPStatus.INTERNAL_SERVER_ERROR, {"error": f"{type(error).__name__}: {error}"})

    def _send(self, status: HTTPStatus, answer: dict[str, Any], binary: bytes = b"") -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/octet-stream" if binary else "application/json")
        self.send_header("Content-Length", str(len(body) + len(binary)))
        if binary:
            self.send_header(_HEADER, str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body + binary)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Errors of the HTTP itself, as JSON too."""
        self.close_connection = True
        status = HTTPStatus(code)
        self._send(status, {"error": message or status.phrase})

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

"""The open inference protocol, version 2, as KServe defines it: requests and answers as JSON, without HTTP.

With the extension for binary tensors, elements of inputs and outputs come after the JSON, in their order.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from importlib.metadata import version
from threading import Lock
from typing import Any
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt

from tg2hdl_host.errors import ConnectionFailedError, HostError, UnfitInputError
from tg2hdl_host.session import InferenceSession, TensorInfo

__all__ = ["ModelServer", "RequestError"]

_VERSION = "1"
_NAMES = {
    np.dtype(f"{kind}{bits}").name: f"{name}{bits}"
    for kind, name in (("int", "INT"), ("uint", "UINT"))
    for bits in (8, 16, 32, 64)
}
_NAMES |= {"bool": "BOOL", "float16": "FP16", "float32": "FP32", "float64": "FP64", "bfloat16": "BF16"}
_MOST_TEXT = 32
"""Bytes of an element in a request, at most."""
_MOST_REST = 1 << 16


class RequestError(Exception):
    """A request that cannot be answered, with its HTTP status."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


class ModelServer:
    """A session as a model of the protocol.

    A device that is gone is opened again at the next request.

    Parameters
    ----------
    session : InferenceSession
    name : str, optional
        Of the model; that of the design unless given.

    Attributes
    ----------
    name : str
    most_bytes : int
        Bytes of the largest request.

    Raises
    ------
    UnfitInputError
        For a model with a type that the protocol lacks.
    """

    def __init__(self, session: InferenceSession, name: str | None = None) -> None:
        self._session, self._lock = session, Lock()
        self.name = name or session.device.description.name
        self._inputs = {tensor.name: tensor for tensor in session.get_inputs()}
        self._outputs = {tensor.name: tensor for tensor in session.get_outputs()}
        self._is_gone = False
        for tensor in (*self._inputs.values(), *self._outputs.values()):
            if tensor.dtype.name not in _NAMES:
                raise UnfitInputError(
                    f"the open inference protocol has no type {tensor.dtype}, which {tensor.name!r} has",
                    stage="serve",
                    hint="use tg2hdl_host.connect, or a model with another type there",
                )
        elements = sum(int(np.prod(tensor.shape)) for tensor in self._inputs.values())
        self.most_bytes = _MOST_REST + _MOST_TEXT * elements

    def get(self, path: str) -> dict[str, Any]:
        """Answer a GET request for a path without its query.

        Raises
        ------
        RequestError
            For an unknown path or model, and where the device is not ready.
        """
        match [unquote(part) for part in path.strip("/").split("/")]:
            case ["v2"]:
                return {
                    "name": "tg2hdl",
                    "version": version("tg2hdl-host"),
                    "extensions": ["binary_tensor_data"],
                }
            case ["v2", "health", "live"]:
                return {"live": True}
            case ["v2", "health", "ready"]:
                self._require_device()
                return {"ready": True}
            case ["v2", "models", *rest]:
                match self._of_model(rest):
                    case []:
                        return self._metadata()
                    case ["ready"]:
                        self._require_device()
                        return {"name": self.name, "ready": True}
        raise RequestError(HTTPStatus.NOT_FOUND, f"nothing is at {path!r:.200}; see /v2/models/{self.name}")

    def post(self, path: str, body: bytes, header: int | None = None) -> tuple[dict[str, Any], bytes]:
        """Answer a POST request: its JSON, and the elements of binary outputs.

        Parameters
        ----------
        path : str
        body : bytes
        header : int, optional
            Bytes of the JSON at the beginning of the body; the whole body unless given.

        Raises
        ------
        RequestError
            For an unknown path or model, a request that does not fit, and a device that does not answer.
        """
        parts = [unquote(part) for part in path.strip("/").split("/")]
        if parts[:2] != ["v2", "models"] or self._of_model(parts[2:]) != ["infer"]:
            raise RequestError(
                HTTPStatus.NOT_FOUND, f"nothing is at {path!r:.200}; post to /v2/models/{self.name}/infer"
            )
        if header is not None and not 0 <= header <= len(body):
            raise _bad(f"the JSON has {header} bytes, and the request {len(body)}")
        return self._infer(_document(body[:header]), b"" if header is None else body[header:])

    def _of_model(self, parts: list[str]) -> list[str]:
        """The parts of a path after the model and its version."""
        match parts:
            case [name, "versions", number, *rest] if name == self.name and number == _VERSION:
                return rest
            case [name, "versions", number, *_] if name == self.name:
                raise RequestError(HTTPStatus.NOT_FOUND, f"the version is {_VERSION}, not {number!r:.40}")
            case [name, *rest] if name == self.name:
                return rest
        given = f"{parts[0]!r:.200}" if parts else "no name"
        raise RequestError(HTTPStatus.NOT_FOUND, f"the model is {self.name!r}, not {given}")

    def _metadata(self) -> dict[str, Any]:
        def listed(tensors: Mapping[str, TensorInfo]) -> list[dict[str, Any]]:
            return [
                {"name": t.name, "datatype": _NAMES[t.dtype.name], "shape": t.shape} for t in tensors.values()
            ]

        sides = {"inputs": listed(self._inputs), "outputs": listed(self._outputs)}
        return {"name": self.name, "versions": [_VERSION], "platform": "tg2hdl", **sides}

    def _require_device(self) -> None:
        """Open the device again if it is gone."""
        with self._lock:
            if not self._is_gone:
                return
            try:
                goes_on = self._session.device.reconnect(0)
            except HostError as error:
                raise RequestError(HTTPStatus.SERVICE_UNAVAILABLE, error.message) from error
            self._is_gone = False
            if not goes_on and self._session.device.description.keeps_state:
                raise RequestError(
                    HTTPStatus.SERVICE_UNAVAILABLE,
                    "the device was restarted, and its state begins anew; send the request again",
                )

    def _infer(self, request: dict[str, Any], rest: bytes) -> tuple[dict[str, Any], bytes]:
        number = request.get("id")
        if number is not None and not isinstance(number, str):
            raise _bad(f"the id {number!r:.40} is not a text")
        feed = {}
        for entry in _entries(request, "inputs"):
            tensor = self._inputs.get(entry["name"])
            if tensor is None:
                raise _bad(f"{entry['name']!r:.200} is not an input; inputs are {_listed(self._inputs)}")
            if tensor.name in feed:
                raise _bad(f"{tensor.name!r} is given twice")
            size = _parameters(entry).get("binary_data_size")
            _check_form(entry, tensor)
            if size is None:
                feed[tensor.name] = _array(entry, tensor)
            else:
                feed[tensor.name], rest = _binary(size, rest, tensor)
        if rest:
            raise _bad(f"{len(rest)} bytes after the JSON belong to no input")
        is_binary = _parameters(request).get("binary_data_output") is True
        asked = _entries(request, "outputs") or [{"name": name} for name in self._outputs]
        wanted = {}
        for entry in asked:
            name = entry["name"]
            if name not in self._outputs:
                raise _bad(f"{name!r:.200} is not an output; outputs are {_listed(self._outputs)}")
            wanted[name] = _parameters(entry).get("binary_data", is_binary) is True
        self._require_device()
        try:
            arrays = self._session.run(list(wanted), feed)
        except UnfitInputError as error:
            raise _bad(error.message + (f"; {error.hint}" if error.hint else "")) from error
        except HostError as error:
            self._is_gone = isinstance(error, ConnectionFailedError)
            raise RequestError(HTTPStatus.SERVICE_UNAVAILABLE, f"{error.message} ({error.stage})") from error
        outputs, binary = [], b""
        for (name, in_binary), array in zip(wanted.items(), arrays, strict=True):
            tensor = self._outputs[name]
            form = {"name": name, "datatype": _NAMES[tensor.dtype.name], "shape": tensor.shape}
            if in_binary:
                data = np.ascontiguousarray(array).astype(tensor.dtype.newbyteorder("<")).tobytes()
                outputs.append(form | {"parameters": {"binary_data_size": len(data)}})
                binary += data
            else:
                outputs.append(form | {"data": _elements(tensor, array)})
        answer = {"model_name": self.name, "model_version": _VERSION, "outputs": outputs}
        return (answer if number is None else answer | {"id": number}), binary


def _bad(message: str) -> RequestError:
    return RequestError(HTTPStatus.BAD_REQUEST, message)


def _listed(tensors: Mapping[str, TensorInfo]) -> str:
    return ", ".join(tensors) or "none"


def _document(body: bytes) -> dict[str, Any]:
    def refuse(text: str) -> None:
        raise ValueError(f"{text} is not JSON")

    try:
        found = json.loads(body, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise _bad(f"the request is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise _bad("the request is not an object of JSON")
    return found


def _entries(request: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    """Tensors of a request."""
    found = request.get(key, [])
    if not isinstance(found, list):
        raise _bad(f"{key!r} is not a list")
    for entry in found:
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
            raise _bad(f"an element of {key!r} has no name")
    return found


def _parameters(entry: Mapping[str, Any]) -> dict[str, Any]:
    found = entry.get("parameters", {})
    if not isinstance(found, dict):
        raise _bad("'parameters' is not an object of JSON")
    return found


def _check_form(entry: Mapping[str, Any], tensor: TensorInfo) -> None:
    name, datatype = tensor.name, _NAMES[tensor.dtype.name]
    if entry.get("datatype") != datatype:
        raise _bad(f"the datatype of {name!r} is {datatype}, not {entry.get('datatype')!r:.40}")
    if entry.get("shape") != tensor.shape:
        raise _bad(f"the shape of {name!r} is {tensor.shape}, not {entry.get('shape')!r:.100}")


def _binary(size: Any, rest: bytes, tensor: TensorInfo) -> tuple[npt.NDArray[Any], bytes]:
    """Elements of an input after the JSON, little-endian, and the bytes that remain."""
    wanted = int(np.prod(tensor.shape)) * tensor.dtype.itemsize
    if size != wanted or len(rest) < wanted:
        raise _bad(
            f"{tensor.name!r} has {wanted} bytes, not {min(len(rest), wanted) if size == wanted else size!r:.40}"
        )
    array = np.frombuffer(rest[:wanted], tensor.dtype.newbyteorder("<")).astype(tensor.dtype)
    if tensor.dtype.kind == "b" and any(byte > 1 for byte in rest[:wanted]):
        raise _bad(f"{tensor.name!r} has a byte that is neither 0 nor 1")
    return array.reshape(tensor.shape), rest[wanted:]


def _array(entry: Mapping[str, Any], tensor: TensorInfo) -> npt.NDArray[Any]:
    """Elements of an input as JSON, nested or flat."""
    name, datatype = tensor.name, _NAMES[tensor.dtype.name]
    data, size = entry.get("data"), int(np.prod(tensor.shape))
    if not isinstance(data, list):
        raise _bad(f"{name!r} has no list of data")
    try:
        array = np.array(data)
    except (ValueError, RecursionError) as error:
        raise _bad(f"the data of {name!r} are ragged") from error
    if array.size != size:
        raise _bad(f"{name!r} has {array.size} elements in place of {size}")
    if array.ndim > 1 and list(array.shape) != tensor.shape:
        raise _bad(f"the data of {name!r} are nested as {list(array.shape)} in place of {tensor.shape}")
    is_flag, is_whole = tensor.dtype.kind == "b", tensor.dtype.kind in "iu"
    wanted = "true or false" if is_flag else "numbers"
    if is_whole:
        limits = np.iinfo(tensor.dtype)
        wanted = f"whole numbers from {limits.min} to {limits.max}"
    kinds = "b" if is_flag else "iu" if is_whole else "iuf"
    with np.errstate(over="ignore"):
        found = array.astype(tensor.dtype) if not size or array.dtype.kind in kinds else None
    if found is None or (is_whole and not np.array_equal(found, array)):
        raise _bad(f"the data of {name!r} are not all {wanted}")
    if not (is_flag or is_whole) and not np.all(np.isfinite(found.astype(np.float64))):
        raise _bad(f"{name!r} has elements outside the range of {datatype}")
    return found.reshape(tensor.shape)


def _elements(tensor: TensorInfo, array: npt.NDArray[Any]) -> list[Any]:
    """Elements of an output as JSON."""
    if tensor.dtype.kind not in "biu":
        array = array.astype(np.float64)
        if not np.all(np.isfinite(array)):
            raise RequestError(
                HTTPStatus.INTERNAL_SERVER_ERROR,
                f"{tensor.name!r} has NaN or infinite elements, which JSON cannot express; ask for binary data",
            )
    found: list[Any] = array.reshape(-1).tolist()
    return found

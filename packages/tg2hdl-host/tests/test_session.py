"""Sessions as those of ONNX Runtime, and the open inference protocol by real requests."""

import http.client
import json
import socket
from threading import Thread

import numpy as np
import pytest

from fake_device import DisturbedLine, FakeDevice
from tg2hdl_host import ConnectionFailedError, Device, InferenceSession, UnfitInputError
from tg2hdl_host.http_server import InferenceServer
from tg2hdl_host.open_inference import ModelServer

X = np.arange(8, dtype=np.int8)[None]
ROW = [28, 56, 84]
FILES = {"id": "1122334455667788", "design": "fake"}
STRUCTURE = {"dict": [["sums", {"output": 0, "shape": [3, 1]}], ["none", {"constant": None}]]}
BORDER = {"scale": [0.5], "offset": 0.0, "zero": 0, "low": -100, "high": 100, "dtype": "float32"}
QUANTIZED = {
    "borders": {"inputs": [BORDER], "outputs": [BORDER | {"scale": [2.0], "shape": [3, 1]}]},
    "codes": False,
}


def session(board=None, files=None, **options):
    return InferenceSession(
        Device(DisturbedLine(board or FakeDevice()), timeout=5, files=files and FILES | files, **options)
    )


def forms(tensors):
    return [(t.name, t.shape, t.type) for t in tensors]


def test_a_session_is_used_as_one_of_onnx_runtime():
    with session(FakeDevice(variable=True), {"structure": STRUCTURE, "inputs": ["gone", "x"]}) as opened:
        assert forms(opened.get_inputs()) == [("x", [1, 8], "tensor(int8)"), ("n", [], "tensor(int64)")]
        assert forms(opened.get_outputs()) == [("sums", [3, 1], "tensor(int32)")]
        (found,) = opened.run(None, {"x": X, "n": np.array(2)})
        assert (found.dtype, found.tolist()) == (np.int32, [[30], [60], [90]])
        twice = opened.run(["sums", "sums"], {"x": X, "n": 0, "gone": np.zeros(3)})
        assert [a[:, 0].tolist() for a in twice] == [ROW, ROW]
        with pytest.raises(UnfitInputError, match="'y' is not an output of the design") as caught:
            opened.run(["y"], {"x": X, "n": 0})
        assert caught.value.hint == "outputs are sums"
        with pytest.raises(UnfitInputError, match="variable 'n' has no value"):
            opened.run(None, {"x": X})


def test_a_session_of_a_quantized_file_has_its_types():
    opened = session(files=QUANTIZED)
    assert forms(opened.get_inputs()) == [("x", [1, 8], "tensor(float)")]
    assert forms(opened.get_outputs()) == [("y", [3, 1], "tensor(float)")]
    (found,) = opened.run(None, {"x": np.full((1, 8), 1.5, np.float32)})
    assert (found.dtype, found.tolist()) == (np.float32, [[48.0], [96.0], [144.0]])
    codes = session(files=QUANTIZED | {"codes": True})
    assert forms(codes.get_outputs()) == [("y", [3], "tensor(int32)")]
    assert codes.run(None, {"x": X})[0].tolist() == ROW


class Client:
    """Requests to a server in a thread."""

    def __init__(self, server):
        self.server = server
        self.connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=20)

    def ask(self, path, body=None, method=None, **headers):
        method = method or ("GET" if body is None else "POST")
        self.connection.request(method, path, body, headers)
        answer = self.connection.getresponse()
        assert answer.headers["Content-Type"] == "application/json"
        return answer.status, json.loads(answer.read())

    def binary(self, request, data=b"", header=None):
        """The JSON of an answer, and what comes after it."""
        text = json.dumps(request).encode()
        headers = {"Inference-Header-Content-Length": str(len(text) if header is None else header)}
        self.connection.request("POST", "/v2/models/fake/infer", text + data, headers)
        answer = self.connection.getresponse()
        found, size = answer.read(), answer.headers.get("Inference-Header-Content-Length")
        size = len(found) if size is None else int(size)
        return json.loads(found[:size]), found[size:]

    def infer(self, data=None, **changes):
        tensor = {"name": "x", "shape": [1, 8], "datatype": "INT8", "data": data or X[0].tolist()}
        return self.ask("/v2/models/fake/infer", json.dumps({"inputs": [tensor]} | changes))


@pytest.fixture
def serve():
    """A function that serves a session, and makes a client."""
    clients = []

    def start(opened):
        server = InferenceServer(ModelServer(opened))
        clients.append(Client(server))
        Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        return clients[-1]

    yield start
    for client in clients:
        client.connection.close()
        client.server.shutdown()
        client.server.server_close()


def test_the_model_is_described_and_run(serve):
    client = serve(session())
    assert client.server.url == f"http://127.0.0.1:{client.server.server_address[1]}/v2/models/fake"
    status, about = client.ask("/v2")
    assert (status, about["name"], about["extensions"]) == (200, "tg2hdl", ["binary_tensor_data"])
    assert client.ask("/v2/health/live") == (200, {"live": True})
    assert client.ask("/v2/health/ready") == (200, {"ready": True})
    described = {
        "name": "fake",
        "versions": ["1"],
        "platform": "tg2hdl",
        "inputs": [{"name": "x", "datatype": "INT8", "shape": [1, 8]}],
        "outputs": [{"name": "y", "datatype": "INT32", "shape": [3]}],
    }
    assert client.ask("/v2/models/fake") == client.ask("/v2/models/fake/versions/1?x=1") == (200, described)
    assert client.ask("/v2/models/fake/versions/1/ready") == (200, {"name": "fake", "ready": True})
    output = {"name": "y", "datatype": "INT32", "shape": [3], "data": ROW}
    expected = {"model_name": "fake", "model_version": "1", "outputs": [output]}
    assert client.infer() == (200, expected)
    assert client.infer([X[0].tolist()], id="7", outputs=[{"name": "y"}]) == (200, expected | {"id": "7"})


def test_values_of_a_quantized_file(serve):
    client = serve(session(files=QUANTIZED))
    tensor = {"name": "x", "shape": [1, 8], "datatype": "FP32", "data": [1.5] * 7 + [2]}
    status, answer = client.infer(inputs=[tensor])
    output = {"name": "y", "datatype": "FP32", "shape": [3, 1], "data": [50.0, 100.0, 150.0]}
    assert (status, answer["outputs"]) == (200, [output])
    for value in ("1e999", "NaN", "1e300"):
        body = json.dumps({"inputs": [tensor]}).replace("1.5", value, 1)
        status, answer = client.ask("/v2/models/fake/infer", body)
        assert status == 400
        assert ("outside the range of FP32" if value != "NaN" else "NaN is not JSON") in answer["error"]


def entry(**changes):
    return {"name": "x", "shape": [1, 8], "datatype": "INT8", "data": X[0].tolist()} | changes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"inputs": []}, "no array for 'x'; inputs are x"),
        ({"inputs": {}}, "'inputs' is not a list"),
        ({"inputs": [3]}, "an element of 'inputs' has no name"),
        ({"inputs": [entry(name="z")]}, "'z' is not an input; inputs are x"),
        ({"inputs": [entry(), entry()]}, "'x' is given twice"),
        ({"inputs": [entry(datatype="FP32")]}, "the datatype of 'x' is INT8, not 'FP32'"),
        ({"inputs": [entry(shape=[8])]}, "the shape of 'x' is [1, 8], not [8]"),
        ({"inputs": [entry(data=[0] * 7)]}, "'x' has 7 elements in place of 8"),
        ({"inputs": [entry(data=[[0] * 4] * 2)]}, "the data of 'x' are nested as [2, 4] in place of [1, 8]"),
        ({"inputs": [entry(data=[[0], [0, 1]])]}, "the data of 'x' are ragged"),
        ({"inputs": [entry(data="AAAA")]}, "'x' has no list of data"),
        ({"inputs": [entry(data=[0.5] * 8)]}, "the data of 'x' are not all whole numbers from -128 to 127"),
        ({"inputs": [entry(data=[True] * 8)]}, "the data of 'x' are not all whole numbers from -128 to 127"),
        ({"inputs": [entry(data=["1"] * 8)]}, "the data of 'x' are not all whole numbers from -128 to 127"),
        (
            {"inputs": [entry(data=[10**30] * 8)]},
            "the data of 'x' are not all whole numbers from -128 to 127",
        ),
        ({"inputs": [entry(data=[128] * 8)]}, "the data of 'x' are not all whole numbers from -128 to 127"),
        ({"outputs": [{"name": "z"}]}, "'z' is not an output; outputs are y"),
        ({"id": 7}, "the id 7 is not a text"),
    ],
)
def test_a_request_that_does_not_fit_is_told_why(serve, changes, message):
    assert serve(session()).infer(**changes) == (400, {"error": message})


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("/", None, 404, "nothing is at '/'; see /v2/models/fake"),
        ("/v2/models/other", None, 404, "the model is 'fake', not 'other'"),
        ("/v2/models", None, 404, "the model is 'fake', not no name"),
        ("/v2/models/fake/versions/2", None, 404, "the version is 1, not '2'"),
        (
            "/v2/models/fake/ready",
            b"{}",
            404,
            "nothing is at '/v2/models/fake/ready'; post to /v2/models/fake/infer",
        ),
        ("/v2/models/fake/infer", b"[]", 400, "the request is not an object of JSON"),
        ("/v2/models/fake/infer", b"{" * 30_000, 400, "the request is not JSON: "),
        ("/v2/models/fake/infer", b"[" * 60_000, 400, "the request is not JSON: "),
        ("/v2/models/fake/infer", b"\xff", 400, "the request is not JSON: "),
        (
            "/v2/models/fake/infer",
            bytes(70_000),
            413,
            "the request has 70,000 bytes; this model takes at most 65,792",
        ),
    ],
)
def test_other_requests(serve, path, body, status, message):
    found, answer = serve(session()).ask(path, body)
    assert found == status
    assert answer["error"].startswith(message)


def test_requests_of_web_pages_and_of_other_methods(serve):
    client = serve(session())
    refused = (403, {"error": "requests of web pages are not answered"})
    assert client.ask("/v2", Origin="http://evil.example") == refused
    assert client.ask("/v2", method="DELETE") == (501, {"error": "Unsupported method ('DELETE')"})
    status, answer = client.ask("/v2/models/fake/infer", iter([b"{}"]))  # chunked
    assert (status, answer) == (411, {"error": "the request needs a Content-Length"})
    assert client.infer()[0] == 200  # on a new connection


def test_many_connections_are_refused_with_a_status(serve):
    client = serve(session())
    address = client.server.server_address
    waiting = [socket.create_connection(address) for _ in range(32)]
    with socket.create_connection(address) as further:
        assert further.recv(100).startswith(b"HTTP/1.1 503 ")
    for connection in waiting:
        connection.close()


def test_a_device_that_is_gone_is_opened_again(serve):
    board, attempts = FakeDevice(state=True), []

    def reopen():
        attempts.append(1)
        if len(attempts) == 1:
            raise ConnectionFailedError("cannot open it", stage="link")
        return DisturbedLine(board)

    opened = session(board, reopen=reopen)
    client = serve(opened)
    assert client.infer()[1]["outputs"][0]["data"] == ROW
    line, board = opened.device._link.transport, FakeDevice(state=True)

    def gone(data):
        raise ConnectionFailedError("fake is gone", stage="link")

    line.write = gone
    assert client.infer() == (503, {"error": "fake is gone (link)"})
    assert client.ask("/v2/health/ready") == (503, {"error": "cannot open it"})
    again = "the device was restarted, and its state begins anew; send the request again"
    assert client.infer() == (503, {"error": again})
    assert client.infer()[1]["outputs"][0]["data"] == ROW
    assert client.ask("/v2/models/fake/ready") == (200, {"name": "fake", "ready": True})


def test_a_result_that_json_cannot_express(serve):
    client = serve(session(files=QUANTIZED))
    client.server.model._session.run = lambda names, feed: [np.array([[1], [np.nan], [2]], np.float32)]
    status, answer = client.infer(inputs=[entry(datatype="FP32")])
    message = "'y' has NaN or infinite elements, which JSON cannot express; ask for binary data"
    assert (status, answer) == (500, {"error": message})
    asked = {
        "inputs": [entry(datatype="FP32")],
        "outputs": [{"name": "y", "parameters": {"binary_data": True}}],
    }
    answer, data = client.binary(asked)
    assert answer["outputs"][0]["parameters"] == {"binary_data_size": 12}
    assert np.array_equal(np.frombuffer(data, "<f4"), [1, np.nan, 2], equal_nan=True)


def test_binary_elements_come_after_the_json(serve):
    client = serve(session())
    tensor = entry(parameters={"binary_data_size": 8})
    del tensor["data"]
    asked = {"inputs": [tensor], "parameters": {"binary_data_output": True}}
    answer, data = client.binary(asked, X.tobytes())
    form = {"name": "y", "datatype": "INT32", "shape": [3], "parameters": {"binary_data_size": 12}}
    assert answer == {"model_name": "fake", "model_version": "1", "outputs": [form]}
    assert np.frombuffer(data, "<i4").tolist() == ROW
    answer, data = client.binary({"inputs": [tensor]}, X.tobytes())
    assert (answer["outputs"][0]["data"], data) == (ROW, b"")


@pytest.mark.parametrize(
    ("size", "data", "header", "message"),
    [
        (8, bytes(7), None, "'x' has 8 bytes, not 7"),
        (7, bytes(8), None, "'x' has 8 bytes, not 7"),
        ("8", bytes(8), None, "'x' has 8 bytes, not '8'"),
        (8, bytes(9), None, "1 bytes after the JSON belong to no input"),
        (8, bytes(8), 9999, "the JSON has 9999 bytes, and the request 111"),
        (8, bytes(8), "many", "Inference-Header-Content-Length is 'many', not a number"),
    ],
)
def test_binary_elements_that_do_not_fit(serve, size, data, header, message):
    client = serve(session())
    tensor = entry(parameters={"binary_data_size": size})
    del tensor["data"]
    assert client.binary({"inputs": [tensor]}, data, header) == ({"error": message}, b"")
    wrong = entry(parameters=[])
    assert client.infer(inputs=[wrong]) == (400, {"error": "'parameters' is not an object of JSON"})


def test_a_port_in_use(serve):
    port = serve(session()).server.server_address[1]
    with pytest.raises(ConnectionFailedError) as caught:
        InferenceServer(ModelServer(session()), port=port)
    assert str(caught.value) == (
        f"cannot listen at 127.0.0.1 port {port}: [Errno 98] Address already in use\n"
        "  at: serve\n  hint: give another port, or 0 for a free one"
    )


def test_the_url_of_a_model_with_any_name(serve):
    client = serve(session())
    client.server.model.name = "net/é 2"
    with InferenceServer(client.server.model) as server:
        assert server.url.endswith("/v2/models/net%2F%C3%A9%202")
    assert client.ask("/v2/models/net%2F%C3%A9%202/ready") == (200, {"name": "net/é 2", "ready": True})


def test_a_type_that_the_protocol_lacks():
    opened = session()
    tensor = opened.get_outputs()[0]
    opened.get_outputs = lambda: [tensor._replace(dtype=np.dtype("complex64"))]
    with pytest.raises(UnfitInputError) as caught:
        ModelServer(opened)
    assert str(caught.value) == (
        "the open inference protocol has no type complex64, which 'y' has\n"
        "  at: serve\n"
        "  hint: use tg2hdl_host.connect, or a model with another type there"
    )

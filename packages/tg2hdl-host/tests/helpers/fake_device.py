"""The hardware's side of the protocol in Python, written from its description, and a line that disturbs bytes."""

from __future__ import annotations

import json
import random
import zlib

import numpy as np

RESULT = 1 << 1


class FakeDevice:
    """Holds ``y = sum(x) * [1, 2, 3]`` of eight bytes; `state` adds all results before, `variable` adds ``n``."""

    def __init__(
        self,
        *,
        identity: int = 0x1122334455667788,
        state: bool = False,
        weights: bool = False,
        packet_run: bool = False,
        variable: bool = False,
    ) -> None:
        buffers = [["x", "input", "int8", [1, 8], 0x80, "w"]]
        buffers += [["w", "weight", "int32", [3], 0x90, "w"]] if weights else []
        buffers += [["y", "output", "int32", [3], 0xA0, "r"]]
        text = json.dumps(
            {
                "design": "fake",
                "id": f"{identity:016x}",
                "kernels": 1,
                "cycles": 100,
                "buffers": buffers,
                "outputs": ["y"],
                "state": state,
                "variables": [["n", 0, 9]] if variable else [],
                "packet_run": packet_run,
            }
        ).encode()
        self.memory = bytearray(0x100) + text + bytes(-len(text) % 4)
        header = [0x48324754, 1, identity & 0xFFFFFFFF, identity >> 32, 0x100, len(text)]
        self.memory[: 4 * len(header)] = np.array(header, "<u4").tobytes()
        self.memory[0x90:0x9C] = np.array([1, 2, 3], "<u4").tobytes()
        self.state, self.total = state, 0
        self.expected, self.kept, self.started, self.requests = 0, bytearray(), 0, 0
        self.silent_from = -1  # address from which on reads are not answered

    def word(self, address: int) -> int:
        return int.from_bytes(self.memory[address : address + 4], "little")

    def put(self, address: int, value: int) -> None:
        self.memory[address : address + 4] = (value & 0xFFFFFFFF).to_bytes(4, "little")

    def feed(self, data: bytes) -> bytes:
        answer = b""
        for byte in data:
            if byte != 0xC0:
                self.kept.append(byte)
                continue
            body = bytes(self.kept).replace(b"\xdb\xdc", b"\xc0").replace(b"\xdb\xdd", b"\xdb")
            self.kept.clear()
            if len(body) >= 12 and zlib.crc32(body[:-4]).to_bytes(4, "little") == body[-4:]:
                answer += self.execute(body[:-4])
        return answer

    def execute(self, body: bytes) -> bytes:
        self.requests += 1
        sequence, operation, count = int.from_bytes(body[:2], "little"), body[2], body[3]
        address, data, code = int.from_bytes(body[4:8], "little"), b"", 0
        if operation == 3:
            self.expected = sequence + 1 & 0xFFFF
        elif sequence != self.expected:
            code = 0x80
        else:
            self.expected = self.expected + 1 & 0xFFFF
            if operation == 2:
                if 0 <= self.silent_from <= address:
                    return b""
                data = bytes(self.memory[address : address + 4 * count])
            elif operation == 4:
                self.memory[0x80:0x88] = body[8:]
                code = self.start(address)
                data = bytes(self.memory[0xA0:0xAC]) if not code else bytes(12)
            elif address == 0x18:
                code = self.start(int.from_bytes(body[8:12], "little"))
            else:
                self.memory[address : address + 4 * count] = body[8:]
        reply = body[:2] + bytes((operation | 0x80,)) + data + bytes((code,))
        reply += zlib.crc32(reply).to_bytes(4, "little")
        return reply.replace(b"\xdb", b"\xdb\xdd").replace(b"\xc0", b"\xdb\xdc") + b"\xc0"

    def start(self, number: int) -> int:
        if number != self.word(0x20):
            return 5
        self.put(0x20, number + 1)
        x = int(np.frombuffer(bytes(self.memory[0x80:0x88]), np.int8).astype(np.int64).sum())
        x += self.word(0x40)
        self.total = self.total + x if self.state else x
        for n in range(3):
            self.put(0xA0 + 4 * n, self.total * self.word(0x90 + 4 * n))
        self.put(0x1C, RESULT)
        return 0


class DisturbedLine:
    """A transport that cuts, doubles, exchanges, changes and delays bytes with a probability."""

    def __init__(self, device: FakeDevice, probability: float = 0.0, seed: int = 0) -> None:
        self.name, self.device, self.probability = "fake", device, probability
        self.random, self.faults = random.Random(seed), 0
        self.waiting, self.late = b"", b""

    def disturbed(self, data: bytes) -> bytes:
        if self.random.random() >= self.probability or not data:
            return data
        self.faults += 1
        a, b = sorted(self.random.randrange(len(data) + 1) for _ in range(2))
        kind = self.random.randrange(6)
        if kind == 0:
            return data[:a] + data[b:]
        if kind == 1:
            return data[:b] + data[a:]
        if kind == 2:
            return data[b:] + data[a:b] + data[:a]
        if kind == 3:
            return data[:a] + bytes(self.random.randrange(256) for _ in range(b - a)) + data[b:]
        if kind == 4:
            return data[:a] + bytes((self.random.choice((0xC0, 0xDB, 0, 255)),)) + data[a:]
        self.late += data[a:]
        return data[:a]

    def write(self, data: bytes) -> None:
        late, self.late = self.late, b""
        self.waiting += self.disturbed(self.device.feed(late + self.disturbed(data)))

    def read(self, timeout: float) -> bytes:
        size = self.random.randrange(1, 40)
        data, self.waiting = self.waiting[:size], self.waiting[size:]
        return data

    def close(self) -> None:
        pass


class DisturbedNetwork:
    """A transport whose datagrams are lost, doubled, delayed, reordered and cut with a probability."""

    def __init__(self, device: FakeDevice, probability: float = 0.0, seed: int = 0) -> None:
        self.name, self.device, self.probability = "network", device, probability
        self.random, self.faults = random.Random(seed), 0
        self.late: list[bytes] = []
        self.waiting: list[bytes] = []

    def carried(self, data: bytes) -> list[bytes]:
        if self.random.random() >= self.probability:
            return [data]
        self.faults += 1
        kind = self.random.randrange(4)
        if kind == 0:
            return []
        if kind == 1:
            return [data, data]
        if kind == 2:
            self.late.append(data)
            return []
        return [data[: self.random.randrange(len(data) + 1)]]

    def write(self, data: bytes) -> None:
        for part in self.carried(data):
            for one in (part, *self.late[:1]):
                self.waiting += [reply + b"\xc0" for reply in self.device.feed(one).split(b"\xc0")[:-1]]
            del self.late[:1]

    def read(self, timeout: float) -> bytes:
        while self.waiting:
            if self.random.random() < self.probability:
                self.random.shuffle(self.waiting)
            if found := b"".join(self.carried(self.waiting.pop(0))):
                return found
        return b""

    def close(self) -> None:
        pass

"""The protocol of host and hardware: a command is one array of words, and so is its reply.

    command   header: see `HEADER`; then instructions of 4 words, and rows of the external memory
    reply     trap, program counter, cycles (2 words), 1 where the command was refused, 3 zeros; then the rows read

A command writes its instructions, writes its rows, runs for at most `limit` cycles unless that is 0, and reads rows;
a part with the count 0 is left out.  Nothing is done where a count or an address is beyond a memory.
"""

from __future__ import annotations

import hashlib
import json

from tg2hdl_ir import DType
from tg2hdl_lower import HostBuffer, HostShape, Layout
from tg2hdl_tpu.config import Config
from tg2hdl_tpu.page import isa_facts

__all__ = ["HEADER", "INSTRUCTION_WORDS", "LIMIT", "PAYLOAD", "REPLY", "host_shape"]

HEADER = ("program", "instructions", "write", "rows_written", "limit", "read", "rows_read", "spare")
"""Words of a command: an address and a count of the program memory, of the rows that are written and of those read."""
REPLY = 8
INSTRUCTION_WORDS = 4
PAYLOAD = 128
"""Words after the header."""
LIMIT = (1 << 24) - 1
"""Most cycles of a run."""


def host_shape(config: Config, payload: int = PAYLOAD) -> HostShape:
    """The interface of a processor that a host port serves.

    Parameters
    ----------
    config : Config
        The processor.
    payload : int
        Words of 32 bits in a command and in a reply after the header.
    """

    def buffer(name: str, role: str, words: int, *, writes: bool) -> HostBuffer:
        layout, reads = Layout.linear(words), not writes
        return HostBuffer(name, words, 32, writes, reads, 1, layout, DType.UINT32, name, role, (words,))

    facts = json.dumps([isa_facts(config), HEADER, REPLY, payload], sort_keys=True)
    return HostShape(
        control=True,
        kernels=1,
        variables=(),
        buffers=(
            buffer("command", "input", len(HEADER) + payload, writes=True),
            buffer("reply", "output", REPLY + payload, writes=False),
        ),
        order=(0,),
        inputs=("command",),
        outputs=("reply",),
        program="tensor_processor",
        identity=hashlib.sha256(facts.encode()).hexdigest()[:16],
        cycles=LIMIT,
        keeps_state=True,
    )

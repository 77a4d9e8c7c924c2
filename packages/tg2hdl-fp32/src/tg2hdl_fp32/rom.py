"""Constant tables in block RAM, with the registers of the blocks."""

__all__ = ["Rom", "lookup"]

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Cat, ClockSignal, Const, Instance, Module, Signal, Value
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from .errors import FloatParameterError
from .pipeline import Pipeline

_BLOCK_WIDTH = 36
_BLOCK_DEPTH = 512
#: Tables this small are better in LUTs than in a block.
_LUT_DEPTH = 32


class Rom(wiring.Component):
    """A read-only table.

    Parameters
    ----------
    words : sequence of int
        Contents; the length is a power of two.
    width : int
        Bits of a word.
    latency : int
        0 for an asynchronous read, 1 for a synchronous one, 2 with the output register.
    target : str
        ``ecp5`` instantiates DP16KD blocks of 512 x 36 bits when the latency is not 0.
    domain : str
        Clock domain.

    Members
    -------
    address : In(unsigned)
        Index of the word.
    en : In(1)
        Clock enable of the registers.
    data : Out(width)
        The word, `latency` enabled cycles later.
    """

    # A dry run of a datapath drops its tables; Amaranth would warn.
    _MustUse__silence = True

    def __init__(
        self,
        words: Sequence[int],
        width: int,
        *,
        latency: int = 0,
        target: str = "generic",
        domain: str = "sync",
    ) -> None:
        depth = len(words)
        if depth < 2 or depth & (depth - 1):
            raise FloatParameterError(
                f"a Rom of {depth} words is not possible; use a power of two, at least 2"
            )
        if latency not in (0, 1, 2):
            raise FloatParameterError(f"a Rom of latency {latency} is not possible; use 0, 1 or 2")
        self.words = tuple(words)
        self.width = width
        self.latency = latency
        self.target = target
        self.domain = domain
        super().__init__({"address": In(range(depth)), "en": In(1), "data": Out(width)})

    def elaborate(self, platform: Any) -> Module:
        """Build the table."""
        m = Module()
        if self.target == "ecp5" and self.latency and _LUT_DEPTH < len(self.words) <= _BLOCK_DEPTH:
            self._blocks(m)
            return m
        deep = self.target == "ecp5_model" and self.latency == 2 and len(self.words) > _LUT_DEPTH
        # A block RAM with narrow ports has an output register.
        attributes = {"ram_style": "block", "narrow_ports": "1"} if deep else {}
        table = memory.Memory(shape=self.width, depth=len(self.words), init=self.words, attrs=attributes)
        m.submodules.table = table
        read = table.read_port(domain=self.domain if self.latency else "comb")
        m.d.comb += read.addr.eq(self.address)
        word: Value = read.data
        if self.latency:
            m.d.comb += read.en.eq(self.en)
        if self.latency == 2:
            held = Signal(self.width, reset_less=True)
            with m.If(self.en):
                m.d[self.domain] += held.eq(word)
            word = held
        m.d.comb += self.data.eq(word)
        return m

    def _blocks(self, m: Module) -> None:
        columns = []
        for low in range(0, self.width, _BLOCK_WIDTH):
            column = Signal(_BLOCK_WIDTH, name=f"column{low}")
            mask = (1 << _BLOCK_WIDTH) - 1
            m.submodules[f"block{low}"] = self._block([word >> low & mask for word in self.words], column)
            columns.append(column)
        m.d.comb += self.data.eq(Cat(*columns))

    def _block(self, words: Sequence[int], column: Signal) -> Instance:
        # Both ports read 18 bits of the same row: port A the even half-word, port B the odd one.
        halves = [half for word in words for half in (word & 0x3FFFF, word >> 18)]
        halves += [0] * (2 * _BLOCK_DEPTH - len(halves))
        parameters: dict[str, Any] = {}
        for k in range(64):
            # Sixteen 18-bit words to a parameter, each in a field of 20 bits.
            parameters[f"p_INITVAL_{k:02X}"] = Const(
                sum(half << 20 * i for i, half in enumerate(halves[16 * k : 16 * k + 16])), 320
            )
        mode = "OUTREG" if self.latency == 2 else "NOREG"
        for port in "AB":
            parameters |= {
                f"p_DATA_WIDTH_{port}": 18,
                f"p_REGMODE_{port}": mode,
                f"p_CSDECODE_{port}": "0b000",
            }
            parameters |= {f"p_WRITEMODE_{port}": "NORMAL", f"p_CLK{port}MUX": f"CLK{port}"}
        parameters |= {"p_RESETMODE": "SYNC", "p_ASYNC_RESET_RELEASE": "SYNC", "p_GSR": "AUTO"}
        ports: dict[str, Any] = {}
        for number, port in enumerate("AB"):
            row = Cat(Const(0b11, 2), Const(0, 2), Const(number, 1), self.address)
            row = Cat(row, Const(0, 14 - len(row)))
            ports |= {
                f"i_CLK{port}": ClockSignal(self.domain),
                f"i_CE{port}": self.en,
                f"i_OCE{port}": self.en,
            }
            ports |= {f"i_{name}{port}": Const(0, 1) for name in ("WE", "RST")}
            ports |= {f"i_CS{port}{k}": Const(0, 1) for k in range(3)}
            ports |= {f"i_AD{port}{k}": row[k] for k in range(14)}
            ports |= {f"i_DI{port}{k}": Const(0, 1) for k in range(18)}
            ports |= {f"o_DO{port}{k}": column[18 * number + k] for k in range(18)}
        return Instance("DP16KD", **parameters, **ports)


def lookup(
    p: Pipeline, name: str, address: Value, words: Sequence[int], width: int, *, target: str = "generic"
) -> None:
    """Set ``p[name]`` to the word at `address` of the present stage; adds the two cuts of a block.

    Parameters
    ----------
    p : Pipeline
    name : str
    address : Value
        Of the present stage.
    words : sequence of int
        Contents; their number is a power of two.
    width : int
        Bits of a word.
    target : str, default "generic"
        FPGA family; it decides the delay of a read.
    """
    before = p.stage
    p.cut()
    # A delay of a stage of ``fast``, so that it gets the output register, without which a read takes 5 ns.
    p.delay(4.0 if target == "generic" else 3.2)
    p.cut()
    rom = Rom(words, width, latency=p.stage - before, target=target, domain=p.domain)
    p.add(f"{name}_rom", rom)
    p.drive(rom.address.eq(address))
    p.drive(rom.en.eq(p.enable))
    p[name] = p.adopt(rom.data)

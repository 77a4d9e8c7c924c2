"""The matrix unit of floats: dot products in FP32, to which the second operand is added."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out

from tg2hdl_fp32 import Add, Mul
from tg2hdl_tpu.config import Config
from tg2hdl_tpu.hardware.bfloat import BfloatMul, to_bfloat
from tg2hdl_tpu.hardware.flights import any_of
from tg2hdl_tpu.hardware.floats import core_result, delayed
from tg2hdl_tpu.hardware.pre import MatrixUnit
from tg2hdl_tpu.isa import PRODUCTS

__all__ = ["FloatMatrixUnit"]


class FloatMatrixUnit(MatrixUnit):
    """Dot products of floats with a tile of weights that stays, each plus a word of the second operand.

    Products are rounded to FP32 and added as a tree of neighbours, then to the second operand; all to nearest even.
    It takes a row in every cycle. Words are never beyond the format, so `overflow` is 0 and `weights`, `whole`,
    `trapped` and `used` decide nothing; `result`, of integers, is 0.

    Members
    -------
    b, adds, mask : In
        With the operands of the vector unit: the second operand, whether it is added, and the lanes that are
        written, as many as there are columns or fewer unless all lanes of `b` are the same.
    relu : In(1)
        Negative sums become 0.
    sums : Out
        Repeated over all lanes, in the cycle before they are written.
    """

    def __init__(self, config: Config) -> None:
        more = {"b": In(config.row_bits), "adds": In(1), "mask": In(config.lanes), "relu": In(1)}
        super().__init__(config, more | {"sums": Out(config.row_bits)})

    def elaborate(self, platform: Any) -> Module:
        """Build weights, products and sums."""
        m = Module()
        config, stages = self.config, self.config.float_stages
        rows, columns, bits = config.rows, config.columns, config.matrix_bits
        factors, tile_row, tile = (self._elements(m, size) for size in (rows, columns, rows * columns))
        sums = []
        for j in range(columns):
            products = []
            for i in range(rows):
                weight = Signal(bits, name=f"w_{i}_{j}")
                with m.If(self.load[i]):
                    m.d.sync += weight.eq(Mux(self.load_whole, tile[i * columns + j], tile_row[j]))
                products.append(self._product(m, factors[i], weight))
            while len(products) > 1:
                pairs = zip(products[::2], products[1::2], strict=True)
                products = [core_result(m, Add, list(pair), stages) for pair in pairs]
            sums.append(products[0])

        # Ages: of products, of the second operand, and of its sum with them.
        known, at = (
            config.check + stages * rows.bit_length(),
            1 + config.read_registers + config.pre_registers,
        )
        late = config.latencies[PRODUCTS] - 1 - config.sums_age - stages
        words = [self.b[32 * n : 32 * n + 32] & self.mask[n].replicate(32) for n in range(config.lanes)]
        relu = self.relu
        for n in range(config.latencies[PRODUCTS] - 1 - at):
            later = Signal(name=f"relu_{n}", reset_less=True)
            m.d.sync += later.eq(relu)
            relu = later
        results = []
        for j, total in enumerate(sums):
            word = any_of(words[j::columns])
            # -0 changes nothing that is added to it.
            second = delayed(m, Cat(word[:31], word[31] | ~self.adds), config.sums_age - at)
            found = core_result(m, Add, [delayed(m, total, config.sums_age - known), second], stages)
            found = delayed(m, found, late)
            results.append(Mux(relu & found[31], Const(0, 32), found))
        m.d.comb += self.sums.eq(Cat(results * (config.lanes // columns)))
        return m

    def _elements(self, m: Module, size: int) -> list[Value]:
        """Elements of the segment of `size` elements, when the row is checked."""
        config = self.config
        registers = config.check - 1 - config.read_registers
        words = [self.row[n : n + 32] for n in range(0, config.row_bits, 32)]
        bits = config.matrix_bits
        halves = [Cat(Const(0, 32 - bits), self.row[n : n + bits]) for n in range(0, config.row_bits, bits)]
        # Where a tile does not fit a row, `tile` is not an instruction.
        chosen, packed = (
            self._segment(items, size) if size <= len(items) else Const(0, 32 * size)
            for items in (words, halves)
        )
        elements: list[Any] = [chosen[32 * n : 32 * n + 32] for n in range(size)]
        if bits < 32:
            elements = [Mux(self.bytes, packed[32 * n : 32 * n + 32], e) for n, e in enumerate(elements)]
        elements = [delayed(m, e, min(registers, 1)) for e in elements]
        elements = [to_bfloat(e) if bits == 16 else e for e in elements]
        for _ in range(registers - 1):
            later = [Signal(bits, reset_less=True) for _ in elements]
            m.d.sync += [r.eq(e) for r, e in zip(later, elements, strict=True)]
            elements = list(later)
        return elements

    def _product(self, m: Module, factor: Value, weight: Value) -> Value:
        stages = self.config.float_stages
        if self.config.matrix_bits == 32:
            return core_result(m, Mul, [factor, weight], stages)
        multiplier = BfloatMul(stages)
        m.submodules += multiplier
        m.d.comb += [multiplier.a.eq(factor), multiplier.b.eq(weight)]
        return multiplier.result

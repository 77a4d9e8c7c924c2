"""The units before the vector unit: the matrix unit and the crossbar."""

from __future__ import annotations

from functools import reduce
from operator import add, or_
from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tg2hdl_tpu.config import Config

__all__ = ["Crossbar", "MatrixUnit"]


def _lanes(row: Any, width: int = 32) -> list[Value]:
    return [row[i : i + width] for i in range(0, len(row), width)]


def _parts(word: Value) -> list[Value]:
    """Four bits each, with one in common."""
    return [word[n : n + 4] for n in range(0, len(word) - 1, 3)]


def _registered(m: Module, value: Any, name: str) -> Signal:
    register = Signal(Value.cast(value).shape(), name=name, reset_less=True)
    m.d.sync += register.eq(value)
    return register


def _outer(config: Config) -> dict[str, Any]:
    products = 2 * config.matrix_bits * config.rows * config.columns
    return {"row_b": In(config.row_bits), "segment_b": In(7), "outer": In(1), "products": Out(products)}


class MatrixUnit(wiring.Component):
    """Dot products of integers with a tile of weights that stays.

    With three `Config.pre_registers` the factors are registered, with two the products; with four all have registers
    that multipliers of an FPGA have too, with five the sums are registered.

    Members
    -------
    row : In
        A row of the scratchpad; segment `segment` is used, with `bytes` as packed elements.
    group : In
        Which `rows` x `columns` elements of the row have this segment among them.
    weights, whole : In
        The row holds weights: a tile row or the whole tile.
    used : In(1)
        Else the result is 0; in the cycle of the products.
    load, load_whole, trapped : In
        Take the factors as weights, of some rows of the tile or of the whole one; but not if `trapped`.
    overflow : Out(1)
        A factor is beyond the format.
    result : Out
        The sums of products, repeated over all lanes.
    row_b, segment_b, outer : In
        With `Config.output_stationary`: in the cycle of the products (with four registers, the cycle before), `outer`
        takes a packed segment of this row instead of each row of the tile.
    products : Out
        With `Config.output_stationary`.
    """

    def __init__(self, config: Config, more: dict[str, Any] | None = None) -> None:
        self.config = config
        super().__init__(
            {
                "row": In(config.row_bits),
                "segment": In(7),
                "group": In(7),
                "bytes": In(1),
                "used": In(1),
                "load": In(config.rows),
                "load_whole": In(1),
                "trapped": In(1),
                "weights": In(1),
                "whole": In(1),
                "overflow": Out(1),
                "result": Out(config.row_bits),
            }
            | (_outer(config) if config.output_stationary else {})
            | (more or {})
        )

    def _segment(self, items: list[Value], size: int, at: Any = None) -> Value:
        parts = [Cat(items[i : i + size]) for i in range(0, len(items), size)]
        at = self.segment if at is None else at
        return parts[0] if len(parts) == 1 else Array(parts)[at[: (len(parts) - 1).bit_length()]]

    def _tile(self, items: list[Value]) -> Value:
        """As many elements as a tile has, of the group; zeros after those of a smaller row."""
        size = self.config.rows * self.config.columns
        if size <= len(items):
            return self._segment(items, size, self.group)
        return Cat(items, Const(0, self.config.matrix_bits * (size - len(items))))

    def elaborate(self, platform: Any) -> Module:
        """Build products and sums."""
        m = Module()
        config = self.config
        rows, columns, bits = config.rows, config.columns, config.matrix_bits
        words = _lanes(self.row)
        packed = _lanes(self.row, bits)
        low = [word[:bits] for word in words]
        # Parts of a word that repeat their neighbour.
        same = [[part.all() | ~part.any() for part in _parts(word[bits - 1 :])] for word in words]
        size = rows * columns
        of = (self.segment, self.bytes, self.weights, self.whole)
        if config.pre_registers >= 4:
            same = [
                [_registered(m, s, f"same_{n}_{k}") for k, s in enumerate(of)] for n, of in enumerate(same)
            ]
            of = tuple(
                _registered(m, v, name)
                for v, name in zip(of, ("at_", "bytes_", "weights_", "whole_"), strict=True)
            )
        segment, in_bytes, weights, whole = of
        fits: list[Any] = [Cat(of).all() for of in same]
        # Where a tile does not fit a row, `tile` is not an instruction.
        whole_fits: Any = self._segment(fits, size, segment).all() if size <= len(fits) else 1
        # A tile has only its used elements, so that only a part of it is chosen from again.
        tile_words = Mux(self.bytes, self._tile(packed), self._tile(low))
        mine = self._segment(fits, rows, segment).all()
        of_tile = Mux(whole, whole_fits, self._segment(fits, columns, segment).all())
        overflow = ~in_bytes & ~Mux(weights, of_tile, mine)
        if config.pre_registers >= 3:
            tile_words = _registered(m, tile_words, "tile_")
            overflow = _registered(m, overflow, "overflow_")
        if config.pre_registers == 3:
            segment = _registered(m, segment, "at_")
        factors, tile_row = (self._segment(_lanes(tile_words, bits), n, segment) for n in (rows, columns))
        m.d.comb += self.overflow.eq(overflow)
        used = self.used
        if config.pre_registers >= 4:
            factors, tile_row, tile_words, used = (
                _registered(m, v, n)
                for v, n in (
                    (factors, "factors__"),
                    (tile_row, "row__"),
                    (tile_words, "tile__"),
                    (used, "used_"),
                )
            )
        second: Any = None
        if config.output_stationary:
            second = self._segment(_lanes(self.row_b, bits), columns, self.segment_b)
            second = _registered(m, second, "second_") if config.pre_registers >= 3 else Value.cast(second)
        tile: list[list[Any]] = []
        for i in range(rows):
            tile.append([])
            for j in range(columns):
                at = i * columns + j
                new = Mux(
                    self.load_whole,
                    tile_words[bits * at : bits * at + bits],
                    tile_row[bits * j : bits * j + bits],
                ).as_signed()
                weight = Signal(signed(bits), name=f"w_{i}_{j}")
                following = Mux(self.load[i] & ~self.trapped, new, weight)
                m.d.sync += weight.eq(following)
                # A copy without an enable becomes the register of a multiplier.
                copy = config.pre_registers >= 4
                other: Any = following if copy else weight
                if second is not None:
                    other = Mux(self.outer, second[bits * j : bits * j + bits].as_signed(), other)
                tile[i].append(_registered(m, other, f"v_{i}_{j}") if copy else other)
        sums = []
        for j in range(columns):
            products = []
            for i in range(rows):
                product: Any = Signal(signed(2 * bits), name=f"p_{i}_{j}", reset_less=True)
                value = factors[bits * i : bits * i + bits].as_signed() * tile[i][j]
                value = value if config.pre_registers >= 4 else Mux(used, value, 0)
                if config.pre_registers >= 2:
                    m.d.sync += product.eq(value)
                else:
                    m.d.comb += product.eq(value)
                products.append(product)
                if second is not None:
                    at = 2 * bits * (i * columns + j)
                    m.d.comb += self.products[at : at + 2 * bits].eq(product)
            while len(products) > 1:
                products = [add(*products[i : i + 2]) for i in range(0, len(products), 2)]
            total = Signal(signed(32), name=f"s_{j}", reset_less=True)
            domain = m.d.sync if config.pre_registers == 5 else m.d.comb
            domain += total.eq(Mux(used, products[0], 0) if config.pre_registers >= 4 else products[0])
            sums.append(total)
        m.d.comb += self.result.eq(Cat(sums * (config.lanes // columns)))
        return m


class Crossbar(wiring.Component):
    """Each lane of the result is any lane of the row; with three `Config.pre_registers` or more a cycle later.

    With `Config.crossings` it makes a row in parts, those of the last lanes first.

    Members
    -------
    row, indices : In
        The row, and a row of indices.
    mode, k : In
        As in the instruction.
    part : In
        The part that is made.
    used, passes : In(1)
        The row is permuted; or it passes.
    checked : In
        The row of indices, as it is known first.
    overflow : Out(1)
        One of `checked` is outside the row.
    low, high : Out
        The chosen words, if they are in this half of the row, and else 0.
    straight : Out
        With parts: a row that passes, and else 0.  Without them, it passes through the crossbar.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        bits = config.row_bits
        super().__init__(
            {
                "row": In(bits),
                "indices": In(bits),
                "checked": In(bits),
                "mode": In(2),
                "k": In(6),
                "part": In(max(1, (config.crossings - 1).bit_length())),
                "used": In(1),
                "passes": In(1),
                "overflow": Out(1),
                "low": Out(bits // config.crossings),
                "high": Out(bits // config.crossings),
                "straight": Out(bits if config.crossings > 1 else 0),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Build indices and multiplexers."""
        m = Module()
        config, levels, lanes = self.config, self.config.levels, self.config.lanes
        late = config.pre_registers >= 3
        row = _registered(m, self.row, "row_") if late else self.row
        words, indices = _lanes(row), _lanes(self.indices)
        count = lanes // config.crossings
        used, half = self.used, levels // 2
        if config.crossings > 1:
            passes = _registered(m, self.passes, "passes_") if late else self.passes
            m.d.comb += self.straight.eq(Mux(passes, row, 0))
        else:
            used = used | self.passes
        low: list[Value] = []
        high: list[Value] = []
        for i in range(count):
            # The lane, and the index that it has, of each part.
            lane = Cat(Const(i, count.bit_length() - 1), ~self.part)[:levels]
            given = Array(reversed(indices[i::count]))[self.part] if config.crossings > 1 else indices[i]
            index = Signal(levels, name=f"index_{i}")
            with m.Switch(self.mode):
                with m.Case(0):
                    m.d.comb += index.eq(self.k + lane)
                with m.Case(1):
                    m.d.comb += index.eq(self.k)
                with m.Case(2):
                    m.d.comb += index.eq(Cat(lane[half:], lane[:half]) if levels % 2 == 0 else 0)
                with m.Default():
                    m.d.comb += index.eq(given)
            # Which of two neighbours, and for each two whether it is one of them.
            odd: Any = index[0]
            these: Any = Cat(used & (index[1:] == n) for n in range(lanes // 2))
            if late:
                odd, these = _registered(m, odd, f"odd_{i}"), _registered(m, these, f"these_{i}")
            low.append(_of_half(words[: lanes // 2], odd, these[: lanes // 4]))
            high.append(_of_half(words[lanes // 2 :], odd, these[lanes // 4 :]))
        beyond = [bits.any() for index in _lanes(self.checked) for bits in _lanes(index[levels:], 4)]
        if self.config.pre_registers >= 4:
            beyond = [_registered(m, any_, f"beyond_{n}") for n, any_ in enumerate(beyond)]
        overflow = Cat(beyond).any()
        m.d.comb += self.overflow.eq(_registered(m, overflow, "overflow_") if late else overflow)
        m.d.comb += [self.low.eq(Cat(low)), self.high.eq(Cat(high))]
        return m


def _of_half(words: list[Value], odd: Any, these: Any) -> Value:
    """One of some words, or 0: a LUT for each two, and an OR."""
    pairs = zip(words[::2], words[1::2], these, strict=True)
    return reduce(or_, [Mux(odd, b, a) & on.replicate(32) for a, b, on in pairs])

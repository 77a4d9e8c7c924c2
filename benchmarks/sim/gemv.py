"""A one-lane int8 matrix-vector product, as a compiler would make it: counters, synchronous memories, a pipeline."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out


class Gemv(wiring.Component):
    """y = W x with one multiplier and one multiplication per cycle.

    Members
    -------
    start, done : one cycle each
    x_write : write port of x
    y_read : read port of y, one cycle of latency
    """

    def __init__(self, rows: int = 128, columns: int = 784):
        self.rows, self.columns = rows, columns
        self.w = Memory(shape=signed(8), depth=rows * columns, init=[])
        self.x = Memory(shape=signed(8), depth=columns, init=[])
        self.y = Memory(shape=signed(32), depth=rows, init=[])
        write = {"data": Out(signed(8)), "en": Out(1)}
        super().__init__(
            {
                "start": In(1),
                "done": Out(1),
                "w_write": In(wiring.Signature({"addr": Out(range(rows * columns)), **write})),
                "x_write": In(wiring.Signature({"addr": Out(range(columns)), **write})),
                "y_read": In(wiring.Signature({"addr": Out(range(rows)), "data": In(signed(32))})),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.w, m.submodules.x, m.submodules.y = self.w, self.x, self.y
        for memory, port in ((self.w, self.w_write), (self.x, self.x_write)):
            write = memory.write_port()
            m.d.comb += [write.addr.eq(port.addr), write.data.eq(port.data), write.en.eq(port.en)]
        y_read = self.y.read_port()
        m.d.comb += [y_read.addr.eq(self.y_read.addr), self.y_read.data.eq(y_read.data)]
        w_read, x_read, y_write = self.w.read_port(), self.x.read_port(), self.y.write_port()

        running = Signal()
        address, row, column = (
            Signal(range(self.w.depth)),
            Signal(range(self.rows)),
            Signal(range(self.columns)),
        )
        last = column == self.columns - 1
        with m.If(self.start):
            m.d.sync += [running.eq(1), address.eq(0), row.eq(0), column.eq(0)]
        with m.Elif(running):
            m.d.sync += [address.eq(address + 1), column.eq(Mux(last, 0, column + 1))]
            with m.If(last):
                m.d.sync += [row.eq(row + 1), running.eq(row != self.rows - 1)]
        m.d.comb += [w_read.addr.eq(address), x_read.addr.eq(column)]

        # Stage 1: operands are read.  Stage 2: the product is in a register.
        stage = {"valid": running, "first": column == 0, "last": last, "row": row}
        for number in (1, 2):
            following = {name: Signal.like(value, name=f"{name}{number}") for name, value in stage.items()}
            m.d.sync += [following[name].eq(value) for name, value in stage.items()]
            stage = following
        product, total, following_total = Signal(signed(16)), Signal(signed(32)), Signal(signed(32))
        m.d.sync += product.eq(w_read.data * x_read.data)
        m.d.comb += following_total.eq(Mux(stage["first"], 0, total) + product)
        finished = stage["valid"] & stage["last"]
        with m.If(stage["valid"]):
            m.d.sync += total.eq(following_total)
        m.d.comb += [y_write.addr.eq(stage["row"]), y_write.data.eq(following_total), y_write.en.eq(finished)]
        m.d.sync += self.done.eq(finished & (stage["row"] == self.rows - 1))
        return m

"""Verifier: the rules that every kernel keeps, checked after each pass."""

from __future__ import annotations

from typing import NoReturn

from tg2hdl_ir.analysis.address_range import Extreme, affine_extremes
from tg2hdl_ir.analysis.affine import Affine, AffineAnalysis
from tg2hdl_ir.analysis.ranges import RangeAnalysis
from tg2hdl_ir.dtype import DType
from tg2hdl_ir.errors import IRVerificationError
from tg2hdl_ir.nodes import (
    IRBufLoad,
    IRBufStore,
    IRConst,
    IRCounter,
    IROp,
    IRRegLoad,
    IRRegStore,
    IRStatement,
    IRValue,
    IRVariable,
    KernelIR,
    LoopIR,
    operands,
)
from tg2hdl_ir.ops import result_types
from tg2hdl_ir.plugins.registry import registry
from tg2hdl_ir.printer import describe

__all__ = ["verify"]


def verify(kernel: KernelIR) -> KernelIR:
    """Check a kernel and return it.

    Types follow the rules of the ops; axes, buffers, registers and variables are unique; a counter is used inside its
    loop and a load after it executed, in its loop or an inner one; literals fit their types; addresses that follow from
    counters and variables lie inside their buffers, with every value that a variable may have.

    Raises
    ------
    IRVerificationError
        On the first rule that is broken, naming kernel, loop and statement.
    UnsupportedError
        On an op that no plugin registers.
    """
    _Verifier(kernel).run()
    return kernel


class _Verifier:
    def __init__(self, kernel: KernelIR) -> None:
        self.kernel = kernel
        self.buffers = {b.idx: b for b in kernel.buffers}
        self.registers = {r.idx: r for r in kernel.registers}
        self.variables = {v.name: v for v in kernel.variables}
        self.home: dict[IRValue, LoopIR] = {}
        self.path: list[LoopIR] = []
        self.axes: set[int] = set()
        self.statements: set[IRStatement] = set()
        self.affine = AffineAnalysis(RangeAnalysis())

    def fail(
        self, message: str, at: IRValue | IRStatement | None = None, hint: str | None = None
    ) -> NoReturn:
        where = [f"kernel {self.kernel.name}"]
        where += [f"loop i{loop.counter.axis}" for loop in self.path if loop.counter is not None]
        if at is not None:
            where.append(describe(at))
        raise IRVerificationError(message, where=", ".join(where), hint=hint)

    def run(self) -> None:
        self.tables()
        root = self.kernel.loop_tree
        if root.counter is not None or root.axis_type is not None or root.depth != -1 or root.bound != 1:
            self.fail("the root of the loop tree must have no counter and no axis type, depth -1 and bound 1")
        self.loop(root)

    def tables(self) -> None:
        kernel = self.kernel
        for what, names in (
            ("buffer", [str(b.idx) for b in kernel.buffers]),
            ("register", [str(r.idx) for r in kernel.registers]),
            ("variable", [v.name for v in kernel.variables]),
        ):
            for name in names:
                if names.count(name) > 1:
                    self.fail(f"{what} {name} is declared twice")
        for b in kernel.buffers:
            if b.depth < 1:
                self.fail(f"buffer {b.idx} has depth {b.depth}, expected at least 1")
        for r in kernel.registers:
            if r.size < 1:
                self.fail(f"register {r.idx} has size {r.size}, expected at least 1")
        for v in kernel.variables:
            if not v.dtype.is_int or v.low > v.high:
                self.fail(f"variable {v.name} must be an integer with low <= high")
            if v.low < v.dtype.min_value or v.high > v.dtype.max_value:
                self.fail(f"variable {v.name} of {v.low} to {v.high} does not fit {v.dtype}")

    # Loops

    def loop(self, loop: LoopIR) -> None:
        self.path.append(loop)
        first = [n for n, item in enumerate(loop.items) if isinstance(item, LoopIR)]
        body = loop.items[first[0] : first[-1] + 1] if first else loop.items
        if loop.body != body or (not first and loop.epilogue):
            self.fail("the body of a loop must begin with its first and end with its last inner loop")
        for item in loop.items:
            if isinstance(item, LoopIR):
                self.head(item)
                self.loop(item)
            else:
                self.statement(item)
        self.path.pop()

    def head(self, loop: LoopIR) -> None:
        counter = loop.counter
        if counter is None:
            self.fail("an inner loop has no counter")
        name = f"loop i{counter.axis}"
        if counter.axis in self.axes:
            self.fail(f"axis {counter.axis} belongs to two loops")
        self.axes.add(counter.axis)
        depth = len(self.path) - 1
        if loop.depth != depth or counter.depth != depth:
            self.fail(
                f"{name} stands at depth {depth}, but says {loop.depth} and its counter {counter.depth}"
            )
        if loop.axis_type not in ("loop", "reduce", "rows"):
            self.fail(f"{name} has axis type {loop.axis_type!r}, expected 'loop', 'reduce' or 'rows'")
        if loop.axis_type == "rows" and (
            depth or len(self.path[0].loops) > 1 or not isinstance(loop.bound, int)
        ):
            self.fail(f"{name} is over rows, but not the only outermost loop with a constant bound")
        if loop.bound is not counter.bound and loop.bound != counter.bound:
            self.fail(f"{name} and its counter have different bounds")
        if not counter.dtype.is_int:
            self.fail(f"{name} counts in {counter.dtype}, expected an integer type")
        if isinstance(loop.bound, int):
            if loop.bound < 0:
                self.fail(f"{name} has bound {loop.bound}, expected at least 0")
            if loop.bound - 1 > counter.dtype.max_value:
                self.fail(f"{name} with bound {loop.bound} does not fit its counter type {counter.dtype}")
        else:
            self.value(loop.bound)
            if not loop.bound.dtype.is_int or not _scalar(loop.bound):
                self.fail(f"the bound of {name} must be an integer of constants and variables", loop.bound)
        self.home[counter] = loop

    # Statements

    def statement(self, statement: IRStatement) -> None:
        if statement in self.statements:
            self.fail("a statement stands in two places", statement)
        self.statements.add(statement)
        for value in operands(statement):
            self.value(value)
        if isinstance(statement, IRBufLoad | IRBufStore):
            self.access(statement)
        else:
            self.register(statement)
        if isinstance(statement, IRBufLoad | IRRegLoad):
            self.home[statement] = self.path[-1]
        elif statement.gate is not None and not statement.gate.dtype.is_bool:
            self.fail(f"the gate has type {statement.gate.dtype}, expected bool", statement)

    def access(self, access: IRBufLoad | IRBufStore) -> None:
        if access.buf_idx not in self.buffers:
            self.fail(f"buffer {access.buf_idx} is not declared", access)
        meta = self.buffers[access.buf_idx]
        if access.dtype != meta.dtype:
            self.fail(f"an access of type {access.dtype} to buffer {meta.idx} of {meta.dtype}", access)
        if not access.addr.dtype.is_int:
            self.fail(f"the address has type {access.addr.dtype}, expected an integer", access)
        if isinstance(access, IRBufStore):
            if access.value.dtype != meta.dtype:
                self.fail(
                    f"a value of type {access.value.dtype} is stored to buffer {meta.idx} of {meta.dtype}",
                    access,
                )
        else:
            if access.gate is not None and not access.gate.dtype.is_bool:
                self.fail(f"the gate has type {access.gate.dtype}, expected bool", access)
            if access.alt is not None and access.gate is None:
                self.fail("a load without gate has an alternative", access)
            if access.alt is not None and access.alt.dtype != meta.dtype:
                self.fail(f"the alternative has type {access.alt.dtype}, expected {meta.dtype}", access)
        if access.gate is None:
            found = self.outside(access.addr, meta.depth)
            if found is not None:
                addresses, hint = found
                text = f"addresses {addresses} of buffer {access.buf_idx}, whose depth is {meta.depth}"
                self.fail(text, access, hint)

    def outside(self, address: IRValue, depth: int) -> tuple[str, str | None] | None:
        """Accesses that are out of bounds in some run whatever the data is, and a hint."""
        form = self.affine.of(address)
        counters = {loop.counter for loop in self.path}
        if form is None or any(isinstance(s, IRCounter) and s not in counters for s, _ in form.terms):
            return None
        extremes = affine_extremes(form, self.affine)
        if extremes is None:
            return None
        low, high = extremes
        for extreme, wrong in ((low, low.value < 0), (high, high.value >= depth)):
            if wrong and all(self.runs(loop.bound, extreme) for loop in self.path):
                given = ", ".join(f"{v.name} = {n}" for v, n in extreme.variables.items())
                hint = f"narrow the ranges of the variables: it happens with {given}" if given else None
                return f"{low.value} to {high.value}", hint
        return None

    def runs(self, bound: int | IRValue, extreme: Extreme) -> bool:
        """Whether a loop is known to have iterations with the variables of an extreme address."""
        form = Affine(bound) if isinstance(bound, int) else self.affine.of(bound)
        if form is None or not all(isinstance(s, IRVariable) for s, _ in form.terms):
            return False
        ends = {s: extreme.variables.get(s, s.high) for s, _ in form.terms if isinstance(s, IRVariable)}
        return form.const + sum(c * ends[s] for s, c in form.terms if isinstance(s, IRVariable)) > 0

    def register(self, access: IRRegLoad | IRRegStore) -> None:
        if access.reg not in self.registers:
            self.fail(f"register {access.reg} is not declared", access)
        meta = self.registers[access.reg]
        dtype = access.dtype if isinstance(access, IRRegLoad) else access.value.dtype
        if dtype != meta.dtype:
            self.fail(f"an access of type {dtype} to register {meta.idx} of {meta.dtype}", access)
        index = access.index
        if index is None:
            if meta.size != 1:
                self.fail(f"register {meta.idx} is an array of {meta.size} and needs an index", access)
        elif not index.dtype.is_int:
            self.fail(f"the index has type {index.dtype}, expected an integer", access)
        elif isinstance(index, IRConst) and not 0 <= index.value < meta.size:
            self.fail(f"index {index.value} of register {meta.idx}, whose size is {meta.size}", access)
        elif isinstance(access, IRRegLoad) or access.gate is None:
            found = self.outside(index, meta.size)
            if found is not None:
                text = f"indices {found[0]} of register {meta.idx}, whose size is {meta.size}"
                self.fail(text, access, found[1])

    # Values

    def value(self, root: IRValue) -> None:
        stack = [root]
        while stack:
            node = stack[-1]
            pending = [s for s in node.srcs if s not in self.home] if isinstance(node, IROp) else []
            if node not in self.home and pending:
                stack.extend(pending)
                continue
            if node not in self.home:
                self.home[node] = self.place(node)
            stack.pop()
        if self.home[root] not in self.path:
            self.fail("a value is used outside the loop that it depends on", root)

    def place(self, node: IRValue) -> LoopIR:
        """Check one value; return the innermost loop that it depends on."""
        root = self.path[0]
        match node:
            case IRConst():
                self.literal(node)
                return root
            case IRVariable():
                if not _same(self.variables.get(node.name), node):
                    self.fail(f"variable {node.name} is not declared", node)
                return root
            case IRCounter():
                self.fail(f"counter i{node.axis} is used outside its loop")
            case IRBufLoad() | IRRegLoad():
                self.fail("a load is used before it executes, or is not a statement of the kernel", node)
        self.types(node)
        homes = [self.home[s] for s in node.srcs]
        for home in homes:
            if home not in self.path:
                self.fail("a value is used outside the loop that it depends on", node)
        return max(homes, key=lambda loop: loop.depth, default=root)

    def literal(self, node: IRConst) -> None:
        if node.dtype.is_float:
            return
        if isinstance(node.value, float) and not node.value.is_integer():
            self.fail(f"literal {node.value} of type {node.dtype} is not an integer", node)
        if not node.dtype.min_value <= node.value <= node.dtype.max_value:
            self.fail(f"literal {node.value} does not fit {node.dtype}")

    def types(self, node: IROp) -> None:
        types = tuple(s.dtype for s in node.srcs)
        op = registry().op(node.op)
        if len(types) != op.arity:
            self.fail(f"{node.op} has {len(types)} operands, expected {op.arity}", node)
        allowed = result_types(op, types)
        shown = ", ".join(map(str, types))
        if isinstance(allowed, tuple) and not allowed:
            self.fail(f"{node.op} does not take operands of type ({shown})", node)
        if node.dtype not in allowed:
            expected = str(allowed) if not isinstance(allowed, tuple) else _either(allowed)
            self.fail(f"{node.op} of ({shown}) gives {expected}, not {node.dtype}", node)


def _either(types: tuple[DType, ...]) -> str:
    return " or ".join(map(str, types))


def _same(declared: IRVariable | None, used: IRVariable) -> bool:
    return declared is not None and (declared.low, declared.high, declared.dtype) == (
        used.low,
        used.high,
        used.dtype,
    )


def _scalar(value: IRValue) -> bool:
    stack, seen = [value], set()
    while stack:
        node = stack.pop()
        if isinstance(node, IRCounter | IRBufLoad | IRRegLoad):
            return False
        if node not in seen:
            seen.add(node)
            stack.extend(operands(node))
    return True

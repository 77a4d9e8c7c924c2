"""C expressions for operators."""

from __future__ import annotations

from tg2hdl_sim.levelized.c_operands import SAME_LANE, Operands, literal
from tg2hdl_sim.levelized.units import Lifted, Unit, container, exact_forms

__all__ = ["Expressions"]


class Expressions(Operands):
    """Writes the operators of units too."""

    def compute(self, unit: Unit) -> str:
        """Return the value of a combinational unit in its form."""
        text, form = self._operator(unit)
        return self.fit(text, form, unit.form, unit.width, unit.bits, unit.vector)

    def _operator(self, unit: Unit) -> tuple[str, str]:
        ins, bits, vector, op = unit.ins, unit.bits, unit.vector, unit.op
        v = "v" if vector else ""
        match op:
            case "+" | "-" | "*":
                form = unit.form if unit.form in exact_forms(unit) else "d"
                x, y = (self.value(operand, form, bits, vector) for operand in ins)
                return f"({x} {op} {y})", form
            case "&" | "|" | "^":
                form = unit.form
                x, y = (self.value(operand, form, bits, vector) for operand in ins)
                return f"({x} {op} {y})", form
            case "~":
                if unit.width == 1 and unit.form == "z":
                    return f"({self.value(ins[0], 'z', bits, vector)} ^ 1u)", "z"
                form = "s" if unit.form == "s" else "d"
                return f"(~{self.value(ins[0], form, bits, vector)})", form
            case "mux":
                form = unit.form
                x, y = (self.value(operand, form, bits, vector) for operand in ins[1:])
                if vector:
                    return f"sel{bits}({self.mask(ins[0], bits)}, {x}, {y})", form
                return f"({self.index_value(ins[0])} ? {x} : {y})", form
            case "shl" | "shr" | "sar":
                return self._shift(unit), {"shl": "d", "shr": "z", "sar": "s"}[op]
            case "eq" | "ult" | "ule" | "slt" | "sle":
                size = _size(*ins)
                form = "s" if op[0] == "s" else "z"
                x, y = (self.value(operand, form, size, vector) for operand in ins)
                sign = f"({v}i{size})" if form == "s" else ""
                symbol = {"eq": "==", "lt": "<", "le": "<="}[op if op == "eq" else op[1:]]
                return self._truth(f"({sign}({x}) {symbol} {sign}({y}))", size, vector)
            case "any" | "all":
                size = _size(ins[0])
                x = self.value(ins[0], "z", size, vector)
                width = sum(abs(count) for _, _, count in ins[0])
                test = f"!= {literal(0, size)}" if op == "any" else f"== {literal((1 << width) - 1, size)}"
                return self._truth(f"({x} {test})", size, vector)
            case "parity":
                size = _size(ins[0])
                return f"parity{v}{size}({self.value(ins[0], 'z', size, vector)})", "d" if vector else "z"
            case "match":
                size = _size(ins[0])
                x = self.value(ins[0], "z", size, vector)
                tests = [
                    f"(({x} & {literal(mask, size)}) == {literal(value, size)})"
                    for mask, value in unit.data[0]
                ]
                return self._truth("(" + " | ".join(tests) + ")", size, vector)
            case "udiv" | "umod" | "sdiv" | "smod":
                form = "s" if op[0] == "s" else "z"
                x, y = (self.value(operand, form, bits, vector) for operand in ins)
                return f"{op}{v}{bits}({x}, {y})", "z" if form == "z" else "d"
            case "wide_div" | "wide_mod":
                words = ", ".join(self.value(operand, "z", 64, vector) for operand in ins)
                remainder = int(op == "wide_mod")
                call = "wide_divv" if vector else "wide_div"
                return (
                    f"{call}({len(ins) // 2}, {unit.data[0]}, {remainder}, ({v}u64[]){{{words}}})",
                    "z",
                )
            case "read":
                return self._read_memory(unit), unit.form
        raise AssertionError(op)

    @staticmethod
    def _truth(test: str, size: int, vector: bool) -> tuple[str, str]:
        if not vector:
            return f"(u32){test}", "z"
        if size == 64:
            return f"(vu32)__builtin_convertvector((vi64){test}, vi32)", "s"
        return f"(vu32){test}", "s"

    def _shift(self, unit: Unit) -> str:
        (x, amount), bits, vector, op = unit.ins, unit.bits, unit.vector, unit.op
        form = {"shl": "d", "shr": "z", "sar": "s"}[op]
        text = self.value(x, form, bits, vector)
        v = "v" if vector else ""
        limit = (1 << sum(abs(count) for _, _, count in amount)) - 1
        by_input = vector and self.has_vectors(amount)
        by = self.value(amount, "z", bits if by_input else 32, by_input)
        symbol = "<<" if op == "shl" else ">>"
        if op == "sar":
            if limit >= bits:
                by = f"minv{bits}({by})" if by_input else f"min{bits}({by})"
            cast = f"({v}i{bits})" if by_input else "(int)"
            return f"({v}u{bits})(({v}i{bits})({text}) >> {cast}{by})"
        if limit < bits:
            return f"({text} {symbol} {by if by_input else '(int)' + by})"
        if by_input:
            inside = f"(vu{bits})({by} < {literal(bits, bits)})"
            return f"(({text} {symbol} ({by} & {literal(bits - 1, bits)})) & {inside})"
        if vector:
            return f"(({text} {symbol} (int)({by} & {bits - 1}u)) & bc{bits}(-(u{bits})({by} < {bits}u)))"
        return f"({by} < {bits}u ? {text} {symbol} ({by} & {bits - 1}u) : {literal(0, bits)})"

    def _read_memory(self, unit: Unit) -> str:
        (address,), bits = unit.ins, unit.bits
        assert unit.place is not None
        memory = self.program.memories[unit.place[0]]
        array = f"s->m{memory.number}"
        lane = f"[{self.index(unit.place)}]" if memory.lanes > 1 else ""
        if not unit.vector:
            return f"(u{bits}){array}[{self.index_value(address)}]{lane}"
        if not unit.varies:
            size = memory.element
            # A memory of one lane keeps bits as 0 and 1, lanes have them in all bits.
            sign = "-(u32)" if memory.width == 1 and memory.form == "z" else ""
            if not self.has_vectors(address):
                row = f"{array}[{self.index_value(address)}]"
                if unit.place[1:] == SAME_LANE:
                    return f"LOAD_{size}_{bits}({row}[i])"
                return f"PICK{bits}({sign}{row}{lane})"
            return f"PICK_AT{bits}({sign}{array}[at_]{lane}, {self.value(address, 'z', 32, True)})"
        if not self.varies(address):
            return self.widen(f"{array}[{self.index_value(address)}]{lane}[k]", memory.element, bits)
        where = self.value(address, "z", 32, True)
        if memory.varies:
            return f"GATHER{bits}(({array}[at_]{lane}[k])[l_], {where})"
        if memory.width == 1:
            return f"GATHER{bits}(-(u32){array}[at_]{lane}, {where})"
        return f"GATHER{bits}({array}[at_]{lane}, {where})"


def _size(*operands: Lifted) -> int:
    return container(max(sum(abs(count) for _, _, count in operand) for operand in operands))

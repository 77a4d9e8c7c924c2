"""C expressions for operands: variables, references, conversions and slices."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from tg2hdl_sim.levelized.program import LevelizedProgram
from tg2hdl_sim.levelized.units import Lifted, LiftedPiece, Ref, Unit

__all__ = ["SAME_LANE", "STATE", "Operands", "Scope", "literal"]

STATE = frozenset(["ff", "in"])
SAME_LANE = (1, 1, 0)


@dataclass
class Scope:
    """A block of C: its statements, and the variables that hold converted values."""

    lines: list[str] = field(default_factory=list)
    known: dict[Any, str] = field(default_factory=dict)


def literal(value: int, bits: int) -> str:
    """Return an unsigned C literal.

    Parameters
    ----------
    value : int
        Taken modulo ``2**bits``.
    bits : int
        Of the C type: 32 or 64.
    """
    return f"{value & ((1 << bits) - 1):#x}u" + ("ll" if bits == 64 else "")


class Operands:
    """Writes expressions into scopes.

    Every expression has a C type of 32 or 64 bits, and a vector of them where the value varies among the inputs of a
    batch.  Its form says what the bits above the width hold: ``z`` zeros, ``s`` copies of the top bit, ``d`` anything.

    Attributes
    ----------
    control, varying, lane : Scope or None
        Open scopes, from the outermost to the innermost.
    here : set of int
        Units that the open loop over lanes computes.
    local : collection of int
        Registers that are variables of the function; the others are in the state.
    """

    def __init__(self, program: LevelizedProgram, local: Collection[int] = ()) -> None:
        self.program, self.local = program, local
        self.units = program.units
        self.control = Scope()
        self.varying: Scope | None = None
        self.lane: Scope | None = None
        self.here: set[int] = set()
        self.fresh = 0

    # Scopes

    def scope_of(self, ref: Ref) -> Scope:
        """Return the outermost scope in which a value is known."""
        if ref[1] != 0:
            assert self.lane is not None
            return self.lane
        if ref[0] >= 0 and self.units[ref[0]].varies:
            assert self.varying is not None
            return self.varying
        return self.control

    def variable(self, scope: Scope, key: Any, type_: str, text: str) -> str:
        """Return the variable that holds an expression, defined in the scope at the first use.

        Parameters
        ----------
        scope : Scope
            Where it is defined.
        key
            Identifies the expression; equal keys have one variable.
        type_ : str
            C type.
        text : str
            C expression.
        """
        for other in (self.control, self.varying, self.lane):
            if other is not None and key in other.known:
                return other.known[key]
        self.fresh += 1
        name = f"x{self.fresh}"
        scope.lines.append(f"const {type_} {name} = {text};")
        scope.known[key] = name
        return name

    # References

    @staticmethod
    def index(ref: Ref) -> str:
        """Return the lane of a reference as a C expression."""
        _, kind, a, b = ref
        if kind == 0:
            return str(a)
        if kind == 1:
            product = "i" if a == 1 else f"{a} * (i)"
            return f"{product} + {b}" if b else product
        return f"table{a}[i]"

    def read(self, ref: Ref) -> str:
        """Return the variable of a reference."""
        unit = self.units[ref[0]]
        if unit.number in self.here and ref[1:] == SAME_LANE:
            return f"t{unit.number}"
        state = unit.op in STATE
        prefix = "a" if unit.lanes > 1 else "t"
        name = self.register(unit) if state else f"{prefix}{unit.number}"
        if unit.lanes > 1:
            if self.is_vector(ref) and not unit.varies:
                return self.load(name, ref, unit.bits, unit.element if state else f"u{unit.bits}")
            name += f"[{self.index(ref)}]"
        if unit.varies and state:
            return self.widen(f"{name}[k]", unit.element, unit.bits)
        if state and unit.element != f"u{unit.bits}":
            return f"(u{unit.bits}){name}"
        return name

    def register(self, unit: Unit) -> str:
        """Return the variable of a register or an input."""
        return f"q{unit.number}" if unit.number in self.local else f"s->q{unit.number}"

    def load(self, array: str, ref: Ref, bits: int, element: str) -> str:
        """Return the lanes of an array that lanes i, i + 1, ... refer to.

        Parameters
        ----------
        array : str
            C array of the state.
        ref : Ref
        bits : int
            Of the elements of the vector: 32 or 64.
        element : str
            C type of the array.
        """
        if ref[1] == 1 and ref[2] == 1:
            return f"LOAD_{element}_{bits}({array}[{self.index(ref)}])"
        return f"PICK{bits}({array}[{self.index(ref)}])"

    @staticmethod
    def widen(text: str, element: str, bits: int) -> str:
        """Return a vector of the state as one to compute with.

        Parameters
        ----------
        text : str
            C expression.
        element : str
            C type in the state.
        bits : int
            Of the type to compute with: 32 or 64.
        """
        return f"(vu{bits}){text}" if element[1:] == str(bits) else f"widen_v{element}({text})"

    @staticmethod
    def narrow(text: str, element: str, bits: int) -> str:
        """Return the inverse of `widen`.

        Parameters
        ----------
        text : str
            C expression.
        element : str
            C type in the state.
        bits : int
            Of the type to compute with: 32 or 64.
        """
        return (
            f"(v{element})({text})"
            if element[1:] == str(bits)
            else f"(v{element})narrow{element[1:]}({text})"
        )

    def varies(self, operand: Lifted) -> bool:
        """Whether an operand differs among the inputs of a batch."""
        return any(r is not None and r[0] >= 0 and self.units[r[0]].varies for r, _, _ in operand)

    def is_vector(self, ref: Ref) -> bool:
        """Whether the value of a reference is a vector here."""
        return (ref[0] >= 0 and self.units[ref[0]].varies) or (ref[1] != 0 and not self.program.batch)

    def has_vectors(self, operand: Lifted) -> bool:
        """Whether an operand is a vector here."""
        return any(ref is not None and self.is_vector(ref) for ref, _, _ in operand)

    @staticmethod
    def type_of(bits: int, vector: bool) -> str:
        """Return the C type.

        Parameters
        ----------
        bits : int
            32 or 64.
        vector : bool
        """
        return f"{'v' if vector else ''}u{bits}"

    # Forms

    def fit(self, text: str, form: str, wanted: str, width: int, bits: int, vector: bool) -> str:
        """Convert the bits above the width to a form.

        Parameters
        ----------
        text : str
            C expression.
        form : str
            Of its upper bits: ``"z"`` zeros, ``"s"`` copies of the sign, ``"d"`` anything.
        wanted : str
            Form of the result.
        width : int
            Bits of the value.
        bits : int
            Of the C type: 32 or 64.
        vector : bool
            Whether it is a vector.
        """
        # In loops, gcc vectorizes shifts, and no conversion to a shorter type.
        narrow = width == 32 or (width in (8, 16) and self.lane is None)
        if form == wanted or wanted == "d" or width == bits:
            return text
        if wanted == "z":
            return f"({text} & {literal((1 << width) - 1, bits)})"
        if narrow and not vector:
            return f"(u{bits})(i{bits})(i{width})({text})"
        v, up = "v" if vector else "", bits - width
        return f"({v}u{bits})(({v}i{bits})({text} << {up}) >> {up})"

    def whole(self, ref: Ref, wanted: str) -> str:
        """Return all of a unit in a form; converted once.

        Parameters
        ----------
        ref : Ref
        wanted : str
            Form of the upper bits, as of `fit`.
        """
        unit = self.units[ref[0]]
        text = self.read(ref)
        vector = self.is_vector(ref)
        fitted = self.fit(text, unit.form, wanted, unit.width, unit.bits, vector)
        if fitted == text:
            return text
        type_ = self.type_of(unit.bits, vector)
        return self.variable(self.scope_of(ref), (ref, wanted), type_, fitted)

    @staticmethod
    def convert(text: str, source: int, target: int, signed: bool, vector: bool) -> str:
        """Convert between the 32-bit and the 64-bit type.

        Parameters
        ----------
        text : str
            C expression.
        source, target : int
            Bits of the C types: 32 or 64.
        signed : bool
            Whether the sign is extended.
        vector : bool
            Whether it is a vector.
        """
        if source == target:
            return text
        if vector:
            if signed:
                return f"(vu{target})__builtin_convertvector((vi{source})({text}), vi{target})"
            return f"__builtin_convertvector((vu{source})({text}), vu{target})"
        return f"(u{target})(i{target})(i{source})({text})" if signed else f"(u{target})({text})"

    # Operands

    def slice(self, piece: LiftedPiece, wanted: str, bits: int) -> str:
        """Return a slice of a unit as a word of its own.

        Parameters
        ----------
        piece : LiftedPiece
            Reference, lowest bit and number of bits.
        wanted : str
            Form of the upper bits, as of `fit`.
        bits : int
            Of the C type of the result: 32 or 64.
        """
        ref, low, count = piece
        assert ref is not None
        unit = self.units[ref[0]]
        own, vector = unit.bits, self.is_vector(ref)
        if low == 0 and count == unit.width:
            form = "z" if wanted == "d" and bits > own else wanted
            return self.convert(self.whole(ref, form), own, bits, wanted == "s", vector)
        text = self.read(ref)
        if wanted == "s":
            v = "v" if vector else ""
            up = own - low - count
            text = f"({text} << {up})" if up else text
            text = f"({v}u{own})(({v}i{own}){text} >> {own - count})"
            return self.convert(text, own, bits, True, vector)
        clean = unit.form == "z" and low + count == unit.width
        text = f"({text} >> {low})" if low else text
        form = "z" if clean else "d"
        # A logical shift brings zeros in from the top of the C type.
        if low + count == own:
            form = "z"
        text = self.fit(text, form, "z" if wanted == "z" or bits > own else "d", count, own, vector)
        return self.convert(text, own, bits, False, vector)

    def value(self, operand: Lifted, wanted: str, bits: int, vector: bool) -> str:
        """Return an operand in a form.

        Parameters
        ----------
        operand : Lifted
        wanted : str
            Form of the upper bits, as of `fit`.
        bits : int
            Of the C type of the result: 32 or 64.
        vector : bool
            Whether a vector is wanted; a scalar is then spread over it by C.
        """
        width = sum(abs(count) for _, _, count in operand)
        scalars: list[str] = []
        vectors: list[str] = []
        constant, place = 0, 0
        skip = False
        for number, piece in enumerate(operand):
            ref, low, count = piece
            size = abs(count)
            last = number == len(operand) - 1
            if skip:
                skip = False
                place += size
                continue
            if ref is None:
                constant |= low << place
                if last and wanted == "s" and low >> (size - 1):
                    constant |= -1 << width
                place += size
                continue
            if ref[1] == 3:
                lanes = self.is_vector(ref)
                wide = self.table_bits(ref[2])
                text = (
                    self.load(f"table{ref[2]}", (-1, 1, 1, 0), wide, f"u{wide}")
                    if lanes
                    else f"table{ref[2]}[i]"
                )
                text = self.convert(text, wide, bits, False, lanes)
                if last and wanted == "s":
                    text = self.fit(text, "z", "s", size, bits, lanes)
                (vectors if lanes else scalars).append(f"({text} << {place})" if place else text)
                place += size
                continue
            following = operand[number + 1] if not last else None
            top = last
            total = size
            if following is not None and following[2] < 0 and following[0] == ref:
                # A sign extension: one conversion for both pieces.
                skip = True
                total += -following[2]
                top = number + 1 == len(operand) - 1
                form = "s" if top and wanted in ("s", "d") else "z"
                text = self.slice(piece, "s", bits)
                if form == "z":
                    text = self.fit(text, "s", "z", total, bits, self.is_vector(ref))
            else:
                form = wanted if top else "z"
                text = self.slice(piece, form, bits)
            if place:
                text = f"({text} << {place})"
            (vectors if self.is_vector(ref) else scalars).append(text)
            place += size
        if constant or not (scalars or vectors):
            scalars.append(literal(constant, bits))
        if scalars and vector:
            joined = scalars[0] if len(scalars) == 1 else "(" + " | ".join(scalars) + ")"
            vectors.append(f"bc{bits}({joined})")
            scalars = []
        terms = vectors or scalars
        return terms[0] if len(terms) == 1 else "(" + " | ".join(terms) + ")"

    def index_value(self, operand: Lifted) -> str:
        """Return an operand that is not a vector, as 32 bits."""
        return self.value(operand, "z", 32, False)

    def mask(self, condition: Lifted, bits: int) -> str:
        """Return a vector of all ones where a bit is 1.

        Parameters
        ----------
        condition : Lifted
            One bit.
        bits : int
            Of the elements of the vector: 32 or 64.
        """
        if self.has_vectors(condition):
            return self.convert(self.value(condition, "s", 32, True), 32, bits, True, True)
        ((ref, low, _),) = condition
        assert ref is not None
        text = f"bc{bits}(-{self.value(condition, 'z', bits, False)})"
        scope = self.lane if ref[1] != 0 else self.control
        assert scope is not None
        return self.variable(scope, ("mask", ref, low, bits), f"vu{bits}", text)

    def table_bits(self, number: int) -> int:
        """Return the bits of the C type of a table."""
        return 64 if max(self.program.tables[number]) >> 32 else 32

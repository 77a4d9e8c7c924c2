"""Local simplification: constants, neutral elements and comparisons of affine forms."""

from __future__ import annotations

from tg2hdl_ir.analysis.affine import Affine, AffineAnalysis
from tg2hdl_ir.analysis.ranges import RangeAnalysis
from tg2hdl_ir.dtype import DType
from tg2hdl_ir.nodes import IRConst, IRCounter, IROp, IRValue, const_int, is_const

__all__ = ["FALSE", "TRUE", "Folder"]

TRUE = IRConst(True, DType.BOOL)
FALSE = IRConst(False, DType.BOOL)


class Folder:
    """Makes integer and bool ops in simplest form; float ops stay, except `where` with a known gate."""

    def __init__(self) -> None:
        self.ranges = RangeAnalysis()
        self.affine = AffineAnalysis(self.ranges)

    def op(self, op: str, dtype: DType, *srcs: IRValue) -> IRValue:
        """``IROp(op, dtype, srcs)`` or something equal and simpler.

        Parameters
        ----------
        op : str
            Name of a kernel IR op.
        dtype : DType
            Of the result.
        *srcs : IRValue
        """
        if op == "where":
            return self._where(dtype, *srcs)
        if op == "cast" and srcs[0].dtype == dtype:
            return srcs[0]
        if dtype.is_float or any(s.dtype.is_float for s in srcs):
            return IROp(op, dtype, srcs)
        built = IROp(op, dtype, srcs)
        return self._integer(built) or built

    def all_of(self, *gates: IRValue | None) -> IRValue | None:
        """Conjunction of gates; None is an absent gate (true)."""
        result: IRValue = TRUE
        for gate in gates:
            if gate is not None:
                result = self.op("and", DType.BOOL, result, gate)
        return None if is_const(result, 1) else result

    def equals(self, value: IRValue, number: int) -> IRValue:
        """Comparison of an integer value with a literal.

        Parameters
        ----------
        value : IRValue
            Of an integer type.
        number : int
            Must be in the range of that type.
        """
        return self.op("eq", DType.BOOL, value, const_int(number, value.dtype))

    def below(self, value: IRValue, number: int) -> IRValue:
        """``value < number``.

        Parameters
        ----------
        value : IRValue
            Of an integer type.
        number : int
            Must be in the range of that type.
        """
        return self.op("lt", DType.BOOL, value, const_int(number, value.dtype))

    def _where(self, dtype: DType, *srcs: IRValue) -> IRValue:
        gate, yes, no = srcs
        if isinstance(gate, IRConst):
            return yes if gate.value else no
        if yes is no:
            return yes
        if dtype.is_bool:
            if is_const(yes, 1) and is_const(no, 0):
                return gate
            if is_const(no, 0):
                return self.op("and", DType.BOOL, gate, yes)
        return IROp("where", dtype, srcs)

    def _integer(self, built: IROp) -> IRValue | None:
        op, dtype, srcs = built.op, built.dtype, built.srcs
        if op in ("eq", "ne") and all(isinstance(s, IRConst) and s.dtype.is_bool for s in srcs):
            same = is_const(srcs[0], 1) == is_const(srcs[1], 1)
            return TRUE if same == (op == "eq") else FALSE
        if not dtype.is_bool and all(isinstance(s, IRConst) for s in srcs):
            # An interval of one value is exact; the analysis gives the full range where the op would wrap.
            low, high = self.ranges.of(built)
            if low == high:
                return IRConst(low, dtype)
        if op in ("add", "mul", "and", "or", "max", "xor") and isinstance(srcs[0], IRConst):
            srcs = (srcs[1], srcs[0])
        a, b = srcs[0], srcs[-1]
        match op:
            case "add" | "sub" | "shl" | "shr" | "xor" if is_const(b, 0):
                return a
            case "or" if is_const(b, 0):
                return a
            case "mul" | "div" if is_const(b, 1) and len(srcs) == 2:
                return a
            case "mul" if is_const(b, 0):
                return IRConst(b.value, dtype) if isinstance(b, IRConst) else None
            case "and" if dtype.is_bool:
                if is_const(b, 1) or a is b:
                    return a
                return FALSE if is_const(b, 0) else None
            case "or" if dtype.is_bool:
                if a is b:
                    return a
                return TRUE if is_const(b, 1) else None
            case "eq" | "ne" | "lt" if not a.dtype.is_bool:
                return self._compare(op, a, b)
            case "add" | "sub" | "mul" | "shl":
                return self._affine(built)
        return None

    def _affine(self, built: IROp) -> IRValue | None:
        form = self.affine.of(built)
        if form is None:
            return None
        dtype = built.dtype
        if form.is_constant:
            return const_int(form.const, dtype)
        if (
            form.const == 0
            and len(form.terms) == 1
            and form.terms[0][1] == 1
            and form.terms[0][0].dtype == dtype
        ):
            return form.terms[0][0]
        return None

    def _compare(self, op: str, a: IRValue, b: IRValue) -> IRValue | None:
        (alow, ahigh), (blow, bhigh) = self.ranges.of(a), self.ranges.of(b)
        if ahigh < blow or alow > bhigh:
            return {"eq": FALSE, "ne": TRUE}.get(op) or (TRUE if ahigh < blow else FALSE)
        if op == "lt" and alow >= bhigh:
            return FALSE
        if op != "lt" and alow == ahigh == blow == bhigh:
            return TRUE if op == "eq" else FALSE
        form, other = self.affine.of(a), self.affine.of(b)
        if form is None or other is None:
            return None
        return self._compare_affine(op, form.plus(other, -1), a, b)

    def _compare_affine(self, op: str, difference: Affine, a: IRValue, b: IRValue) -> IRValue | None:
        # c*i + k <op> 0 for one counter i with c > 0
        if len(difference.terms) != 1:
            return None
        (symbol, factor), const = difference.terms[0], difference.const
        if factor < 0 or not isinstance(symbol, IRCounter):
            return None
        if op == "lt":
            limit = -(const // factor)
            simple = a is symbol and is_const(b, limit)
            return None if simple else self.below(symbol, limit)
        if const % factor:
            return FALSE if op == "eq" else TRUE
        limit = -const // factor
        simple = a is symbol and is_const(b, limit)
        return None if simple else self.op(op, DType.BOOL, symbol, const_int(limit, symbol.dtype))

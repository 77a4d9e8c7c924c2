"""Programs whose kernels run row by row: what suits them, and how much of each buffer must be on the chip."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from tg2hdl_ir import Affine, AffineAnalysis, Interval, IRBufStore, KernelIR, ProgramIR, UnsupportedError
from tg2hdl_ir.analysis.rows import RowAccess
from tg2hdl_ir.passes.instrument import applied
from tg2hdl_ir.passes.rows import with_row_loop_first, with_rows, with_stored_order
from tg2hdl_lower import Layout
from tg2hdl_top.options import CompileOptions
from tg2hdl_top.sequencer.ledgers import known_accesses, read_range

__all__ = ["check_rows", "has_row_runs", "row_spans", "with_row_runs"]

_OTHER = 'choose another schedule, such as schedule="dataflow"'


def check_rows(program: ProgramIR, options: CompileOptions) -> None:
    """Check that the elements of a program come and go in one order.

    Parameters
    ----------
    program : ProgramIR
    options : CompileOptions
        With a schedule of rows.

    Raises
    ------
    UnsupportedError
        With the reason.
    """
    reason = _why_not(program, options)
    if reason:
        raise UnsupportedError(f"schedule={options.schedule!r}: {reason}", where=program.name, hint=_OTHER)


def _why_not(program: ProgramIR, options: CompileOptions) -> str:
    inputs = [b.name for b in program.buffers if b.role == "input"]
    read = {n for call in program.calls for n in call.accesses()[0]}
    if options.ports != ("axi-stream",):
        return 'rows come and go through the port axi-stream only, ports=("axi-stream",)'
    if program.state_buffers():
        return "a program that keeps state from run to run has no rows"
    if len(inputs) != 1 or len(program.outputs) != 1:
        return f"the program has {len(inputs)} inputs and {len(program.outputs)} outputs, and rows need one of each"
    if program.outputs[0] in read:
        return "a kernel reads the output again"
    if options.weights != "rom":
        return f"weights={options.weights!r} cannot be combined with rows"
    if options.loop is not None:
        return "a loop waits for each result"
    if any(call.kernel.variables for call in program.calls):
        return "a kernel has run-time variables"
    if several := _written_by_several(program):
        return f"several kernels write {program.buffers[several[0]].name!r}"
    return ""


def _written_by_several(program: ProgramIR) -> list[int]:
    """Buffers that more than one call writes."""
    writers = Counter(n for call in program.calls for n in call.accesses()[1])
    return [n for n, count in writers.items() if count > 1]


def with_row_runs(program: ProgramIR) -> ProgramIR:
    """The program with a run for each row of each kernel.

    Raises
    ------
    UnsupportedError
        When a kernel has no rows.
    """
    orders: dict[int, _Order] = {}
    constant = program.constant_buffers()
    calls = []
    for call in program.calls:
        kernel, slots = call.kernel, call.slots
        for slot, number in slots.items():
            if number in orders:
                kernel = with_stored_order(kernel, {slot}, orders[number].moved)
        kernel = with_row_loop_first(
            kernel, {slot for slot, number in slots.items() if number not in constant}
        )
        for slot, number in slots.items():
            if program.buffers[number].role == "temporary" and kernel.buffer(slot).is_output:
                order = _Order.of(kernel, slot)
                if order is not None:
                    orders[number] = order
                    kernel = with_stored_order(kernel, {slot}, order.moved)
        calls.append(replace(call, kernel=with_rows(kernel)))
    made = replace(program, calls=tuple(calls))
    applied("row-runs", program, made)
    return made


@dataclass(frozen=True)
class _Order:
    """A buffer whose elements are stored with one of its dimensions outermost.

    Parameters
    ----------
    dims : tuple of int
        Of the buffer as it was.
    first : int
        The dimension.
    """

    dims: tuple[int, ...]
    first: int

    @classmethod
    def of(cls, kernel: KernelIR, slot: int) -> _Order | None:
        """The order in which the rows of a kernel write a buffer; None where they write it as it is."""
        affine, outer = AffineAnalysis(), kernel.loop_tree.perfect_nest[1:2]
        stores = [s for s in kernel.loop_tree.statements() if isinstance(s, IRBufStore) and s.buf_idx == slot]
        forms = [affine.of(store.addr) for store in stores]
        if len(forms) != 1 or forms[0] is None or not outer:
            return None
        terms = sorted(forms[0].terms, key=lambda term: -term[1])
        dims, size = list[int](), kernel.buffer(slot).depth
        for _, stride in terms:
            if stride < 1 or size % stride:
                return None
            dims.append(size // stride)
            size = stride
        if size != 1 or not terms or terms[0][0] is outer[0].counter:
            return None
        first = next((n for n, (symbol, _) in enumerate(terms) if symbol is outer[0].counter), None)
        return None if first is None else cls(tuple(dims), first)

    def moved(self, form: Affine, interval: Callable[[Affine], Interval]) -> Affine | None:
        """The address of an element in this order."""
        digits = Layout(self.dims, (1,) * len(self.dims)).digits(form, interval)
        if digits is None:
            return None
        order = [self.first, *(n for n in range(len(self.dims)) if n != self.first)]
        found = Affine(0)
        for n in order:
            found = found.scaled(self.dims[n]).plus(digits[n])
        return found


def has_row_runs(program: ProgramIR) -> bool:
    """Whether each row of each kernel is a run, and one kernel writes each buffer."""
    loops = [loop for call in program.calls for loop in call.kernel.loop_tree.loops]
    return all(loop.axis_type == "rows" for loop in loops) and not _written_by_several(program)


def row_spans(program: ProgramIR, number: int) -> tuple[tuple[int, int], ...]:
    """Elements of a buffer that must be there at the same time, see `MemoryRole.spans`; none without rows.

    Parameters
    ----------
    program : ProgramIR
    number : int
        Of the buffer.
    """
    if not has_row_runs(program):
        return ()
    written, read = (_rows(program, number, writes=writes) for writes in (True, False))
    if not written and not read:
        return ()
    depth = program.buffers[number].depth
    if not read:
        # The host reads a row while the next one is written.
        (rows,) = written
        return _distinct((a.first, b.end) for a, b in zip(rows, [*rows[1:], rows[-1]], strict=True))
    spans = []
    for rows in read:
        kept, needed = read_range(rows, depth)
        if not written:
            # The host writes what the next row needs while a row is computed.
            needed = [*needed[1:], depth]
        else:
            needed = [min(row.end for row in written[0] if row.end >= n) for n in needed]
        spans += [
            (first, max(first + 1, end)) for first, end in zip(kept, needed, strict=True) if first < depth
        ]
    return _distinct(spans)


def _rows(program: ProgramIR, number: int, *, writes: bool) -> list[list[RowAccess]]:
    """Accesses of each slot of a kernel that is this buffer."""
    name = program.buffers[number].name
    return [
        known_accesses(call.kernel, slot, name, writes=writes)
        for call in program.calls
        for slot, buffer in call.slots.items()
        if buffer == number and number in call.accesses()[1 if writes else 0]
    ]


def _distinct(spans: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """The longest spans, and the first and last ones: others take no more words."""
    listed: Sequence[tuple[int, int]] = [*spans]
    most = max(end - first for first, end in listed)
    longest = [span for span in listed if span[1] - span[0] == most]
    return tuple(dict.fromkeys((listed[0], *longest[:2], *longest[-2:], listed[-1])))

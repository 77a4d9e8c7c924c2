"""Faults put into each rewrite: does validation see them, and does it name the rewrite?

    python benchmarks/fuzz/passes.py                   all rewrites, into passes.json and passes.md
    python benchmarks/fuzz/passes.py --only balance    one of them, printed
    python benchmarks/fuzz/passes.py --faults 20       more random faults for each

Two kinds of faults: a line of a rewrite's source is edited (`edited_lines.py`), and what a rewrite returns is changed
at random (another op, constant, address, gate, bound; a lost store).  A fault counts where the design without
validation computes something else than the captured program, on inputs that validation does not use; the planned
kernels are evaluated entirely for this.  Each fault is tried in a process of its own.
"""

from __future__ import annotations

import argparse
import inspect
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("DEV", "PYTHON")
HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import numpy as np  # noqa: E402
from edited_lines import EDITS, Edit, put  # noqa: E402
from programs_of_passes import SUBJECTS, Subject  # noqa: E402
from random_faults import faulty  # noqa: E402
from record import write_record  # noqa: E402

from tg2hdl_ir.errors import ValidationError  # noqa: E402
from tg2hdl_ir.golden import evaluate_program  # noqa: E402
from tg2hdl_ir.passes.instrument import (  # noqa: E402
    Rewritten,
    ir_pass,
    made_kernels,
    watch_passes,
)
from tg2hdl_ir.pipeline import all_rewrites  # noqa: E402
from tg2hdl_ir.program import KernelCall, ProgramIR  # noqa: E402
from tg2hdl_top import Design, compile_program  # noqa: E402
from tg2hdl_top.search import form as search_form  # noqa: E402

SECONDS = 60.0
"""Time that a fault may take (s)."""

TRIED = 3
"""Programs that are tried until a fault shows in one."""

SAMPLES = 7
"""Random inputs on which a fault may show."""

SPECIAL = 0.05
"""Share of NaN, infinities, zeros and subnormals in the last of them."""


@dataclass(frozen=True)
class Fault:
    """A fault in a rewrite, random or an edited line."""

    name: str
    seed: int = 0
    edit: Edit | None = None

    def __str__(self) -> str:
        return f"{self.name}: {self.edit.what}" if self.edit else f"{self.name}: random {self.seed}"

    def install(self) -> None:
        """Put the fault into the modules of this process."""
        if self.edit is not None:
            self.edit.install()
            return
        entry = all_rewrites()[self.name]
        if not hasattr(entry.run, "__wrapped__"):
            self._install_in_search()
            return
        right: Callable[..., Any] = entry.run.__wrapped__  # type: ignore[attr-defined]

        def wrong(before: Any, *arguments: Any, **options: Any) -> Any:
            return faulty(before, right(before, *arguments, **options), self.seed)

        wrong.__module__ = right.__module__
        # The facts that a rewrite needs are the parameters of its function.
        wrong.__signature__ = inspect.signature(right)  # type: ignore[attr-defined]
        put(entry.run, ir_pass(entry.name, entry.description)(wrong))

    def _install_in_search(self) -> None:
        """Put the fault into the kernels that a step of the search chooses."""
        rewritten = search_form.rewritten

        def wrong(before: Any, name: str, decide: Any, **options: Any) -> Any:
            def chosen(program: ProgramIR, call: KernelCall) -> Any:
                choice = decide(program, call)
                return replace(choice, kernels=faulty(call.kernel, choice.kernels, self.seed))

            return rewritten(before, name, chosen if name == self.name else decide, **options)

        put(rewritten, wrong)


def planned(design: Design) -> ProgramIR:
    """The program whose kernels are those of the plans."""
    calls = []
    for call, plan in zip(design.program.calls, design.kernels, strict=True):
        slots, known = call.slots, {v.name for v in plan.kernel.variables}
        values = tuple((name, value) for name, value in call.values if name in known)
        calls.append(KernelCall(plan.kernel, tuple(slots[b.idx] for b in plan.kernel.buffers), values))
    return replace(design.program, calls=tuple(calls))


def samples(program: ProgramIR, is_relaxed: bool) -> Iterator[dict[str, Any]]:
    """Random inputs of another kind than those of the validation."""
    for seed in range(SAMPLES):
        rng = np.random.default_rng(seed + 1000)
        found = {}
        for buffer in program.buffers:
            if buffer.role != "input" or buffer.initial is not None:
                continue
            if buffer.dtype.is_float:
                array = (
                    rng.integers(-9, 10, buffer.shape)
                    if is_relaxed
                    else rng.standard_normal(buffer.shape) * 10**seed
                )
                if seed == SAMPLES - 1 and not is_relaxed:
                    chosen = rng.random(buffer.shape) < SPECIAL
                    array[chosen] = rng.choice([np.nan, np.inf, -np.inf, -0.0, 1e-40], int(chosen.sum()))
            else:
                low, high = (0, 6) if buffer.name == "ids" else (-100, 101)
                array = rng.integers(low, high, buffer.shape)
            found[buffer.name] = array.astype(buffer.dtype.numpy())
        yield found


def differs(program: ProgramIR, design: Design, subject: Subject) -> bool:
    """Whether a design computes something else, for some values of its variables."""
    is_relaxed = subject.options.get("float_order") == "relaxed"
    bound = 1e-3 if is_relaxed or subject.options.get("fold_batchnorm") else 0.0
    forms = (design.program, planned(design))
    found = {v.name: v for call in program.calls for v in call.host_variables}
    for seed, inputs in enumerate(samples(program, is_relaxed)):
        values = {name: v.low + (seed + 3) % (v.high - v.low + 1) for name, v in found.items()}
        expected = evaluate_program(program, inputs, values)
        for form in forms:
            made = evaluate_program(form, inputs, values)
            for name, array in expected.items():
                one, two = np.asarray(array), made.get(name)
                if two is None:
                    return True
                if bound:
                    largest = np.abs(one).max(initial=0.0)
                    if not np.all(np.abs(one - two) <= bound * largest):
                        return True
                elif not np.array_equal(one, two, equal_nan=one.dtype.kind == "f"):
                    return True
    return False


def tried(fault: Fault, subjects: list[Subject], programs: dict[str, ProgramIR], send: Any) -> None:
    """Compile with a fault until it shows, and send the verdict."""
    verdict = ("no effect", "", "")
    fault.install()
    for subject in subjects[:TRIED]:
        program = programs[subject.name]
        try:
            design = compile_program(program, subject.compile_options(validate="off"))
            if not differs(program, design, subject):
                continue
        except Exception as error:
            verdict = ("refused otherwise", f"{type(error).__name__}: {str(error).splitlines()[0][:100]}", "")
            continue
        verdict = ("missed", "", "")
        try:
            compile_program(program, subject.compile_options(validate="auto"))
        except ValidationError as error:
            told = next((note for note in error.notes if "made wrong by" in note), error.notes[1])
            verdict = ("caught", told, "yes" if f"by pass {fault.name} of" in told else "no")
        except Exception as error:
            verdict = ("caught", f"{type(error).__name__}", "no")
        verdict = (verdict[0], f"{subject.name}: {verdict[1]}", verdict[2])
        break
    send.send(verdict)


def judged(fault: Fault, subjects: list[Subject], programs: dict[str, ProgramIR]) -> tuple[str, str, str]:
    """Verdict on a fault, from a process of its own."""
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(False)
    process = context.Process(target=tried, args=(fault, subjects, programs, send))
    process.start()
    found = receive.recv() if receive.poll(SECONDS) else ("no verdict in time", "", "")
    process.kill()
    process.join()
    return found


def _uses(program: Any) -> list[tuple[int, ...]]:
    return [call.buffers for call in program.calls]


def users(programs: dict[str, ProgramIR]) -> dict[str, list[Subject]]:
    """Subjects in which each rewrite changes something."""
    found: dict[str, list[Subject]] = {}
    for subject in SUBJECTS:
        changed: set[str] = set()

        def see(name: str, before: Any, after: Rewritten, changed: set[str] = changed) -> None:
            kernels = any(new is not old for old, new in made_kernels(before, after))
            if kernels or (isinstance(before, ProgramIR) and _uses(before) != _uses(after)):
                changed.add(name)

        with watch_passes(see):
            compile_program(programs[subject.name], subject.compile_options(validate="off"))
        # What only puts the results of other rewrites into the program has no function that a fault could be put in.
        for name in changed & all_rewrites().keys():
            found.setdefault(name, []).append(subject)
    return found


def main() -> None:
    """Try all faults and write the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="rewrites whose name has this in it")
    parser.add_argument("--faults", type=int, default=8, help="random faults for each rewrite")
    parser.add_argument("--jobs", type=int, default=2, help="faults that are tried at once")
    arguments = parser.parse_args()
    started = time.monotonic()
    os.environ["TG2HDL_VERIFY_EACH"] = "0"
    programs = {subject.name: subject.program() for subject in SUBJECTS}
    known = users(programs)
    faults = [Fault(edit.name, edit=edit) for edit in EDITS]
    faults += [Fault(name, seed) for name in known for seed in range(arguments.faults)]
    counts: dict[str, Counter[str]] = {"edited lines": Counter(), "random faults": Counter()}
    rows: dict[str, Counter[str]] = {}
    unseen: dict[str, str] = {}
    faults = [fault for fault in faults if arguments.only in fault.name]

    def judge(fault: Fault) -> tuple[str, str, str]:
        subjects = known.get(fault.name, SUBJECTS)
        turn = fault.seed % len(subjects)
        return judged(fault, subjects[turn:] + subjects[:turn], programs)

    pool = ThreadPoolExecutor(arguments.jobs)
    for fault, (verdict, told, named) in zip(faults, pool.map(judge, faults), strict=True):
        kind = "edited lines" if fault.edit else "random faults"
        counts[kind][verdict] += 1
        row = rows.setdefault(fault.name, Counter())
        row[verdict] += 1
        if named == "yes":
            counts[kind]["named"] += 1
            row["named"] += 1
        elif verdict in ("caught", "missed"):
            unseen[str(fault)] = f"{verdict}; {told}"
        print(fault, "->", verdict, told, flush=True)
    totals: dict[str, Any] = {}
    for kind, count in counts.items():
        shown = count["caught"] + count["missed"]
        totals[f"{kind}: tried"] = sum(count.values()) - count["named"]
        totals[f"{kind}: with an effect"] = shown
        totals[f"{kind}: caught"] = f"{count['caught']} ({100 * count['caught'] / max(1, shown):.1f} %)"
        totals[f"{kind}: the rewrite named"] = (
            f"{count['named']} ({100 * count['named'] / max(1, shown):.1f} %)"
        )
        totals[f"{kind}: refused otherwise"] = count["refused otherwise"]
        totals[f"{kind}: no verdict in time"] = count["no verdict in time"]
    totals["seconds"] = round(time.monotonic() - started)
    print(totals)
    if not arguments.only:
        told = {
            name: f"{row['caught']} of {row['caught'] + row['missed']} caught, {row['named']} named"
            for name, row in rows.items()
        }
        title = "Faults in rewrites that validation sees"
        command = f"python benchmarks/fuzz/passes.py --faults {arguments.faults}"
        write_record(
            HERE / "passes.json", title, command, totals, rewrites=told, not_caught_or_not_named=unseen
        )


if __name__ == "__main__":
    main()

"""Random ONNX files through ``tg2hdl.compile(path)``, against ONNX Runtime and onnx.reference.

    python benchmarks/fuzz/files.py --count 5000             # writes files.json and files.md beside this file
    python benchmarks/fuzz/files.py --count 5000 --resume    # goes on where the recorded run was stopped
    python benchmarks/fuzz/files.py --seed 20000 --seconds 600 --jobs 4 --no-record
    python benchmarks/fuzz/files.py --replay build/fuzz/123-qdq.onnx
    python benchmarks/fuzz/files.py --seed 601 --count 3000 --compile-only  # which are refused, and why

Each seed is a graph of two to seven operators, in four forms: float, quantized here, QONNX, and quantized by
`quantize_static` of ONNX Runtime.  A file that is wrong, or ends with an exception that is not ours, is made smaller
and written with its verdict to ``--folder``; the command then goes on, and fails at the end.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import onnx
from forms import FORMS, file_of
from graphs import Rejected
from judge import KINDS, Verdict, compiled, judge
from record import HERE, write_record
from shrink import shrunk

from tg2hdl_ir.workers import Workers

Outcome = tuple[int, str, Verdict, bytes]
Judge = Callable[[onnx.ModelProto], Verdict]
SHRUNK = 5
"""Faults of one form and kind that are made smaller."""


def outcomes(seed: int, forms: tuple[str, ...] = FORMS, verdict_of: Judge = judge) -> list[Outcome]:
    """Verdicts on the forms of a graph; a faulty file is returned with its verdict."""
    found = []
    for form in forms:
        try:
            model = file_of(seed, form)
        except Rejected as error:
            found.append((seed, form, Verdict("empty", str(error).split("\n")[0][:100]), b""))
            continue
        verdict = verdict_of(model)
        found.append((seed, form, verdict, model.SerializeToString() if verdict.is_fault else b""))
    return found


def _same_fault(model: onnx.ModelProto, verdict: Verdict, verdict_of: Judge) -> bool:
    try:
        onnx.checker.check_model(model)
    except onnx.checker.ValidationError:
        return False
    return verdict_of(model).like(verdict)


def _all(seeds: range, forms: tuple[str, ...], jobs: int, verdict_of: Judge) -> Iterator[list[Outcome]]:
    """Outcomes by seed, from processes that are replaced now and then so that caches stay small."""
    with Workers(jobs, renewed_after=200) if jobs else Workers() as workers:
        for _, found in workers.run(_outcomes, seeds, (forms, verdict_of)):
            yield found


def _outcomes(shared: tuple[tuple[str, ...], Judge], seed: int) -> list[Outcome]:
    forms, verdict_of = shared
    return outcomes(seed, forms=forms, verdict_of=verdict_of)


def _reason(text: str) -> str:
    """The kind of refusal: without names and numbers of a file."""
    words = [w for w in text.split(":")[0].split() if not any(c.isdigit() or c in "'\"[(/" for c in w)]
    return " ".join(words)


class Totals:
    """Verdicts counted, by form and by reason."""

    def __init__(self) -> None:
        self.kinds: Counter[str] = Counter(dict.fromkeys(KINDS, 0))
        self.forms: Counter[str] = Counter()
        self.reasons: dict[str, Counter[str]] = {k: Counter() for k in (*KINDS, "empty")}
        self.faults: dict[str, str] = {}

    def add(self, seed: int, form: str, verdict: Verdict) -> None:
        self.kinds[verdict.kind] += 1
        self.forms[f"{form}, {verdict.kind}"] += 1
        if verdict.is_fault:
            self.faults[f"{seed} {form}"] = f"{verdict.kind}: {verdict.reason}"
        elif verdict.kind != "right":
            self.reasons[verdict.kind][_reason(verdict.reason)] += 1

    def load(self, path: Path) -> int:
        """Add the counts of a recorded run, whose faults are judged again; returns its last seed."""
        record = json.loads(path.read_text())
        self.kinds.update({kind: record["totals"].get(kind, 0) for kind in (*KINDS, "empty")})
        self.forms.update(record["forms"])
        for kind, table in (("refused", "refused"), ("unjudged", "not_judged")):
            self.reasons[kind].update(record[table])
        for name, fault in record["faults"].items():
            seed, form = name.split()
            kind = fault.split(":")[0]
            self.kinds[kind] -= 1
            self.forms[f"{form}, {kind}"] -= 1
            for again in outcomes(int(seed), (form,)):
                self.add(*again[:3])
        return int(record["totals"]["last seed"])

    @property
    def files(self) -> int:
        return sum(self.kinds.values()) - self.kinds["empty"]

    def write(self, path: Path, first: int, last: int) -> None:
        write_record(
            path,
            "Random ONNX files against ONNX Runtime and onnx.reference",
            f"python benchmarks/fuzz/files.py --seed {first} --count {self.files}",
            {"files": self.files, **self.kinds, "last seed": last},
            forms=dict(sorted(self.forms.items())),
            refused=dict(self.reasons["refused"].most_common()),
            not_judged=dict(self.reasons["unjudged"].most_common()),
            faults=self.faults,
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1, help="first seed (default: 1)")
    parser.add_argument("--count", type=int, default=5000, help="files to compile (default: 5000)")
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after this time")
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=FORMS, help="some of the forms")
    parser.add_argument("--jobs", type=int, default=1, help="processes; 0: none but this one (default: 1)")
    parser.add_argument(
        "--resume", action="store_true", help="add to the recorded run, from its last seed on"
    )
    parser.add_argument("--replay", type=Path, help="judge this file only")
    parser.add_argument("--folder", type=Path, default=Path("build/fuzz"), help="for faulty files")
    parser.add_argument("--no-record", action="store_true", help="leave files.json as it is")
    parser.add_argument(
        "--compile-only", action="store_true", help="compare nothing, record nothing, print each refusal"
    )
    options = parser.parse_args()
    verdict_of = compiled if options.compile_only else judge
    if options.replay:
        verdict = verdict_of(onnx.load(str(options.replay)))
        print(f"{verdict.kind}: {verdict.reason}")
        return int(verdict.is_fault)
    totals, faults, started, last = (
        Totals(),
        Faults(options.folder, verdict_of),
        time.perf_counter(),
        options.seed,
    )
    if options.resume:
        last = totals.load(HERE / "files.json")
    first = last + 1 if options.resume else options.seed
    seeds = range(first, first + options.count)
    is_recorded = not (options.no_record or options.compile_only)
    for found in _all(seeds, tuple(options.forms), options.jobs, verdict_of):
        for seed, form, verdict, content in found:
            totals.add(seed, form, verdict)
            last = max(last, seed)
            if options.compile_only and verdict.kind == "refused":
                print(f"REFUSED {seed}-{form}: {verdict.reason}", flush=True)
            if content:
                faults.keep(seed, form, content, verdict)
        if last % 25 == 0:
            print(f"seed {last}: " + ", ".join(f"{n} {k}" for k, n in totals.kinds.items()), flush=True)
            if is_recorded:
                totals.write(HERE / "files.json", options.seed, last)
        if totals.files >= options.count or time.perf_counter() - started > options.seconds:
            break
    if is_recorded:
        totals.write(HERE / "files.json", options.seed, last)
    for kind in ("refused", "unjudged", "reference"):
        for reason, count in totals.reasons[kind].most_common():
            print(f"{kind} {count} times: {reason}")
    print(f"{totals.files} files: " + ", ".join(f"{n} {k}" for k, n in totals.kinds.items()))
    return int(bool(totals.faults))


class Faults:
    """Writes faulty files, made smaller, with their verdicts."""

    def __init__(self, folder: Path, verdict_of: Judge) -> None:
        self.folder = folder
        self.verdict_of = verdict_of
        self.count: Counter[str] = Counter()

    def keep(self, seed: int, form: str, content: bytes, verdict: Verdict) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        model = onnx.ModelProto.FromString(content)
        kind = f"{form} {verdict.kind} {verdict.signature}"
        self.count[kind] += 1
        if verdict.kind != "time" and self.count[kind] <= SHRUNK:
            model = shrunk(model, lambda m: _same_fault(m, verdict, self.verdict_of))
        onnx.save(model, str(self.folder / f"{seed}-{form}.onnx"))
        nodes = [n.op_type for n in model.graph.node]
        record = json.dumps(verdict.record() | {"nodes": nodes}, indent=1)
        (self.folder / f"{seed}-{form}.json").write_text(record + "\n")
        print(f"{verdict.kind.upper()} {seed}-{form} ({', '.join(nodes)}): {verdict.reason}", flush=True)


if __name__ == "__main__":
    sys.exit(main())

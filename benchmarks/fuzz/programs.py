"""Random tinygrad programs under random options: golden model, simulated hardware and tinygrad's interpreter.

    python benchmarks/fuzz/programs.py --count 5000 --simulate 5     # writes programs.json and programs.md
    python benchmarks/fuzz/programs.py --seed 900 --seconds 600 --no-record
    python benchmarks/fuzz/programs.py --named matmul --simulate 1   # the programs of tg2hdl_backend.testing instead

Every kernel as captured must equal tinygrad's interpreter; the compiled design must give the same bits as the captured
program, whatever the options, and be the same when it is saved and read again; one program in n is simulated, and must
give these bits in the predicted cycles.  A program that does not is reduced and printed; the command then goes on, and
fails at the end.
"""

from __future__ import annotations

import argparse
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from record import HERE, write_record

import tg2hdl
from tg2hdl.bits import same_bits
from tg2hdl_backend.testing import compare_with_interpreter
from tg2hdl_backend.testing.random_programs import Recipe, recipes
from tg2hdl_ir import IRVerificationError, SimulationError, Tg2hdlError, evaluate_program
from tg2hdl_top import CompileOptions, Design

BATCH = 50
LIMIT = 300
"""CPU seconds that a program may take."""
TYPES = (
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool"),
    *("float32", "float32", "float64", "float16", "bfloat16", "fp8e4m3", "fp8e5m2"),
)


@dataclass(frozen=True)
class Trial:
    """A random program with options; the last `weights` of its inputs are weights of the model.

    With relaxed sums the inputs are small integers, whose sums are the same in every order.
    """

    recipe: Recipe
    options: tuple[tuple[str, Any], ...] = ()
    weights: int = 0

    def model(self) -> tuple[Callable[..., Any], list[np.ndarray]]:
        """The model, and its inputs."""
        from tinygrad import Tensor

        arrays = self.recipe.arrays()
        if ("float_order", "relaxed") in self.options:
            arrays = [_small(a) for a in arrays]
        count = len(arrays)
        while count > max(1, len(arrays) - self.weights) and arrays[count - 1].dtype.isbuiltin == 1:
            count -= 1  # tinygrad makes no Tensor of the types of ml_dtypes.
        held = [Tensor(a) for a in arrays[count:]]
        names = ", ".join(f"x{n}" for n in range(count))
        # Parameters of a model are counted, so that it cannot take any number.
        model = eval(f"lambda {names}: recipe({names}, *held)", {"recipe": self.recipe, "held": held})
        return model, arrays[:count]


def _small(array: np.ndarray) -> np.ndarray:
    """Its elements as integers of at most 3."""
    if array.dtype.kind == "b":
        return array
    wide = np.nan_to_num(array.astype(np.float64), posinf=2, neginf=-1)
    return np.clip(np.rint(wide), 0 if array.dtype.kind == "u" else -3, 3).astype(array.dtype)


@st.composite
def trials(draw: st.DrawFn) -> Trial:
    """Strategy of programs with options."""
    chosen: dict[str, Any] = {
        "multipliers": draw(st.sampled_from([None, None, 1, 2, 3, 4, 8, 16])),
        "weights": draw(st.sampled_from(["rom", "rom", "loadable", "external"])),
        "schedule": draw(st.sampled_from(["auto", "serial", "overlap", "dataflow"])),
        "float_order": draw(st.sampled_from(["strict", "strict", "relaxed"])),
        "target": draw(st.sampled_from(["generic", "generic", "ecp5", "ice40"])),
        "cut_kernels": draw(st.booleans()),
        "share_kernels": draw(st.booleans()),
        "share_multipliers": draw(st.booleans()),
        "share_units": draw(st.booleans()),
    }
    if chosen["multipliers"] is None and draw(st.booleans()):
        chosen["unroll_factor"] = draw(st.sampled_from([2, 3, 4]))
        chosen["reduce_unroll_factor"] = draw(st.sampled_from([1, 2, 3]))
    if chosen["weights"] == "external":
        chosen["on_chip_bits"] = draw(st.sampled_from([1, 64, 1 << 20]))
    default = CompileOptions()
    options = {k: v for k, v in chosen.items() if v != getattr(default, k)}
    return Trial(draw(recipes(types=TYPES)), tuple(options.items()), draw(st.integers(0, 2)))


class WrongResult(Exception):
    """Bits or cycles that differ."""


def check(trial: Trial, simulate: bool, counts: Counter[str]) -> None:
    """Compile, compute and perhaps simulate a program.

    Raises
    ------
    WrongResult
        Where something differs.
    """
    model, arrays = trial.model()
    check_model(model, arrays, CompileOptions(**dict(trial.options)), simulate, counts)


def check_model(
    model: Callable[..., Any],
    inputs: Any,
    options: CompileOptions,
    simulate: bool,
    counts: Counter[str],
    ulp: int = 2,
) -> None:
    """As `check`, of any model."""
    compiled = tg2hdl.compile(model, *inputs, options=options)
    _read_again(compiled.design)
    arrays = [i for i in inputs if not hasattr(i, "unbind")]
    captured = compiled.captured
    compared = compare_with_interpreter(captured, *arrays, ulp=ulp)
    counts["kernels"] += compared.kernels
    counts["kernels that the interpreter cannot run"] += compared.skipped
    if compared.mismatches:
        raise WrongResult("against the interpreter: " + "; ".join(compared.mismatches))
    golden = captured.flat(compiled.golden(*arrays))
    for number, (got, want) in enumerate(zip(golden, _as_captured(captured, arrays, options), strict=True)):
        if not _equal(got.reshape(-1), want.reshape(-1), options.float_order == "relaxed"):
            raise WrongResult(f"output {number} of the design: {got.reshape(-1)[:8]} instead of {want[:8]}")
    counts["golden"] += 1
    if not simulate:
        return
    compiled.reset()
    run = compiled.simulate(*arrays)
    counts["simulated"] += 1
    counts["simulated cycles"] += run.cycles.compute
    if not all(same_bits(a, b) for a, b in zip(captured.flat(run.output), golden, strict=True)):
        raise WrongResult(f"hardware gives {run.output}, golden model {golden}")
    if run.cycles.compute != compiled.predicted_cycles:
        raise WrongResult(f"{run.cycles.compute} cycles, predicted {compiled.predicted_cycles}")


def _read_again(design: Design) -> None:
    """A design that was saved is accepted, and is the same."""
    text = design.to_json()
    try:
        is_same = Design.from_json(text).to_json() == text
    except Tg2hdlError as error:
        raise WrongResult(f"a saved design is refused: {error}") from error
    if not is_same:
        raise WrongResult("a saved design is read as another one")


def _as_captured(captured: Any, inputs: list[Any], options: CompileOptions) -> list[np.ndarray]:
    """Outputs of the program before any pass, with the units of the design: they may round unlike the interpreter."""
    bound, program = captured.bind(*inputs), captured.program
    found = evaluate_program(
        program, bound, captured.var_vals or None, target=options.target, units=options.units
    )
    return [found[program.buffers[b].name].reshape(-1) for b in program.outputs]


def _equal(got: np.ndarray, want: np.ndarray, is_relaxed: bool) -> bool:
    if same_bits(got, want):
        return True
    one, two = got.astype(np.float64), want.astype(np.float64)
    if np.array_equal(one, two, equal_nan=True):
        number = ~np.isnan(two)
        return is_relaxed or bool(np.array_equal(np.signbit(one)[number], np.signbit(two)[number]))
    if not is_relaxed or got.dtype.kind in "biu":
        return False
    # Sums in another order: of what is finite, within the last bits of the largest element.
    finite = np.isfinite(one) & np.isfinite(two)
    largest = float(np.abs(two[finite]).max(initial=0))
    eps = {2: 2**-7, 1: 2**-2, 4: 2**-20}.get(got.dtype.itemsize, 2**-40)
    return bool(np.all(np.abs(one - two)[finite] <= 4 * eps * largest))


class Fuzzer:
    """Counts, refusals and faults of a run."""

    def __init__(self, simulate: int) -> None:
        self.simulate = simulate
        self.counts: Counter[str] = Counter(dict.fromkeys(("golden", "simulated", "refused"), 0))
        self.refusals: Counter[str] = Counter()
        self.options: Counter[str] = Counter()
        self.faults: dict[str, str] = {}

    def attempt(self, name: str, run: Callable[[bool], None]) -> None:
        """Run a program, and count what became of it; what is wrong is raised again."""
        signal.signal(signal.SIGPROF, _too_long)
        signal.setitimer(signal.ITIMER_PROF, LIMIT)
        try:
            with np.errstate(all="ignore"):
                # By the name, so that the same program is treated alike when it is tried again.
                run(bool(self.simulate) and crc32(name.encode()) % self.simulate == 0)
        except (IRVerificationError, SimulationError):
            raise
        except Tg2hdlError as error:
            self.counts["refused"] += 1
            self.refusals[re.sub(r"\d+|'[^']*'|E_\w+|r_\w+", "..", error.message)] += 1
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)

    def batch(self, number: int, programs: int = BATCH) -> None:
        """Programs of a seed; of those that fail, the smallest."""
        last: list[Trial] = []

        def one(trial: Trial) -> None:
            last[:] = [trial]
            self.options.update(f"{name}={value}" for name, value in trial.options)
            self.attempt(repr(trial), lambda simulate: check(trial, simulate, self.counts))

        phases = (Phase.generate, Phase.shrink)
        chosen = settings(
            max_examples=programs,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            phases=phases,
            print_blob=False,
            report_multiple_bugs=False,
        )
        try:
            seed(number)(chosen(given(trials())(one)))()
        except Exception as error:
            self.fault(f"seed {number}: {last[0]!r}", error)

    def fault(self, name: str, error: Exception) -> None:
        lines = str(error).strip().split("\n") or [""]
        self.faults[name] = f"{type(error).__name__}: {lines[0]}"
        print(f"WRONG {name}: {self.faults[name]}", flush=True)

    def summary(self) -> str:
        return ", ".join(f"{n:,} {k}" for k, n in self.counts.items()) + f", {len(self.faults)} wrong"


def _too_long(*_: object) -> None:
    raise TimeoutError(f"the program takes more than {LIMIT} CPU seconds")


def _named(fuzzer: Fuzzer, pattern: str) -> None:
    """The programs that must run, with the default options."""
    from tg2hdl_backend.testing import PROGRAMS

    for name, (model, inputs) in PROGRAMS.items():
        if re.search(pattern, name):
            try:
                fuzzer.attempt(
                    name,
                    lambda simulate, m=model, i=inputs: check_model(
                        m, i, CompileOptions(), simulate, fuzzer.counts, ulp=1
                    ),
                )
            except Exception as error:
                fuzzer.fault(name, error)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1, help="first seed (default: 1)")
    parser.add_argument("--count", type=int, default=5000, help="programs to compute (default: 5000)")
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after this time")
    parser.add_argument(
        "--simulate", type=int, default=5, metavar="N", help="simulate one in N; 0: none (default: 5)"
    )
    parser.add_argument(
        "--named", metavar="PATTERN", help="programs of tg2hdl_backend.testing by regular expression"
    )
    parser.add_argument("--no-record", action="store_true", help="leave programs.json as it is")
    options = parser.parse_args()
    fuzzer, started, number = Fuzzer(options.simulate), time.perf_counter(), options.seed
    if options.named is not None:
        _named(fuzzer, options.named)
    else:
        while fuzzer.counts["golden"] < options.count and time.perf_counter() - started < options.seconds:
            fuzzer.batch(number)
            print(f"seed {number}: {fuzzer.summary()}", flush=True)
            number += 1
            _record(fuzzer, options)
    for reason, count in fuzzer.refusals.most_common():
        print(f"refused {count} times: {reason}")
    print(fuzzer.summary())
    _record(fuzzer, options)
    return int(bool(fuzzer.faults))


def _record(fuzzer: Fuzzer, options: argparse.Namespace) -> None:
    if options.no_record:
        return
    name = "programs.json" if options.named is None else "named_programs.json"
    chosen = (
        f"--named '{options.named}'"
        if options.named is not None
        else f"--seed {options.seed} --count {options.count}"
    )
    write_record(
        HERE / name,
        "tinygrad programs against tinygrad's interpreter, and simulated hardware",
        f"python benchmarks/fuzz/programs.py {chosen} --simulate {options.simulate}",
        {**fuzzer.counts, "wrong": len(fuzzer.faults)},
        refused=dict(fuzzer.refusals.most_common()),
        options=dict(sorted(fuzzer.options.items())),
        faults=fuzzer.faults,
    )


if __name__ == "__main__":
    sys.exit(main())

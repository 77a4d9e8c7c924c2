"""Exploring the designs of a model: goals, limits, fronts, studies and errors."""

from __future__ import annotations

import html
import itertools
import json
import re
import shutil
import subprocess

import numpy as np
import pytest
from click.testing import CliRunner
from tinygrad import Tensor

import tg2hdl
from tg2hdl import Accelerator
from tg2hdl.cli import cli
from tg2hdl.exploration.figures import Figures, PointChoice, PointPlanner
from tg2hdl.exploration.search import Search
from tg2hdl.exploration.space import Space
from tg2hdl.exploration.study import Study
from tg2hdl_backend import capture
from tg2hdl_ir import CapacityError, InputError
from tg2hdl_synth import DesignTooLargeError, part_named
from tg2hdl_top import CompileOptions, compile_program

PART = "ecp5-25k"
SPACE = {"multipliers": [None, 2, 4, 8]}
X = np.zeros((4, 16), np.int8)
MODEL = """
import numpy as np
def model(x): return (x.cast("int32") * x).sum(-1).relu()
example_inputs = (np.zeros((4, 16), np.int8),)
"""


def squares(x):
    return (x.cast("int32") * x).sum(-1).relu()


@pytest.fixture(scope="module")
def found():
    return tg2hdl.explore(squares, X, part=PART, space=SPACE)


@pytest.fixture
def file(tmp_path):
    (tmp_path / "model.py").write_text(MODEL)
    return tmp_path / "model.py"


def run(*arguments, columns=80):
    return CliRunner(env={"COLUMNS": str(columns)}).invoke(cli, [str(a) for a in arguments])


def test_each_point_has_the_cycles_of_its_design(found):
    assert [p.settings["multipliers"] for p in found.points] == [8, 4, 2, None]
    for point in found.points:
        alone = tg2hdl.compile(squares, X, multipliers=point.settings["multipliers"])
        fit = alone.fits(PART)
        assert (point.cycles, point.interval) == (alone.predicted_cycles, alone.predicted_interval)
        assert (point.needs, point.fmax, point.fits) == (fit.needs, fit.fmax, True)


def test_the_best_by_each_goal(found):
    least = {
        "latency": lambda p: p.cycles,
        "interval": lambda p: p.interval,
        "smallest": lambda p: p.needs["lut"],
        "block-ram": lambda p: p.needs["bram"],
        "fastest": lambda p: p.cycles / p.fmax,
    }
    for goal, value in least.items():
        by_goal = tg2hdl.explore(squares, X, part=PART, space=SPACE, goal=goal)
        assert value(by_goal.best) == min(map(value, by_goal.points))
        assert {p.cycles for p in found.points} <= {p.cycles for p in by_goal.points}


def test_the_front_is_all_that_nothing_beats(found):
    def costs(point):
        return point.cycles, point.interval, point.needs["lut"], point.needs["bram"]

    for point in found.points:
        beaten = any(
            all(a <= b for a, b in zip(costs(o), costs(point), strict=True)) and costs(o) != costs(point)
            for o in found.points
        )
        assert (point in found.pareto) is not beaten


def test_a_point_compiles_with_its_options_and_runs(found):
    accelerator = found.compile()
    assert accelerator.options == found.best.options
    x = np.arange(64, dtype=np.int8).reshape(4, 16)
    assert np.array_equal(accelerator.simulate(x).output, np.square(x.astype(np.int32)).sum(-1))


def test_a_limit_on_the_rate_leaves_the_smallest_that_is_fast_enough(found):
    limit = sorted(p.rate for p in found.points)[2]
    slow = tg2hdl.explore(squares, X, part=PART, goal="smallest", space=SPACE).best
    fast = tg2hdl.explore(squares, X, part=PART, goal="smallest", space=SPACE, limits={"rate": limit})
    assert slow.rate < limit <= fast.best.rate
    assert fast.best.needs["lut"] == min(p.needs["lut"] for p in fast.points if p.rate >= limit)
    assert {p.options.target for p in fast.points} == {"generic", "ecp5"}  # whose clocks differ


def test_budgets_share_plans_and_nothing_else_changes():
    """The plans of a planner that has planned other budgets are those of a new one."""
    w = Tensor(np.random.default_rng(0).standard_normal((12, 4)).astype(np.float32))
    program = capture(lambda x: (x @ w).relu().sum(-1), np.zeros((4, 12), np.float32)).program
    planner = PointPlanner({"": (program, {})}, "ecp5-85k")
    for order, budget in itertools.product(("strict", "relaxed"), (8, 1, 4, 2, None)):
        options = CompileOptions(multipliers=budget, float_order=order, validate="off")
        shared, alone = planner.planned(PointChoice(options))[1], compile_program(program, options)
        assert shared.format() == alone.format()


def test_numbers_change_only_where_that_is_allowed():
    w = Tensor(np.ones((256, 1), np.float32))
    given = {"part": "ecp5-85k", "space": {"multipliers": [1]}}
    strict = tg2hdl.explore(lambda x: x @ w, np.zeros((1, 256), np.float32), **given)
    relaxed = tg2hdl.explore(lambda x: x @ w, np.zeros((1, 256), np.float32), allow=["float_order"], **given)
    assert {p.options.float_order for p in strict.points} == {"strict"}
    assert relaxed.best.settings["float_order"] == "relaxed"
    assert relaxed.best.cycles < strict.best.cycles


def test_fit_is_the_best_point(found):
    fitted = tg2hdl.compile(squares, X, fit="orangecrab-25f")
    assert fitted.predicted_cycles == tg2hdl.explore(squares, X, part=PART).best.cycles
    assert fitted.predicted_cycles < tg2hdl.compile(squares, X).predicted_cycles
    kept = tg2hdl.compile(squares, X, multipliers=2, fit=PART)
    assert kept.options.multipliers == 2


def test_what_fits_nothing_says_what_is_short(monkeypatch):
    large = Tensor(np.random.default_rng(0).integers(-9, 9, (512, 512)).astype(np.int8)).realize()

    def linear(x):
        return x.cast("int32") @ large.cast("int32")

    with pytest.raises(CapacityError) as error:
        tg2hdl.compile(linear, np.zeros((1, 512), np.int8), multipliers=1, fit=PART)
    assert str(error.value) == (
        "capacity: no design of linear fits ecp5-25k\n"
        "  note: the smallest, with multipliers 1, needs 82 of 56 block RAMs\n"
        "  hint: choose a larger part, quantize the model, or keep its weights outside the chip (weights external)"
    )


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (
            {"goal": "cheapest"},
            "goal 'cheapest' is unknown\n"
            "  hint: choose one of: latency, interval, fastest, area, multipliers, block-ram, loss, smallest",
        ),
        (
            {"limits": {"power": 1}},
            "limit 'power' is unknown\n"
            "  hint: choose among: latency, interval, fastest, area, multipliers, block-ram, loss, rate",
        ),
        ({"limits": {"rate": 0}}, "limit rate=0 is not a positive number\n  hint: give a number above 0"),
        (
            {"allow": ["schedule"]},
            "'schedule' is nothing to allow\n  hint: choose among: float_order, fold_batchnorm",
        ),
        (
            {"space": {"multipliers": 4}},
            "dimension 'multipliers' is 4, not a list of values\n  hint: give e.g. {'multipliers': [...]}",
        ),
        (
            {"space": {"weights": ["tape"]}},
            'weights=\'tape\' is unknown\n  hint: choose "rom", "loadable" or "external"',
        ),
        ({"workers": 0}, "workers=0 is not a positive integer\n  hint: give the number of processes, e.g. 2"),
    ],
)
def test_bad_arguments(given, text):
    with pytest.raises(InputError) as error:
        tg2hdl.explore(squares, X, **{"part": PART, **given})
    assert str(error.value) == f"bad input: {text}"


def test_an_unknown_part_lists_boards_and_parts():
    with pytest.raises(InputError, match="there is no part or board 'big'") as error:
        tg2hdl.compile(squares, X, fit="big")
    assert "ulx3s-85f" in str(error.value)
    assert "ecp5-85k" in str(error.value)


@pytest.mark.parametrize(("name", "meant"), [("ulx3s-85", "ulx3s-85f"), ("ice40up5k", "ice40-up5k")])
def test_a_mistyped_part_is_answered_with_the_one_that_was_meant(name, meant):
    with pytest.raises(InputError) as error:
        tg2hdl.compile(squares, X, fit=name)
    assert str(error.value).endswith(f"  hint: did you mean {meant}?")


def test_limits_that_nothing_keeps(found):
    nothing = tg2hdl.explore(squares, X, part=PART, space=SPACE, limits={"latency": 3})
    with pytest.raises(CapacityError) as error:
        nothing.compile()
    assert str(error.value) == (
        "capacity: no design of squares that fits ecp5-25k keeps the limits\n"
        f"  note: multipliers 8: latency {found.best.cycles} cycles, at most 3 wanted\n"
        "  hint: relax a limit, choose a larger part, or allow what may change numbers: float_order, fold_batchnorm"
    )


def test_a_study_goes_on_where_it_was_stopped(tmp_path, monkeypatch, found):
    path, estimated = tmp_path / "study.json", PointPlanner.estimated
    calls = []

    def stops(self, choice, design):
        calls.append(choice)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return estimated(self, choice, design)

    monkeypatch.setattr(PointPlanner, "estimated", stops)
    with pytest.raises(KeyboardInterrupt):
        tg2hdl.explore(squares, X, part=PART, space=SPACE, study=path)
    again = tg2hdl.explore(squares, X, part=PART, space=SPACE, study=path, resume=True)
    assert len(calls) == 3 + 2  # two were known
    assert [p.figures for p in again.points] == [p.figures for p in found.points]
    for other, text in (
        ((squares, np.zeros((4, 8), np.int8)), "another model"),
        ((squares, X), "the part ecp5-25k"),
    ):
        part = PART if "model" in text else "ecp5-45k"
        with pytest.raises(InputError, match=text):
            tg2hdl.explore(*other, part=part, study=path, resume=True)
    data = json.loads(path.read_text())
    path.write_text(json.dumps(data | {"compiler": "other"}))
    with pytest.raises(InputError, match=r"study\.json was made by another compiler"):
        tg2hdl.explore(squares, X, part=PART, study=path, resume=True)
    path.write_text("{}")
    with pytest.raises(InputError, match="is not a study"):
        tg2hdl.explore(squares, X, part=PART, study=path, resume=True)


def test_workers_find_the_same(found):
    pooled = tg2hdl.explore(squares, X, part=PART, space=SPACE, workers=2)
    assert [p.figures for p in pooled.points] == [p.figures for p in found.points]


def test_plans_of_a_part_are_used_again(monkeypatch, tmp_path):
    monkeypatch.setenv("TG2HDL_CACHE_DIR", str(tmp_path / "cache"))
    first = tg2hdl.explore(squares, X, part=PART, space=SPACE)
    monkeypatch.setattr(PointPlanner, "planned", None)
    again = tg2hdl.explore(squares, X, part=PART, space=SPACE)
    assert [p.figures for p in again.points] == [p.figures for p in first.points]
    assert again.compile().design.format() == first.compile().design.format()
    assert again.compile().design.validation is not None
    assert again.report().facts["points"] == first.report().facts["points"]


def test_the_command_prints_the_front_and_the_command_line_of_the_best(file, tmp_path):
    study, page = tmp_path / "s.json", tmp_path / "page.html"
    options = ["--board", "orangecrab-25f", "--try", "multipliers=none,2,4,8", "-o", page]
    done = run("explore", file, *options, "--study", study, "--json", tmp_path / "points.json")
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0] == "model on ecp5-25k: 4 designs, 4 estimated, 4 on the front"
    files = [study, page, page.with_suffix(".json"), tmp_path / "points.json"]
    assert lines[-5:] == [f"tg2hdl compile {file} --multipliers 8", *(f"wrote {each}" for each in files)]
    assert all(len(line) <= 80 for line in lines[:-5])
    points = json.loads((tmp_path / "points.json").read_text())["points"]
    assert [p["best"] for p in points] == [True, False, False, False]
    narrow = run("explore", file, *options, "--resume", study, columns=40)
    assert len(narrow.stdout.splitlines()) > len(lines)
    assert all(len(line) <= 40 for line in narrow.stdout.splitlines()[:-4])


def test_ctrl_c_keeps_what_is_known(file, tmp_path, monkeypatch):
    estimated, calls = PointPlanner.estimated, []

    def stops(self, choice, design):
        calls.append(choice)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return estimated(self, choice, design)

    monkeypatch.setattr(PointPlanner, "estimated", stops)
    arguments = [
        "explore",
        file,
        "--part",
        PART,
        "--try",
        "multipliers=2,4,8",
        "--study",
        tmp_path / "s.json",
    ]
    done = run(*arguments)
    assert done.exit_code == 130
    assert "3 designs, 2 estimated, 2 on the front, stopped before the\nend\n" in done.stdout
    assert done.stdout.endswith(f"stopped; go on with --resume {tmp_path / 's.json'}\n")


def test_fit_of_the_commands(file, tmp_path):
    done = run("compile", file, "--fit", "orangecrab-25f", "-o", tmp_path)
    assert done.exit_code == 0, done.output
    assert "for orangecrab-25f: --multipliers 24" in done.stdout
    done = run("simulate", file, "--fit", PART, "--engine", "amaranth")
    assert done.exit_code == 0, done.output


def test_figures_of_a_design_without_estimate_do_not_fit():
    assert Figures(cycles=1).refusal == ""
    assert not Figures(cycles=1).is_estimated


CLICK = """
<script>
addEventListener("load", () => {
  document.querySelectorAll("#front circle[data-opens]")[1].dispatchEvent(new MouseEvent("click", { bubbles: true }));
  const open = [...document.querySelectorAll("details[open]")].map((d) => d.id);
  const wide = document.documentElement.scrollWidth > innerWidth;
  document.body.setAttribute("data-seen", JSON.stringify({ open, wide }));
});
</script>
"""


def test_the_page_has_for_each_point_its_decisions_memories_and_command(found):
    page = found.report("model.py").html
    text = html.unescape(page)
    assert "http" not in re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    assert len(found.pareto) > 1
    for point in found.pareto:
        accelerator = point.compile()
        command = " ".join(["tg2hdl compile model.py", *point.command_options])
        assert f'data-copy="{command}"' in text
        assert accelerator.explain(variants=False).format(110) in text
        assert all(f"<code>{memory.name}</code>" in text for memory in accelerator.memory)


@pytest.mark.skipif(shutil.which("chromium") is None, reason="no chromium")
def test_a_point_opens_its_design_in_a_browser_of_a_phone(found, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(found.report().html.replace("</body>", CLICK + "</body>"))
    command = [
        "chromium",
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={tmp_path / 'p'}",
    ]
    command += ["--window-size=390,900", "--virtual-time-budget=60000", "--dump-dom", path.as_uri()]
    dom = subprocess.run(command, capture_output=True, text=True, timeout=300).stdout
    seen = json.loads(html.unescape(re.search(r'data-seen="([^"]*)"', dom)[1]))
    assert seen == {"open": ["design-2"], "wide": False}


class FloatRunner:
    """Designs of 12,000 LUTs for each multiplier, whose units declare 10,000."""

    def __init__(self):
        self.asked = []

    def planned(self, ladders):
        for choice in itertools.chain(*ladders):
            n = choice.options.multipliers
            yield choice, Figures(100 // n, 100 // n, {"bram": 0}, units={"lut": 10_000 * n, "ff": 100 * n})

    def estimated(self, choices):
        for each in choices:
            self.asked.append(n := each.options.multipliers)
            needs = {"bram": 0, "lut": 12_000 * n, "ff": 0, "dsp": n}
            units = {"lut": 10_000 * n, "ff": 100 * n}
            yield each, Figures(100 // n, 100 // n, needs, fmax=100.0, units=units, is_estimated=True)

    def close(self):
        pass


def test_a_design_that_is_surely_too_large_is_not_estimated():
    part = part_named("ecp5-25k")
    runner = FloatRunner()
    space = Space({"multipliers": (1, 2, 4)}, CompileOptions(), part)
    search = Search("m", space, Study(None, "", part.name), runner, "latency", {})
    found = search.run(every=False)
    assert runner.asked == [1, 2]  # a sample, then the fastest that may fit
    assert found.best.settings == {"multipliers": 2}
    assert found.points[0].figures.refusal == "about 48,000 of 24,288 LUTs"


class Measured:
    """What place and route found: half as many LUTs again."""

    fmax = 50.0

    def __init__(self, luts):
        self.luts = luts

    def used(self, kind):
        return {"comb": self.luts, "ff": 7, "dsp": 2, "bram": 0}[kind]


def test_verified_points_are_measured_and_lose_their_place(monkeypatch, found):
    smallest = sorted(found.points, key=lambda p: p.needs["lut"])
    asked = []

    def synthesize(self, part, seeds):
        asked.append((self.options.multipliers, part, seeds))
        if len(asked) == 2:
            raise DesignTooLargeError("no room")
        return Measured(10 * smallest[-1].needs["lut"] if len(asked) == 1 else 100)

    monkeypatch.setattr(Accelerator, "synthesize", synthesize)
    verified = tg2hdl.explore(squares, X, part=PART, space=SPACE, goal="smallest", verify=1)
    assert asked == [(p.settings["multipliers"], PART, 1) for p in smallest[:3]]
    assert verified.best.settings == smallest[2].settings
    assert (verified.best.needs["lut"], verified.best.fmax, verified.best.is_measured) == (100, 50.0, True)
    assert verified.best.figures.estimate == {**smallest[2].needs, "fmax": smallest[2].fmax}
    refused = next(p for p in verified.points if p.settings == smallest[1].settings)
    assert (refused.fits, refused.figures.refusal) == (False, "place and route: no room")
    assert "P&R" in str(verified)
    page = verified.report().html
    assert "fits, measured by place and route" in page
    assert f'<td class="n">100</td><td class="n">{smallest[2].needs["lut"]}</td>' in page

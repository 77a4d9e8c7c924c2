"""The report: its figures are those of the accelerator, and the page stands alone."""

import base64
import gzip
import html
import json
import re
import shutil
import subprocess
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from tinygrad import Tensor

import tg2hdl
from tg2hdl.cli import cli
from tg2hdl.report import ReportContext, build_report, gather_facts, read_facts
from tg2hdl.report.charts import _Axis
from tg2hdl.report.datapath import datapath_groups, draw_datapath
from tg2hdl.report.model_graph import graph_of
from tg2hdl.report.page import page_of
from tg2hdl.report.sections import multipliers
from tg2hdl.report.sweep import swept
from tg2hdl.report.utilization import events_of, kernel_events
from tg2hdl.report.waveform import _sampled, recorded_waves
from tg2hdl.results import labelled, labels_of
from tg2hdl.trace import chrome_trace
from tg2hdl_ir import InputError, ReportSection, Tg2hdlError, registry

X = np.arange(16, dtype=np.int8).reshape(1, 16)
MODEL = """
import numpy as np
from tinygrad import Tensor
w = Tensor(np.arange(-64, 64, dtype=np.int8).reshape(16, 8))
def model(x): return ((x.cast("int32") @ w.cast("int32")).relu() * 3).max(axis=1)
example_inputs = (Tensor.empty(1, 16, dtype="int8"),)
"""

KEYS = """import numpy as np
from tinygrad import Tensor
W = {"q": Tensor(np.arange(64, dtype=np.int8).reshape(8, 8)), "k": Tensor(np.arange(24, dtype=np.int8).reshape(8, 3))}
def model(x):
    h = (x.cast("int32") @ W["q"].cast("int32")).relu()
    return h @ W["k"].cast("int32")
example_inputs = (Tensor.empty(1, 8, dtype="int8"),)
"""


@pytest.fixture(scope="module")
def accelerator():
    w1 = Tensor(np.arange(-64, 64, dtype=np.int8).reshape(16, 8))
    w2 = Tensor(np.arange(-12, 12, dtype=np.int32).reshape(8, 3))

    def two_layers(x):
        return (x.cast("int32") @ w1.cast("int32")).relu() @ w2

    return tg2hdl.compile(two_layers, X, multipliers=4, options=tg2hdl.CompileOptions(schedule="serial"))


@pytest.fixture(scope="module")
def result(accelerator):
    return accelerator.simulate(X, engine="amaranth")


@pytest.fixture(scope="module")
def facts(accelerator, result):
    return gather_facts(accelerator, (X,), result)


def test_kernels_follow_each_other_as_simulated(facts, result):
    assert [k["cycles"] for k in facts["kernels"]] == list(result.cycles.kernels)
    assert [k["start"] for k in facts["kernels"]] == [0, *np.cumsum(result.cycles.kernels)[:-1].tolist()]
    assert (
        facts["kernels"][-1]["end"]
        == facts["cycles"]
        == facts["simulated"]["compute"]
        == result.cycles.compute
    )


def test_a_kernel_waits_for_the_one_that_writes_what_it_reads(facts):
    first, second = facts["kernels"]
    (wait,) = second["waits_for"]
    assert not first["waits_for"]
    assert wait == {"buffer": first["writes"][0], "kernel": 0}


def test_words_moved_of_a_matrix_product(facts):
    first = facts["kernels"][0]
    # 128 products, 4 in each step, and each step reads 4 weights, which fit 7 bits, and 4 elements of x, of 8 bits.
    assert first["bits_read"] == 128 // 4 * 4 * (7 + 8)
    assert first["macs"] == 16 * 8


def test_ranges_are_those_of_numpy(facts):
    hidden = np.maximum(X.astype(int) @ np.arange(-64, 64).reshape(16, 8), 0)
    output = hidden @ np.arange(-12, 12).reshape(8, 3)
    by_name = {b["name"]: b for b in facts["numbers"]["buffers"]}
    found = by_name[facts["kernels"][0]["writes"][0]]
    assert (found["low"], found["high"]) == (hidden.min(), hidden.max())
    assert found["zeros"] == (hidden == 0).mean()
    assert (by_name["output"]["low"], by_name["output"]["high"]) == (output.min(), output.max())
    assert all(a["agrees"] for a in facts["numbers"]["agreement"])


def test_the_page_needs_no_other_file(accelerator, result):
    page = accelerator.report(X, simulation=result).html
    own = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    assert not re.findall(r"""(?:src|href)=["'](?!#)""", own)
    titles = re.findall("<h2>([^<]*)</h2>", own)
    assert titles[:4] == ["Model", "Summary", "Layers", "Utilization"]
    assert {"Memory", "Roofline", "Area", "Decisions", "Numbers"} <= set(titles)
    assert not {"Comparison", "Multipliers"} & set(titles)
    assert len(page) < 200_000


def test_kernels_have_pages_with_decisions_datapath_and_waveform(accelerator, result):
    page = accelerator.report(X, simulation=result).html
    packed = re.search(r'id="kernels">([^<]*)<', page)[1]
    first, second = json.loads(gzip.decompress(base64.b64decode(packed)))
    assert "<code>lanes</code>" in first
    assert 'class="datapath"' in first
    assert 'class="wave"' in first
    assert "waits for <code>temp0</code>" in second
    label = gather_facts(accelerator)["kernels"][0]["label"]
    assert f'data-opens="k0">{label}</a>' in second
    waves = recorded_waves(accelerator, (X,))
    values = {trace.name: trace.values for trace in waves[0]}
    assert values["i1"][:6] == ("0", "0", "1", "2", "3", "0"), "four words of x, from the cycle after start"


def test_names_are_those_of_layers_and_lines(tmp_path):
    path = tmp_path / "cnn.py"
    path.write_text(KEYS)
    facts = gather_facts(tg2hdl.compile(str(path)))
    labels = [k["label"] for k in facts["kernels"]]
    assert len(set(labels)) == len(labels)
    assert {"W.q", "W.k"} <= set(labels)
    places = {k["label"]: k["place"] for k in facts["kernels"]}
    assert places["W.q"] == "cnn.py:5"
    assert places["W.k"] == "cnn.py:6"
    graph = graph_of(facts)
    assert {"from": "input x", "to": "k0", "text": "1 x 8 of 8 bits", "tensor": "x"} in graph["edges"]


def test_equal_kernels_have_lines_of_their_own(tmp_path):
    path = tmp_path / "norms.py"
    path.write_text(
        "import numpy as np\nfrom tinygrad import Tensor\nw = Tensor(np.eye(4, dtype=np.float32))\n"
        "def model(x):\n    x = x.layernorm() @ w\n    return x.layernorm()\n"
        "example_inputs = (np.ones((2, 4), np.float32),)\n"
    )
    facts = gather_facts(tg2hdl.compile(str(path), multipliers=2))
    places = [k["place"] for k in facts["kernels"] if k["label"].startswith("layernorm")]
    assert set(places[:2]) == {"norms.py:5"}
    assert set(places[-3:]) == {"norms.py:6"}


def _relu_of_a_file(folder):
    node = onnx.helper.make_node("Relu", ["x"], ["y"])
    values = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 8]) for name in "xy"]
    opsets = [onnx.helper.make_opsetid("", 18)]
    onnx.save(
        onnx.helper.make_model(
            onnx.helper.make_graph([node], "g", values[:1], values[1:]), opset_imports=opsets, ir_version=9
        ),
        folder / "relu.onnx",
    )
    return tg2hdl.compile(str(folder / "relu.onnx"))


UNUSUAL = {
    "a file, whose kernels have no lines": _relu_of_a_file,
    "the input as it is": lambda _: tg2hdl.compile(lambda x: x, X),
    "one number": lambda _: tg2hdl.compile(lambda x: x + 1, np.int8([1])),
    "nothing but comparisons": lambda _: tg2hdl.compile(lambda x: x > 3, X),
}


@pytest.mark.parametrize("what", UNUSUAL)
def test_a_page_of_unusual_designs(what, tmp_path):
    accelerator = UNUSUAL[what](tmp_path)
    page = accelerator.report().html
    assert "<h2>Layers</h2>" in page
    assert ("<th>line</th>" in page) == any(k["place"] for k in gather_facts(accelerator)["kernels"])


def test_boxes_of_a_datapath_have_the_names_of_buffers(accelerator):
    names = {number: f"buffer {number}" for number in range(3)}
    texts = [group.text for group in datapath_groups(accelerator.design.kernels[0], names)]
    assert sum(text.endswith(tuple(names.values())) for text in texts) == 3
    assert {text.split()[0] for text in texts} >= {"read", "write"}
    assert not any("%" in text for text in texts)


@pytest.mark.parametrize("values", [[4.0], [4, 4.1], [0.8, 1.3], [1, 9], [3, 2e4], [1e-3, 1e9]])
def test_axes_have_ticks(values):
    axis = _Axis.over(values, 0, 700)
    places = [at for at, _ in axis.ticks()]
    assert 2 <= len(places) <= 12
    assert places == sorted(places)
    assert len({text for _, text in axis.ticks()}) == len(places)


def test_no_ratio_is_below_one():
    w = Tensor(np.arange(-8, 8, dtype=np.int8).reshape(4, 4))
    facts = gather_facts(tg2hdl.compile(lambda x: x.cast("int32") @ w.cast("int32"), X[:, :4], multipliers=2))
    for k in facts["kernels"]:
        assert sum(k["slots"].values()) == k["cycles"] * k["multipliers"]
        assert min(k["slots"].values()) >= 0
        assert k["slots"]["useful"] > 0


@pytest.mark.parametrize("schedule", ["serial", "overlap"])
def test_the_heat_map_counts_what_the_simulation_does(schedule, tmp_path):
    w = Tensor(np.arange(18, dtype=np.int8).reshape(2, 1, 3, 3))

    def model(x):
        return x.cast("int32").conv2d(w.cast("int32"), padding=1).relu().max_pool2d()

    x = np.arange(36, dtype=np.int8).reshape(1, 1, 6, 6)
    options = tg2hdl.CompileOptions(schedule=schedule)
    accelerator = tg2hdl.compile(model, x, multipliers=4, options=options)
    with accelerator.session("amaranth", vcd=tmp_path / "run.vcd") as session:
        session.run(x)
    with (tmp_path / "run.vcd").open() as file:
        _, sampled = _sampled(file)
    counted = 0
    for number, plan in enumerate(accelerator.design.kernels):
        scope = f"kernel{number}"
        first = sampled[scope, "start"].index("1") + 1
        cycles = np.arange(plan.cycles() + 2)
        predicted: dict[tuple[str, str], np.ndarray] = {}
        for what, events in kernel_events(plan, {}):
            predicted[what] = predicted.get(what, 0) + np.diff(events_of(plan, events, 0, cycles, {}))
        for (kind, name), expected in predicted.items():
            pattern = "step" if kind == "steps" else rf"{kind}__{name}__\d+__en"
            enables = [
                values for (s, n), values in sampled.items() if s == scope and re.fullmatch(pattern, n)
            ]
            seen = sum(
                np.array([int(v) > 0 for v in values[first:]][: len(cycles) - 1], int) for values in enables
            )
            if kind == "write":  # Counted as evenly spread over the steps.
                assert seen.sum() == round(expected.sum())
            elif kind in ("steps", "read"):
                assert seen.tolist() == expected.tolist()
            counted += kind in ("steps", "read", "write")
    assert counted >= 6


def test_other_multipliers_are_planned_within_a_time(accelerator):
    found = swept(accelerator, seconds=120, progress=lambda message: None)
    assert found["now"] == 4
    points = {p["multipliers"]: p for p in found["points"]}
    assert points[4]["cycles"] == accelerator.predicted_cycles
    assert points[4]["lut"] > 0
    assert points[2]["cycles"] > points[4]["cycles"]
    assert swept(accelerator, seconds=0.01)["points"] == []


def test_text_of_the_user_is_escaped(accelerator):
    facts = gather_facts(accelerator)
    facts["name"] = "<b>&"
    page = page_of(facts["name"], [])
    assert "<h1>&lt;b&gt;&amp;</h1>" in page


def test_two_reports_compare(accelerator, tmp_path):
    page, figures = accelerator.report().save(tmp_path / "deep" / "one.html")
    assert page.is_file()
    assert json.loads(figures.read_text())["cycles"] == accelerator.predicted_cycles
    w = Tensor(np.arange(-64, 64, dtype=np.int8).reshape(16, 8))
    narrow = tg2hdl.compile(lambda x: x.cast("int32") @ w.cast("int32"), X, multipliers=1)
    html = narrow.report(against=figures).html
    assert "<h2>Comparison</h2>" in html
    assert f"{narrow.predicted_cycles:,}" in html
    assert f"{accelerator.predicted_cycles:,}" in html
    assert "<code>multipliers</code> was 4, is 1" in html


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"format": 0, "kernels": []}', '{"format": 1, "kernels": 3}']
)
def test_what_is_no_report_is_refused(text, tmp_path):
    file = tmp_path / "x.json"
    file.write_text(text)
    with pytest.raises(InputError, match=r"x\.json"):
        read_facts(file)


def test_a_missing_report_is_refused(accelerator):
    with pytest.raises(InputError, match="no file"):
        accelerator.report(against="missing.json")


def test_a_section_of_a_plugin_is_shown_and_a_faulty_one_is_a_line(accelerator, monkeypatch):
    sections = (
        ReportSection("mine", "Mine", f"{__name__}:mine", order=1),
        ReportSection("bad", "Bad", f"{__name__}:bad", order=2),
    )
    monkeypatch.setattr(registry(), "report_sections", lambda: sections)
    monkeypatch.setattr(registry(), "distribution", lambda section: "acme")
    monkeypatch.setattr(registry(), "plugin", lambda section: "acme:sections")
    html = build_report(accelerator).html
    assert "<em>two kernels</em>" in html
    assert "The section bad of plugin acme:sections failed: ZeroDivisionError" in html


def mine(context):
    return f"<em>{'two' if len(context.facts['kernels']) == 2 else 'other'} kernels</em>"


def bad(context):
    return 1 // 0


def test_equal_lanes_are_one_box(accelerator):
    plan = accelerator.design.kernels[0]
    groups = datapath_groups(plan)
    products = [g for g in groups if g.label == "product"]
    assert [len(g.members) for g in products] == [4]
    assert all(source < number for number, g in enumerate(groups) for source in g.sources)
    assert draw_datapath(plan).count("<rect") == len(groups)


def test_the_trace_has_an_event_for_each_kernel_and_its_units(accelerator, result):
    events = [e for e in chrome_trace(accelerator, result)["traceEvents"] if e["ph"] == "X"]
    kernels = [e for e in events if e["tid"] == 1]
    assert [e["dur"] for e in kernels] == list(result.cycles.kernels)
    assert len([e for e in events if e["args"].get("unit") == "multipliers"]) == 2


def test_tables_for_jupyter(accelerator, result):
    assert f"{accelerator.predicted_cycles:,} cycles" in accelerator._repr_html_()
    assert f"<td>{result.cycles.total:,}</td>" in result._repr_html_()
    assert "<iframe" in accelerator.report()._repr_html_()


def test_the_command_writes_page_figures_and_trace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(MODEL)
    done = CliRunner().invoke(
        cli,
        ["report", "model.py", "--engine", "amaranth", "-o", "r.html", "--trace", "t.json", "--sweep", "0"],
        catch_exceptions=False,
    )
    assert done.exit_code == 0, done.output
    facts = read_facts("r.json")
    assert facts["simulated"]["compute"] == facts["cycles"]
    assert json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    again = CliRunner().invoke(
        cli,
        ["report", "model.py", "--no-simulate", "--against", "r.json", "--multipliers", "2", "--sweep", "0"],
    )
    assert again.exit_code == 0, again.output
    assert "<h2>Comparison</h2>" in (tmp_path / "model.report.html").read_text()
    (tmp_path / "other.py").write_text(MODEL.replace(".relu()", ""))
    beside = ["report", "model.py", "--no-simulate", "--against", "other.py", "--sweep", "0"]
    assert CliRunner().invoke(cli, beside, catch_exceptions=False).exit_code == 0
    assert 'id="graph-before"' in (tmp_path / "model.report.html").read_text()


@pytest.mark.parametrize(
    "arguments", [["-o", "r.txt"], ["--against", "missing.json"], ["-o", "model.py/r.html"]], ids=str
)
def test_wrong_files_are_said_before_the_work(arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text("raise RuntimeError('too late')")
    with pytest.raises(Tg2hdlError):
        CliRunner().invoke(cli, ["report", "model.py", *arguments], catch_exceptions=False)


INTERACTION = """
<script>
window.faults = [];
window.addEventListener("error", (e) => faults.push(String(e.message)));
window.addEventListener("unhandledrejection", (e) => faults.push(String(e.reason)));
const complain = console.error;
console.error = (...words) => { faults.push(words.join(" ")); complain(...words); };
</script>
"""
ACTIONS = """
<script>
addEventListener("load", async () => {
  const seen = {}, one = (selector) => document.querySelector(selector);
  const wait = (ms) => new Promise((done) => setTimeout(done, ms));
  const happens = { bubbles: true, cancelable: true };
  const key = (element, name) => element.dispatchEvent(new KeyboardEvent("keydown", { key: name, ...happens }));
  // The pages of kernels are unpacked in another thread, for which the browser's virtual time does not wait.
  for (let n = 0; n < 1500 && !pages.length; n++) await wait(50);
  const canvas = one("#graph .canvas"), layers = [...document.querySelectorAll("#graph .layer")];
  const width = () => one("#graph svg").getBoundingClientRect().width;
  seen.wide = document.documentElement.scrollWidth > innerWidth;
  seen.layers = layers.map((layer) => layer.getAttribute("aria-label"));
  const before = width();
  canvas.dispatchEvent(new WheelEvent("wheel", { deltaY: -300, ...happens }));
  const zoomed = width();
  key(canvas, "-"); key(canvas, "-");
  seen.zoom = [zoomed > before, width() < zoomed];
  one("#graph button[data-zoom='0']").click();
  layers[0].focus();
  key(layers[0], "ArrowDown");
  seen.arrow = document.activeElement.dataset.id;
  key(document.activeElement, "Enter");
  await wait(300);
  seen.title = one("#kernel[open] h2").textContent;
  one("#kernel button[data-step='-1']").click();
  await wait(300);
  seen.before = one("#kernel[open] h2").textContent;
  seen.parts = [...document.querySelectorAll("#kernel h3")].map((h) => h.textContent);
  one("#kernel button[data-close]").click();
  seen.closed = !one("#kernel").open;
  layers[0].dispatchEvent(new MouseEvent("click", { bubbles: true }));
  await wait(300);
  seen.clicked = one("#kernel[open] h2").textContent;
  one("#kernel").close();
  const cell = one("#heat .cover"), box = cell.getBoundingClientRect();
  cell.dispatchEvent(new PointerEvent("pointermove", { clientX: box.left + box.width / 2, clientY: box.top + 2 }));
  seen.tip = one("#tip").textContent;
  const range = one("#multipliers-range");
  if (range) {
    range.value = 0;
    range.dispatchEvent(new Event("input"));
    seen.slider = [one("#slider output").textContent, one("#slider .tile strong").textContent];
    seen.short = one("#slider .short").textContent;
  }
  const themes = [];
  for (let n = 0; n < 2; n++) { one("#theme").click(); themes.push(document.documentElement.dataset.theme); }
  seen.themes = themes.sort();
  dispatchEvent(new Event("beforeprint"));
  seen.printed = document.documentElement.dataset.theme;
  seen.faults = faults;
  document.body.setAttribute("data-seen", JSON.stringify(seen));
});
</script>
"""


def in_chromium(path, width, profile):
    command = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}"]
    command += [f"--window-size={width},900", "--virtual-time-budget=120000", "--dump-dom", path.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=300).stdout


@pytest.mark.skipif(shutil.which("chromium") is None, reason="no chromium")
@pytest.mark.parametrize("width", [360, 1280])
def test_a_person_uses_the_page(accelerator, result, tmp_path, width):
    area = {"lut": 300, "ff": None, "dsp": 4, "bram": 1, "fmax": 90.0, "has": {"lut": 900}}
    area |= {"estimated": False, "refusal": "at least 300 of 200 LUTs"}
    points = [{"multipliers": n, "cycles": 4000 // n, "interval": 4000 // n, **area} for n in (2, 4)]
    facts = gather_facts(accelerator, (X,), result)
    sweep = {"part": "ecp5-45k", "seconds": 1.0, "now": 4, "points": points}
    context = ReportContext(accelerator, facts | {"sweep": sweep})
    slider = {"name": "multipliers", "title": "Multipliers", "body": multipliers.render(context)}
    page = accelerator.report(X, simulation=result).html.replace("<head>", "<head>" + INTERACTION, 1)
    page = page.replace('<section id="memory">', f'<section>{slider["body"]}</section><section id="memory">')
    path = tmp_path / "r.html"
    path.write_text(page.replace("</body>", ACTIONS + "</body>"))
    dom = in_chromium(path, width, tmp_path / "profile")
    seen = json.loads(html.unescape(re.search(r'data-seen="([^"]*)"', dom)[1]))
    first, second = (k["label"] for k in facts["kernels"])
    assert seen["faults"] == []
    assert not seen["wide"]
    assert f"{facts['kernels'][0]['cycles']} cycles" in seen["layers"][0]
    assert seen["zoom"] == [True, True]
    assert (seen["arrow"], seen["title"], seen["before"], seen["clicked"]) == ("k1", second, first, first)
    assert seen["parts"] == ["Loops", "Decisions", "Use of the hardware", "Waveform", "Datapath", "Memories"]
    assert seen["closed"]
    assert "100 % in cycles" in seen["tip"]
    assert seen["slider"] == ["2", "2,000"]
    assert seen["short"] == "does not fit: at least 300 of 200 LUTs"
    assert seen["themes"] == ["dark", "light"]
    assert seen["printed"] == "light"


def test_a_slider_without_designs_says_so(accelerator):
    sweep = {"part": "ecp5-45k", "seconds": 2.0, "now": 4, "points": []}
    context = ReportContext(accelerator, {"sweep": sweep})
    assert "No design could be planned in 2 seconds" in multipliers.render(context)


def test_labels_of_an_output():
    assert labels_of(SimpleNamespace(labels={"y": ["a", "b"]}), "y") == ("a", "b")
    assert labels_of(SimpleNamespace(labels=["a", "b"]), "y") == labels_of(SimpleNamespace(), "y") == ()
    assert labelled(("a", "b", "c", "d"), np.array([[1, 5, 3, 0]], np.int8)) == "b 5, c 3, a 1"
    assert labelled(("a", "b", "c"), np.array([2, 0])) == "c, a"
    assert labelled(("a", "b"), np.array([7])) == labelled(("a", "b"), np.array([0.5])) == ""

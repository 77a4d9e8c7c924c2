"""The report: its figures are those of the accelerator, and the page stands alone."""

import html
import json
import re
import shutil
import subprocess
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner
from tinygrad import Tensor

import tg2hdl
from tg2hdl.cli import cli
from tg2hdl.report import build_report, gather_facts, read_facts
from tg2hdl.report.datapath import datapath_groups, draw_datapath
from tg2hdl.results import labelled, labels_of
from tg2hdl.trace import chrome_trace
from tg2hdl_ir.errors import InputError, Tg2hdlError
from tg2hdl_ir.plugins.descriptors import ReportSection
from tg2hdl_ir.plugins.registry import registry

pytest.importorskip("plotly")

X = np.arange(16, dtype=np.int8).reshape(1, 16)
MODEL = """
import numpy as np
from tinygrad import Tensor
w = Tensor(np.arange(-64, 64, dtype=np.int8).reshape(16, 8))
def model(x): return ((x.cast("int32") @ w.cast("int32")).relu() * 3).max(axis=1)
example_inputs = (Tensor.empty(1, 16, dtype="int8"),)
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
    for title in ("Summary", "Layers", "Timeline", "Memory", "Roofline", "Datapath", "Numbers"):
        assert f"<h2>{title}</h2>" in page
    assert "<h2>Comparison</h2>" not in page
    assert len(page) < 2_500_000


def test_text_of_the_user_is_escaped(accelerator):
    facts = gather_facts(accelerator)
    facts["name"] = "<b>&"
    from tg2hdl.html_templates import environment

    page = environment().get_template("page.html.j2").render(facts=facts, sections=[], plotly="")
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
        ["report", "model.py", "--engine", "amaranth", "-o", "r.html", "--trace", "t.json"],
        catch_exceptions=False,
    )
    assert done.exit_code == 0, done.output
    facts = read_facts("r.json")
    assert facts["simulated"]["compute"] == facts["cycles"]
    assert json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    again = CliRunner().invoke(
        cli, ["report", "model.py", "--no-simulate", "--against", "r.json", "--multipliers", "2"]
    )
    assert again.exit_code == 0, again.output
    assert (tmp_path / "model.report.html").is_file()


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
(async () => {
  const seen = {};
  const wait = (ms) => new Promise((done) => setTimeout(done, ms));
  const chart = document.querySelector("#SECTION .chart > div");
  for (let n = 0; n < 600 && !(chart.data && chart.querySelector(".nsewdrag")); n++) await wait(50);
  chart.scrollIntoView();
  await wait(100);
  const layer = chart.querySelector(".nsewdrag");
  const box = layer.getBoundingClientRect();
  const at = (x, y) => ({ clientX: x, clientY: y, bubbles: true, cancelable: true, view: window });
  const move = (x, y) => ["mouseover", "mousemove"].forEach((k) => layer.dispatchEvent(new MouseEvent(k, at(x, y))));
  // Hover along a grid until a label is shown.
  for (let n = 0; n < 400 && !chart.querySelector(".hoverlayer .hovertext"); n++) {
    move(box.left + box.width * ((n % 20) + 0.5) / 20, box.top + box.height * (Math.floor(n / 20) + 0.5) / 20);
    await wait(60);
  }
  seen.hover = chart.querySelector(".hoverlayer .hovertext")?.textContent ?? "";
  const range = () => JSON.stringify(chart._fullLayout.xaxis.range);
  const before = range();
  const wheel = { ...at(box.left + box.width / 2, box.top + box.height / 2), deltaY: -300 };
  layer.dispatchEvent(new WheelEvent("wheel", wheel));
  await wait(500);
  seen.zoom = range() !== before;
  const legend = chart.querySelector(".legendtoggle");
  if (legend) {
    legend.dispatchEvent(new MouseEvent("mousedown", at(0, 0)));
    legend.dispatchEvent(new MouseEvent("mouseup", at(0, 0)));
    await wait(800);
  }
  seen.legend = chart._fullData.some((trace) => trace.visible === "legendonly");
  document.getElementById("theme").click();
  const first = document.documentElement.dataset.theme;
  document.getElementById("theme").click();
  seen.theme = first !== document.documentElement.dataset.theme;
  seen.faults = faults;
  document.body.setAttribute("data-seen", JSON.stringify(seen));
})();
</script>
"""


def in_chromium(path, width, profile):
    command = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}"]
    command += [f"--window-size={width},900", "--virtual-time-budget=120000", "--dump-dom", path.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=300).stdout


@pytest.mark.skipif(shutil.which("chromium") is None, reason="no chromium")
@pytest.mark.parametrize(("width", "section"), [(390, "roofline"), (1280, "timeline")])
def test_charts_are_drawn_in_a_browser_and_answer(accelerator, result, tmp_path, width, section):
    page = accelerator.report(X, simulation=result).html
    page = page.replace("<head>", "<head>" + INTERACTION, 1)
    page = page.replace("</body>", ACTIONS.replace("SECTION", section) + "</body>")
    path = tmp_path / "r.html"
    path.write_text(page)
    dom = in_chromium(path, width, tmp_path / "profile")
    assert 'data-theme="light"' in dom or 'data-theme="dark"' in dom
    charts = dom.count('class="chart"')
    assert charts >= 3
    assert len(re.findall(r'class="[^"]*\bsvg-container"', dom)) == charts
    seen = json.loads(html.unescape(re.search(r'data-seen="([^"]*)"', dom)[1]))
    assert seen["faults"] == []
    assert seen["zoom"]
    assert seen["theme"]
    assert seen["hover"], "no label was shown over the chart"
    assert seen["legend"] or section == "timeline"


def test_labels_of_an_output():
    assert labels_of(SimpleNamespace(labels={"y": ["a", "b"]}), "y") == ("a", "b")
    assert labels_of(SimpleNamespace(labels=["a", "b"]), "y") == labels_of(SimpleNamespace(), "y") == ()
    assert labelled(("a", "b", "c", "d"), np.array([[1, 5, 3, 0]], np.int8)) == "b 5, c 3, a 1"
    assert labelled(("a", "b", "c"), np.array([2, 0])) == "c, a"
    assert labelled(("a", "b"), np.array([7])) == labelled(("a", "b"), np.array([0.5])) == ""

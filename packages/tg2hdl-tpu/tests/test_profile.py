import html
import json
import re
import shutil
import subprocess
from itertools import pairwise

import pytest
from click.testing import CliRunner

from tg2hdl_ir import InputError
from tg2hdl_tpu import Config, timeline
from tg2hdl_tpu.assembler import assemble_lines
from tg2hdl_tpu.cli import tpu
from tg2hdl_tpu.profile import UNITS, Event, events, format_profile, profile_bundle, profile_script
from tg2hdl_tpu.testing import random_bundle
from tg2hdl_tpu.timeline import chrome_trace, timeline_page

TEXT = """\
        load  v[0], x[0], n=3
        tile  v[4], mxu8         # waits for the load: row 1
        copy  v[16], v[0], n=2
        mac   v[17], v[16], #3   # its old destination is in the pipeline
        loop  #2
        add   v[20], v[0], #1 rotate=1
        end
        store x[8], v[16], n=2
        halt
"""


@pytest.fixture(scope="module")
def profile():
    bundle, lines = assemble_lines(TEXT)
    return profile_bundle(bundle, name="p.tasm", lines=lines)


def test_units_and_waits_by_cycle(profile):
    found = {unit: [e for e in events(profile) if e.unit == unit] for unit in UNITS}
    assert found["MXU"] == [Event("MXU", 2, 3, 1, "a row that is being loaded"), Event("MXU", 5, 1, 1)]
    assert found["VPU"] == [
        Event("VPU", 6, 2, 2),
        Event("VPU", 8, 2, 3, "a result in the pipeline"),
        Event("VPU", 11, 1, 3),
        Event("VPU", 12, 2, 5),
    ]
    assert found["XLU"] == [Event("XLU", 12, 2, 5)]
    assert [(e.start, e.cycles, e.pc) for e in found["VMEM"]] == [
        (5, 1, 1),
        (6, 2, 2),
        (10, 1, 3),
        (11, 1, 3),
        (12, 2, 5),
    ]
    assert found["DMA load"][-1] == Event("DMA load", 3, 3, 0)
    assert found["DMA store"][-1] == Event("DMA store", 17, 2, 7)
    assert found["SXU"][-1] == Event("SXU", 15, 5, 8, "the end of all work")


def test_every_cycle_is_counted_once(profile):
    config = Config(lanes=4, rows=2, columns=2, vmem_rows=32, xmem_rows=64, float=True, float_lanes=1)
    waits = set()
    for one in [profile, *(profile_bundle(random_bundle(seed, config, traps=seed > 3)) for seed in range(6))]:
        facts = one.facts()
        assert sum(facts["where"].values()) == facts["cycles"]
        assert sum(spot["cycles"] for spot in facts["hot"]) == facts["cycles"]
        assert facts["where"].get("rows issued", 0) == facts["rows"]
        waits |= set(facts["where"])
        for unit, counts in facts["units"].items():
            assert counts["busy"] + sum(counts["waits"].values()) <= facts["cycles"], unit
            mine = [e for e in events(one) if e.unit == unit]
            assert all(a.start + a.cycles <= b.start for a, b in pairwise(mine)), unit
    assert {"waiting for a unit that takes rows in parts", "waiting for a row that is being loaded"} <= waits


def test_mix_hot_spots_and_roofline(profile):
    facts = profile.facts()
    assert facts["mix"]["add"] == {"executed": 2, "rows": 2}
    assert facts["hot"][0] == {
        "pc": 1, "line": 2, "instruction": "tile v[4], mxu8", "cycles": 4, "waits": 3
    }  # fmt: skip
    roof = facts["roofline"]
    # Five rows of 16 operations; five rows of 64 bytes to and from memory, three of them one way.
    assert (roof["operations"], roof["external_bytes"]) == (80, 320)
    assert roof["memory_roof"] == pytest.approx(80 / 3)
    assert roof["operations_per_cycle"] == 80 / facts["cycles"]


def test_the_text_fits_a_terminal(profile):
    text = format_profile(profile, top=2)
    assert max(map(len, text.splitlines())) < 80
    headings = [line for line in text.splitlines() if line[:1].isupper()]
    assert [heading.split()[0] for heading in headings] == [
        "Cycles",
        "Cycles",
        "Instructions",
        "Hot",
        "Roofline",
    ]
    assert "          4  20.0 %         3  line 2: tile v[4], mxu8" in text.splitlines()
    assert "                      waits 3 for a row that is being loaded" in text.splitlines()


def test_the_trace_for_chrome(profile):
    trace = chrome_trace([profile, profile])
    slices = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert {e["pid"] for e in slices} == {1, 2}
    waits = next(e for e in slices if e["tid"] == UNITS.index("MXU"))
    assert waits == {
        "ph": "X", "pid": 1, "tid": 1, "ts": 2, "dur": 3, "name": "wait",
        "args": {"pc": 1, "instruction": "tile v[4], mxu8", "line": 2, "waits for": "a row that is being loaded"},
    }  # fmt: skip
    assert max(e["ts"] + e["dur"] for e in slices) == 2 * profile.cycles


def test_a_trace_that_no_browser_shows_is_refused(profile, monkeypatch):
    monkeypatch.setattr(timeline, "MOST_EVENTS", 40)
    assert chrome_trace([profile])
    with pytest.raises(InputError, match="a timeline of more than 40 events"):
        chrome_trace([profile, profile])


SCRIPT = """
import sys
from tg2hdl_tpu import Machine, assemble, run_bundle
for count in (1, 2):
    run_bundle(assemble(f"add v[8], v[0], #{sys.argv[1]}, n={count}\\nhalt"))
machine = Machine()
machine.name = "k"
machine.load_bundle(assemble("halt"))
machine.run()
"""


def test_a_script(tmp_path):
    path = tmp_path / "s.py"
    path.write_text(SCRIPT)
    assert [p.cycles for p in profile_script(path, ("7",))] == [4, 5, 2]
    assert [p.cycles for p in profile_script(path, ("7",), limit=3)] == [3, 3, 2]
    found = CliRunner().invoke(tpu, ["profile", str(path), "7", "--json", "-"])
    assert [run["name"] for run in json.loads(found.stdout)] == ["run 1", "run 2", "run 3: k"]
    path.write_text("")
    with pytest.raises(InputError, match="the script ran no program"):
        profile_script(path)


def test_the_command(tmp_path):
    path = tmp_path / "p.tasm"
    path.write_text(TEXT)
    names = [tmp_path / name for name in ("f.json", "t.json", "p.html")]
    options = [
        str(word) for pair in zip(("--json", "--trace", "--html"), names, strict=True) for word in pair
    ]
    found = CliRunner().invoke(tpu, ["profile", str(path), *options])
    assert "15.0 %  waiting for a row that is being loaded" in found.stdout
    assert "line 2: tile v[4], mxu8" in found.stdout
    assert json.loads(names[0].read_text())[0]["cycles"] == 20
    assert json.loads(names[1].read_text())["otherData"]["runs"][0]["cycles"] == 20
    assert "<title>p.tasm</title>" in names[2].read_text()


ACTIONS = """<script>
(async () => {
  const seen = {}, canvas = document.getElementById("canvas"), box = canvas.getBoundingClientRect();
  const text = () => document.getElementById("units").textContent;
  const pixels = () => canvas.toDataURL();
  const key = (name) => document.dispatchEvent(new KeyboardEvent("keydown", { key: name }));
  const at = (share, row) => ({ clientX: box.left + LEFT + share * (box.width - LEFT - 8), bubbles: true, pointerId: 1,
    clientY: box.top + TOP + (row + .5) * (box.height - TOP - 6) / 7 });
  seen.fits = document.documentElement.scrollWidth <= innerWidth;
  seen.all = [from, to];
  canvas.dispatchEvent(new PointerEvent("pointermove", at(3.5 / 20, 1)));
  seen.tip = document.getElementById("tip").innerText;
  seen.row = document.querySelector("tr.at").innerText;
  const whole = pixels();
  const cursor = from + .25 * (to - from);
  canvas.dispatchEvent(new WheelEvent("wheel", { ...at(.25, 0), deltaY: -200, cancelable: true }));
  seen.zoomed = [to - from < 20, Math.abs(from + .25 * (to - from) - cursor) < .05, pixels() !== whole];
  const start = from;
  canvas.dispatchEvent(new PointerEvent("pointerdown", at(.5, 0)));
  canvas.dispatchEvent(new PointerEvent("pointermove", at(.4, 0)));
  canvas.dispatchEvent(new PointerEvent("pointerup", at(.4, 0)));
  seen.panned = from > start;
  key("r"); seen.reset = [from, to];
  key("+"); seen.plus = to - from; key("ArrowRight"); seen.right = from;
  key("ArrowLeft"); key("-"); seen.minus = to - from;
  const other = JSON.stringify({ traceEvents: [{ ph: "X", pid: 1, tid: 0, ts: 0, dur: 99, name: "n", args: {} }] });
  const load = async (name, content) => {
    // What reads files is not the page's, and takes a time that nothing here waits for.
    File.prototype.text = () => Promise.resolve(content);
    const box = new DataTransfer(); box.items.add(new File([content], name));
    const input = document.getElementById("file"); input.files = box.files;
    input.dispatchEvent(new Event("change"));
    for (let n = 0; n < 50; n++) await Promise.resolve();
  };
  await load("bad.json", '{"traceEvents": 1}');
  seen.fault = document.getElementById("fault").textContent;
  await load("other.json", other);
  seen.loaded = [document.querySelector("h1").textContent, to, document.getElementById("fault").textContent];
  const light = getComputedStyle(document.body).backgroundColor;
  document.getElementById("theme").click();
  seen.theme = light !== getComputedStyle(document.body).backgroundColor;
  document.body.setAttribute("data-seen", JSON.stringify(seen));
})();
</script>
"""


@pytest.mark.skipif(shutil.which("chromium") is None, reason="no chromium")
def test_the_page_in_a_browser(profile, tmp_path):
    path = tmp_path / "p.html"
    path.write_text(timeline_page([profile], title="a <b>").replace("</body>", ACTIONS + "</body>"))
    command = [
        "chromium",
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={tmp_path / 'profile'}",
    ]
    command += ["--window-size=390,900", "--virtual-time-budget=20000", "--dump-dom", path.as_uri()]
    dom = subprocess.run(command, capture_output=True, text=True, timeout=300).stdout
    seen = json.loads(html.unescape(re.search(r'data-seen="([^"]*)"', dom)[1]))
    assert seen["fits"], "wider than a phone"
    assert seen["all"] == seen["reset"] == [0, 20]
    assert (
        seen["tip"]
        == "tile v[4], mxu8\nMXU, cycle 2, 3 cycles, at 1, line 2\nwaits for a row that is being loaded"
    )
    assert "tile v[4], mxu8" in seen["row"]
    assert seen["zoomed"] == [True, True, True]
    assert seen["panned"]
    assert seen["plus"] == pytest.approx(12)
    assert seen["right"] == pytest.approx(4 + 12 * 0.15)
    assert seen["minus"] == pytest.approx(20)
    assert seen["fault"] == "bad.json: this is not a trace: it has no traceEvents"
    assert seen["loaded"] == ["other.json", 99, ""]
    assert seen["theme"]

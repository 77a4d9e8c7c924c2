import json
import subprocess
import sys
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from tg2hdl_ir import InputError
from tg2hdl_tpu.cli import tpu

PROGRAM = ".vmem 0 = 1 2 3\n add v[1], v[0], #10\n halt\n.out r vmem 1 1\n"


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "p.tasm"
    path.write_text(PROGRAM)
    return path


def invoke(*arguments):
    return CliRunner().invoke(tpu, [str(a) for a in arguments])


def test_run_prints_outputs_and_cycles(source):
    result = invoke("run", source)
    assert result.output.splitlines() == ["r: 11 12 13" + " 10" * 13, "cycles 4, instructions 2, rows 1"]
    facts = json.loads(invoke("run", source, "--json", "-").output)
    assert facts == {"trap": "none", "pc": 1, "cycles": 4, "outputs": {"r": [[11, 12, 13] + [10] * 13]}}


def test_assemble_and_disassemble(source, tmp_path):
    for name in ("p.bundle", "p.tpu"):
        assert invoke("assemble", source, "-o", tmp_path / name).exit_code == 0
        text = invoke("disassemble", tmp_path / name).output
        assert "add      v[1], v[0], #10" in text
        assert invoke("run", tmp_path / name).output == invoke("run", source).output


def test_assemble_disassemble_and_isa_as_json(source, tmp_path):
    assembled = json.loads(invoke("assemble", source, "-o", tmp_path / "p.tpu", "--json", "-").stdout)
    assert assembled.pop("bundle") == str(tmp_path / "p.tpu")
    assert json.loads(invoke("disassemble", tmp_path / "p.tpu", "--json").stdout) == assembled
    assert [i["text"].split() for i in assembled["instructions"]] == [
        ["add", "v[1],", "v[0],", "#10"],
        ["halt"],
    ]
    assert assembled["data"] == [{"memory": "vmem", "start": 0, "rows": 1}]
    assert assembled["outputs"] == [{"name": "r", "memory": "vmem", "start": 1, "rows": 1}]
    assert assembled["config"]["lanes"] == 16
    invoke("isa", "--json", tmp_path / "isa.json")
    isa = json.loads((tmp_path / "isa.json").read_text())
    codes = {i["name"]: i["code"] for i in isa["instructions"]}
    # The opcode is the lowest field of a word.
    assert [int(i["word"], 16) & 0x7F for i in assembled["instructions"]] == [codes["add"], codes["halt"]]
    assert isa["fields"][0]["width"] == 7


def test_a_trap_is_an_error(source):
    source.write_text("end")
    result = invoke("run", source)
    assert result.exit_code == 1
    assert "trap loop at instruction 0" in result.output


def test_the_isa_and_the_header_are_printed():
    assert "| `add` |" in invoke("isa").output
    assert "#define OPCODE_HALT 1\n" in invoke("isa", "--c-header").output


def test_build_synthesizes_the_configured_core(tmp_path, monkeypatch):
    synth = pytest.importorskip("tg2hdl_synth")
    calls = []

    def synthesize(top, part, speed, seeds, **options):
        calls.append((top.config.lanes, part, speed, seeds, options["place"], options.get("frequency")))
        return SimpleNamespace(format=lambda: "Fmax 100 MHz", to_dict=lambda: {"part": part})

    # The flow itself is tested in tg2hdl-synth; a core takes minutes (benchmarks/tpu/fit.py).
    monkeypatch.setattr(synth, "synthesize", synthesize)
    config = tmp_path / "c.json"
    config.write_text('{"lanes":8}')
    found = invoke("build", "--config", config, "--part", "ecp5-85k", "--json", "-")
    assert json.loads(found.stdout) == {"part": "ecp5-85k"}
    given = invoke("build", "--part", "ecp5-44k", "-o", tmp_path / "out")
    assert "--part has no effect here" in str(given.exception)
    assert "leave -o" in str(given.exception)
    for others in (("--no-place",), ("-o", tmp_path / "out")):
        assert "--clock has no effect here" in str(invoke("build", "--clock", 50, *others).exception)
    assert "--baud has no effect here" in str(invoke("build", "--baud", 9600).exception)
    assert "no file is named none.json" in str(invoke("build", "--config", "none.json").exception)
    assert invoke("build", "--no-place", "--seeds", "2").stdout == "Fmax 100 MHz\n"
    assert invoke("build", "--clock", "66.5").stdout == "Fmax 100 MHz\n"
    # Registers that follow from the lanes are those of the lanes that are given.
    assert invoke("build", "--config", "ecp5", "--lanes", "4", "--no-place").stdout == "Fmax 100 MHz\n"
    assert calls == [
        (8, "ecp5-85k", 6, 1, True, None),
        (16, "ecp5-45k", 6, 2, False, None),
        (16, "ecp5-45k", 6, 1, True, 66.5),
        (4, "ecp5-45k", 6, 1, False, None),
    ]


def test_a_size_that_a_file_does_not_go_with_names_both(tmp_path):
    config = tmp_path / "c.json"
    config.write_text('{"reduce_registers":5}')
    assert str(invoke("build", "--config", config, "--lanes", "4").exception) == (
        "bad input: reduce_registers is 5\n"
        f"  at: {config}\n"
        "  note: the file does not fit --lanes 4\n"
        "  hint: use 0 to 3"
    )
    config.write_text('{"lanez":5}')
    unknown = str(invoke("build", "--config", config, "--lanes", "4").exception)
    assert unknown.startswith(
        "bad input: the configuration has unknown parameters\n  at: Config\n  hint: known"
    )
    config.write_text('{"reduce_registers":5}')
    assert "lanes is 3\n  at: Config" in str(invoke("build", "--config", config, "--lanes", "3").exception)


@pytest.mark.parametrize("option", ["--json", "-o"])
def test_a_file_that_cannot_be_written_is_an_error_before_the_work(option, tmp_path, monkeypatch):
    monkeypatch.setattr("tg2hdl_tpu.bench.bench", lambda *a, **k: pytest.fail("the work began"))
    result = CliRunner().invoke(tpu, ["bench", option, str(tmp_path / "missing" / "file")])
    assert isinstance(result.exception, InputError)
    assert result.exception.message == f"cannot write {tmp_path / 'missing' / 'file'}"


def test_the_command_runs_without_the_compiler(source):
    def run(*arguments):
        command = [sys.executable, "-W", "error", "-m", "tg2hdl_tpu", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True)

    assert "cycles 4, instructions 2" in run("run", source).stdout
    wrong = run("build", "--lanes", "3")
    assert (wrong.returncode, wrong.stderr.splitlines()[0]) == (1, "bad input: lanes is 3")

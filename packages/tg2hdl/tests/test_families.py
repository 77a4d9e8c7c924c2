"""A family and a part have one name each in all commands, and those of plugins are known."""

import pytest
from click.testing import CliRunner

from tg2hdl.cli.bench import bench
from tg2hdl.cli.compile import compile_command
from tg2hdl.cli.families import known_families, known_parts, part_for
from tg2hdl.cli.synth import synth
from tg2hdl_ir import FamilyDef, InputError, TargetDef, registry


def options(command):
    return {name for parameter in command.params for name in parameter.opts}


def test_every_command_has_the_same_words():
    assert {"--family", "--part"} <= options(synth)
    assert {"--family", "--part"} <= options(bench)
    assert "--family" in options(compile_command)
    assert not any("--target" in options(command) for command in (synth, bench, compile_command))


def test_families_with_parts_are_known():
    assert {"generic", "ecp5", "ice40"} <= set(known_families())
    assert known_parts()["ice40-up5k"] == "ice40"


def test_families_and_parts_of_plugins_are_known(monkeypatch):
    described = FamilyDef("described", "of a plugin", 3, 2, 2)
    part = TargetDef("other-9k", "other", "of a plugin", 9000, 9000, 20, 20, 9216)
    monkeypatch.setattr(type(registry()), "families", lambda self: (described,))
    monkeypatch.setattr(type(registry()), "targets", lambda self: (part,))
    assert {"described", "other"} <= set(known_families())
    assert part_for("other", None) == "other-9k"


@pytest.mark.parametrize(
    ("family", "part", "chosen"),
    [
        (None, None, "ecp5-45k"),
        ("generic", None, "ecp5-45k"),
        ("ecp5", "ecp5-85k", "ecp5-85k"),
        ("ice40", None, "ice40-hx8k"),
        ("generic", "ice40-hx8k", "ice40-hx8k"),
    ],
)
def test_part_of_a_family(family, part, chosen):
    assert part_for(family, part) == chosen


def test_a_part_of_another_family_is_refused():
    with pytest.raises(InputError) as caught:
        part_for("ice40", "ecp5-45k")
    assert str(caught.value) == (
        "bad input: part ecp5-45k is of the family ecp5, the model is compiled for ice40\n"
        "  hint: leave out --family, or give --family ecp5"
    )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--family", "ecp5-45k"], "family 'ecp5-45k' is unknown\n  note: ecp5-45k is a part\n"),
        (["--part", "ecp5"], "part 'ecp5' is unknown\n  note: ecp5 is a family\n"),
    ],
)
def test_a_mixed_up_name_is_explained(arguments, text):
    result = CliRunner().invoke(synth, ["model.py", *arguments])
    assert text in str(result.exception)

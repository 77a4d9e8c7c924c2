"""Tables of UOps."""

from __future__ import annotations

from tinygrad import Tensor

from tg2hdl_backend import format_uops, pretty_print_uops


def test_table_has_a_row_per_uop_with_its_sources(uops_of):
    uops = uops_of(Tensor.empty(4) + 1)
    lines = format_uops(uops).splitlines()
    assert lines[0].split() == ["index", "op", "dtype", "arg", "sources"]
    assert len(lines) == len(uops) + 1
    add = next(n for n, u in enumerate(uops) if u.op.name == "ADD")
    row = lines[add + 1].split()
    assert row[:3] == [str(add), "ADD", "float"]
    assert row[3:] == [str(uops.index(s)) for s in uops[add].src]


def test_long_args_are_cut_unless_asked(uops_of):
    uops = uops_of(Tensor.empty(4) + 1)
    short, full = format_uops(uops).splitlines()[-1], format_uops(uops, full_width=True).splitlines()[-1]
    assert "..." in short
    assert "KernelInfo(name=" in full
    assert "..." not in full
    assert len(short) < len(full)


def test_pretty_print_prints_the_table(uops_of, capsys):
    uops = uops_of(Tensor.empty(4) + 1)
    pretty_print_uops(uops)
    assert capsys.readouterr().out == format_uops(uops) + "\n"

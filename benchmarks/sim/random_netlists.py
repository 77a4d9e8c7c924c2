"""Random netlists on the levelized engine and Amaranth's simulator: ``python benchmarks/sim/random_netlists.py 10000``.

Every netlist has inputs, registers with enables and resets, memories with several ports, and expressions of all
operators over words of 1 to 200 bits, signed and unsigned.  Outputs and memories must be equal after every step.  With
``--cxxrtl N``, the first N netlists run on CXXRTL as well.  Writes ``random_netlists.json`` beside this file after each
design, so that an interrupted run counts what it compared; ``--first`` continues, and adds to what was compared before.
``--lanes`` makes each netlist 6 to 16 times, with state of its own and a memory that all read, so that the engine's
loops over lanes are compared.  ``--batch`` runs a model of 16 inputs, with values of their own at
about half of the ports, and compares every input with a model of a single one that is driven alike, and one of them in
every fourth design with Amaranth's simulator.  The C is compiled with -O0, which the comparison does not need faster;
in every other design, registers are variables of the function.
"""

import argparse
import json
import random
from pathlib import Path

from amaranth.hdl import Array, Cat, EnableInserter, Module, Mux, ResetInserter, Signal, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from tg2hdl.bench import json_text
from tg2hdl_sim import SimulationModel, compiler, open_batch, open_simulation
from tg2hdl_sim.levelized import emit
from tg2hdl_sim.levelized import engine as levelized

HERE = Path(__file__).parent
SIDE_BY_SIDE = 25  # netlists in one design, so that the compiler starts less often
STEPS = 20


def shape(rng):
    width = rng.choice([1, 1, 2, 3, 5, 8, 13, 16, 31, 32, 33, 47, 63, 64, 65, 96, 127, 128, 129, 200])
    width = rng.randint(1, 200) if rng.random() < 0.2 else width
    return signed(width) if rng.random() < 0.4 else unsigned(width)


class RandomNetlist(wiring.Component):
    """One netlist; the same for the same seed, but for the first contents of the state of a lane."""

    def __init__(self, seed, lane=None):
        self.seed, self.lane = seed, lane
        rng = random.Random(seed)
        self.shapes = [shape(rng) for _ in range(3)]
        members = {f"i{n}": In(s) for n, s in enumerate(self.shapes)}
        super().__init__(
            members | {"en": In(1), "clear": In(1), "o0": Out(shape(rng)), "o1": Out(shape(rng))}
        )

    def elaborate(self, platform):
        rng = random.Random(self.seed + 1)
        contents = rng if self.lane is None else random.Random(f"{self.seed} {self.lane}")
        m = Module()
        values = [self.i0, self.i1, self.i2]

        def pick(limit=None):
            value = rng.choice(values)
            return value if limit is None or len(value) <= limit else value[:limit]

        inner = Module()
        registers = []
        for number in range(3):
            s = shape(rng)
            init = contents.getrandbits(s.width) - ((1 << s.width >> 1) if s.signed else 0)
            reset_less = rng.random() < 0.3
            registers.append(Signal(s, init=init, reset_less=reset_less, name=f"r{number}"))
        values += registers
        if rng.random() < 0.6:
            memory = Memory(
                shape=unsigned(rng.choice([1, 8, 12, 33, 70])),
                depth=rng.choice([1, 4, 8, 11]),
                init=[contents.getrandbits(1) for _ in range(1)],
            )
            inner.submodules.memory = memory
            width = memory.shape.width
            granularity = rng.choice([g for g in (1, 2, 3, 4, 11, width) if width % g == 0])
            write = memory.write_port(granularity=granularity)
            inner.d.comb += [write.addr.eq(pick()), write.data.eq(pick()), write.en.eq(pick())]
            ports = [write]
            if rng.random() < 0.4:
                ports.append(memory.write_port())
                inner.d.comb += [
                    ports[1].addr.eq(pick()),
                    ports[1].data.eq(pick()),
                    ports[1].en.eq(pick()[0]),
                ]
            # Beyond the depth, what a transparent port shows of a write is undefined.
            whole = memory.depth & (memory.depth - 1) == 0
            transparent = [port for port in ports if whole and rng.random() < 0.5]
            read = memory.read_port(transparent_for=transparent)
            inner.d.comb += [read.addr.eq(pick()), read.en.eq(pick()[0])]
            values.append(read.data)
            if rng.random() < 0.5:
                query = memory.read_port(domain="comb")
                inner.d.comb += query.addr.eq(pick())
                values.append(query.data)
        operators = [
            lambda: pick() + pick(),
            lambda: pick() - pick(),
            lambda: pick(100) * pick(100),
            lambda: pick() & pick(),
            lambda: pick() | pick(),
            lambda: pick() ^ ~pick(),
            lambda: pick() < pick(),
            lambda: pick() <= pick(),
            lambda: pick() > pick(),
            lambda: pick() >= pick(),
            lambda: pick() == pick(),
            lambda: pick() != pick(),
            lambda: Mux(pick(), pick(), pick()),
            lambda: Cat(pick(), pick(), pick()[0])[:200],
            lambda: pick(64) << pick(5).as_unsigned(),
            lambda: pick() >> pick(8).as_unsigned(),
            lambda: pick(90) // pick(80),
            lambda: pick(90) % pick(80),
            lambda: pick().bit_select(pick(8).as_unsigned(), rng.randint(1, 9)),
            lambda: pick().word_select(pick(4).as_unsigned(), rng.randint(1, 9)),
            lambda: Array([pick(), pick(), pick()])[pick(2).as_unsigned()],
            lambda: -pick(),
            lambda: abs(pick().as_signed()),
            lambda: pick().as_signed() >> rng.randint(0, 9),
            lambda: pick().xor(),
            lambda: pick().any(),
            lambda: pick().all(),
            lambda: pick(3).as_unsigned().matches(1, 3),
            lambda: pick().rotate_left(rng.randint(0, 9)),
        ]
        for number in range(10):
            node = Signal(shape(rng), name=f"n{number}")
            inner.d.comb += node.eq(rng.choice(operators)())
            values.append(node)
        for register in registers:
            with inner.If(pick().xor()):
                inner.d.sync += register.eq(register + pick())
            with inner.Elif(~pick()[0]):
                inner.d.sync += register.eq(pick())
            with inner.If(pick()[0]), inner.Switch(pick(2)):
                with inner.Case(0):
                    inner.d.sync += register[: len(register) // 2].eq(pick())
                with inner.Case(1, 0):
                    inner.d.sync += register.eq(pick())
        inner.d.comb += self.o0.eq(pick() ^ pick())
        inner.d.sync += self.o1.eq(pick() ^ pick())
        wrapped = ResetInserter(self.clear)(inner) if rng.random() < 0.5 else inner
        m.submodules.inner = EnableInserter(self.en)(wrapped) if rng.random() < 0.5 else wrapped
        return m


class RandomLanes(wiring.Component):
    """Equal netlists that differ in their state: each reads its neighbour, and a memory of all at its own address."""

    def __init__(self, seed):
        self.seed = seed
        rng = random.Random(seed)
        self.lanes = [RandomNetlist(seed, lane) for lane in range(rng.choice([6, 7, 8, 13, 16]))]
        self.width = rng.choice([1, 1, 8, 33])
        first = self.lanes[0]
        members = {"i0": In(first.shapes[0]), "en": In(1), "clear": In(1)}
        super().__init__(members | {"all": Out(200), "last": Out(200), "sum": Out(200)})

    def elaborate(self, platform):
        rng = random.Random(self.seed + 2)
        m = Module()
        m.submodules.shared = shared = Memory(
            shape=self.width, depth=8, init=[rng.getrandbits(self.width) for _ in range(8)]
        )
        last = self.lanes[-1]
        write = shared.write_port()
        m.d.comb += [write.addr.eq(last.o1), write.data.eq(last.o1 >> 1), write.en.eq(self.en)]
        for number, lane in enumerate(self.lanes):
            m.submodules[f"lane{number}"] = lane
            read = shared.read_port(domain="comb")
            wide = read.data.replicate(9) if self.width == 1 and self.seed % 2 else read.data
            m.d.comb += [read.addr.eq(lane.o1), lane.en.eq(self.en), lane.clear.eq(self.clear)]
            m.d.comb += [lane.i0.eq(self.i0), lane.i1.eq(self.lanes[number - 1].o1), lane.i2.eq(wide)]
        together = self.lanes[0].o0.as_unsigned()
        for lane in self.lanes[1:]:
            together = together ^ lane.o0.as_unsigned()
        m.d.comb += [self.all.eq(together), self.last.eq(last.o1), self.sum.eq(sum(n.o1 for n in self.lanes))]
        return m


class SideBySide(wiring.Component):
    """Several netlists; each has ports of its own."""

    def __init__(self, seeds, kind=RandomNetlist):
        self.parts = [kind(seed) for seed in seeds]
        super().__init__({f"p{k}": Out(part.signature) for k, part in enumerate(self.parts)})

    def elaborate(self, platform):
        m = Module()
        for k, part in enumerate(self.parts):
            m.submodules[f"part{k}"] = part
            wiring.connect(m, wiring.flipped(getattr(self, f"p{k}")), part)
        return m


def trace(model, seed, engine):
    """Outputs after every step, and the memories at the end."""
    rng = random.Random(seed)
    seen = []
    with open_simulation(model, engine, cache=False) as sim:
        inputs = [port for port in sim.ports.values() if port.direction == "in"]
        outputs = [port.name for port in sim.ports.values() if port.direction == "out"]
        for _ in range(STEPS):
            for port in inputs:
                value = rng.choice(
                    [rng.getrandbits(port.width), rng.getrandbits(port.width), 0, 1, (1 << port.width) - 1]
                )
                sim.set(port.name, value)
            seen.append({name: sim.get(name) for name in outputs})
            sim.step(rng.choice([1, 1, 2]))
            seen.append({name: sim.get(name) for name in outputs})
        seen.append({name: sim.read_memory(name).tolist() for name in sim.memories})
    return seen


def drive(seed, step, port, inputs):
    """Values of a port at a step, one for each input of a batch."""
    rng = random.Random(f"{seed} {step} {port.name}")
    return [
        rng.choice([rng.getrandbits(port.width), rng.getrandbits(port.width), 0, 1, (1 << port.width) - 1])
        for _ in range(inputs)
    ]


def varies(seed, port):
    """Whether the inputs of the batch have values of their own at a port."""
    return random.Random(f"{seed} {port.name}").random() < 0.5


def trace_batch(model, seed):
    """What `trace` returns, for each input of a batch."""
    ports = model.elaboration.ports.values()
    varying = [port.name for port in ports if port.direction == "in" and varies(seed, port)]
    inputs = [port for port in ports if port.direction == "in"]
    outputs = [port.name for port in ports if port.direction == "out"]
    seen = []
    with open_batch(model, varying, cache=False) as sim:
        for step in range(STEPS):
            for port in inputs:
                values = drive(seed, step, port, sim.size)
                if port.name in varying:
                    sim.set_each(port.name, values)
                else:
                    sim.set(port.name, values[0])
            seen.append({name: sim.get_each(name) for name in outputs})
            sim.step(1 + step % 2)
        seen.append({name: [each.tolist() for each in sim.read_memory_each(name)] for name in sim.memories})
        return [[{name: values[k] for name, values in at.items()} for at in seen] for k in range(sim.size)]


def trace_alone(model, seed, engine, lanes, inputs):
    """What `trace_batch` returns for some inputs, run one by one."""
    found = {}
    with open_simulation(model, engine, cache=False) as sim:
        ports = [port for port in sim.ports.values() if port.direction == "in"]
        outputs = [port.name for port in sim.ports.values() if port.direction == "out"]
        for lane in lanes:
            sim.reset()
            found[lane] = []
            for step in range(STEPS):
                for port in ports:
                    values = drive(seed, step, port, inputs)
                    sim.set(port.name, values[lane if varies(seed, port) else 0])
                found[lane].append({name: sim.get(name) for name in outputs})
                sim.step(1 + step % 2)
            found[lane].append({name: sim.read_memory(name).tolist() for name in sim.memories})
    return found


def compare_batch(model, seed, also_amaranth):
    """Return names of what differs between a batch and its inputs alone."""
    together = trace_batch(model, seed)
    size = len(together)
    alone = trace_alone(model, seed, "levelized", range(size), size)
    found = [name for lane in range(size) for name in differences(together[lane], alone[lane])]
    if also_amaranth:
        lane = random.Random(seed).randrange(size)
        expected = trace_alone(model, seed, "amaranth", [lane], size)[lane]
        found += differences(together[lane], expected)
    return sorted(set(found))


def unoptimized(flags):
    """Compiler flags that take the least time."""
    return tuple("-O0" if flag == "-O2" else flag for flag in flags)


def differences(one, two):
    """Names of what differs."""
    return sorted({name for a, b in zip(one, two, strict=True) for name in a if a[name] != b[name]})


def main() -> None:
    """Compare, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("netlists", type=int)
    parser.add_argument("--first", type=int, default=0, help="seed of the first")
    parser.add_argument(
        "--lanes", action="store_true", help="netlists of 6 to 16 equal lanes; writes random_lanes.json"
    )
    parser.add_argument("--batch", action="store_true", help="a batch of 16 inputs; writes random_batch.json")
    parser.add_argument("--cxxrtl", type=int, default=0, help="so many on CXXRTL as well")
    arguments = parser.parse_args()
    levelized.FLAGS = unoptimized(levelized.FLAGS)
    compiler.FLAGS = unoptimized(compiler.FLAGS)
    what = "batch" if arguments.batch else "lanes" if arguments.lanes else "netlists"
    path = HERE / f"random_{what}.json"
    kind, side_by_side = (RandomLanes, 2) if arguments.lanes else (RandomNetlist, SIDE_BY_SIDE)
    result = {"first seed": arguments.first, "netlists": 0, "also on CXXRTL": 0, "designs that differ": []}
    if arguments.first:
        result = json.loads(path.read_text())
        if result["first seed"] + result["netlists"] != arguments.first:
            parser.error(f"the last run ended at {result['first seed'] + result['netlists']}")
    bad = result["designs that differ"]
    last = arguments.first + arguments.netlists
    for first in range(arguments.first, last, side_by_side):
        seeds = range(first, min(first + side_by_side, last))
        model = SimulationModel(SideBySide(seeds, kind))
        number = first // side_by_side
        emit.MOST_LOCAL = 100_000 * (number % 2)
        engines = ["levelized"]
        if arguments.batch:
            engines = []
            found = compare_batch(model, first, number % 4 == 1)
            result["one input on Amaranth's simulator"] = result.get("one input on Amaranth's simulator", 0)
            result["one input on Amaranth's simulator"] += len(seeds) * (number % 4 == 1)
            if found:
                bad.append({"engine": "batch", "first seed": first, "ports": found})
                print(bad[-1], flush=True)
        else:
            expected = trace(model, first, "amaranth")
        if not arguments.batch and result["also on CXXRTL"] < arguments.cxxrtl:
            engines.append("cxxrtl")
            result["also on CXXRTL"] += len(seeds)
        for engine in engines:
            found = differences(expected, trace(model, first, engine))
            if found:
                bad.append({"engine": engine, "first seed": first, "ports": found})
                print(bad[-1], flush=True)
        result["netlists"] += len(seeds)
        result["steps each"] = STEPS
        path.write_text(json_text(result))
        print(f"{result['netlists']} netlists, {len(bad)} designs differ", flush=True)
    print(f"{arguments.netlists} netlists, {len(bad)} designs differ")
    raise SystemExit(bool(bad))


if __name__ == "__main__":
    main()

"""Random programs, to compare one machine with another."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np

from tg2hdl_tpu.bundle import Bundle, Output, Region
from tg2hdl_tpu.config import Config
from tg2hdl_tpu.instruction_checks import problem
from tg2hdl_tpu.isa import GATHER, OF_PRODUCTS, PRE, SUMS, Instruction, encode
from tg2hdl_tpu.vector_ops import BY_NAME

__all__ = ["random_bundle", "random_instruction"]

_LARGEST = 3
"""Largest value of an address register, unless a program may trap."""
_FLOATS = tuple(
    np.array(
        [0, -0.0, 1, -1.5, 2**-149, -(2**-126), 3e38, np.inf, -np.inf, np.nan, -256, 257, 1 / 3], np.float32
    )
    .view(np.int32)
    .tolist()
)
"""Floats that are special, and some that are not."""
_ROWS = 24
"""Rows that programs mostly use, so that they meet each other's results."""


def _address(rng: random.Random, size: int) -> int:
    if rng.random() < 0.02:
        return rng.randrange(size)
    half = rng.choice((0, size // 2))
    return half + rng.randrange(min(_ROWS, size // 2))


def random_instruction(rng: random.Random, config: Config, *, traps: bool) -> Instruction:
    """Return one instruction that is not scalar; with `traps` it may fail when it runs.

    Parameters
    ----------
    rng : random.Random
    config : Config
        The machine, which has the parts that the instruction needs.
    traps : bool
        Whether addresses may lie outside of the memories.
    """
    while True:
        candidate = _candidate(rng, config, traps=traps)
        if problem(candidate, config) is None and (traps or _stays_inside(candidate, config)):
            return candidate


def _stays_inside(i: Instruction, config: Config) -> bool:
    """Whether the addresses are good for whatever the registers hold in a program that does not trap."""
    for value in (0, _LARGEST):
        moved = {name: getattr(i, name) + value for name in ("dst", "a", "b") if getattr(i, f"{name}_reg")}
        if problem(replace(i, dst_reg=0, a_reg=0, b_reg=0, **moved), config) is not None:
            return False
    return True


def _of_sums(rng: random.Random, config: Config, *, traps: bool) -> Instruction:
    """An instruction that uses the sums of the matrix unit."""
    kind, row = rng.random(), _address(rng, config.vmem_rows)
    strides = (0, 1, 1, -1, 2, 3)
    if kind < 0.1:
        count = rng.randrange(1, config.rows + 1)
        stride = rng.choice(strides)
        return Instruction("preload", a=row, a_reg=rng.choice((0, 0, 1)), a_stride=stride, count=count)
    if kind < 0.5:
        per_a, per_b = config.packed // config.rows, config.packed // config.columns
        b = _address(rng, config.vmem_rows) * per_b + rng.randrange(per_b)
        return Instruction(
            "outer",
            a=row * per_a + rng.randrange(per_a),
            a_reg=rng.choice((0, 0, 1)),
            a_stride=rng.choice((*strides, per_a)),
            b=b | rng.choice((*strides, per_b)) << 16,
            b_reg=rng.choice((0, 0, 2)),
            count=rng.choice((1, 2, rng.randrange(1, 12))),
            pre=2,
            accumulate=int(rng.random() < 0.6),
        )
    while True:
        vector = _candidate(rng, replace(config, output_stationary=False), traps=traps)
        if vector.opcode.op is not None and not vector.opcode.op.is_long and vector.pre != 3:
            break
    return replace(
        vector,
        a=rng.randrange(config.rows),
        a_reg=rng.choice((0, 0, 0, 1)),
        a_stride=rng.choice((0, 1, 1, -1)),
        pre=1,
        xlu=SUMS,
    )


def _of_floats(rng: random.Random, config: Config) -> Instruction:
    """A product of the matrix unit of floats, or its weights."""
    pre = PRE.index("mxu") if config.packed_mode == "mxu" else rng.choice((1, 2))
    words = config.packed if pre == 2 else config.lanes
    row, register = _address(rng, config.vmem_rows), rng.choice((0, 0, 1, 2))
    count = rng.choice((1, 2, 3, rng.randrange(1, 12)))
    if rng.random() < 0.25:
        whole = rng.random() < 0.5
        per_row = max(1, words // (config.columns * (config.rows if whole else 1)))
        shape = {} if whole else {"a_stride": rng.randrange(-3, 4), "count": min(count, config.rows)}
        at = row * per_row + rng.randrange(per_row)
        return Instruction("tile" if whole else "weights", a=at, a_reg=register, pre=pre, **shape)
    per_row = words // config.rows
    constant = int(rng.random() < 0.3)
    least = config.levels - config.columns.bit_length() + 1
    segment = rng.choice((least, least, rng.randrange(config.levels + 1)))
    b = _address(rng, config.vmem_rows) | rng.choice((0, 1, 1, -1, 2)) << 16
    return Instruction(
        rng.choice(OF_PRODUCTS),
        dst=(_address(rng, config.vmem_rows) << segment) + rng.randrange(1 << segment),
        dst_reg=rng.choice((0, 0, 1)),
        dst_stride=rng.choice((0, 1, 1 << segment, 1 << segment, -1, 3)),
        a=row * per_row + rng.randrange(per_row),
        a_reg=register,
        a_stride=rng.choice((0, 1, per_row, -1, 2)),
        b=rng.choice(_FLOATS) if constant else b,
        b_reg=0 if constant else rng.choice((0, 0, 1)),
        count=count,
        pre=pre,
        constant=constant,
        relu=int(rng.random() < 0.3),
        segment=segment,
    )


def _candidate(rng: random.Random, config: Config, *, traps: bool) -> Instruction:
    if config.output_stationary and rng.random() < 0.3:
        return _of_sums(rng, config, traps=traps)
    if config.matrix_is_float and rng.random() < 0.3:
        return _of_floats(rng, config)
    kind = rng.random()
    register = rng.choice((0, 0, 1, 2))
    count = rng.choice((1, 1, 2, 3, rng.randrange(1, 9)))
    row = _address(rng, config.vmem_rows)
    if kind < 0.08:
        pre = rng.choice((1, 2)) if traps else 2
        name = rng.choice(("weights", "tile"))
        words = config.packed if pre == 2 else config.lanes
        if name == "tile":
            tiles = max(1, words // (config.rows * config.columns))
            return Instruction("tile", a=row * tiles + rng.randrange(tiles), a_reg=register, pre=pre)
        per_row = words // config.columns
        at = row * per_row + rng.randrange(per_row)
        return Instruction(
            "weights", a=at, a_reg=register, a_stride=rng.randrange(-3, 4), count=count, pre=pre
        )
    if kind < 0.09 and traps:
        return Instruction("index", a=row, a_reg=register)
    if kind < 0.2:
        outside = rng.randrange(_ROWS)
        if rng.random() < 0.5:
            return Instruction(
                "load", dst=row, dst_reg=register, b=outside, b_reg=rng.choice((0, 1)), count=count
            )
        return Instruction("store", a=row, a_reg=register, b=outside, b_reg=rng.choice((0, 1)), count=count)
    op = rng.choice([op for op in BY_NAME.values() if not op.part or getattr(config, op.part)])
    pre = rng.choice((0, 0, 0, 1, 2, 3)) if not op.is_long else rng.choice((0, 0, 3))
    if pre == 1 and not traps:
        pre = 2
    xlu = rng.randrange(4 if traps else 3) if pre == 3 else 0
    gathers = pre != 3 and rng.random() < 0.1
    count = min(count, config.lanes) if gathers else count
    segment = rng.choice((0, 0, rng.randrange(config.levels + 1)))
    reduces = not op.is_long and rng.random() < 0.3
    levels = rng.choice((0, config.lanes - 1, rng.randrange(config.lanes))) if reduces else 0
    accumulate = int(reduces and (levels == 0 or rng.random() < 0.5))
    pack = int(levels != 0 and levels & (levels + 1) == 0 and rng.random() < 0.7)
    constant = int(rng.random() < 0.3 and not (pre == 3 and xlu == 3))
    stride = rng.choice((0, 1, 1, 1, -1, 2))
    b = rng.choice((rng.randrange(-4, 5), rng.randrange(-(1 << 31), 1 << 31)))
    if not constant:
        b = _address(rng, config.vmem_rows) | stride << 16
    k = rng.randrange(config.lanes) if pre == 3 and xlu < 2 else rng.randrange(33) if op.uses_k else 0
    per_row = {1: config.lanes // config.rows, 2: config.packed // config.rows}.get(pre, 1)
    return Instruction(
        op.name,
        dst=(_address(rng, config.vmem_rows) << segment) + rng.randrange(1 << segment),
        dst_reg=rng.choice((0, 0, 1)),
        dst_stride=rng.choice((0, 1, 1, 1, -1, 3)),
        a=(max(row - 4, 0) if gathers else row) * per_row + rng.randrange(per_row),
        a_reg=0 if gathers else register,
        a_stride=0 if gathers else rng.choice((0, 1, 1, 1, -1, 2)),
        b=b,
        b_reg=0 if constant else rng.choice((0, 0, 1)),
        count=count,
        pre=pre,
        constant=constant,
        relu=int(not op.is_long and rng.random() < 0.2),
        levels=levels,
        accumulate=accumulate,
        pack=pack,
        reduce=rng.randrange(1, 4) if reduces else 0,
        segment=segment,
        k=k,
        xlu=GATHER if gathers else xlu,
    )


def _scalars(rng: random.Random, *, traps: bool) -> list[Instruction]:
    target = rng.randrange(1, 4)
    return [
        Instruction(
            "set",
            dst_reg=target,
            a_reg=rng.choice((0, 0, target)) if traps else 0,
            b=rng.randrange(_LARGEST + 1),
        ),
        # A random word may be beyond an address register.
        *(
            [Instruction("lda", dst_reg=7, a=rng.randrange(_ROWS), k=0)]
            if traps and rng.random() < 0.1
            else []
        ),
    ]


def random_bundle(seed: int, config: Config, *, length: int = 40, traps: bool = False) -> Bundle:
    """Return a random program with random data, whose outputs are the rows that it mostly uses.

    Parameters
    ----------
    seed : int
    config : Config
        The machine.
    length : int
        Instructions before loops are closed; fewer where the program memory is small.
    traps : bool
        Whether instructions may trap.
    """
    rng = random.Random(seed)
    program: list[Instruction] = []
    open_loops = 0
    while len(program) < min(length, config.imem_depth - 8):
        choice = rng.random()
        if choice < 0.12:
            program += _scalars(rng, traps=traps)
        elif choice < 0.17 and open_loops < 2:
            program.append(Instruction("loop", b=rng.randrange(1, 4)))
            program.append(random_instruction(rng, config, traps=traps))
            open_loops += 1
        elif choice < 0.22 and open_loops:
            program.append(Instruction("end"))
            open_loops -= 1
        elif choice < 0.25:
            # Indices that are small.
            row = rng.randrange(_ROWS) % config.vmem_rows
            b = {"constant": 1, "b": 3}
            program.append(Instruction("and", dst=row, a=_address(rng, config.vmem_rows), count=1, **b))
            program.append(Instruction("index", a=row))
        elif choice < 0.28 and open_loops == 0:
            # Over one instruction, taken or not.
            name = rng.choice(("jump", "bz", "bnz", "bneg"))
            register = 0 if name == "jump" else rng.randrange(8)
            program.append(Instruction(name, dst=len(program) + 2, a_reg=register))
            program.append(random_instruction(rng, config, traps=traps))
        else:
            program.append(random_instruction(rng, config, traps=traps))
    program += [Instruction("end")] * open_loops + [Instruction("halt")]
    if not traps:
        program = [
            Instruction("halt") if i.op in ("jump", "bz", "bnz", "bneg") and i.dst >= len(program) else i
            for i in program
        ]
    return Bundle(config, tuple(map(encode, program)), _data(seed, config), _outputs(config))


def _data(seed: int, config: Config) -> tuple[Region, ...]:
    rng = np.random.default_rng(seed)
    regions = []
    for space, start in (("vmem", 0), ("vmem", config.vmem_rows // 2), ("xmem", 0)):
        shape = (2 * _ROWS if config.vmem_rows >= 4 * _ROWS else config.vmem_rows // 2, config.lanes)
        rows = rng.integers(-(1 << 31), 1 << 31, shape, dtype=np.int64)
        small = rng.integers(0, config.lanes, shape)
        rows = np.where(rng.random((shape[0], 1)) < 0.6, small, rows)
        if config.matrix_is_float:
            rows = np.where(rng.random((shape[0], 1)) < 0.7, _floats(rng, shape, config), rows)
        regions.append(Region(space, start, rows.astype(np.int32)))
    return tuple(regions)


def _floats(rng: np.random.Generator, shape: tuple[int, ...], config: Config) -> np.ndarray:
    """Rows of floats: words of some size, few bits (whose sums are ties), tiny or special; some of them packed BF16."""
    halves = rng.random((shape[0], 1, 1)) < 0.4 * (config.matrix_bits == 16)
    each = (*shape, 2)
    sizes = np.ldexp(rng.normal(size=each), rng.choice([-140, -70, 0, 0, 0, 4, 60], size=(shape[0], 1, 1)))
    coarse = rng.integers(-512, 513, each) / 4.0
    with np.errstate(all="ignore"):
        values = np.where(rng.random((shape[0], 1, 1)) < 0.4, coarse, sizes).astype(np.float32).view(np.int32)
    values = np.where(rng.random(each) < 0.06, rng.choice(np.array(_FLOATS), each), values)
    packed = (values[..., 1] & -65536) | (values[..., 0] >> 16 & 0xFFFF)
    return np.where(halves[..., 0], packed, values[..., 0]).astype(np.int64)


def _outputs(config: Config) -> tuple[Output, ...]:
    return (
        Output("vmem", "vmem", 0, config.vmem_rows),
        Output("xmem", "xmem", 0, min(64, config.xmem_rows)),
    )

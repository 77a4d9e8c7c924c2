"""The part of the simulator that is made from the description: decoder, tables and operations in C."""

from __future__ import annotations

from tg2hdl_tpu.config import Config
from tg2hdl_tpu.isa import FIELDS, FIRST_VECTOR, OPCODES, PRODUCTS, SUMS, Trap
from tg2hdl_tpu.vector_ops import VECTOR_OPS

__all__ = ["generated_header", "operations"]

_FORMS = ("scalar", "vector", "weights", "dma", "lda", "index", "sums")


def generated_header(config: Config) -> str:
    """Return configuration, opcodes, traps and positions of fields as a C header."""
    lines = [config.c_header(), "#include <cstdint>"]
    lines += [f"#define OPCODE_{name.upper()} {opcode.code}" for name, opcode in OPCODES.items()]
    lines += [f"#define TRAP_{trap.name} {trap.value}" for trap in Trap]
    lines += [f"#define LOW_{field.name.upper()} {field.low}" for field in FIELDS.values()]
    lines += [f"#define FORM_{form.upper()} {code}" for code, form in enumerate(_FORMS)]
    lines.append(f"#define XLU_SUMS {SUMS}")
    forms = [0] * 128
    for opcode in OPCODES.values():
        forms[opcode.code] = _FORMS.index(opcode.form)
    lines.append(f"static const uint8_t tpu_forms[128] = {{{', '.join(map(str, forms))}}};")
    lines.append("static inline int tpu_form(int opcode) { return tpu_forms[opcode & 127]; }")
    parts = [op.is_long and getattr(config, op.part) for op in VECTOR_OPS]
    lines.append(f"#define TPU_HAS_LONG {int(any(parts) or config.matrix_is_float)}")
    lines.append(f"#define TPU_LONGEST {max(config.latencies)}")
    lines.append(f"#define TPU_KIND_PRODUCTS {PRODUCTS}")
    for name in ("reads_b", "reads_c", "kind"):
        table = [0] * 128
        for code, op in enumerate(VECTOR_OPS, FIRST_VECTOR):
            table[code] = int(getattr(op, name))
        lines.append(f"static const uint8_t tpu_{name}_table[128] = {{{', '.join(map(str, table))}}};")
        lines.append(f"static inline int tpu_{name}(int opcode) {{ return tpu_{name}_table[opcode & 127]; }}")
    return "\n".join(lines) + "\n"


def operations() -> str:
    """Return decoder and vector operations as C++."""
    lines = ["inline Instr tpu_decode(const uint64_t *w) {", "    Instr i{};"]
    for field in FIELDS.values():
        if field.name not in ("a_reg", "b_reg"):
            lines.append(
                f"    i.{field.name} = field(w, {field.low}, {field.width}, {str(field.signed).lower()});"
            )
    lines += [
        "    bool b_is_row = tpu_form(i.opcode) == FORM_VECTOR || tpu_form(i.opcode) == FORM_SUMS;",
        "    if (b_is_row && !i.constant) {",
        "        i.b_stride = i.b >> 16;",
        "        i.b &= 0xFFFF;",
        "    }",
        "    return i;",
        "}",
        "inline void tpu_execute(int opcode, const int32_t *va, const int32_t *vb, const int32_t *vc,",
        "                        int k, int32_t *r) {",
        "    switch (opcode) {",
    ]
    for code, op in enumerate(VECTOR_OPS, FIRST_VECTOR):
        if not op.c:
            lines.append(f"    case {code}: tpu_function({code}, va, r); break;  // {op.name}")
            continue
        lines += [
            f"    case {code}:  // {op.name}",
            "        for (int n = 0; n < L; n++) {",
            "            int32_t a = va[n], b = vb[n], c = vc[n];",
            "            uint32_t ua = a, ub = b, uc = c;",
            "            (void)b, (void)c, (void)ua, (void)ub, (void)uc;",
            *(
                ["            float fa = to_float(a), fb = to_float(b);"]
                if op.part in ("float", "functions")
                else []
            ),
            f"            r[n] = (int32_t)({op.c});",
            "        }",
            "        break;",
        ]
    lines += ["    }", "}"]
    return "\n".join(lines) + "\n"

"""The register map in the formats of other tools: CMSIS-SVD, SystemRDL and HTML."""

from __future__ import annotations

import re
from html import escape

from tg2hdl_top.register_map import AddressWindow, Field, Register, RegisterMap, identifiers

__all__ = ["register_page_html", "register_places", "svd", "system_rdl"]

_CLEARED_BY_ONES = ("IRQ_PENDING",)
_ACCESS = {"r": "read-only", "w": "write-only", "rw": "read-write"}


def _named(found: RegisterMap) -> list[tuple[str, Register]]:
    return list(zip(identifiers([r.name for r in found.registers]), found.registers, strict=True))


def _windows(found: RegisterMap) -> list[tuple[str, AddressWindow, str]]:
    """Buffers with a name that is an identifier, and their access."""
    names = identifiers([f"BUFFER_{w.buffer.name}" for w in found.windows])
    return [
        (name, w, "r" * w.buffer.reads + "w" * w.buffer.writes)
        for name, w in zip(names, found.windows, strict=True)
    ]


def register_places(found: RegisterMap) -> list[tuple[str, int, int]]:
    """Name, address and size in bytes of each register, each buffer and the description."""
    rows = [(name, entry.address, 4) for name, entry in _named(found)]
    rows += [(name, w.address, 4 * w.words) for name, w, _ in _windows(found)]
    return [*rows, ("DESCRIPTION_TEXT", found.description_address, 4 * _description_words(found))]


def _description_words(found: RegisterMap) -> int:
    return -(-len(found.description()) // 4)


def _line(text: str) -> str:
    return " ".join(text.split())


def _about(window: AddressWindow) -> str:
    buffer = window.buffer
    shape = "x".join(map(str, buffer.shape)) or "1"
    return f"{buffer.title}: {buffer.role}, {buffer.dtype.numpy().name}, {shape}"


def svd(found: RegisterMap, name: str) -> str:
    """The map as a CMSIS-SVD device with one peripheral at address 0; a buffer is an array of registers.

    Parameters
    ----------
    found : RegisterMap
    name : str
        Of the device.
    """

    def element(tag: str, text: object) -> str:
        return f"<{tag}>{escape(str(text), quote=False)}</{tag}>"

    def register(title: str, address: int, access: str, text: str, inner: str = "", count: int = 0) -> str:
        array = "".join([element("dim", count), element("dimIncrement", "0x4")]) if count else ""
        title += "[%s]" if count else ""
        facts = [array, element("name", title), element("description", _line(text))]
        facts += [element("addressOffset", f"0x{address:x}"), element("access", _ACCESS[access]), inner]
        return f"<register>{''.join(facts)}</register>\n"

    def fields(entry: Register) -> str:
        if not entry.fields:
            return ""
        ones = element("modifiedWriteValues", "oneToClear") if entry.name in _CLEARED_BY_ONES else ""
        parts = [
            f"<field>{element('name', f.name)}{element('bitOffset', f.low)}{element('bitWidth', f.width)}{ones}"
            "</field>"
            for f in entry.fields
        ]
        return f"<fields>{''.join(parts)}</fields>"

    rows = [
        register(title, entry.address, entry.access, entry.description, fields(entry))
        for title, entry in _named(found)
    ]
    rows += [register(t, w.address, access, _about(w), count=w.words) for t, w, access in _windows(found)]
    span = 1 << found.address_bits
    interrupt = "<interrupt><name>IRQ</name><value>0</value></interrupt>\n" if found.has_bus else ""
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        '<device schemaVersion="1.3">\n'
        f"{element('name', name)}{element('version', '1')}"
        f"{element('description', f'tg2hdl design {_line(found.serves.program)}')}\n"
        "<addressUnitBits>8</addressUnitBits><width>32</width><size>32</size>\n"
        f"<peripherals>\n<peripheral>\n{element('name', name)}"
        f"{element('description', f'design {found.serves.identity}')}<baseAddress>0x0</baseAddress>\n"
        f"<addressBlock><offset>0x0</offset><size>0x{span:x}</size><usage>registers</usage></addressBlock>\n"
        f"{interrupt}<registers>\n{''.join(rows)}</registers>\n</peripheral>\n</peripherals>\n</device>\n"
    )


def system_rdl(found: RegisterMap, name: str) -> str:
    """The map as SystemRDL 2.0: an `addrmap` of registers, with each buffer as an external memory.

    Parameters
    ----------
    found : RegisterMap
    name : str
        Of the `addrmap`.
    """
    lines = [f"addrmap {name} {{"]
    lines += [f"    name = {_quoted(f'tg2hdl design {found.serves.program}')};"]
    lines += ["    default regwidth = 32;", "    default accesswidth = 32;", ""]
    for title, entry in _named(found):
        lines += ["    reg {", f"        desc = {_quoted(entry.description)};"]
        for field in entry.fields or (Field("value", 0, 32),):
            place = f"{field.name}[{field.low + field.width - 1}:{field.low}]"
            lines.append(f"        field {{ {_software(entry)} }} {place};")
        lines.append(f"    }} {title} @ 0x{entry.address:X};")
    memories = [(t, w.address, w.words, access, _about(w)) for t, w, access in _windows(found)]
    address, words = found.description_address, _description_words(found)
    memories.append(("DESCRIPTION_TEXT", address, words, "r", "description, a JSON text"))
    for title, address, words, access, about in memories:
        lines += [
            "    external mem {",
            f"        desc = {_quoted(about)};",
            f"        mementries = {words};",
            "        memwidth = 32;",
            f"        sw = {access};",
            f"    }} {title} @ 0x{address:X};",
        ]
    return "\n".join([*lines, "};\n"])


def _software(register: Register) -> str:
    """Properties of a field's access by software and hardware."""
    if register.name in _CLEARED_BY_ONES:
        return "sw = rw; onwrite = woclr; hw = rw;"
    return {"r": "sw = r; hw = w;", "w": "sw = w; hw = r;", "rw": "sw = rw; hw = rw;"}[register.access]


def _quoted(text: str) -> str:
    return '"' + _line(text).replace("\\", "\\\\").replace('"', '\\"') + '"'


def register_page_html(found: RegisterMap) -> str:
    """The page of the map in HTML."""
    body, table = [], False
    for line in found.page().splitlines():
        cells = re.split(r"(?<!\\)\|", line)[1:-1] if line.startswith("|") else []
        if table and not cells:
            body.append("</table>")
        if cells and set(line) <= set("|-"):
            continue
        if cells:
            tag = "td" if table else "th"
            body += [] if table else ["<table>"]
            body.append("<tr>" + "".join([f"<{tag}>{_inline(c.strip())}</{tag}>" for c in cells]) + "</tr>")
        elif line.startswith("#"):
            level = len(line) - len(line.lstrip("#"))
            body.append(f"<h{level}>{_inline(line.lstrip('# '))}</h{level}>")
        elif line:
            body.append(f"<p>{_inline(line)}</p>")
        table = bool(cells)
    body += ["</table>"] if table else []
    style = "body{font-family:sans-serif;margin:2em}td,th{border:1px solid #bbb;padding:.2em .6em;text-align:left}"
    style += "table{border-collapse:collapse}"
    head = f'<meta charset="utf-8"><title>Registers</title><style>{style}</style>'
    return f"<!DOCTYPE html>\n<html><head>{head}</head><body>\n" + "\n".join(body) + "\n</body></html>\n"


def _inline(text: str) -> str:
    """Text of Markdown, whose special characters are escaped there, as HTML."""
    plain = re.sub(r"\\([\\`*_{}\[\]()#+!|~$@-])", r"\1", text)
    code = re.fullmatch(r"(.*)`(.*?)`(.*)", plain)
    return plain if code is None else f"{code[1]}<code>{code[2]}</code>{code[3]}"

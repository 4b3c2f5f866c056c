"""Registers of matrix instructions in probes: filled at the start, and stored at the end so that they stay live."""

from __future__ import annotations

from tcemu.layouts import Fragment
from tcemu.live.ptx import register_type

#: Metadata that is legal for every sparse form: the first two of four, or the first of two. The selector is 0.
METADATA = 0x44444444
SPARSE = {"e": "%meta", "f": "0"}


def filled(name: str, fragment: Fragment, salt: int) -> str:
    """PTX that fills registers with values that depend on lane, register and `salt`, moderate in every float format."""
    lines = []
    for r in range(fragment.registers):
        value = (
            f"mul.lo.u32 %h0, %thread, 65537; add.u32 %h0, %h0, {0x34003400 + 0x10001 * (8 * salt + r) % 0x4000000};"
        )
        wide = register_type(fragment) == "b64"
        end = f"mov.b64 %{name}{r}, {{%thread, %h0}};" if wide else f"mov.b32 %{name}{r}, %h0;"
        lines.append(f"{value} {end}")
    return "\n".join(lines)


def kept(name: str, fragment: Fragment) -> str:
    """PTX that stores registers, so that they have to be computed."""
    type_ = register_type(fragment)
    return "\n".join(f"st.volatile.global.{type_} [%sink], %{name}{r};" for r in range(fragment.registers))

"""THE TABLE of number formats: one record for each format. Adding a format means adding a record.

Bit fields and special values are those of PTX ISA 9.1, sections 5.2.2 and 5.2.3 (fundamental and alternate types) and,
for the 8-, 6- and 4-bit floats and the scale types, of the OCP Microscaling specification 1.0. The roundings of cvt are
those that ptxas 13.0 accepts.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tcemu.errors import FormatError, TableError, did_you_mean, listing, shown
from tcemu.formats.format import Format

_ROWS = (
    Format("f64", "float64", exponent=11, mantissa=52, bias=1023, infinities=True, nan="ieee", note="IEEE binary64"),
    Format(
        "f32", "float32", exponent=8, mantissa=23, bias=127, infinities=True, nan="ieee", cvt="rn rz rm rp",
        note="IEEE binary32",
    ),
    Format(
        "tf32", "float32", exponent=8, mantissa=10, bias=127, infinities=True, nan="ieee", padding=13, cvt="rn rna rz",
        note="f32's range with f16's precision; an f32 register whose low 13 bits are ignored",
    ),
    Format(
        "bf16", "bfloat16", exponent=8, mantissa=7, bias=127, infinities=True, nan="ieee", cvt="rn rz rm rp",
        note="the upper half of an f32",
    ),
    Format(
        "f16", "float16", exponent=5, mantissa=10, bias=15, infinities=True, nan="ieee", cvt="rn rz rm rp",
        note="IEEE binary16",
    ),
    Format(
        "e5m2", "float8_e5m2", exponent=5, mantissa=2, bias=15, infinities=True, nan="ieee", cvt="rn",
        note="the upper half of an f16",
    ),
    Format(
        "e4m3", "float8_e4m3fn", exponent=4, mantissa=3, bias=7, nan="all ones", cvt="rn",
        note="no infinity: its patterns are the numbers 256 to 448",
    ),
    Format(
        "e3m2", "float6_e3m2fn", exponent=3, mantissa=2, bias=3, container=8, cvt="rn",
        note="6 bits, neither infinity nor NaN",
    ),
    Format(
        "e2m3", "float6_e2m3fn", exponent=2, mantissa=3, bias=1, container=8, cvt="rn",
        note="6 bits, neither infinity nor NaN",
    ),
    Format(
        "e2m1", "float4_e2m1fn", exponent=2, mantissa=1, bias=1, cvt="rn",
        note="4 bits: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives",
    ),
    Format(
        "ue8m0", "float8_e8m0fnu", exponent=8, mantissa=0, bias=127, signed=False, nan="all ones", zero=False,
        cvt="rz rp", note="scale: powers of two",
    ),
    Format(
        "ue4m3", "float8_e4m3fn", exponent=4, mantissa=3, bias=7, signed=False, nan="all ones", container=8,
        note="scale: e4m3 without the sign",
    ),
    Format("s32", "int32", "integer", mantissa=31, note="accumulator of integer products"),
    Format("s8", "int8", "integer", mantissa=7, note="two's complement"),
    Format("u8", "uint8", "integer", mantissa=8, signed=False, note="unsigned"),
    Format("s4", "int4", "integer", mantissa=3, note="two's complement, eight to a register"),
    Format("u4", "uint4", "integer", mantissa=4, signed=False, note="unsigned, eight to a register"),
    Format("b1", "bool", "bit", mantissa=1, signed=False, note="one bit, thirty-two to a register"),
)

FORMATS: Mapping[str, Format] = MappingProxyType({row.name: row for row in _ROWS})
if len(FORMATS) != len(_ROWS):
    raise TableError("two formats have the same name")


def lookup(name: str) -> Format:
    """The format called `name`. Raises FormatError, which lists the accepted names."""
    if isinstance(name, str) and name.removeprefix(".") in FORMATS:
        return FORMATS[name.removeprefix(".")]
    raise FormatError(
        f"no number format is called {shown(name)}.{did_you_mean(str(name), FORMATS)} The formats are "
        f"{listing(FORMATS, 'and')}."
    )

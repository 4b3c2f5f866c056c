"""THE TABLE of number formats: one record for each format. Adding a format means adding a record.

Bit fields and special values are those of PTX ISA 9.1, sections 5.2.2 and 5.2.3 (fundamental and alternate types) and,
for the 8-, 6- and 4-bit floats and the scale types, of the OCP Microscaling specification 1.0. The roundings of cvt are
those that ptxas 13.0 accepts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from tcemu.errors import FormatError, Named, TableError, did_you_mean, listing, shown
from tcemu.formats.format import Format

# fmt: off
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
# fmt: on

FORMATS: Mapping[str, Format] = MappingProxyType(Named("number format", {row.name: row for row in _ROWS}))
if len(FORMATS) != len(_ROWS):
    raise TableError("two formats have the same name")

#: What others call a format: a regular expression for the whole name, in lower case and without a leading float8_.
_ALSO = {
    r"half|_*half|fp16|float16": "f16",
    r"float|single|fp32|float32": "f32",
    r"double|fp64|float64": "f64",
    r"bfloat16|_*nv_bfloat16|fp?b16|bfp16": "bf16",
    r"tfloat32": "tf32",
    r"f8|fp8|mxfp8|float8": "e4m3 e5m2",
    r"f6|fp6|mxfp6|float6": "e3m2 e2m3",
    r"f4|fp4|mxfp4|nvfp4|float4": "e2m1",
    r"e8m0(fnu)?": "ue8m0",
    r"s16|u16|int16|short": "",  # no tensor core multiplies them
    r"int|int32|i32": "s32",
    r"int8|i8|char|signed char": "s8",
    r"uint8|unsigned char": "u8",
    r"int4|i4": "s4",
    r"uint4": "u4",
    r"bool|bit|binary|int1|uint1": "b1",
}


def lookup(name: str) -> Format:
    """The format called `name`. Raises FormatError, which lists the accepted names.

    >>> tcemu.formats.lookup("e4m3")
    <e4m3: 1 sign, 4 exponent, 3 mantissa bits, bias 7, largest 448>
    >>> tcemu.formats.lookup("fp8")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    tcemu.errors.FormatError: no number format is called 'fp8'. ...
    """
    if isinstance(name, str) and name.removeprefix(".") in FORMATS:
        return FORMATS[name.removeprefix(".")]
    raise FormatError(
        f"no number format is called {shown(name)}.{_hint(name)} The formats are {listing(FORMATS, 'and')}."
    )


def _hint(name: object) -> str:
    """The formats that other libraries call by this name; else the most similar name of one."""
    if not isinstance(name, str):
        return ""
    known = called(name)
    if known is None:
        return did_you_mean(_bare(name), FORMATS)
    return f" Did you mean {listing(map(repr, known))}?" if known else ""


def called(name: str) -> list[str] | None:
    """The formats that other libraries call by this name, perhaps none; None for a name that no library uses."""
    return next((also.split() for pattern, also in _ALSO.items() if re.fullmatch(pattern, _bare(name))), None)


def _bare(name: str) -> str:
    return re.sub(r"^(numpy|np|torch|ml_dtypes)\.|float[468]_(?=e)", "", name[:80].strip().lower())

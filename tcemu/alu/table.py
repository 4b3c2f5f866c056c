"""THE TABLE of ordinary instructions: all its rows, and the instruction that an opcode names."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TypeAlias

from tcemu.alu.row import Ordinary, Row, Words, is_type
from tcemu.errors import TableError

#: The modules of rows; each has ROWS.
MODULES = (
    "integer",
    "bits",
    "floating",
    "comparison",
    "logic",
    "conversion",
    "video",
    "scalar_video",
    "approximations",
)


@cache
def rows() -> tuple[Row, ...]:
    """Every row.

    >>> from tcemu import alu
    >>> alu.rows()[0].section.startswith("9.7")
    True
    """
    return tuple(row for name in MODULES for row in import_module(f"tcemu.alu.{name}").ROWS)


def _key(opcode: str, *, pair: bool) -> tuple[str, bool]:
    """An opcode with its qualifiers in one order: the assembler takes them in any, except types."""
    mnemonic, *words = opcode.split(".")
    in_order = [*sorted(word for word in words if not is_type(word)), *filter(is_type, words)]
    return ".".join([mnemonic, *in_order]), pair


#: A row, the opcode as it spells it, and the opcode's words.
_Entry: TypeAlias = tuple[Row, str, Words]


@cache
def _spelled() -> dict[tuple[str, bool], dict[int, _Entry]]:
    """By opcode, and then by the number of operands: max.f32 takes two or three."""
    forms_by_key: dict[tuple[str, bool], dict[int, _Entry]] = {}
    for row in rows():
        for opcode, words in row.spelled():
            forms = forms_by_key.setdefault(_key(opcode, pair=row.pair), {})
            other = forms.setdefault(len(row.operands.split()), (row, opcode, words))[0]
            if other is not row:
                raise TableError(f"{opcode}: both {other.spelling} and {row.spelling} stand for it")
    return forms_by_key


@cache
def find(opcode: str, *, pair: bool = False, operands: int = 0) -> Ordinary | None:
    """The ordinary instruction of an opcode, "add.rn.ftz.f32"; None if the table has none.

    `pair` asks for the form whose destination is a pair of registers, as in setp.eq.s32 p|q, a, b. Of an opcode with
    several forms, `operands` asks for the one that takes so many; if there is none, the first is found.

    >>> from tcemu import alu
    >>> alu.find("mad.lo.s32").operands
    ('s32', 's32', 's32')
    >>> alu.find("max.f32", operands=3).operands
    ('f32', 'f32', 'f32')
    """
    return _looked_up(_key(opcode, pair=pair), operands)


@cache
def _looked_up(key: tuple[str, bool], operands: int = 0) -> Ordinary | None:
    forms = _spelled().get(key)
    if forms is None:
        return None
    row, spelt, words = forms.get(operands) or _first(forms)
    return row.ordinary(spelt, words)


def _first(forms: dict[int, _Entry]) -> _Entry:
    return next(iter(forms.values()))


def opcodes() -> list[str]:
    """Every opcode of the table, with its qualifiers in the manual's order.

    >>> from tcemu import alu
    >>> "shf.l.wrap.b32" in alu.opcodes()
    True
    """
    return list(dict.fromkeys(_first(forms)[1] for forms in _spelled().values()))

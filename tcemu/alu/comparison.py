"""Comparison and selection (PTX ISA 9.1, 9.7.6 and 9.7.7)."""

from __future__ import annotations

from functools import partial

from tcemu.alu.floats import ONE, flushed
from tcemu.alu.rounding import from_bf16
from tcemu.alu.row import Meaning, Ops, Row, Value, Words

_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}


def _of_integers(kind: str, ops: Ops, words: Words, x: Value, y: Value) -> Value:
    how = _UNSIGNED.get(words["CmpOp"], words["CmpOp"])
    if how in ("eq", "ne"):
        return x == y if how == "eq" else x != y
    if how in ("gt", "ge"):
        x, y, how = y, x, "lt" if how == "gt" else "le"
    if words[kind][0] == "s":
        return ops.less(x, y) if how == "lt" else ops.less_equal(x, y)
    return x < y if how == "lt" else x <= y


def _of_floats(kind: str, ops: Ops, words: Words, x: Value, y: Value) -> Value:
    if kind == "bf16":
        x, y = from_bf16(ops, x), from_bf16(ops, y)
    else:
        x, y = flushed(ops, words, x, kind), flushed(ops, words, y, kind)
        if kind == "f16":
            x, y = ops.fwiden(x, 32), ops.fwiden(y, 32)
    return ops.fcompare(words["CmpOp"], x, y)


def _combined(words: Words, result: Value, other: Value) -> Value:
    if words["BoolOp"] == "and":
        return result & other
    return result | other if words["BoolOp"] == "or" else result ^ other


def _and_more(compare: Meaning, ops: Ops, words: Words, x: Value, y: Value, *others: Value) -> Value:
    """A comparison, and with a .BoolOp, a predicate."""
    result = compare(ops, words, x, y)
    return _combined(words, result, others[0]) if others else result


def _both(compare: Meaning, ops: Ops, words: Words, x: Value, y: Value, *others: Value) -> tuple[Value, Value]:
    """A comparison and its contrary, as setp gives them to p|q."""
    result = compare(ops, words, x, y)
    results = (result, ~result)
    return tuple(_combined(words, each, others[0]) for each in results) if others else results


def _of_pairs(kind: str, ops: Ops, words: Words, x: Value, y: Value, *others: Value) -> tuple[Value, Value]:
    """Comparisons of the low halves, for p, and of the high ones, for q."""
    results = [_of_floats(kind, ops, words, *(ops.unsigned(v >> n, 16) for v in (x, y))) for n in (0, 16)]
    return tuple(_combined(words, each, others[0]) for each in results) if others else tuple(results)


#: What set gives where the comparison holds, by the result's type; others give all ones.
_TRUE = {"f16": ONE["f16"], "bf16": ONE["bf16"], "f32": ONE["f32"]}


def _set(compare: Meaning, ops: Ops, words: Words, x: Value, y: Value, *others: Value) -> Value:
    """Ones or 1.0."""
    kind = words["dtype"]
    result = _and_more(compare, ops, words, x, y, *others)
    bits = 16 if kind in ("u16", "s16") or kind[-2:] == "16" else 32
    if kind not in _TRUE:
        return ops.signed(result, bits)
    return ops.select(result, _TRUE[kind], 0, bits=bits)


def _set_pairs(kind: str, ops: Ops, words: Words, x: Value, y: Value, *others: Value) -> Value:
    results = _of_pairs(kind, ops, words, x, y, *others)
    low, high = (ops.select(each, _TRUE[kind], 0, bits=32) for each in results)
    return low | high << 16


def _selected(ops: Ops, words: Words, x: Value, y: Value, which: Value) -> Value:
    return ops.select(which, x, y)


def _by_sign(ops: Ops, words: Words, x: Value, y: Value, number: Value) -> Value:
    """x where a number is at least 0, which -0 is and no NaN."""
    if words["ctype"] == "s32":
        return ops.select(ops.less(number, 0), y, x)
    return ops.select(ops.fcompare("ge", flushed(ops, words, number, "f32"), 0), x, y)


# ------------------------------------------------------------------------------------------------ the rows

_INTEGERS = "u16 u32 u64 s16 s32 s64"
_ALL = {"CmpOp": "eq ne lt le gt ge equ neu ltu leu gtu geu num nan"}
_BOOL = {"BoolOp": "and or xor"}
_ANY = f"b16 b32 b64 {_INTEGERS} f32 f64"


def _comparisons() -> list[tuple[str, str, Meaning, Words]]:
    """What can be compared: the end of the spelling, the type, the comparison, and the words."""
    return [
        ("stype", "stype", partial(_of_integers, "stype"), {"CmpOp": "eq ne lt le gt ge", "stype": _INTEGERS}),
        ("stype", "stype", partial(_of_integers, "stype"), {"CmpOp": " ".join(_UNSIGNED), "stype": "u16 u32 u64"}),
        ("stype", "stype", partial(_of_integers, "stype"), {"CmpOp": "eq ne", "stype": "b16 b32 b64"}),
        ("{.ftz}.f32", "f32", partial(_of_floats, "f32"), _ALL),
        ("f64", "f64", partial(_of_floats, "f64"), _ALL),
        ("{.ftz}.f16", "f16", partial(_of_floats, "f16"), _ALL),
        ("bf16", "bf16", partial(_of_floats, "bf16"), _ALL),
    ]


def _spelt(start: str, middle: str, end: str) -> str:
    """A spelling: .ftz stands before the result's type."""
    optional, _, kind = end.rpartition(".") if "{" in end else ("", "", end)
    return ".".join(filter(None, [start + optional, middle, kind]))


#: With a .BoolOp, a predicate is the last operand.
_FORMS: tuple[tuple[str, str, Words], ...] = (("", "", {}), (".BoolOp", " pred", _BOOL))


def _predicates() -> list[Row]:
    rows = []
    for end, kind, compare, words in _comparisons():
        section = "9.7.7.2" if kind in ("f16", "bf16") else "9.7.6.2"
        for more, operand, own_words in _FORMS:
            spelling, types = _spelt(f"setp.CmpOp{more}", "", end), f"{kind} {kind}{operand}"
            all_words = {**words, **own_words}
            rows.append(Row(spelling, "pred", types, partial(_and_more, compare), section, all_words))
            if kind not in ("f16", "bf16"):
                rows.append(Row(spelling, "pred|pred", types, partial(_both, compare), section, all_words))
    for end, kind in (("{.ftz}.f16x2", "f16"), ("bf16x2", "bf16")):
        for more, operand, own_words in _FORMS:
            spelling, types = _spelt(f"setp.CmpOp{more}", "", end), f"{kind}x2 {kind}x2{operand}"
            rows.append(Row(spelling, "pred|pred", types, partial(_of_pairs, kind), "9.7.7.2", {**_ALL, **own_words}))
    return rows


#: What set gives, by what it compares; of BF16 without .ftz.
_RESULTS = {
    "": (("u32 s32 f32 f16 bf16", ""),),
    "f32": (("u32 s32 f32 f16", ""), ("bf16", "f32")),
    "f16": (("u32 s32 f16 u16 s16", ""), ("bf16", "f16")),
    "bf16": (("u32 s32 bf16 u16 s16", ""),),
}


def _sets() -> list[Row]:
    rows = []
    for end, kind, compare, words in _comparisons():
        section = "9.7.7.1" if kind in ("f16", "bf16") else "9.7.6.1"
        for more, operand, own_words in _FORMS:
            types, meaning = f"{kind} {kind}{operand}", partial(_set, compare)
            for results, exactly in _RESULTS.get(kind, _RESULTS[""]):
                spelling = _spelt(f"set.CmpOp{more}", "dtype", exactly or end)
                all_words = {**words, **own_words, "dtype": results}
                rows.append(Row(spelling, "dtype", types, meaning, section, all_words))
    for kind, optional in (("f16", "{.ftz}"), ("bf16", "")):
        for more, operand, own_words in _FORMS:
            spelling, types = f"set.CmpOp{more}{optional}.{kind}x2.{kind}x2", f"{kind}x2 {kind}x2{operand}"
            rows.append(Row(spelling, f"{kind}x2", types, partial(_set_pairs, kind), "9.7.7.1", {**_ALL, **own_words}))
    return rows


ROWS = (
    *_sets(),
    *_predicates(),
    Row("selp.type", "type", "type type pred", _selected, "9.7.6.3", {"type": _ANY}),
    Row("slct.type.ctype", "type", "type type ctype", _by_sign, "9.7.6.4", {"type": _ANY, "ctype": "s32"}),
    Row("slct{.ftz}.type.ctype", "type", "type type ctype", _by_sign, "9.7.6.4", {"type": _ANY, "ctype": "f32"}),
)

"""F64 in the directions .rz, .rm and .rp, where no wider format helps.

Operands are split into fractions and exponents, so that nothing overflows or underflows. The fractions' result is
rounded to nearest, then, by the sign of its error, in the direction; scaling rounds again in the same direction, which
does no harm.
"""

from __future__ import annotations

from collections.abc import Callable

from tcemu.alu.floats import INFINITY, ONE, SIGN, magnitude, propagated
from tcemu.alu.rounding import directed, nearest, with_error
from tcemu.alu.row import Ops, Value, Words

_SIGN, _INFINITY, _ONE = SIGN["f64"], INFINITY["f64"], ONE["f64"]
_HIDDEN, _FRACTION = 1 << 52, SIGN["f64"] | (1 << 52) - 1
#: 2**54 as a float, and an exponent below that of every float.
_TO_NORMAL, _NO_EXPONENT = 0x4350000000000000, -4000
#: Of a sum, what is further below the other summand changes the result only by its sign.
_FAR = -220


def _split(ops: Ops, x: Value) -> tuple[Value, Value]:
    """A fraction in 1 to 2, with the sign, and the exponent; of a number that is not 0 and finite."""
    small = (x & _INFINITY) == 0
    normal = ops.select(small, ops.fmul(x, _TO_NORMAL), x)
    exponent = (magnitude(normal, "f64") >> 52) - ops.select(small, 1023 + 54, 1023, bits=64)
    return (normal & _FRACTION) | _ONE, exponent


def _scaled(ops: Ops, x: Value, exponent: Value, rnd: str) -> Value:
    """A fraction times a power of 2, rounded in a direction."""
    sign, size = x & _SIGN, magnitude(x, "f64")
    away = {"rz": sign == 1, "rm": sign != 0, "rp": sign == 0}[rnd]
    biased = (size >> 52) + exponent
    places = ops.unsigned(ops.smaller_signed(ops.larger_signed(1 - biased, 0), 63), 64)
    significand = (size & (_HIDDEN - 1)) | _HIDDEN
    kept = significand >> places
    tiny = kept + ops.unsigned(away & ((kept << places) != significand), 64)
    huge = ops.select(away, _INFINITY, ops.constant(_INFINITY - 1, 64))
    plain = ops.select(ops.less(biased, 1), tiny, size + (exponent << 52))
    return ops.select(ops.less(biased, 2047), plain, huge) | sign


def _toward(ops: Ops, total: Value, error: Value, rnd: str) -> Value:
    """A number rounded in a direction instead of to nearest, from its error."""
    return directed(ops, total, ops.fcompare("lt", error, 0), ops.fcompare("gt", error, 0), rnd)


def _power(exponent: Value) -> Value:
    """2**exponent as a float."""
    return (exponent + 1023) << 52


def _zero(ops: Ops, result: Value, signs: Value, rnd: str) -> Value:
    """A sum of 0 rounded down, which is -0 unless both summands, of whose signs this is the union, are +0."""
    if rnd != "rm":
        return result
    return ops.select(magnitude(result, "f64") == 0, signs & _SIGN, result)


def _add(ops: Ops, rnd: str, x: Value, y: Value) -> Value:
    return _zero(ops, _toward(ops, *with_error(ops, x, y), rnd), x | y, rnd)


def _finite(ops: Ops, x: Value) -> Value:
    """Whether a number is finite and not 0."""
    return (magnitude(x, "f64") - 1) < (_INFINITY - 1)


def _multiply(ops: Ops, rnd: str, x: Value, y: Value) -> Value:
    (a, i), (b, j) = _split(ops, x), _split(ops, y)
    product = ops.fmul(a, b)
    total = _toward(ops, product, ops.fma(a, b, product ^ _SIGN), rnd)
    return ops.select(_finite(ops, x) & _finite(ops, y), _scaled(ops, total, i + j, rnd), ops.fmul(x, y))


def _multiply_add(ops: Ops, rnd: str, x: Value, y: Value, z: Value) -> Value:
    (a, i), (b, j), (c, k) = (_split(ops, each) for each in (x, y, z))
    exponent, nothing = i + j, magnitude(z, "f64") == 0
    c, k = ops.select(nothing, z, c), ops.select(nothing, _NO_EXPONENT, k)
    top = ops.larger_signed(exponent, k)
    power, other = (_power(ops.larger_signed(each - top, _FAR)) for each in (exponent, k))
    product = ops.fmul(a, b)
    high, low = ops.fmul(product, power), ops.fmul(ops.fma(a, b, product ^ _SIGN), power)
    first, rest = with_error(ops, ops.fmul(c, other), low)
    total, error = with_error(ops, high, first)
    tail, least = with_error(ops, error, rest)
    total, error = with_error(ops, total, tail)
    rounded = _toward(ops, total, ops.fadd(error, least), rnd)
    canceled = _SIGN if rnd == "rm" else 0
    result = ops.select(magnitude(total, "f64") == 0, canceled, _scaled(ops, rounded, top, rnd))
    finite = _finite(ops, x) & _finite(ops, y) & (magnitude(z, "f64") < _INFINITY)
    return ops.select(finite, result, _zero(ops, ops.fma(x, y, z), (x ^ y) | z, rnd))


def _divide(ops: Ops, rnd: str, x: Value, y: Value) -> Value:
    (a, i), (b, j) = _split(ops, x), _split(ops, y)
    quotient = ops.fdiv(a, b)
    error = ops.fma(quotient ^ _SIGN, b, a) ^ (b & _SIGN)
    result = _scaled(ops, _toward(ops, quotient, error, rnd), i - j, rnd)
    return ops.select(_finite(ops, x) & _finite(ops, y), result, ops.fdiv(x, y))


def _root(ops: Ops, rnd: str, x: Value) -> Value:
    a, i = _split(ops, x)
    a, i = a + ((i & 1) << 52), i - (i & 1)
    root = ops.fsqrt(a)
    result = _scaled(ops, _toward(ops, root, ops.fma(root ^ _SIGN, root, a), rnd), ops.shift_signed(i, 1), rnd)
    return ops.select(_finite(ops, x) & ~ops.less(x, 0), result, ops.fsqrt(x))


_DIRECTED: dict[str, Callable[..., Value]] = {
    "add": _add,
    "sub": lambda ops, rnd, x, y: _add(ops, rnd, x, y ^ _SIGN),
    "mul": _multiply,
    "fma": _multiply_add,
    "div": _divide,
    "rcp": lambda ops, rnd, x: _divide(ops, rnd, ops.constant(_ONE, 64), x),
    "sqrt": _root,
}


def double(operation: str, ops: Ops, words: Words, *values: Value) -> Value:
    """An operation on F64."""
    rnd = words.get("rnd", "rn")
    result = nearest(operation, ops, *values) if rnd == "rn" else _DIRECTED[operation](ops, rnd, *values)
    first = {"div": (1, 0), "fma": (0, 2, 1)}.get(operation, (0, 1))
    return propagated(ops, result, *(values[n] for n in first[: len(values)]))

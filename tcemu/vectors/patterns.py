"""Patterns of a number format that distinguish rules, made from Philox words, the same on every machine.

The golden files are hashes of answers to these: a change here makes them worthless, and tests/live/test_golden.py
fails.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.errors import OperandError, did_you_mean, listing, shown
from tcemu.formats import Format

Array = npt.NDArray[Any]

#: Classes of inputs. near: around 1. wide: every finite exponent. tiny: subnormals and their neighbours. floor:
#: products around the smallest representable result, and zeros. powers: the same with powers of two, most of them
#: zeros. cancel: neighbours cancel. specials: one in eight is zero, infinite or NaN. bits: any bits.
CLASSES = ("near", "wide", "tiny", "floor", "powers", "cancel", "specials", "bits")


def random_words(key: str, count: int) -> Array:
    """`count` uint64 words that depend on `key` alone."""
    seed = int.from_bytes(hashlib.sha256(key.encode()).digest()[:16], "little")
    return np.random.Philox(key=seed).random_raw(count)


def elements(form: Format, kind: str, key: str, count: int, accumulator: bool = False) -> Array:
    """`count` patterns of `form` of class `kind`. Raises OperandError for a class that does not exist.

    >>> f16 = tcemu.formats.lookup("f16")
    >>> first, again = (tcemu.vectors.elements(f16, "specials", "any text", 100) for _ in range(2))
    >>> np.array_equal(first, again)  # the same text gives the same patterns, on every machine
    True
    """
    if kind not in CLASSES:
        raise OperandError(
            f"no class of inputs is called {shown(kind)}.{did_you_mean(str(kind), CLASSES)} The classes are "
            f"{listing(CLASSES, 'and')}"
        )
    word = random_words(key, count)
    if form.kind != "float" or kind == "bits":
        return word & np.uint64(form.code_mask | ((1 << form.padding) - 1))
    if kind == "powers":
        return _powers(form, word, accumulator)
    low, high = _exponents(form, kind, accumulator)
    field = np.uint64(low) + (word >> np.uint64(53)) % np.uint64(high - low + 1)
    below = np.uint64((1 << (form.mantissa + form.padding)) - 1)
    sign = np.where(word >> np.uint64(52) & np.uint64(1) == 1, np.uint64(form.sign_bit), np.uint64(0))
    patterns = sign | field << np.uint64(form.mantissa + form.padding) | word & below
    if kind == "floor" and accumulator:
        # one in three is a zero of either sign: only beside zeros does the floor of the largest exponent show
        patterns = np.where(random_words(key + "#", count) % np.uint64(3) == 0, sign, patterns)
    return _with_specials(form, patterns, random_words(key + "#", count)) if kind == "specials" else patterns


def _exponents(form: Format, kind: str, accumulator: bool) -> tuple[int, int]:
    """The lowest and highest exponent field of a class."""
    top = (1 << form.exponent) - 2
    middle = form.bias
    span = {
        "near": (middle - 3, middle + 3),
        "wide": (0, top),
        "tiny": (0, 2),
        "floor": (0, 8) if accumulator else (0, 4) if form.exponent < 8 else (middle - 74, middle - 66),
        "cancel": (middle - 4, middle + 4) if not accumulator else (middle - 26, middle + 4),
        "specials": (middle - 6, middle + 6),
    }[kind]
    return max(span[0], 0), min(span[1], top)


def _powers(form: Format, word: Array, accumulator: bool) -> Array:
    """Powers of two of both signs near the smallest representable result; more than half are zeros."""
    # positions above the last bit of a subnormal; wide formats start where products reach the smallest results
    first = 0 if form.exponent < 8 or accumulator else (form.bias - 74) + form.mantissa - 1
    place = np.uint64(first) + (word >> np.uint64(40)) % np.uint64(form.mantissa + 9)
    mantissa = np.uint64(form.mantissa)
    # up to the length of the mantissa, a single bit of a subnormal; beyond it, an exponent field
    field = np.where(place < mantissa, 0, place - mantissa + 1).astype(np.uint64) << mantissa
    code = np.where(place < mantissa, np.uint64(1) << np.minimum(place, mantissa), field) << np.uint64(form.padding)
    sign = np.where(word >> np.uint64(63) == 1, np.uint64(form.sign_bit), np.uint64(0))
    zero = word % np.uint64(8) < np.uint64(6)
    largest = np.uint64(form.largest_pattern)
    return sign | np.where(zero, np.uint64(0), np.minimum(code, largest))


def _with_specials(form: Format, patterns: Array, word: Array) -> Array:
    """One in eight replaced by a zero, an infinity, a quiet or a signalling NaN, of either sign."""
    sign = np.where(word & np.uint64(8) > 0, np.uint64(form.sign_bit), np.uint64(0))
    infinity = form.infinity_bits if form.infinity_bits is not None else form.largest_pattern
    payload = word >> np.uint64(40) & np.uint64((1 << form.mantissa) - 1) << np.uint64(form.padding)
    nan = np.uint64(infinity) | payload if form.nan == "ieee" else np.full_like(word, form.nan_bits or 0)
    which = (word >> np.uint64(4) & np.uint64(3)).astype(np.intp)
    chosen = np.choose(which, [np.zeros_like(word), np.full_like(word, infinity), nan, nan])
    return np.where(word & np.uint64(7) == 0, sign | chosen, patterns)

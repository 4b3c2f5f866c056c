"""Dot products that tell rules apart: rows of A, columns of B, addends and scales as patterns, the same everywhere.

A fragment's layout has no part in what is computed, so that other models of tensor cores, which know no fragments, can
be asked as well. The classes of tcemu.vectors.patterns, and more that see a row, its column and its addend.
"""

import numpy as np

from tcemu.arithmetic import compute, compute_scaled
from tcemu.formats import lookup
from tcemu.vectors.patterns import CLASSES, elements
from tcemu.vectors.patterns import random_words as words

#: groups: the products of every block cancel exactly, but for a few. absorbed: two huge products cancel, the others lie
#: around where they are cut off. addend: c alone is small, or small beside the products. ties: a product of half the
#: smallest result, or of the smallest, and one around where the floor cuts off. overflow: exponents at the top. top:
#: like bits, without NaN and infinities.
KINDS = (*CLASSES, "groups", "absorbed", "addend", "ties", "overflow", "top")
#: Of the scales: near 1; the smallest; any, the NaN and zero among them; spread around 1, so that groups lie apart.
SCALES = {
    "near": "near", "floor": "low", "powers": "low", "tiny": "low", "ties": "low",
    "groups": "apart", "absorbed": "apart",
}  # fmt: skip
#: The class of tcemu.vectors.patterns that A and B start from, and that of c.
BASE = {"groups": "near", "absorbed": "near", "ties": "near", "addend": "floor", "overflow": "bits", "top": "bits"}
ADDEND = {"addend": "tiny", "groups": "powers", "absorbed": "powers"}


def dots(instruction, kind, key, count):
    """Patterns a and b (count, depth) and c (count), and for scaled forms scales (count, scales) of A and of B."""
    forms, depth = instruction.types, instruction.facts.stored or instruction.shape.k
    shape, key = (count, depth), f"{key}|{instruction}|{kind}"

    def made(role, how, size):
        return elements(forms[role], how, f"{key}|{role}", size, role == "c")

    base = BASE.get(kind, kind)
    a, b = (made(role, base, count * depth).reshape(shape) for role in "ab")
    c = made("c", ADDEND.get(kind, base), count)
    random = words(f"{key}|#", count * depth).reshape(shape)
    if kind == "cancel":
        a, b = _pairs(forms, a, b, random, off=8)
    if kind == "groups":
        a, b = _pairs(forms, a, b, random, off=16)
        # in every other dot product most blocks of four are zeros
        blank = (random >> np.uint64(20) & np.uint64(7) > 1) & (np.arange(count) % 2 == 1)[:, None]
        blank = np.repeat(blank[:, ::4], 4, axis=1)[:, :depth]
        a, b = np.where(blank, 0, a), np.where(blank & (random >> np.uint64(30) & np.uint64(1) == 0), 0, b)
    if kind == "absorbed":
        a, b = _absorbed(forms, a, b, random)
    if kind == "ties":
        a, b, c, own = _ties(instruction, random)
    if kind == "addend":
        a = np.where(random >> np.uint64(9) & np.uint64(3) > 0, 0, a)
    if kind in ("overflow", "top"):
        a, b, c = (_finite(forms[role], x, kind) for role, x in (("a", a), ("b", b), ("c", c)))
    c = np.where(words(f"{key}|?", count) % np.uint64(4) == 0, 0, c) if kind in ("groups", "absorbed", "tiny") else c
    patterns = [x.astype(forms[role].storage) for role, x in (("a", a), ("b", b), ("c", c))]
    if "stype" not in instruction.words:
        return tuple(patterns)
    made = [_scales(instruction, kind, f"{key}|scale {role}", count) for role in "ab"]
    return (*patterns, *(own if kind == "ties" and instruction.words["stype"] == "ue8m0" else made))


def compute_dots(operation, a, b, c, *scales):
    """What the operation makes of them (count)."""
    given = a[:, None, :], b[:, :, None], c[:, None, None]
    if scales:
        return compute_scaled(operation, *given, scales[0][:, None, :], scales[1][:, :, None])[:, 0, 0]
    return compute(operation, *given)[:, 0, 0]


def _pairs(forms, a, b, random, off):
    """Neighbours that cancel: A repeats, B negates; in one pair of `off` the last bit of A differs."""
    a, b = a.copy(), b.copy()
    flip = (random[:, 1::2] >> np.uint64(11)) % np.uint64(off) == 0
    a[:, 1::2] = a[:, ::2] ^ flip.astype(np.uint64) << np.uint64(forms["a"].padding)
    b[:, 1::2] = b[:, ::2] ^ np.uint64(forms["b"].sign_bit)
    return a, b


def _absorbed(forms, a, b, random):
    """Two products of one size that cancel, at places of the row's choice; the others are smaller by 2^12 to 2^43."""
    a, b = a.copy(), b.copy()
    count, depth = a.shape
    rows = np.arange(count)
    one = (random[:, 0] >> np.uint64(40)).astype(int) % depth
    two = (one + 1 + (random[:, 0] >> np.uint64(20)).astype(int) % (depth - 1)) % depth
    gap = (12 + (random[:, 1] >> np.uint64(33)) % np.uint64(32)).astype(int)
    for role, x, share in (("a", a, gap // 2), ("b", b, gap - gap // 2)):
        form = forms[role]
        up = np.minimum(share - share // 2, (1 << form.exponent) - 2 - form.bias)
        down = np.maximum(form.bias - share // 2, 1)
        position = np.uint64(form.mantissa + form.padding)
        mantissa = x & np.uint64((1 << (form.mantissa + form.padding)) - 1)
        x[:] = x & np.uint64(form.sign_bit) | down.astype(np.uint64)[:, None] << position | mantissa
        x[rows, one] = (form.bias + up).astype(np.uint64) << position
        x[rows, two] = x[rows, one] | np.uint64(form.sign_bit if role == "b" else 0)
    return a, b


def _ties(instruction, random):
    """Zeros but for two or three products that are powers of two, now and then a subnormal c, and the scales for it."""
    forms, (count, depth) = instruction.types, random.shape
    a, b = np.zeros((count, depth), np.uint64), np.zeros((count, depth), np.uint64)
    result = forms["d"]
    smallest, half = 1 - result.bias - result.mantissa, result.name == "f16"
    rows, word = np.arange(count), random[:, 0]
    places = np.argsort(random, axis=1, kind="stable")[:, :3]
    main = smallest - half - (word % np.uint64(3) == 0) * half
    # mostly around where floors cut off, 2^-42 to 2^-46 for f16 and 2^-156 to 2^-174 for f32
    drawn = (word >> np.uint64(8)).astype(np.int64)
    far = instruction.facts.scales > 1
    floors = 15 + drawn % 8 if half else 20 + drawn % 10 if far else 4 + drawn % 10
    tail = smallest - half - np.where(word >> np.uint64(50) & np.uint64(3) == 0, drawn % 26, floors)
    third = np.where(word >> np.uint64(17) & np.uint64(3) == 0, tail - 1, -9999)
    values = [main, tail, third]
    signs = [np.zeros(count, bool), (word >> np.uint64(16) & np.uint64(1) == 1) | (not half)]
    signs.append(word >> np.uint64(19) & np.uint64(1) == 1)
    lift, scales = _lifted(instruction, values, places) if "stype" in instruction.words else ([0, 0, 0], ())
    for place, (value, negative, up) in enumerate(zip(values, signs, lift, strict=True)):
        left, right = _split(forms["a"], forms["b"], value + up, random[:, 1 % depth])
        a[rows, places[:, place]] = left | np.where(negative, np.uint64(forms["a"].sign_bit), np.uint64(0))
        b[rows, places[:, place]] = right
    c = np.where(word >> np.uint64(24) & np.uint64(3) == 0, word >> np.uint64(30) & np.uint64(3), np.uint64(0))
    return a, b, c << np.uint64(forms["c"].padding), scales


def _lifted(instruction, values, places):
    """How far the products lie above `values`, which scales of ue8m0 bring down, and these scales of A and of B."""
    number, depth = instruction.facts.scales, instruction.facts.stored or instruction.shape.k
    low = sum(1 - instruction.types[role].bias - instruction.types[role].mantissa for role in "ab")
    # one scale for all: the smallest product is 2^12 below the first; one for each group: all products are 1
    lift = [low + 12 - values[0]] * 3 if number == 1 else [-value for value in values]
    down = np.zeros((len(values[0]), number), np.int64)
    for up, where in zip(reversed(lift), reversed(places.T), strict=True):
        down[np.arange(len(down)), where * number // depth] = np.clip(-up, -254, 254)
    first = np.clip(down // 2 + 127, 0, 254)
    return lift, (first.astype(np.uint8), np.clip(down - (first - 127) + 127, 0, 254).astype(np.uint8))


def _split(one, two, value, word):
    """Patterns of two powers of two whose product is 2^value, or as near as possible; zeros far below."""
    low = [1 - form.bias - form.mantissa for form in (one, two)]
    high = [(1 << form.exponent) - 2 - form.bias for form in (one, two)]
    least, most = np.maximum(low[0], value - high[1]), np.minimum(high[0], value - low[1])
    span = np.maximum(most - least + 1, 1)
    first = np.clip(least + (word >> np.uint64(7)).astype(np.int64) % span, low[0], high[0])
    second = np.clip(value - first, low[1], high[1])
    patterns = [_power(form, exponent) for form, exponent in ((one, first), (two, second))]
    return [np.where(value < -5000, np.uint64(0), pattern) for pattern in patterns]


def _power(form, exponent):
    """The patterns of 2^exponent, subnormals among them."""
    field = exponent + form.bias
    below = 1 << np.maximum(form.mantissa - 1 + field, 0)
    code = np.where(field > 0, field << form.mantissa, below)
    return code.astype(np.uint64) << np.uint64(form.padding)


def _finite(form, x, kind):
    """Finite patterns; for "overflow" with exponents within three of the highest."""
    position = np.uint64(form.mantissa + form.padding)
    ones = (1 << form.exponent) - 1
    field = (x >> position & np.uint64(ones)).astype(np.int64)
    highest = ones - (form.nan == "ieee")
    if kind == "overflow":
        field = highest - field % 4
    field = np.minimum(field, highest)
    x = x & ~(np.uint64(ones) << position) | field.astype(np.uint64) << position
    magnitude = np.uint64(form.sign_bit - 1)
    largest = np.uint64(form.largest_pattern | ((1 << form.padding) - 1))
    return np.where(x & magnitude > largest, x & ~magnitude | largest, x)


def _scales(instruction, kind, key, count):
    """Scales (count, scales), one for each 16 or 32 products, of the class that goes with `kind`."""
    form, number = lookup(instruction.words["stype"]), instruction.facts.scales
    word = words(key, count * number).reshape(count, number)
    one = form.bias << form.mantissa
    near, low = np.uint64(one - 4) + word % np.uint64(9), word >> np.uint64(20) & np.uint64(0x3F)
    apart = np.uint64(one - 20) + (word >> np.uint64(20)) % np.uint64(41)
    made = {"near": near, "low": low, "apart": apart}.get(SCALES.get(kind, "any"), word)
    return (made & np.uint64(0xFF)).astype(form.storage)

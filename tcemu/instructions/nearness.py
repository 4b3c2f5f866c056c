"""How near one word of an opcode is to another: what ranks the legal forms in "Nearest legal form".

The distance of two opcodes is the sum over their slots. The types weigh most, because they are why somebody chose the
instruction; then what it does (.sp, .kind, .op), then the shape, whose distance is in powers of two, and the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from math import log2, prod

from tcemu.errors import apart
from tcemu.formats.table import FORMATS

#: How much another word in a slot costs; 1 in the slots that are not named.
_WEIGHTS: Mapping[str, float] = {
    "atype": 40, "btype": 39.9, "type": 40, "dst_fmt": 40, "src_fmt": 40, "dtype": 20, "ctype": 10, "stype": 8,
    "op": 60, "mode": 60, "sp": 4, "kind": 4, "matrix": 4, "ss": 2,
}  # fmt: skip
#: How much more a form costs that has a type of neither A nor B.
_THIRD = 10
#: The slots whose words name types of elements.
TYPED = ("dtype", "atype", "btype", "ctype", "stype", "type", "dst_fmt", "src_fmt")
#: What counts as near where no type is written.
_DEFAULTS = {"dtype": "f32", "atype": "f16", "btype": "f16", "ctype": "f32"}
#: What PTX spells as m16n8k16: the sizes are what counts.
SHAPE = re.compile(r"m(\d+)n(\d+)(?:k(\d+))?")


@cache
def distance(slot: str, asked: str, word: str) -> float:
    """How far `word` is from the word that somebody wrote in a slot; an empty one means absent.

    >>> from tcemu.instructions.nearness import distance
    >>> distance("shape", "m64n40k32", "m64n48k32") < distance("shape", "m64n40k32", "m64n8k32")
    True
    >>> distance("dtype", "bf16", "f32") < distance("dtype", "bf16", "f16")  # f32 has bf16's range
    True
    """
    if asked == word:
        return 0
    if slot == "shape":
        return _between_shapes(asked, word)
    asked = asked or (_DEFAULTS.get(slot, "") if word else "")
    if asked == word:
        unlike = 0.0
    elif not asked or not word:
        unlike = 1.0
    else:
        unlike = _between_types(asked, word) if slot in TYPED else min(apart(asked, word), 4) / 4
    return _WEIGHTS.get(slot, 1) * (1 + unlike / 4)


def far(asked: Mapping[str, str], chosen: Mapping[str, str], slots: Iterable[str]) -> float:
    """The distance of the words of a form from those that somebody wrote, in these slots.

    Who writes types of A and B that do not go together means one of them twice rather than a third one.
    """
    present = list(slots)
    third = "atype" in present and "btype" in present and _third(asked, chosen)
    return sum(distance(slot, asked.get(slot, ""), chosen.get(slot, "")) for slot in present) + _THIRD * third


def _third(asked: Mapping[str, str], chosen: Mapping[str, str]) -> bool:
    """Whether A or B has a type that is asked for neither."""
    types = {asked.get("atype"), asked.get("btype")}
    return types <= FORMATS.keys() and any(chosen.get(slot, "") not in types for slot in ("atype", "btype"))


def _between_shapes(asked: str, word: str) -> float:
    sizes, others = _sizes(asked), _sizes(word)
    if others is None:
        return 1
    pairs = zip(sizes, others, strict=True) if sizes else [(2, 1)]  # as far as one of twice the size
    steps = sum(abs(log2((one or 0.5) / (other or 0.5))) for one, other in pairs)
    return steps - log2(prod(other or 1 for other in others)) / 1000  # of equals, the largest tile


def _sizes(shape: str) -> tuple[int, ...] | None:
    match = SHAPE.fullmatch(shape)
    return tuple(int(size or 0) for size in match.groups()) if match else None


def _between_types(asked: str, word: str) -> float:
    """From 0 to 2: of numbers, first the kind, then the range, then the precision; of bits to move, the width."""
    if asked in FORMATS and word in FORMATS:
        one, other = FORMATS[asked], FORMATS[word]
        unlike = 0.5 * (one.kind != other.kind) + 0.1 * (one.signed != other.signed)
        return min(unlike + abs(one.exponent - other.exponent) / 5 + abs(one.mantissa - other.mantissa) / 30, 2)
    (letter, bits), (its_letter, its_bits) = _parts(asked), _parts(word)
    unlike = 0 if letter == its_letter else 0.1 if "b" in (letter, its_letter) else 0.3
    return unlike + 0.5 * min(abs(log2((bits or 1) / (its_bits or 1))), 5)


def _parts(word: str) -> tuple[str, int]:
    """("b", 16) for b16; the width of e4m3 is 8, and a word of another kind has none."""
    if word in FORMATS:
        return word[0], FORMATS[word].container
    match = re.fullmatch(r"([a-z]+)(\d+)", word)
    return (match[1], int(match[2])) if match else (word, 0)

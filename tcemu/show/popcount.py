"""What a tensor core does with two words of single bits: combine them, and count the ones."""

from __future__ import annotations

from tcemu.arguments import explained
from tcemu.errors import OperandError, counted, whole
from tcemu.show import svg
from tcemu.show.picture import Picture, picture

_LEFT, _TOP, _BOX, _ROW = 64, 34, 22, 38


@explained
def popcount(a: int, b: int, operation: str = "xor") -> Picture:
    """Two 32-bit words, bit by bit, and `a` xor `b`, or `a` and `b`, whose ones are counted.

    Bits that stand for +1 and −1 have the dot product 32 − 2 · popc(a xor b), which is shown too. Raises OperandError
    for a word of more than 32 bits, and for another operation.

    >>> tcemu.show.popcount(0b1100, 0b1010).description
    'a 0x0000000c xor b 0x0000000a is 0x00000006, which has 2 ones. As signs: 30 agree and 2 differ, dot product 28.'
    """
    words = {"a": whole(a, "a word"), "b": whole(b, "a word")}
    for name, word in words.items():
        if not 0 <= word < 1 << 32:
            raise OperandError(f"{name} must be a word of 32 bits, 0 to 0xffffffff; got {word:#x}")
    if operation not in ("xor", "and"):
        raise OperandError(f"the operation must be xor or and; got {operation!r}")
    both = words["a"] ^ words["b"] if operation == "xor" else words["a"] & words["b"]
    ones, differ = both.bit_count(), (words["a"] ^ words["b"]).bit_count()
    body = [svg.text(_LEFT + (31 - bit + 0.5) * _BOX, _TOP - 8, bit, "s t", "middle") for bit in range(0, 32, 4)]
    for row, (name, word) in enumerate({**words, operation: both}.items()):
        body += _word(_TOP + row * _ROW, name, word, marked=name == operation)
    y = _TOP + 3 * _ROW + 14
    body.append(svg.text(_LEFT, y, f"popc = {ones}", "b"))
    signs = f"as signs, 1 for +1 and 0 for −1: {32 - differ} agree, {differ} differ, dot product {32 - 2 * differ}"
    body.append(svg.text(_LEFT + 110, y, signs.replace("product -", "product −"), "s"))
    title = f"popc(a {operation} b) = {ones}"
    words_said = f"a {words['a']:#010x} {operation} b {words['b']:#010x} is {both:#010x}, "
    words_said += f"which has {counted(ones, 'one')}. As signs: {32 - differ} agree and {differ} differ, "
    words_said += f"dot product {32 - 2 * differ}."
    return picture(title, words_said.replace("product -", "product −"), _LEFT + 32 * _BOX + 16, y + 18, body)


def _word(y: float, name: str, word: int, *, marked: bool) -> list[str]:
    """One word; ones are filled, and framed where they are counted."""
    elements = [svg.text(_LEFT - 10, y + 19, name, "b", "end")]
    for bit in range(31, -1, -1):
        x, one = _LEFT + (31 - bit) * _BOX, word >> bit & 1
        elements.append(svg.rect(x, y, _BOX, 26, "x" if one and marked else "fb" if one else "p"))
        elements.append(svg.text(x + _BOX / 2, y + 18, one, "m b" if one else "m q", "middle"))
    return elements

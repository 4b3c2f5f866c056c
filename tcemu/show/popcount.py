"""What a tensor core does with two words of single bits: combine them, and count the ones."""

from __future__ import annotations

from tcemu.arguments import explained
from tcemu.errors import OperandError, counted, whole
from tcemu.show import svg
from tcemu.show.picture import Picture, picture
from tcemu.show.sheet import Grid


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
    grids = [Grid(64, 34 + 38 * row, 22, 26, 1, 32) for row in range(3)]
    left, y = grids[0].left, grids[-1].bottom + 26
    body = [grids[0].at(0, 31 - bit).above(bit, "s t", 8) for bit in range(0, 32, 4)]
    for grid, (name, word) in zip(grids, {**words, operation: both}.items(), strict=True):
        body += _word(grid, name, word, "x" if name == operation else "fb")
    body.append(svg.text(left, y, f"popc = {ones}", "b"))
    signs = f"as signs, 1 for +1 and 0 for −1: {32 - differ} agree, {differ} differ, dot product {32 - 2 * differ}"
    body.append(svg.text(left + 110, y, signs.replace("product -", "product −"), "s"))
    title = f"popc(a {operation} b) = {ones}"
    words_said = f"a {words['a']:#010x} {operation} b {words['b']:#010x} is {both:#010x}, "
    words_said += f"which has {counted(ones, 'one')}. As signs: {32 - differ} agree and {differ} differ, "
    words_said += f"dot product {32 - 2 * differ}."
    return picture(title, words_said.replace("product -", "product −"), grids[0].right + 16, y + 18, body)


def _word(grid: Grid, name: str, word: int, tone: str) -> list[str]:
    """One word; its ones have the tone."""
    elements = [svg.text(grid.left - 10, grid.top + 19, name, "b", "end")]
    for place, digit in enumerate(f"{word:032b}"):
        box, one = grid.at(0, place), digit == "1"
        elements += [box.rect(tone if one else "p"), box.label(digit, "m b" if one else "m q")]
    return elements

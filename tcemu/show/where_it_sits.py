"""Where a tensor core sits: chip, SM, sub-core; and the way of the data from global memory to it. Drawn for an H100."""

from __future__ import annotations

from collections.abc import Iterator

from tcemu.arguments import explained
from tcemu.show import svg
from tcemu.show.picture import Picture, picture
from tcemu.show.sheet import Box, Grid

_CHIP = Grid(24, 60, 15, 15, 11, 12)
_L2, _GLOBAL = Box(24, 330, 180, 40), Box(24, 420, 180, 40)
_SM = Box(268, 34, 608, 350)
_SHARED = Box(_SM.x + 16, _L2.y, _SM.wide - 32, _L2.high)
#: The four sub-cores; each keeps a margin on its left for arrows.
_SUBCORES = Grid(_SM.x + 16, _SM.y + 12, 146, 262, 1, 4)
_MARGIN = 24
#: What one sub-core has, from the top: its place from the sub-core's upper edge, height, name, note and tone.
_PARTS = {
    "scheduler": Box(0, 26, 0, 42),
    "32 cores": Box(0, 78, 0, 42),
    "registers": Box(0, 130, 0, 42),
    "tensor core": Box(0, 200, 0, 50),
}
_NOTES = {
    "scheduler": ("one warp a clock", "p"),
    "32 cores": ("32 multiply-adds", "p"),
    "registers": ("64 KiB", "fg"),
    "tensor core": ("512 multiply-adds", "fb"),
}
_STEPS = (
    "1  global memory → L2 → shared memory: cp.async, TMA",
    "2  shared memory → registers: ld.shared, ldmatrix",
    "3  registers → tensor core: mma.sync",
    "4  shared memory → tensor core: wgmma, without step 2",
)


@explained
def where_it_sits() -> Picture:
    """An H100 with its SMs, one SM with its four sub-cores, and how data reach a tensor core.

    The numbers are those of NVIDIA's data sheet and white paper: multiply-adds per clock, of float32 and of f16.

    >>> tcemu.show.where_it_sits().title
    'Where a tensor core sits: an H100, and one of its 132 SMs'
    """
    words = (
        "An H100 has 132 SMs, an L2 cache of 50 MB and 80 GB of global memory. An SM has four sub-cores and 228 KiB of "
        "shared memory. Each sub-core has a scheduler, which issues an instruction of one warp per clock; 32 ordinary "
        "cores for 32 multiply-adds of float32 per clock; 64 KiB of registers; and a tensor core for 512 of f16. Data "
        f"take these steps. {'; '.join(_STEPS)}."
    )
    body = [_SM.rect("p"), *_chip(), *_box(_SHARED, "shared memory", "228 KiB, for the warps of a block", "fo")]
    for number in range(_SUBCORES.columns):
        body += _subcore(number)
    body += [svg.text(_SM.x, _GLOBAL.y + 4 + 21 * n, step) for n, step in enumerate(_STEPS)]
    title = "Where a tensor core sits: an H100, and one of its 132 SMs"
    return picture(title, words, _SM.x + _SM.wide + 16, _GLOBAL.y + 84, body)


def _chip() -> Iterator[str]:
    """The SMs of the chip, one of them marked; the memories outside; the first step of the data."""
    chosen = _CHIP.at(4, 11).inset(1)
    yield svg.text(_CHIP.left, 22, "the chip", "b")
    yield svg.text(_CHIP.left, 46, "132 SMs, one in each square", "s")
    for place in range(_CHIP.rows * _CHIP.columns):
        yield _CHIP.at(*divmod(place, _CHIP.columns)).inset(1).rect("p")
    yield chosen.rect("x")
    yield svg.text(_SM.x, 22, "one SM, for up to 64 warps", "b")
    right = chosen.x + chosen.wide
    yield svg.line(right, chosen.y, _SM.x, _SM.y, dash="4 3")
    yield svg.line(right, chosen.y + chosen.high, _SM.x, _SM.y + _SM.high, dash="4 3")
    yield from _box(_L2, "L2 cache", "50 MB", "p")
    yield from _box(_GLOBAL, "global memory", "80 GB, 3.35 TB/s", "p")
    low, middle = _L2.y + _L2.high, _L2.y + _L2.high / 2
    yield from _step(1, (_L2.middle, _GLOBAL.y - 2), (_L2.middle, low + 3))
    yield from _step(1, (_L2.x + _L2.wide + 2, middle), (_SHARED.x - 3, middle))


def _subcore(number: int) -> Iterator[str]:
    """One of the four columns of the SM, and the last steps of the data."""
    frame = _SUBCORES.at(0, number)._replace(wide=_SUBCORES.wide - 8)
    yield frame.rect("f")
    yield svg.text(frame.middle, frame.y + 17, f"sub-core {number}", "s", "middle")
    inner = frame.x + _MARGIN
    place = {name: Box(inner, frame.y + part.y, frame.wide - _MARGIN - 6, part.high) for name, part in _PARTS.items()}
    for name, (note, tone) in _NOTES.items():
        yield from _box(place[name], name, note, tone)
    registers, core = place["registers"], place["tensor core"]
    turn, level = frame.x + 11, registers.y + registers.high / 2
    yield svg.line(turn, _SHARED.y - 2, turn, level, "k")
    yield svg.arrow(turn, level, inner - 3, level)
    yield svg.text(turn + 3, level + 34, "2", "b")
    yield from _step(3, (core.middle - 20, registers.y + registers.high + 2), (core.middle - 20, core.y - 3))
    yield from _step(4, (core.middle + 20, _SHARED.y - 2), (core.middle + 20, core.y + core.high + 3))


def _box(box: Box, name: str, note: str, tone: str) -> Iterator[str]:
    """A box with its name and what it holds or does."""
    yield box.rect(tone)
    yield svg.text(box.middle, box.base - 7, name, "b", "middle")
    yield svg.text(box.middle, box.base + 10, note, "s", "middle")


def _step(number: int, start: tuple[float, float], end: tuple[float, float]) -> Iterator[str]:
    """An arrow, with its number beside it."""
    (x1, y1), (x2, y2) = start, end
    yield svg.arrow(x1, y1, x2, y2)
    level = abs(y1 - y2) < 1
    yield svg.text((x1 + x2) / 2 + (-4 if level else 7), (y1 + y2) / 2 + (-7 if level else 5), number, "b")

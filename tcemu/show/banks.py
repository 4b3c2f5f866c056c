"""The 32 banks of shared memory under one access: how many words each has to deliver, part by part."""

from __future__ import annotations

from collections import Counter

from tcemu.arguments import explained
from tcemu.errors import counted, ranges
from tcemu.show import svg
from tcemu.show.picture import Picture, picture
from tcemu.timing.banks import BANKS, WORD
from tcemu.timing.wavefronts import Part, Wavefronts

_LEFT, _TOP, _CELL, _HIGH = 118, 38, 22, 26


@explained
def banks(wavefronts: Wavefronts) -> Picture:
    """How many different words each bank delivers in each part; the busiest banks of a part are marked.

    `wavefronts` is what tcemu.wavefronts returns for one warp. Raises OperandError for the result of many warps: pass
    one of them, banks(result[0]).

    >>> tcemu.show.banks(tcemu.wavefronts(8 * np.arange(32), "ld.shared.b32")).title
    'ld.shared.b32: 2 wavefronts, 1 without conflicts'
    """
    parts = wavefronts.parts
    loads = [_loads(wavefronts, part) for part in parts]
    body = [svg.text(_LEFT + (bank + 0.5) * _CELL, _TOP - 8, bank, "s t", "middle") for bank in range(BANKS)]
    body.append(svg.text(_LEFT - 8, _TOP - 8, "bank", "s t", "end"))
    for row, (part, load) in enumerate(zip(parts, loads, strict=True)):
        body += _row(row, part, load)
    bottom = _TOP + len(parts) * _HIGH + 22
    body.append(svg.text(16, bottom, "A number: different words that the bank delivers, one in each wavefront.", "s"))
    width = _LEFT + BANKS * _CELL + 130
    count = counted(int(wavefronts.count), "wavefront")
    title = f"{wavefronts.access}: {count}, {wavefronts.least} without conflicts"
    words = ". ".join(map(_in_words, range(len(parts)), parts, loads))
    return picture(title, f"{words}.", width, bottom + 14, body)


def _loads(wavefronts: Wavefronts, part: Part) -> Counter[int]:
    """Different words by bank, in one part."""
    granule = wavefronts.access.granule
    starts = {int(wavefronts.addresses[lane]) // granule * granule for lane in part.lanes}
    return Counter((start + offset) // WORD % BANKS for start in starts for offset in range(0, granule, WORD))


def _row(row: int, part: Part, load: Counter[int]) -> list[str]:
    y = _TOP + row * _HIGH
    elements = [svg.text(16, y + 17, f"lanes {ranges(part.lanes, '–')}", "s")]
    for bank in range(BANKS):
        x, words = _LEFT + bank * _CELL, load[bank]
        busiest = words == part.wavefronts > 1
        elements.append(svg.rect(x, y, _CELL, _HIGH, "x" if busiest else "f" if words else "p"))
        elements += [svg.hatch(x + 1, y + 1, _CELL - 2, _HIGH - 2)] if busiest else []
        look = "n b c halo" if busiest else "n c" if words else "n c q"
        elements.append(svg.text(x + _CELL / 2, y + 17, words or "·", look))
    note = counted(part.wavefronts, "wavefront")
    return [*elements, svg.text(_LEFT + BANKS * _CELL + 12, y + 17, note, "b" if part.wavefronts > 1 else "s")]


def _in_words(number: int, part: Part, load: Counter[int]) -> str:
    busy = [bank for bank in range(BANKS) if load[bank] == part.wavefronts]
    most = f"at most {counted(part.wavefronts, 'word')} from a bank, from bank{'s' * (len(busy) > 1)} {ranges(busy)}"
    return f"Part {number}, lanes {ranges(part.lanes)}: {counted(part.wavefronts, 'wavefront')}, {most}"

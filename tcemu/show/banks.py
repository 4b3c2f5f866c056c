"""The 32 banks of shared memory under one access: how many words each has to deliver, part by part."""

from __future__ import annotations

from collections import Counter

from tcemu.arguments import explained
from tcemu.errors import counted, ranges
from tcemu.show import svg
from tcemu.show.picture import Picture, picture
from tcemu.show.sheet import Grid, cell
from tcemu.timing.banks import BANKS, WORD
from tcemu.timing.wavefronts import Part, Wavefronts


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
    grid = Grid(118, 38, 22, 26, len(parts), BANKS)
    body = [*grid.above(range(BANKS)), svg.text(grid.left - 8, grid.top - 8, "bank", "s t", "end")]
    for row, (part, load) in enumerate(zip(parts, loads, strict=True)):
        body += _row(grid, row, part, load)
    bottom = grid.bottom + 22
    says = "A number: different words that the bank delivers, one in each wavefront."
    slow = " Hatched: the banks that decide how many." if any(part.wavefronts > 1 for part in parts) else ""
    body.append(svg.text(16, bottom, says + slow, "s"))
    count = counted(int(wavefronts.count), "wavefront")
    title = f"{wavefronts.access}: {count}, {wavefronts.least} without conflicts"
    words = ". ".join(map(_in_words, range(len(parts)), parts, loads))
    return picture(title, f"{words}.", grid.right + 130, bottom + 14, body)


def _loads(wavefronts: Wavefronts, part: Part) -> Counter[int]:
    """Different words by bank, in one part."""
    granule = wavefronts.access.granule
    starts = {int(wavefronts.addresses[lane]) // granule * granule for lane in part.lanes}
    return Counter((start + offset) // WORD % BANKS for start in starts for offset in range(0, granule, WORD))


def _row(grid: Grid, row: int, part: Part, load: Counter[int]) -> list[str]:
    low = grid.at(row, 0).base
    elements = [svg.text(16, low, f"lanes {ranges(part.lanes, '–')}", "s")]
    for bank in range(BANKS):
        words = load[bank]
        tone, look = ("f", "n c") if words else ("p", "n c q")
        elements += cell(grid.at(row, bank), words or "·", tone, look, words == part.wavefronts > 1)
    note = counted(part.wavefronts, "wavefront")
    return [*elements, svg.text(grid.right + 12, low, note, "b" if part.wavefronts > 1 else "s")]


def _in_words(number: int, part: Part, load: Counter[int]) -> str:
    busy = [bank for bank in range(BANKS) if load[bank] == part.wavefronts]
    most = f"at most {counted(part.wavefronts, 'word')} from a bank, from bank{'s' * (len(busy) > 1)} {ranges(busy)}"
    return f"Part {number}, lanes {ranges(part.lanes)}: {counted(part.wavefronts, 'wavefront')}, {most}"

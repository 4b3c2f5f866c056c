"""The 32 banks of shared memory under one access: how many words each has to deliver, phase by phase."""

from __future__ import annotations

from collections import Counter

from tcemu.errors import counted, ranges
from tcemu.show import svg
from tcemu.show.picture import Picture, picture
from tcemu.timing.banks import BANKS, WORD
from tcemu.timing.wavefronts import Phase, Wavefronts

_LEFT, _TOP, _CELL, _HIGH = 118, 38, 22, 26


def banks(wavefronts: Wavefronts) -> Picture:
    """How many different words each bank delivers in each phase; the busiest banks of a phase are marked.

    `wavefronts` is what tcemu.wavefronts returns for one warp. Raises OperandError for the result of many warps: pass
    one of them, banks(result[0]).

    >>> tcemu.show.banks(tcemu.wavefronts(8 * np.arange(32), "ld.shared.b32")).title
    'ld.shared.b32: 2 wavefronts, 1 without conflicts'
    """
    phases = wavefronts.phases
    loads = [_loads(wavefronts, phase) for phase in phases]
    body = [svg.text(_LEFT + (bank + 0.5) * _CELL, _TOP - 8, bank, "s t", "middle") for bank in range(BANKS)]
    body.append(svg.text(_LEFT - 8, _TOP - 8, "bank", "s t", "end"))
    for row, (phase, load) in enumerate(zip(phases, loads, strict=True)):
        body += _row(row, phase, load)
    bottom = _TOP + len(phases) * _HIGH + 22
    body.append(svg.text(16, bottom, "A number: different words that the bank delivers, one in each wavefront.", "s"))
    width = _LEFT + BANKS * _CELL + 130
    count = counted(int(wavefronts.count), "wavefront")
    title = f"{wavefronts.access}: {count}, {wavefronts.least} without conflicts"
    words = ". ".join(map(_in_words, range(len(phases)), phases, loads))
    return picture(title, f"{words}.", width, bottom + 14, body)


def _loads(wavefronts: Wavefronts, phase: Phase) -> Counter[int]:
    """Different words by bank, in one phase."""
    unit = wavefronts.access.unit
    starts = {int(wavefronts.addresses[lane]) // unit * unit for lane in phase.lanes}
    return Counter((start + offset) // WORD % BANKS for start in starts for offset in range(0, unit, WORD))


def _row(row: int, phase: Phase, load: Counter[int]) -> list[str]:
    y = _TOP + row * _HIGH
    elements = [svg.text(16, y + 17, f"lanes {ranges(phase.lanes, '–')}", "s")]
    for bank in range(BANKS):
        x, words = _LEFT + bank * _CELL, load[bank]
        busiest = words == phase.wavefronts > 1
        elements.append(svg.rect(x, y, _CELL, _HIGH, "x" if busiest else "f" if words else "p"))
        elements += [svg.hatch(x + 1, y + 1, _CELL - 2, _HIGH - 2)] if busiest else []
        look = "n b c halo" if busiest else "n c" if words else "n c q"
        elements.append(svg.text(x + _CELL / 2, y + 17, words or "·", look))
    note = counted(phase.wavefronts, "wavefront")
    return [*elements, svg.text(_LEFT + BANKS * _CELL + 12, y + 17, note, "b" if phase.wavefronts > 1 else "s")]


def _in_words(number: int, phase: Phase, load: Counter[int]) -> str:
    busy = [bank for bank in range(BANKS) if load[bank] == phase.wavefronts]
    most = f"at most {counted(phase.wavefronts, 'word')} from a bank, from bank{'s' * (len(busy) > 1)} {ranges(busy)}"
    return f"Phase {number}, lanes {ranges(phase.lanes)}: {counted(phase.wavefronts, 'wavefront')}, {most}"

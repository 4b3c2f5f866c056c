"""A launch in clock cycles: what its warps, the tensor cores and the copy engine did, and what they waited for."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tcemu.arguments import explained
from tcemu.errors import OperandError, briefly, counted, listing, ranges
from tcemu.show import svg
from tcemu.show.code_lines import function_of
from tcemu.show.layers import layer, target
from tcemu.show.phases import passed, products, styles
from tcemu.show.picture import Picture, picture
from tcemu.show.sheet import Box, Scale
from tcemu.show.svg import Drawing
from tcemu.timing import Timeline
from tcemu.timing.spans import Group, Span

_LEFT, _TOP, _WIDE, _HIGH, _GAP = 132, 44, 960, 20, 4
#: Height of a bar of a group, and how many lanes of bars there are room for.
_BAR, _LANES = 13, 8
#: Pixels that a character of small text takes.
_CHARACTER = 6.2
#: Boxes narrower than this, in pixels, have no border, which would hide the fill, and no pale fill, which nobody would
#: see: they have the full colour.
_NARROW = 4
_NARROW_STYLES = {"fb": "tb", "fg": "tg", "fo": "to"}


class _Look(NamedTuple):
    """How a kind of operation is drawn, and its name in a box and in the legend."""

    style: str
    short: str
    name: str


#: By the kind of operation; the fills are distinguishable, and the names are written where there is room.
_LOOKS = {
    "mma": _Look("fb", "mma", "product"),
    "wgmma": _Look("fb", "wgmma", "product"),
    "copy": _Look("fg", "copy", "starts a copy"),
    "bulk": _Look("fg", "TMA", "starts a copy"),
    "shared": _Look("fo", "shared", "shared or global memory"),
    "global": _Look("fo", "global", "shared or global memory"),
    "arithmetic": _Look("f", "arithmetic", "other instructions"),
    "plain": _Look("f", "", "other instructions"),
}
_ASYNC = {
    "wgmma": "product groups",
    "cp.async": "copy groups",
    "bulk": "bulk groups",
    "mbarrier": "mbarrier phases",
}


class _Piece(NamedTuple):
    """A stretch of a row in which one thing took most of the time."""

    start: float
    end: float
    what: str
    waits: bool

    def box(self, y: float) -> Box:
        """Its box in the row at y."""
        return Box(self.start, y, self.end - self.start, _HIGH)


class _Window(Scale):
    """The cycles that are shown."""

    def at(self, number: float) -> float:
        """The place of a moment, inside the drawing."""
        return min(max(super().at(number), self.start), self.end)

    def box(self, start: float, end: float, y: float, high: float) -> Box:
        """From one moment to another."""
        return Box(self.at(start), y, self.at(end) - self.at(start), high)

    def cycle(self, x: float) -> float:
        """The moment of a place in the drawing."""
        return self.low + (self.high - self.low) * (x - _LEFT) / _WIDE

    def shows(self, start: float, end: float) -> bool:
        """Whether some of it is in the window."""
        return end > self.low and start < self.high


@explained
def timeline(
    run: Timeline,
    block: int = 0,
    start: float | None = None,
    end: float | None = None,
    phases: Mapping[str, str] | None = None,
) -> Picture:
    """One block of a launch in clock cycles, from `start` to `end` (default: all of it).

    A row for each warp, the tensor cores and the copy engine; below, a bar for each group of asynchronous work, from
    its first operation to its completion, with a mark where it was committed. Waits are hatched and named, with the
    block that ended them if it is another one. `phases` names parts of the kernel by the functions in which they are
    written, {"scores": "S = Q K"}: a row on top shows when warp 0 was in which, and the tensor cores' products have the
    looks of their phases. What is pointed at says which cycles and which line of the kernel it was.
    Raises OperandError for a block that the launch did not have, a window outside it, and a phase that never ran.

    >>> from tcemu.gemm import wgmma_tma
    >>> from tcemu.timing import Timeline
    >>> run = Timeline()
    >>> A, B = np.ones((64, 128), np.float16), np.ones((128, 64), np.float16)
    >>> D, result = wgmma_tma.multiply(A, B, wgmma_tma.Plan(columns=64), observers=[run])
    >>> picture = tcemu.show.timeline(run)
    >>> picture.title.startswith("Block 0: ")
    True
    """
    scale = _window(run, block, start, end)
    spans = [span for span in run.spans if span.block == block]
    groups = [group for group in run.groups if group.block == block]
    phases = phases or {}
    rows = _rows(spans)
    looks = _LOOKS | {name: _Look(style, name, f"product in {name}") for name, style in styles(phases).items()}
    body, y, targets = list[Drawing]([_axis(scale)]), float(_TOP), list[str]()
    if phases:
        body.append(_phases(next(mine for name, mine in rows if name == "warp 0"), phases, looks, scale, y))
        y += _HIGH + _GAP
    for name, row in rows:
        mine = products(row, phases) if name.startswith("tensor core") else row
        pieces = _pieces(mine, scale)
        body.append(_row(name, pieces, looks, y))
        targets += _targets(name, pieces, mine, looks, scale, y)
        y += _HIGH + _GAP
    y += 6
    for kind, name in _ASYNC.items():
        shown = [each for each in groups if each.kind == kind and scale.shows(each.issued, _last(each))]
        if shown:
            y = _bars(name, shown, scale, y, body, targets)
    words = _words(run, block, rows, groups)
    words += f" Warp 0 goes through {listing(list(styles(phases)), 'and')}." if phases else ""
    size = _LEFT + _WIDE + 16, y + 34
    return picture(_title(run, block, scale), words, *size, [body, _legend(y + 20)], layer(targets))


def _window(run: Timeline, block: int, start: float | None, end: float | None) -> _Window:
    """The cycles that are shown."""
    blocks = run.blocks
    if block not in blocks:
        known = f"the launch had blocks {ranges(sorted(blocks))}" if blocks else "it has seen no launch"
        raise OperandError(f"the timeline has no block {briefly(block)}: {known}")
    first, last = blocks[block]
    window = _Window(first if start is None else start, last if end is None else end, _LEFT, _LEFT + _WIDE)
    if not first <= window.low < window.high <= last + 1:
        raise OperandError(
            f"block {block} ran from cycle {first:.0f} to {last:.0f}; start= and end= must be in order and within; got "
            f"{window.low:.0f} and {window.high:.0f}"
        )
    return window


# ---------------------------------------------------------------------------------------------- rows


def _rows(spans: Iterable[Span]) -> list[tuple[str, list[Span]]]:
    """The rows and their names: tensor cores (one if all four do the same), copy engine, warps."""
    units: dict[tuple[str, int], list[Span]] = defaultdict(list)
    for span in spans:
        units[span.unit, span.number].append(span)
    cores = [units.pop(key) for key in sorted(key for key in units if key[0] == "tensor core")]
    rows: list[tuple[str, list[Span]]] = []
    if cores and all([span[2:4] for span in core] == [span[2:4] for span in cores[0]] for core in cores):
        rows.append((f"tensor cores 0–{len(cores) - 1}" if len(cores) > 1 else "tensor core", cores[0]))
    else:
        rows += [(f"tensor core {core[0].number}", core) for core in cores]
    rows += [("copies in flight", each) for each in [units.pop(("copy engine", 0), [])] if each]
    return rows + [(f"warp {number}", units[unit, number]) for unit, number in sorted(units)]


def _alike(spans: Iterable[Span]) -> dict[tuple[str, bool], list[Span]]:
    """Spans by what they do, in their order."""
    alike: dict[tuple[str, bool], list[Span]] = defaultdict(list)
    for span in spans:
        alike[span.named, span.waits].append(span)
    return alike


def _pieces(spans: Iterable[Span], scale: _Window) -> list[_Piece]:
    """The row in stretches of whole pixels, each with the activity that took most of its time."""
    alike = _alike(spans)
    if not alike:
        return []
    shares = np.array([_shares(same, scale) for same in alike.values()])
    names, most, taken = list(alike), shares.argmax(0).tolist(), (shares.sum(0) > 0.5).tolist()
    keys = [names[which] if takes else None for which, takes in zip(most, taken, strict=True)]
    pieces, at = [], 0
    for most, same in groupby(keys):
        length = len(list(same))
        if most is not None:
            pieces.append(_Piece(_LEFT + at, _LEFT + at + length, *most))
        at += length
    return pieces


def _shares(spans: Sequence[Span], scale: _Window) -> npt.NDArray[np.float64]:
    """How much of each pixel these spans take, (_WIDE,)."""
    times = np.array([(span.start, span.end) for span in spans])
    first, last = np.clip((times - scale.low) * (_WIDE / (scale.high - scale.low)), 0, _WIDE).T[:, :, None]
    before = np.clip(np.arange(_WIDE + 1) - first, 0, last - first).sum(0)  # taken up to the edges of the pixels
    return np.diff(before)


def _fits(label: str, wide: float) -> bool:
    """Whether there is room for small text."""
    return wide > _CHARACTER * len(label) + 4


def _phases(
    spans: Sequence[Span], phases: Mapping[str, str], looks: Mapping[str, _Look], scale: _Window, y: float
) -> Iterator[str]:
    """The row of the phases that a warp goes through."""
    yield svg.text(_LEFT - 10, y + 14, "phases of warp 0", "s", "end")
    for name, start, end in passed(spans, phases):
        if scale.shows(start, end):
            box = scale.box(start, end, y, _HIGH)
            yield box.rect(looks[name].style) + (box.label(name, "t c") if _fits(name, box.wide) else "")


def _row(name: str, pieces: Sequence[_Piece], looks: Mapping[str, _Look], y: float) -> Drawing:
    """The row's boxes, a path for each look, then what is written on them."""
    boxes: dict[str, list[str]] = defaultdict(list)
    hatches, labels = [], []
    for piece in pieces:
        box = piece.box(y)
        look = looks.get(piece.what)
        style = "p" if piece.waits or look is None else look.style
        if box.wide < _NARROW:
            style = _NARROW_STYLES.get(style, f"{style} e")
        boxes[style].append(box.outline())
        if piece.waits:
            hatches.append(svg.hatch_lines(*box))
        label = piece.what if piece.waits else look.short if look else ""
        if label and _fits(label, box.wide):
            labels.append(box.label(label, "t c clear" if piece.waits else "t c"))
    head = svg.text(_LEFT - 10, y + 14, name, "s", "end"), svg.line(_LEFT, y + _HIGH, _LEFT + _WIDE, y + _HIGH)
    return head, [svg.path(data, style) for style, data in boxes.items()], svg.path(hatches, "h"), labels


def _targets(
    name: str, pieces: Sequence[_Piece], spans: Sequence[Span], looks: Mapping[str, _Look], scale: _Window, y: float
) -> Iterator[str]:
    """For each piece of a row, what it is: the cycles and, of what took longest there, the line of the kernel."""
    alike = _alike(sorted(spans, key=lambda span: span.start))
    for piece in pieces:
        first, last, same = scale.cycle(piece.start), scale.cycle(piece.end), alike[piece.what, piece.waits]
        begin = bisect_left(same, last, key=lambda span: span.start)
        # spans of a unit do not overlap by much: what is in the piece is among the last that begin before its end
        most = max(same[max(0, begin - 16) : begin], key=lambda span: min(span.end, last) - max(span.start, first))
        does = looks[piece.what].name if piece.what in looks and most.unit != "copy engine" else piece.what
        activity = f"waits for {piece.what}" if piece.waits else does
        opcode = ".".join(most.opcode.split(".")[:2])
        line = f"{function_of(most.site)} line {most.site.line}{f', {opcode}' if opcode else ''}"
        yield target(piece.box(y).outline(), f"{name}: {activity}, cycles {first:,.0f} to {last:,.0f}, {line}")


# ---------------------------------------------------------------------------------------------- groups


def _last(group: Group) -> float:
    return max(group.completed, group.waited)


def _bars(
    name: str, groups: Sequence[Group], scale: _Window, y: float, body: list[Drawing], targets: list[str]
) -> float:
    """Draw a bar for each group, in as few lanes as there are groups at a time; returns where the next row is."""
    lanes: list[float] = []
    left_out, names = 0, _names(groups)
    body.append(svg.text(_LEFT - 10, y + 11, name, "s", "end"))
    for group in groups:
        free = next((number for number, until in enumerate(lanes) if until <= group.issued), len(lanes))
        if free >= _LANES:
            left_out += 1
            continue
        lanes[free : free + 1] = [_last(group)]
        high = y + free * (_BAR + 3)
        body.append(_bar(group, names[group], scale, high))
        box = scale.box(group.issued, _last(group), high, _BAR)
        targets.append(target(box._replace(wide=max(box.wide, 1)).outline(), _moments(name, group)))
    y += len(lanes) * (_BAR + 3) + 6
    if left_out:
        body.append(svg.text(_LEFT, y + 8, f"{left_out} more at the same time are not shown", "s t"))
        y += 14
    return y


def _names(groups: Sequence[Group]) -> dict[Group, tuple[str, ...]]:
    """What stands in a group's bar: its number; a phase has the number of its mbarrier, too, in full or in short."""
    if not groups or groups[0].kind != "mbarrier":
        return {group: (str(group.number),) for group in groups}
    order = sorted({group.owner for group in groups})
    numbers = {group: (order.index(group.owner), group.number) for group in groups}
    return {group: (f"mbarrier {own}, phase {phase}", f"{own}: {phase}") for group, (own, phase) in numbers.items()}


def _moments(name: str, group: Group) -> str:
    """What became of a group, and when."""
    moments = {"issued": group.issued, "committed": group.committed, "complete": group.completed,
               "waited for until": group.waited}  # fmt: skip
    reached = [f"{what} {cycle:,.0f}" for what, cycle in moments.items() if cycle >= 0]
    which = f"mbarrier {group.owner:#x}, phase" if group.kind == "mbarrier" else f"{name},"
    return f"{which} {group.number}: {', '.join(reached)}"


def _bar(group: Group, names: Sequence[str], scale: _Window, y: float) -> Iterator[Drawing]:
    """From the first operation to the completion; hatched until a wait has returned."""
    works = scale.box(group.issued, group.completed, y, _BAR)
    waits = scale.box(group.completed, _last(group), y, _BAR)
    yield works._replace(wide=max(works.wide, 1)).rect("fb" if group.kind == "wgmma" else "fg")
    yield waits.unused(step=4) if waits.wide > 0 else ""
    rooms = [works]
    if scale.low <= group.committed <= scale.high:
        mark = scale.at(group.committed)
        yield svg.line(mark, y - 1, mark, y + _BAR + 1, "k")
        if works.x < mark < works.x + works.wide:  # the name stands beside the mark
            rooms = [works._replace(wide=mark - works.x), works._replace(x=mark, wide=works.x + works.wide - mark)]
    fitting = [(room, label) for label in names for room in rooms if _fits(label, room.wide)]
    yield [svg.text(room.middle, y + 10, label, "t c") for room, label in fitting[:1]]


# ---------------------------------------------------------------------------------------------- around them


def _axis(scale: _Window) -> Iterator[str]:
    """Round numbers of cycles, at most twelve."""
    length = scale.high - scale.low
    step = next(
        (unit * 10**power for power in range(9) for unit in (1, 2, 5) if length / (unit * 10**power) <= 12), length
    )
    yield svg.text(_LEFT - 40, _TOP - 12, "cycles", "s", "end")
    cycle = -(-scale.low // step) * step
    while cycle <= scale.high:
        x = scale.at(cycle)
        yield svg.line(x, _TOP - 8, x, _TOP - 2) + svg.text(x, _TOP - 12, f"{cycle:,.0f}", "s t", "middle")
        cycle += step


def _legend(y: float) -> Iterator[Drawing]:
    x = float(_LEFT)
    for name, style in {look.name: look.style for look in _LOOKS.values()}.items():
        yield Box(x, y - 10, 18, 12).rect(style), svg.text(x + 24, y, name, "s")
        if style in _NARROW_STYLES:
            yield svg.rect(x + 19, y - 10, 2, 12, _NARROW_STYLES[style])
        x += 40 + _CHARACTER * len(name)
    waits = Box(x, y - 10, 18, 12)
    yield waits.rect("p"), waits.hatch("h"), svg.text(x + 24, y, "waits", "s")
    yield svg.line(x + 74, y - 11, x + 74, y + 3, "k"), svg.text(x + 82, y, "committed", "s")
    yield waits._replace(x=x + 156).unused(step=4), svg.text(x + 180, y, "complete, not waited for yet", "s")


def _title(run: Timeline, block: int, scale: _Window) -> str:
    first, last = run.blocks[block]
    part = "" if (scale.low, scale.high) == (first, last) else f", shown from {scale.low:,.0f} to {scale.high:,.0f}"
    busy = f"tensor cores busy {run.busy:.0%} of the launch" if run.busy else "no products"
    return f"Block {block}: {last - first:,.0f} cycles{part}; {busy}"


def _words(run: Timeline, block: int, rows: Sequence[tuple[str, list[Span]]], groups: Sequence[Group]) -> str:
    """What the rows show: for each, how much of the block's time it worked, and what it waited for most."""
    first, last = run.blocks[block]
    waits = [f"{cause} {share:.0%}" for cause, share in run.waited.items() if share >= 0.005]
    busy = f"The tensor cores were busy for {run.busy:.0%} of the launch and waited for: {listing(waits, 'and')}"
    sentences = [busy if run.busy else "There were no products"]
    alike: dict[str, list[int]] = defaultdict(list)
    for name, spans in rows:
        if name.startswith("warp"):
            alike[_waits(spans, last - first)].append(spans[0].number)
    for text, warps in alike.items():
        sentences.append(f"Warp{'s' * (len(warps) > 1)} {ranges(warps)} {text}")
    for kind, name in _ASYNC.items():
        mine = [group for group in groups if group.kind == kind]
        if mine:
            mean = sum(group.completed - group.issued for group in mine) / len(mine)
            sentences.append(f"{counted(len(mine), name[:-1])}, each in flight for {mean:,.0f} cycles on average")
    return f"{'. '.join(sentences)}."


def _waits(spans: Iterable[Span], whole: float) -> str:
    """What a warp waited for, the longest first, as shares of the block's time."""
    cycles: dict[str, float] = defaultdict(float)
    for span in spans:
        if span.waits:
            cycles[span.named] += span.end - span.start
    order = sorted(cycles.items(), key=lambda item: -item[1])
    parts = [f"{cause} {share / whole:.0%}" for cause, share in order if share / whole >= 0.005]
    return f"waited for {listing(parts, 'and')}" if parts else "never waited"

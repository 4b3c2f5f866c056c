"""What happened in a block, from top to bottom: warps, asynchronous work beside them, and the rules that were broken.

A row is a step, not a time: what is further down happened later. A bar is asynchronous work, from the row that issues
it to the row whose wait covers it. A report of the sanitizer is marked where it happened; an arrow leads there from
what it conflicts with.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from textwrap import wrap
from typing import Any

from tcemu.arguments import explained
from tcemu.errors import LaunchError, briefly, counted, ranges, span
from tcemu.errors import listing as all_of
from tcemu.machine.events import Event, Exited, Site
from tcemu.show import svg
from tcemu.show.code_lines import function_of, listing
from tcemu.show.order import Order, Step, Work, order
from tcemu.show.picture import Picture, picture
from tcemu.show.sheet import Box
from tcemu.show.sheet import notes as lines
from tcemu.show.svg import Drawing
from tcemu.show.words import cut

_LEFT, _TOP, _ROW = 64, 50, 26
#: Widths: a bar, the gap between columns.
_BAR, _GAP = 108, 24
#: From one column of a warp to the next at least, and how far steps and bars may reach before columns move together.
_NARROW, _WIDE = 90, 1040
#: Height of a rule's name under the step that broke it.
_RULE = 16
#: Rows in a picture, and rows above the first report if not all fit.
_ROWS, _BEFORE = 30, 22
#: Widths of a warp's column, and of a letter in it.
_WARP, _LETTERS = 198, 6.7
#: Letters of a function's name, and of a line of the notes: as many as fit beside a page's contents.
_FUNCTION, _LINE = 24, 130
_COLUMNS = ("wgmma", "tcgen05", "bulk copies", "cp.async")
#: The text's name for one entry of a column, if it is not the column's name.
_ONE = {"bulk copies": "A bulk copy of"}
#: The look of a step by a word of its opcode, the first that fits; bars look like the steps that issue them.
_TONES = {
    "fence": "fb", "membar": "fb", "commit_group": "fo", "wait_group": "fo", "wait_all": "fo", "bar": "fo",
    "barrier": "fo", "mbarrier": "fo", "commit": "fo", "wait": "fo", "mma_async": "fg", "async": "fg",
    "alloc": "p", "dealloc": "p", "relinquish_alloc_permit": "p", "tcgen05": "fg",
}  # fmt: skip


@dataclass(frozen=True)
class _Mark:
    """A report where it is drawn: its row, and what it conflicts with."""

    report: Any
    step: Step
    other: Step | Work | None


class _Layout:
    """Where everything is: rows from the top, warps from the left, then bars in lanes."""

    def __init__(self, happened: Order, marks: Sequence[_Mark], first: int, count: int) -> None:
        self.order, self.marks = happened, marks
        self.first, self.rows = first, happened.steps[first : first + count]
        self._number = {step: number for number, step in enumerate(happened.steps)}
        broken = {mark.step: len({each.report.rule for each in marks if each.step is mark.step}) for mark in marks}
        heights = (_ROW + _RULE * broken.get(step, 0) for step in self.rows)
        self._tops = [_TOP - _ROW, *accumulate(heights, initial=_TOP)]
        functions = {_function(step.site) for step in self.rows if step.site is not None}
        #: where the numbers of lines end; the functions' names are left of them
        self.left = _LEFT + _LETTERS * max(map(len, functions), default=0) * (len(functions) > 1)
        self.work = [work for work in happened.work if self._shown(work)]
        self.lanes = self._lanes()
        bars, last = (max(self.lanes.values(), default=-1) + 1) * (_BAR + 10), len(happened.warps) - 1
        # a row has one step: if there are many columns, a step reaches into those on its right
        free = (_WIDE - self.left - bars - _WARP) / max(last, 1)
        self.pitch = min(_WARP + _GAP, max(_NARROW, free))
        self.warps = {warp: self.left + place * self.pitch for place, warp in enumerate(happened.warps)}
        self.edge = self.left + last * self.pitch + _WARP + _GAP
        #: right edge of the bars
        self.right = self.edge + bars

    def _shown(self, work: Work) -> bool:
        """Whether a bar crosses the rows that are drawn."""
        last = len(self.order.steps) if work.last is None else self._number[work.last]
        return self._number[work.first] < self.first + len(self.rows) and last >= self.first

    def _lanes(self) -> dict[Work, int]:
        """A lane for each bar, so that no two of a lane overlap; lanes of the same kind are neighbours."""
        lanes: dict[Work, int] = {}
        free: list[float] = []
        for column in _COLUMNS:
            start = len(free)
            for work in (each for each in self.work if each.column == column):
                top, bottom = self.span(work)
                lane = next((n for n in range(start, len(free)) if free[n] <= top), len(free))
                free[lane : lane + 1] = [bottom]
                lanes[work] = lane
        return lanes

    def y(self, step: Step) -> float:
        """The upper edge of a row, at most a row outside the picture."""
        return self._tops[1 + max(-1, min(self._number[step] - self.first, len(self.rows)))]

    def span(self, work: Work) -> tuple[float, float]:
        """Upper and lower edge of a bar."""
        end = self.bottom if work.last is None else min(self.bottom, self.y(work.last) + _ROW - 4)
        return max(float(_TOP), self.y(work.first) + 3), end

    def box(self, step: Step) -> Box:
        """The box of a step."""
        return Box(self.warps[step.warp], self.y(step) + 2, _WARP, _ROW - 4)

    def bar(self, work: Work) -> Box:
        """The bar of asynchronous work."""
        top, bottom = self.span(work)
        return Box(self.edge + self.lanes[work] * (_BAR + 10), top, _BAR, bottom - top)

    @property
    def bottom(self) -> float:
        """Lower edge of the rows."""
        return self._tops[-1]


@explained
def hazards(
    events: Sequence[Event], reports: Sequence[Any] = (), block: int | None = None, first: int | None = None, *,
    fixes: bool = True,
) -> Picture:  # fmt: skip
    """What the warps of a block did, the asynchronous work beside them, and where the sanitizer's reports happened.

    `events` is a list that was an observer of the launch (observers=[events.append]), `reports` are the result's
    reports. `block` selects a block, by default that of the first report, or else 0. Up to 30 rows are drawn, from row
    `first` on; by default those that show the first report. Warps that do the same are one column, and a line that is
    repeated is one row. Without `fixes`, the notes say what is wrong but not what to do about it.
    Raises LaunchError for events that have no such block or row.

    >>> def hasty(warp):
    ...     warp.st_shared(4 * warp.threads, warp.threads)
    ...     warp.ld_shared(4 * (63 - warp.threads))  # what the other warp writes, without a barrier
    >>> events = []
    >>> result = tcemu.launch(hasty, block=64, shared=256, sanitizer="collect", observers=[events.append])
    >>> tcemu.show.hazards(events, result.reports).title
    'Block 0 in order: 1 broken rule, shared-race'
    """
    chosen, happened, marks = _read(events, reports, block)
    layout = _Layout(happened, marks, _first(happened, marks, first), _ROWS)
    drawn = [mark for mark in marks if mark.step in layout.rows]
    notes, low = [line for note in _notes(layout, fixes) for line in wrap(note, _LINE)], layout.bottom + 30
    body = [_heads(layout), _rows(layout), [_marked(layout, mark) for mark in drawn], _names(layout, drawn)]
    body += [_bars(layout, {mark.other for mark in drawn}), lines(10, low, notes)]
    rules = sorted({mark.report.rule for mark in marks})
    summary = f"{counted(len(rules), 'broken rule')}, {', '.join(rules)}" if rules else "no broken rule"
    low += 18 * len(notes) + 14
    steps = [(step.site, f"warp {step.warp}: {_label(step, 999)}", layout.box(step).outline())
             for step in layout.rows if step.site is not None]  # fmt: skip
    code, on_top, (wide, high) = listing(steps, low)
    size = max(layout.right + 16, wide), low + high
    return picture(f"Block {chosen} in order: {summary}", _in_words(layout), *size, [body, code], on_top)


def _read(events: Sequence[Event], reports: Sequence[Any], block: int | None) -> tuple[int, Order, list[_Mark]]:
    """The number of the block, what happened in it, and its reports. Raises LaunchError."""
    if not isinstance(events, list | tuple) or not all(isinstance(event, Event) for event in events):
        raise LaunchError(
            "events must be a list to which the launch adds them: tcemu.launch(..., observers=[events.append]); got "
            f"{briefly(events)}"
        )
    if not isinstance(reports, list | tuple) or not all(hasattr(report, "block") for report in reports):
        raise LaunchError(f"reports must be those of the launch's result, result.reports; got {briefly(reports)}")
    chosen = block if block is not None else reports[0].block if reports else 0
    happened, marks = _arranged(events, chosen, [report for report in reports if report.block == chosen])
    if not happened.steps:
        blocks = ranges(sorted({event.block for event in events if isinstance(event, Exited)})) or "none"
        raise LaunchError(f"block {briefly(chosen)} is not among these events; there are blocks {blocks}")
    return chosen, happened, marks


def _arranged(events: Sequence[Event], block: int, reports: Sequence[Any]) -> tuple[Order, list[_Mark]]:
    """The order of the block with a column for each warp that the reports name, and the reports in it."""
    wanted = {report.warp for report in reports}
    happened = order(events, block, wanted)
    others = [report.earlier.by for report in reports if report.earlier is not None]
    more = {by.warp for by in others if happened.under_way(by) is None} - wanted
    happened = (order(events, block, wanted | more) if more else happened).with_refused([each.by for each in reports])
    marks = []
    for report in reports:
        step, by = happened.step(report.by), report.earlier.by if report.earlier is not None else None
        other = None if by is None else happened.under_way(by) or happened.step(by)
        if step is not None:
            marks.append(_Mark(report, step, other))
    return happened, marks


def _first(happened: Order, marks: Sequence[_Mark], first: int | None) -> int:
    """The first row that is drawn."""
    last = max(0, len(happened.steps) - _ROWS)
    if first is None:
        start = happened.steps.index(marks[0].step) - _BEFORE if marks else 0
        return max(0, min(start, last))
    if isinstance(first, bool) or not isinstance(first, int) or not 0 <= first < len(happened.steps):
        raise LaunchError(f"row {briefly(first)}: there are rows 0 to {len(happened.steps) - 1}")
    return first


# ---------------------------------------------------------------------------------------------- drawing


def _heads(layout: _Layout) -> Iterator[str]:
    """The names of the columns."""
    yield svg.text(layout.left - 10, _TOP - 12, "function, line" if layout.left > _LEFT else "line", "s", "end")
    for warp, x in layout.warps.items():
        same = layout.order.warps[warp]
        middle = x + (layout.pitch - _GAP) / 2
        yield svg.text(middle, _TOP - 12, f"warp{'s' * (len(same) > 1)} {ranges(same, '–')}", "b c")
        yield svg.line(middle, _TOP - 4, middle, layout.bottom)
    for column in _COLUMNS:
        lanes = [lane for work, lane in layout.lanes.items() if work.column == column]
        if lanes:
            left = layout.edge + min(lanes) * (_BAR + 10)
            yield svg.text(left, _TOP - 28, column, "b") + svg.text(left, _TOP - 12, "asynchronous", "s")


def _rows(layout: _Layout) -> Iterator[str]:
    """The steps of the warps, and lines across for what all of them notice."""
    marked = {mark.step for mark in layout.marks}
    end, before = max(layout.edge - _GAP, layout.left + _WARP), ""
    for step in layout.rows:
        y = layout.y(step)
        if step.site is None:
            middle, half = (layout.left + end) / 2, svg.LETTERS["s"] * len(step.label) / 2 + 14
            yield svg.line(layout.left - 44, y + _ROW / 2, middle - half, y + _ROW / 2, "k", dash="2 3")
            yield svg.text(middle, y + 17, step.label, "s c clear")
            yield svg.line(middle + half, y + _ROW / 2, end, y + _ROW / 2, "k", dash="2 3")
            continue
        if layout.left > _LEFT and _function(step.site) != before:
            before = _function(step.site)
            yield svg.text(layout.left - 40, y + 17, before, "n q", "end")
        yield svg.text(layout.left - 10, y + 17, step.site.line, "n q", "end")
        words, box = step.label.replace("::", ".").split("."), layout.box(step)
        yield box.rect(next((tone for word, tone in _TONES.items() if word in words), "p"))
        yield "" if step in marked else svg.text(box.x + 8, box.base, _label(step), "n")


def _function(site: Site) -> str:
    """The name of a function, shortened to the room that there is."""
    return cut(function_of(site), _FUNCTION)


def _label(step: Step, width: float = _WARP) -> str:
    """The opcode, its detail and how often it was executed, in a box of that width."""
    more = f": {step.detail}" * bool(step.detail) + _times(step)
    room, words = int((width - 16) / _LETTERS) - len(more), step.label.split(".")
    while len(words) > 1 and len(".".join(words)) > room:  # whole words go; with a detail, those that say least
        words = words[1:] if step.detail else words[:-1]
    return cut(".".join(words), room) + more


def _times(what: Step | Work) -> str:
    return f" ×{what.count}" if what.count > 1 else ""


def _bars(layout: _Layout, framed: Container[Any]) -> Drawing:
    """The asynchronous work, over the arrows from the steps that issue it; one that no wait covers ends dashed."""
    arrows, elements = list[str](), list[str]()
    for work in layout.work:
        box = layout.bar(work)
        x, top, bottom = box.x, box.y, box.y + box.high
        if layout.y(work.first) >= _TOP:
            arrows.append(svg.arrow(layout.warps[work.first.warp] + _WARP, top + 10, x, top + 10, "l"))
        elements += [box.rect("fg"), box.rect("ko") if work in framed else ""]
        elements.append(svg.text(x + 6, top + 14, f"{work.label}{_times(work)}", "n b"))
        elements.append(svg.text(x + 6, top + 30, work.detail, "s") if box.high > 36 else "")
        if work.last is None:
            elements.append(svg.text(x + 6, bottom - 6 if box.high > 52 else bottom + 14, "no wait", "s b"))
            elements.append(svg.line(x, bottom, x + _BAR, bottom, "k", dash="4 4"))
    return arrows, elements


def _names(layout: _Layout, marks: Sequence[_Mark]) -> Iterator[str]:
    """The names of the broken rules, under the steps that broke them."""
    for step in dict.fromkeys(mark.step for mark in marks):
        low = layout.y(step) + _ROW + 10
        for rule in dict.fromkeys(mark.report.rule for mark in marks if mark.step is step):
            yield svg.text(layout.warps[step.warp] + 8, low, f"✗ {rule}", "b to clear")
            low += _RULE


def _marked(layout: _Layout, mark: _Mark) -> Drawing:
    """The step that broke a rule, and the arrow from what it conflicts with."""
    box, other = layout.box(mark.step), mark.other
    step = box.rect("x"), box.inset(2).hatch("h"), svg.text(box.x + 8, box.base, _label(mark.step), "n b halo")
    if isinstance(other, Work) and other in layout.lanes:
        bar, middle = layout.bar(other), box.y + box.high / 2
        return step, _pointer(bar.x, min(max(middle, bar.y), bar.y + bar.high), box.x + _WARP + 2, middle)
    if isinstance(other, Step) and other is not mark.step and other.warp in layout.warps:
        return step, _from_step(layout, other, mark.step)
    return step


def _from_step(layout: _Layout, other: Step, step: Step) -> Drawing:
    """The arrow from one step to another: beside their column, or from one column to the next."""
    left, x = layout.warps[other.warp], layout.warps[step.warp]
    top, middle = layout.y(other) + _ROW / 2, layout.y(step) + _ROW / 2
    frame = layout.box(other).rect("ko") if other in layout.rows else ""
    if abs(left - x) < _WARP:
        out = max(left, x) + _WARP + 20
        turn = svg.path(f"M{svg.number(left + _WARP)} {svg.number(top)}H{svg.number(out)}V{svg.number(middle)}", "ko")
        return frame, turn, _pointer(out, middle, x + _WARP + 2, middle)
    start, end = (left + _WARP, x - 2) if left < x else (left, x + _WARP + 2)
    return frame, _pointer(start, top, end, middle)


def _pointer(x1: float, y1: float, x2: float, y2: float) -> str:
    return svg.arrow(x1, y1, x2, y2, "ko", (8, 5))


# ---------------------------------------------------------------------------------------------- words


def _notes(layout: _Layout, fixes: bool) -> Iterator[str]:
    """Every rule that was broken and its fix, and what the drawing means."""
    for same in _unlike(layout):
        report = same[0]
        yield f"✗ {report.rule}, {_lines([report.site])}{_against(same)}: {report.about.title}."
        if fixes:
            yield f"Fix: {report.fix}"
    repeated = any(step.count > 1 for step in layout.rows) or any(work.count > 1 for work in layout.work)
    meaning = "Further down: later. A bar: asynchronous work, until a wait covers it."
    yield meaning + " ×n: n times in a row." * repeated
    hidden = len(layout.order.steps) - len(layout.rows)
    if hidden:
        yield f"Rows {span(layout.first, layout.first + len(layout.rows) - 1)}; {counted(hidden, 'more row')}."


def _unlike(layout: _Layout) -> list[list[Any]]:
    """The reports of each rule and line."""
    alike: dict[tuple[str, Any], list[Any]] = {}
    for mark in layout.marks:
        alike.setdefault((mark.report.rule, mark.report.site), []).append(mark.report)
    return list(alike.values())


def _against(reports: Sequence[Any]) -> str:
    """The lines that the reports conflict with."""
    sites = [report.earlier.site for report in reports if report.earlier is not None]
    return f", against {_lines(sites, of=function_of(reports[0].site))}" if sites else ""


def _lines(sites: Iterable[Site], of: str = "") -> str:
    """Lines and their functions, except the name of one function that is known."""
    by_function: dict[str, set[int]] = {}
    for site in sites:
        by_function.setdefault(function_of(site), set()).add(site.line)
    named = ((f" of {function}" if function != of else "", sorted(lines)) for function, lines in by_function.items())
    return all_of([f"line{'s' * (len(lines) > 1)} {ranges(lines)}{function}" for function, lines in named], "and")


def _in_words(layout: _Layout) -> str:
    """The text alternative: the reports, the asynchronous work, the steps."""
    sentences = []
    functions = {function_of(step.site) for step in layout.rows if step.site is not None}
    place = partial(_place, of=functions.pop() if len(functions) == 1 else "")
    for same in _unlike(layout):
        rule, where = same[0].rule, _lines([same[0].site])
        sentences.append(f"Broken rule {rule} in {where}{_against(same)}: {same[0].about.title}.")
    for work in layout.work:
        last = work.last
        end = f"until {place(last) if last.site else last.label}" if last is not None else "and no wait covers it"
        one = _ONE.get(work.column, work.column)
        sentences.append(f"{one} {work.label}{_times(work)}, {work.detail}: from {place(work.first)} {end}.")
    steps = [f"{place(step)} {_label(step, 999)}".strip() for step in layout.rows]
    return " ".join([*sentences, f"In order: {'; '.join(steps)}."])


def _place(step: Step, of: str) -> str:
    """Warp and line of a step, and its function, if it is not the one that all steps have."""
    return f"warp {step.warp} {_lines([step.site], of)}" if step.site is not None else ""

"""A timeline as Chrome's trace events, which Perfetto (ui.perfetto.dev) and chrome://tracing show."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tcemu.arguments import explained
from tcemu.timing.spans import Group, Span
from tcemu.timing.timeline import Timeline

#: Threads of the trace: warps have their own numbers, units follow.
_UNITS = {"warp": 0, "tensor core": 1000, "copy engine": 2000}


@explained
def trace(timeline: Timeline) -> dict[str, Any]:
    """The timeline in the trace event format, ready for json.dump.

    A block is a process, its warps, tensor cores and copy engine are threads. The format counts microseconds; here, one
    of them is one clock cycle.

    >>> from tcemu.gemm import wgmma_tma
    >>> from tcemu.timing import Timeline, trace
    >>> timeline = Timeline()
    >>> A, B = np.ones((64, 64), np.float16), np.ones((64, 64), np.float16)
    >>> D, result = wgmma_tma.multiply(A, B, wgmma_tma.Plan(columns=64), observers=[timeline])
    >>> made = trace(timeline)
    >>> sorted({event["ph"] for event in made["traceEvents"]})  # metadata, spans, begin and end of groups
    ['M', 'X', 'b', 'e']
    """
    spans, groups = timeline.spans, timeline.groups
    ends = [each for number, group in enumerate(groups) for each in _group(group, number)]
    events = [*_names(spans), *map(_span, spans), *ends]
    return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": {"unit": "1 us is 1 clock cycle"}}


def _names(spans: list[Span]) -> Iterator[dict[str, Any]]:
    for block in sorted({span.block for span in spans}):
        yield {"ph": "M", "name": "process_name", "pid": block, "args": {"name": f"block {block}"}}
    for block, unit, number in sorted({(span.block, span.unit, span.number) for span in spans}):
        name = unit if unit == "copy engine" else f"{unit} {number}"
        yield {"ph": "M", "name": "thread_name", "pid": block, "tid": _UNITS[unit] + number, "args": {"name": name}}


def _span(span: Span) -> dict[str, Any]:
    name = f"waits: {span.named}" if span.waits else span.opcode
    ended = {"ended by": "block {}, warp {}".format(*span.ender)} if span.ender else {}
    return {
        "ph": "X",
        "name": name,
        "cat": span.what,
        "pid": span.block,
        "tid": _UNITS[span.unit] + span.number,
        "ts": round(span.start, 2),
        "dur": round(span.end - span.start, 2),
        "args": {"opcode": span.opcode, "line": str(span.site), "warp": span.warp, **ended},
    }


def _group(group: Group, number: int) -> Iterator[dict[str, Any]]:
    """A group of asynchronous work from its first operation to its completion."""
    same = {"name": f"{group.kind} group {group.number}", "cat": group.kind, "id": number, "pid": group.block, "tid": 0}
    yield {"ph": "b", "ts": round(group.issued, 2), **same}
    yield {"ph": "e", "ts": round(group.completed, 2), **same}

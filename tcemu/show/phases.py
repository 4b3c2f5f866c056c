"""The phases of a kernel in its timeline: parts that have names, known from the functions in which they are written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from tcemu.errors import OperandError, listing
from tcemu.show.code_lines import function_of
from tcemu.timing.spans import Span

#: The looks of phases in the order in which they are named; a fifth has the first one again.
_STYLES = ("fb", "fo", "fg", "f")


def styles(phases: Mapping[str, str]) -> dict[str, str]:
    """The look of each phase, by name."""
    names = dict.fromkeys(phases.values())
    return {name: _STYLES[number % len(_STYLES)] for number, name in enumerate(names)}


def passed(spans: Iterable[Span], phases: Mapping[str, str]) -> list[tuple[str, float, float]]:
    """The phases of a warp with their first and last cycle, in order.

    Raises OperandError for a phase that is in none of the spans.
    """
    order = sorted(spans, key=lambda span: span.start)
    known = [(phases[name], span) for span in order if (name := function_of(span.site)) in phases]
    missing = [name for name in styles(phases) if name not in dict(known)]
    if missing:
        ran = listing(sorted({function_of(span.site) for span in order}), "and")
        raise OperandError(f"warp 0 was never in the phase {missing[0]!r}; the functions that it executed are {ran}")
    stretches = ((name, [span for _, span in same]) for name, same in groupby(known, key=lambda item: item[0]))
    return [(name, inside[0].start, max(span.end for span in inside)) for name, inside in stretches]


def products(spans: Sequence[Span], phases: Mapping[str, str]) -> list[Span]:
    """A tensor core's spans, those that belong to a phase under its name."""
    named = ((phases.get(function_of(span.site)), span) for span in spans)
    return [span._replace(what=phase) if phase else span for phase, span in named]

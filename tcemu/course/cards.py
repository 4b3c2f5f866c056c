"""The card of an exercise: what a learner reads before solving it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tcemu.errors import counted
from tcemu.manual import reference

if TYPE_CHECKING:
    from tcemu.course.record import Exercise


def card(exercise: Exercise) -> str:
    """Title, task, time, what to know and how it is judged, in Markdown.

    >>> from tcemu import course
    >>> from tcemu.course.cards import card
    >>> print(card(course.exercise("where_of_a")).splitlines()[0])
    ## Where is A[row][column]?
    """
    facts = [f"**Time:** {counted(exercise.minutes, 'minute')}.", f"**Before:** {exercise.know}."]
    if exercise.section:
        facts.append(f"**Manual:** {reference(exercise.section.split(', '))}.")
    facts.append(f"**Judged by:** {exercise.how}, for {counted(exercise.points, 'point')}.")
    if signature := getattr(exercise.judge, "signature", ""):
        facts.append(f"**In CUDA C++, if you like:** `{signature}`, in a `%%cuda` cell without a kernel.")
    if exercise.best:
        facts.append(f"**Best known:** {', '.join(f'{value:,} {name}' for name, value in exercise.best.items())}.")
    if exercise.varies:
        facts.append(f'**Your numbers:** `given("{exercise.name}")`.')
    return f"## {exercise.title}\n\n{exercise.task}\n\n{' '.join(facts)}"

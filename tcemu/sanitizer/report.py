"""The sanitizer's reports: the broken rule, the warp and line that broke it, and the access that it conflicts with."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

from tcemu.assembly.names import abridged
from tcemu.errors import ranges
from tcemu.machine.events import By, Site
from tcemu.machine.sites import callers_of
from tcemu.manual import cited
from tcemu.sanitizer.rules import RULES, Rule, Severity
from tcemu.sanitizer.uncalled import uncalled


class SanitizerWarning(UserWarning):
    """A broken rule, in mode "warn".

    >>> import warnings
    >>> def racing(warp):
    ...     warp.st_shared(4 * warp.threads, warp.threads)
    ...     warp.ld_shared(4 * (63 - warp.threads))  # what the other warp writes, without a barrier
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     result = tcemu.launch(racing, block=64, shared=256, sanitizer="warn")
    >>> caught[0].category.__name__
    'SanitizerWarning'
    """


def lanes_of(bits: int) -> tuple[int, ...]:
    """The numbers of the set bits: the lanes of a mask."""
    return tuple(lane for lane in range(32) if bits >> lane & 1)


def many(one: str, numbers: tuple[int, ...]) -> str:
    """``lane 3``, ``warps 0 to 3``; in a cluster ``warps 0 to 3 of block 1``."""
    parts = []
    for block, here in groupby((str(number).partition(" of ") for number in numbers), itemgetter(2)):
        parts.append(ranges(int(number) for number, _, _ in here) + (f" of {block}" if block else ""))
    return f"{one}{'s' * (len(numbers) > 1)} {', '.join(parts)}"


#: An opcode of more than so many characters is said in full once, and by its name after that.
_LONG = 40
_OPCODE = re.compile(r"\b[a-z]\w*(?:[.:]+\w+){4,}")


def name_of(opcode: str) -> str:
    """``cp.async.bulk.tensor``: the words of an opcode before those that name a shape, a type or a state space."""
    words: list[str] = []
    for word in opcode.split("."):
        if words and (word == "aligned" or "::" in word or (not word.isalpha() and "_" not in word)):
            break
        words.append(word)
    return ".".join(words[:-1] if words[-1] == "sync" and len(words) > 2 else words)


def said_once(text: str) -> str:
    """The text, in which every long opcode is whole at its first place only."""
    seen: set[str] = set()

    def shown(match: re.Match[str]) -> str:
        opcode = match.group()
        if len(opcode) <= _LONG or opcode not in seen:
            seen.add(opcode)
            return opcode
        return name_of(opcode)

    return _OPCODE.sub(shown, text)


@dataclass(frozen=True)
class Earlier:
    """The access that a report conflicts with: its warp and line, and what it was.

    >>> def racing(warp):
    ...     warp.st_shared(4 * warp.threads, warp.threads)
    ...     warp.ld_shared(4 * (63 - warp.threads))  # what the other warp writes, without a barrier
    >>> result = tcemu.launch(racing, block=64, shared=256, sanitizer="collect")
    >>> result.reports[0].earlier.what, result.reports[0].earlier.site.function
    ('st.shared.b32', 'racing')
    """

    by: By
    what: str
    #: the lines that called the function of the access, innermost first
    callers: tuple[Site, ...] = ()

    @property
    def site(self) -> Site:
        """The line of the kernel."""
        return self.by.site

    def __str__(self) -> str:
        called = "".join(f", called at {caller}" for caller in self.callers)
        return f"{self.what} of warp {self.by.warp} at {self.site}{called}"


@dataclass
class Report:
    """One broken rule. If the same two lines break the same rule again, `count` grows instead of a new report.

    >>> def racing(warp):
    ...     warp.st_shared(4 * warp.threads, warp.threads)
    ...     warp.ld_shared(4 * (63 - warp.threads))  # what the other warp writes, without a barrier
    >>> result = tcemu.launch(racing, block=64, shared=256, sanitizer="collect")
    >>> report = result.reports[0]
    >>> report.about.title, report.severity, report.site.line, report.earlier.site.line, report.warp, report.block
    ('a race in shared memory between warps', 'error', 3, 2, 0, 0)
    """

    #: id of the rule, a key of RULES
    rule: str
    message: str
    by: By
    #: which registers or bytes, in words
    what: str = ""
    #: the access that it conflicts with
    earlier: Earlier | None = None
    #: the lanes concerned: the active lanes, unless the rule is about particular ones
    lanes: tuple[int, ...] = ()
    count: int = 1
    #: the fix, if it is not the rule's own
    remedy: str = ""
    #: its severity, if it differs from the rule's
    weight: Severity | None = None
    #: the lines that called the function that broke the rule, innermost first
    callers: tuple[Site, ...] = ()

    def __post_init__(self) -> None:
        self.lanes = self.lanes or lanes_of(self.by.active)
        self.callers, self.message = self.callers or callers_of(self.by), said_once(self.message)

    @property
    def about(self) -> Rule:
        """The row of the table of rules."""
        return RULES[self.rule]

    @property
    def severity(self) -> Severity:
        """An "error" is undefined; a "warning" may be intended, and a "hint" is harmless: neither ends a launch."""
        return self.weight or self.about.severity

    def counts(self, heeded: Collection[str]) -> bool:
        """Whether it counts as a mistake: an error, or what is `heeded`, by its rule or its severity and rule.

        >>> from tcemu.machine.events import By, Site
        >>> by = By(0, 0, 1, Site("k.cu", 1, "k"))
        >>> left = tcemu.sanitizer.Report("exited-threads", "a warp has left", by, weight="warning")
        >>> left.counts(()), left.counts(["exited-threads"]), left.counts(["warning exited-threads"])
        (False, True, True)
        >>> left.counts(["hint exited-threads"])
        False
        """
        return self.severity == "error" or self.rule in heeded or f"{self.severity} {self.rule}" in heeded

    @property
    def fix(self) -> str:
        """How to fix it; methods that the kernel names without calling them come first."""
        return " ".join(filter(None, (uncalled(self.by.site), self.remedy or self.about.fix)))

    @property
    def site(self) -> Site:
        """The line of the kernel."""
        return self.by.site

    @property
    def block(self) -> int:
        """The block's number."""
        return self.by.block

    @property
    def warp(self) -> int:
        """The warp's number in its block."""
        return self.by.warp

    @property
    def key(self) -> tuple[object, ...]:
        """The key that identifies a report: those with the same key are counted as one."""
        return self.rule, self.site, self.earlier and self.earlier.site

    def __str__(self) -> str:
        where = f"block {self.block}, warp {self.warp}, {many('lane', self.lanes)}"
        times = f", {self.count} times" if self.count > 1 else ""
        lines = [
            f"{self.severity} {self.rule}: {self.about.title}",
            f"  at {self.site} in {abridged(self.site.function)} ({where}{times})",
            *(f"    called at {caller} in {abridged(caller.function)}" for caller in self.callers),
            f"  {self.message}",
        ]
        if self.what:
            lines.append(f"  what: {self.what}")
        if self.earlier is not None:
            lines.append(f"  conflicts with: {self.earlier}")
        lines += [f"  rule: {self.about.rule} (PTX ISA {self.about.section})", f"  fix: {self.fix}"]
        return cited(said_once("\n".join(lines)))

    def __repr__(self) -> str:
        return f"<{self.severity} {self.rule} at {self.site}>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

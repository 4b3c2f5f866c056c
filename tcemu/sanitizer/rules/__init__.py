"""THE TABLE of rules: what a kernel must not do, the section of the PTX manual that says so, and the fix.

The sanitizer can report only the rules in this table. A module of this folder has the rules of one chapter, each with
the smallest kernel that breaks it, for the book and for readers of a report. To be found, it only has to be here. The
sections of the sanitizer detect that a rule was broken; all that is said about the rule itself is here.

Every kernel is called as kernel(warp, g), where g points to BYTES bytes of global memory; the line that the sanitizer
reports ends in "<- reported".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from tcemu.errors import Named, TableError
from tcemu.machine import sites

__all__ = ["BYTES", "EXAMPLES", "RULES", "SHARED", "Example", "Rule", "Severity", "breaks", "rules"]

Severity = Literal["error", "warning", "hint"]
#: Global memory that a kernel of this folder may use, and shared memory that it is launched with.
BYTES, SHARED = 1 << 15, 8192

# The lines of this folder are lines of kernels, which reports name.
sites.KERNELS.append(str(Path(__file__).parent))


@dataclass(frozen=True)
class Rule:
    """One rule: its name, the mistake in a few words, the manual's section, the rule in our words, and the fix.

    >>> rule = next(iter(tcemu.sanitizer.RULES.values()))
    >>> bool(rule.title and rule.section and rule.fix)
    True
    """

    id: str
    title: str
    #: section of the PTX manual (PTX ISA 9.1)
    section: str
    rule: str
    fix: str
    severity: Severity = "error"

    def __str__(self) -> str:
        return f"{self.id}: {self.title}"


@dataclass(frozen=True)
class Example:
    """A kernel that breaks one rule, and how it is launched.

    >>> from tcemu.sanitizer.rules import EXAMPLES
    >>> EXAMPLES["lane-race"].kernel.__name__
    'lanes_swap_without_a_sync'
    """

    kernel: Callable[..., None]
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def launch(self) -> Mapping[str, Any]:
        """The arguments of tcemu.launch other than the kernel and its argument."""
        return {"block": 128, "shared": SHARED, **self.options}


_RULES: dict[str, Rule] = Named("rule")
_EXAMPLES: dict[str, Example] = Named("rule with an example")
#: Both by the rule's id, rules in the manual's order; complete once tcemu.sanitizer has been imported.
RULES: Mapping[str, Rule] = MappingProxyType(_RULES)
EXAMPLES: Mapping[str, Example] = MappingProxyType(_EXAMPLES)


def rules(*rows: Rule) -> None:
    """Put the rules of a chapter into the table. Raises TableError for an id that another rule has.

    >>> from tcemu.sanitizer.rules import RULES, rules
    >>> rules(RULES["lane-race"])  # which is there already
    >>> RULES["lane-race"].section
    '9.7.13.2'
    """
    for row in rows:
        if _RULES.setdefault(row.id, row) != row:
            raise TableError(f"two rules are called {row.id}")
    ordered = sorted(_RULES.values(), key=_place)
    _RULES.clear()
    _RULES.update((row.id, row) for row in ordered)


def _place(rule: Rule) -> list[int]:
    """Where the rule's section is in the manual."""
    return [int(number) for number in rule.section.split(".")]


def breaks(rule: str, **options: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Put a kernel into the table of examples: it breaks this rule if it is launched with these options.

    Raises TableError for a rule that is not in the table.

    >>> from tcemu.sanitizer.rules import EXAMPLES
    >>> EXAMPLES["wmma-mixed"].options
    {'block': 32, 'target': 'sm_80'}
    """
    if rule not in _RULES:
        raise TableError(f"no rule is called {rule}: write the rule first, and then the kernel that breaks it")

    def add(kernel: Callable[..., None]) -> Callable[..., None]:
        _EXAMPLES[rule] = Example(kernel, options)
        return kernel

    return add

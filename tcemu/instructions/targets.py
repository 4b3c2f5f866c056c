"""Targets and gates: which GPU, which PTX version, and what an instruction needs of both.

Three kinds of targets (PTX ISA 9.1, 11.1.2): `sm_90` runs on every later GPU; `sm_90a` ("architecture-specific") on
that chip only; `sm_100f` ("family-specific", PTX 8.8) on that chip and later ones of its family.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from tcemu.errors import TargetError, did_you_mean, listing, shown

#: Chips with their families; a family is named after its first chip.
_FAMILIES = {
    70: 70, 72: 70, 75: 75, 80: 80, 86: 80, 87: 80, 89: 89, 90: 90,
    100: 100, 103: 100, 107: 100, 110: 110, 120: 120, 121: 120,
}  # fmt: skip
#: The first chips that have architecture-specific and family-specific targets.
_FIRST_WITH_A, _FIRST_WITH_F = 90, 100


@dataclass(frozen=True)
class Target:
    """One target: the chip's number, and what stands behind it ("", "a" or "f")."""

    number: int
    suffix: str = ""

    @property
    def family(self) -> int:
        """The first chip of the family that the chip belongs to."""
        return _FAMILIES[self.number]

    def __str__(self) -> str:
        return f"sm_{self.number}{self.suffix}"


TARGETS: dict[str, Target] = {
    str(target): target
    for number in _FAMILIES
    for suffix, first in (("", 0), ("a", _FIRST_WITH_A), ("f", _FIRST_WITH_F))
    if number >= first
    for target in (Target(number, suffix),)
}


@cache
def target_named(name: str) -> Target:
    """The target called `name`. Raises TargetError with the accepted names."""
    if name in TARGETS:
        return TARGETS[name]
    if not isinstance(name, str):
        raise TargetError(f"a target is given as text, e.g. 'sm_90a'; got {shown(name)}")
    raise TargetError(
        f"no target is called {shown(name)}.{did_you_mean(name, TARGETS)} Targets are {listing(TARGETS, 'and')}."
    )


@cache
def ptx_version(text: str) -> tuple[int, int]:
    """(8, 7) for "8.7". Raises TargetError for anything else."""
    match = re.fullmatch(r"([0-9]{1,2})\.([0-9])", text)
    if not match:
        raise TargetError(f"{shown(text)} is no PTX version: write it as in .version, e.g. '8.7'")
    return int(match[1]), int(match[2])


@dataclass(frozen=True)
class Gate:
    """What an instruction needs: a PTX version, and one of these targets.

    `since` "sm_80" is that chip and every later one; "sm_90a" that target; "sm_100f" its whole family from that chip
    on, the architecture-specific targets of the family included.
    """

    ptx: str
    since: tuple[str, ...]

    def admits(self, target: Target) -> bool:
        """Whether the target has the instruction."""
        return any(_admits(target_named(name), target) for name in self.since)

    def admits_ptx(self, version: str) -> bool:
        """Whether that PTX version has the instruction."""
        return ptx_version(version) >= ptx_version(self.ptx)

    @property
    def targets(self) -> str:
        """The accepted targets in words."""
        return listing(_in_words(target_named(name)) for name in self.since)

    def __str__(self) -> str:
        return f"PTX {self.ptx}, {self.targets}"


def _admits(needed: Target, target: Target) -> bool:
    if needed.suffix == "":
        return target.number >= needed.number
    if needed.suffix == "a":
        return target == needed
    return target.suffix != "" and target.family == needed.family and target.number >= needed.number


def _in_words(target: Target) -> str:
    return (
        f"{target} or later"
        if target.suffix == ""
        else f"{target} (or an a target of its family)"
        if target.suffix == "f"
        else str(target)
    )

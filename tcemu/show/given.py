"""Checks the arguments of the pictures, and converts them to the form that they draw."""

from __future__ import annotations

from collections.abc import Iterable

from tcemu.errors import FormatError, briefly
from tcemu.formats import Format, lookup


def format_of(given: object) -> Format:
    """A format, or the one of that name. Raises FormatError."""
    return given if isinstance(given, Format) else lookup(given)  # type: ignore[arg-type] # lookup refuses the rest


def formats_of(given: object) -> list[Format]:
    """Formats or their names; a single one is a list of one. Raises FormatError."""
    if isinstance(given, str | Format):
        return [format_of(given)]
    if not isinstance(given, Iterable):
        raise FormatError(f"formats must be a list of names, such as ['e4m3', 'e5m2']; got {briefly(given)}")
    return [format_of(each) for each in given]

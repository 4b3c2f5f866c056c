"""How a method of a warp builds its opcode from the words that a kernel passes."""

from __future__ import annotations

from functools import lru_cache

from tcemu.errors import OperandError, briefly
from tcemu.instructions import FAMILIES, parse


@lru_cache(maxsize=4096)
def form(*qualifiers: str) -> str:
    """The opcode that qualifiers spell, in any order; empty ones are left out."""
    return parse(".".join(word.strip(".") for word in qualifiers if word)).opcode


def text(family: str, what: str, words: object) -> str:
    """A word of an opcode, as the kernel gave it. Raises OperandError for anything but text."""
    if not isinstance(words, str):
        section = next(each.section for each in FAMILIES if each.name == family)
        raise OperandError(
            f"{family}: {what} is text, as the opcode spells it; got {briefly(words)} (PTX ISA {section})"
        )
    return words


#: Memory orders that have a scope, and the default scope in each state space.
_SCOPED = ("relaxed", "acquire", "release", "acq_rel")
_SCOPES = {"shared": "cta", "shared::cluster": "cluster", "global": "gpu"}


def _scoped(family: str, words: object, space: str) -> str:
    """A memory order with its scope; without one, .cta or .cluster in shared memory, and .gpu in global memory."""
    order = text(family, "order", words).strip(".")
    return f"{order}.{_SCOPES[space]}" if order in _SCOPED else order


def access_form(family: str, space: str, what: object, order: object) -> str:
    """The opcode of an access to a state space: `what` is "v4.b32", "add.u32" or such."""
    words = "" if type(order) is str and not order else _scoped(family, order, space)
    return form(family, words, space, what if type(what) is str else text(family, f"what follows .{space}", what))

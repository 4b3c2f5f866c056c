"""Memory orders and scopes of strong accesses, as an opcode spells them (PTX ISA 9.1, 8.3 to 8.5)."""

from __future__ import annotations

from typing import NamedTuple

from tcemu.errors import OperandError, listing, shown
from tcemu.machine.events import Order, Space

SCOPES = ("cta", "cluster", "gpu", "sys")
#: What may stand after ld, st, atom and red; the empty one is weak for ld and st, relaxed for the others.
LOAD: tuple[Order, ...] = ("volatile", "relaxed", "acquire")
STORE: tuple[Order, ...] = ("volatile", "relaxed", "release")
ATOM: tuple[Order, ...] = ("relaxed", "acquire", "release", "acq_rel")
RED: tuple[Order, ...] = ("relaxed", "release")


class Ordered(NamedTuple):
    """A memory order, and how the opcode spells it with its scope: "acquire", ".acquire.cta"."""

    order: Order
    spelling: str


def ordered(what: str, given: object, accepted: tuple[Order, ...], space: Space) -> Ordered:
    """The order that "acquire", "acquire.gpu" or "" says. Without a scope it is the block's in shared memory, else gpu.

    Raises OperandError for what `what` does not take.
    """
    weak: Order = "" if accepted in (LOAD, STORE) else "relaxed"
    if isinstance(given, str) and not given:
        return Ordered(weak, "")
    words = given.strip(".").split(".") if isinstance(given, str) else ["?"]
    order: Order = next((each for each in accepted if words[:1] == [each]), "")
    scope = next((each for each in SCOPES if words[-1:] == [each]), "")
    known = [each for each in (order, scope) if each]
    if words != ["weak"] and (words != known or (weak == order == "") or (order == "volatile" and scope)):
        raise OperandError(
            f"{what}: an order is {listing(accepted)}, with a scope {listing(SCOPES)} behind it: "
            f"'{accepted[-1]}.cta'; got {shown(given)} (PTX ISA 8.3)"
        )
    if not order:
        return Ordered(weak, f".{scope}" if scope else "")
    if order == "volatile":
        return Ordered(order, ".volatile")
    return Ordered(order, f".{order}.{scope or ('cta' if space == 'shared' else 'gpu')}")

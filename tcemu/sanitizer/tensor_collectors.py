"""Collector buffers of tcgen05.mma, which keep A, or B with .ws, for products that use it again."""

from __future__ import annotations

from tcemu.machine.events import Tcgen05
from tcemu.sanitizer.block import Block
from tcemu.sanitizer.report import Earlier, name_of

#: What a product does that names no buffer: a, or b0 with .ws.
_DEFAULT = {"tcgen05.mma": "collector::a::discard", "tcgen05.mma.ws": "collector::b0::discard"}


class Collectors:
    """By warp and buffer: the product that has filled it last, while that is valid."""

    def __init__(self, block: Block) -> None:
        self._block = block
        self._filled: dict[tuple[int, str], Tcgen05] = {}

    def use(self, operation: Tcgen05) -> None:
        """Report a product that uses a buffer which nothing has filled, or which holds another matrix."""
        words, family = operation.instruction.words, operation.instruction.family
        word = words.get("collector_a") or words.get("collector_b") or _DEFAULT.get(family, "")
        if not word:
            return
        _, buffer, verb = word.split("::")
        key = operation.by.warp, buffer
        if verb in ("use", "lastuse"):
            self._check(operation, buffer, verb, self._filled.get(key))
        if verb == "fill":
            self._filled[key] = operation
        elif verb != "use":
            self._filled.pop(key, None)

    def _check(self, operation: Tcgen05, buffer: str, verb: str, filled: Tcgen05 | None) -> None:
        role, name = buffer[0], name_of(operation.instruction.opcode)
        if filled is not None and _matrix(filled, role) == _matrix(operation, role):
            return
        what, earlier = f"the collector buffer {buffer}", None
        why = f"no tcgen05.mma of warp {operation.by.warp} has filled it, or one has given it up since"
        if filled is not None:
            earlier = Earlier(filled.by, filled.instruction.opcode)
            why = f"it was filled with another {role.upper()}"
        message = f"{name} with .collector::{buffer}::{verb} takes {role.upper()} from {what}, but {why}"
        self._block.report("tcgen05-collector", operation.by, message, what=what, earlier=earlier)


def _matrix(operation: Tcgen05, role: str) -> object:
    """What tells one A or B from another: its descriptor, or its cells; and the shape and types of the product."""
    cells = [
        (area.block, area.lanes.tobytes(), area.columns.tobytes()) for area in operation.reads if area.role == role
    ]
    return operation.descriptors.get(role), cells, operation.idesc

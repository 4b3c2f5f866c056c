"""Functions that the device runtime has and PTX text only declares: vprintf, __assertfail, malloc and free."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tcemu.errors import LaunchError
from tcemu.instructions import parse
from tcemu.machine.addresses import BLOCK, LOCAL, PARAM, SHARED
from tcemu.machine.events import Accessed, GivenAgain
from tcemu.machine.masks import LANES, lanes_of
from tcemu.simt.conversions import CONVERSION, converted, passed
from tcemu.simt.errors import KernelAssertion
from tcemu.simt.hidden import HEAP, Heap
from tcemu.tracebacks import place

if TYPE_CHECKING:
    from tcemu.simt.frames import Frame

#: Longer strings are cut off.
_LONGEST = 1 << 16
#: What malloc returns is apart from the next by this many bytes at least.
_PART = 16


def _argument(frame: Frame, lane: int, at: int, size: int = 8) -> int:
    """An argument of a call in one lane, as a number."""
    start = frame.base + at
    return int.from_bytes(frame.run.local.bytes[lane, start : start + size].tobytes(), "little")


def _bytes_at(frame: Frame, lane: int, address: int) -> Any:
    """The bytes from a generic address of one lane on, as far as they go."""
    core = frame.run.core
    own = SHARED + core.block.slot * BLOCK
    if LOCAL <= address < PARAM:
        local = frame.run.local
        return local.bytes[lane, max(address - int(local.window[lane]), 0) :]
    if own <= address < own + BLOCK:
        return core.block.shared.bytes[address - own :]
    return core.grid.memory.bytes[address:]


def text_at(frame: Frame, lane: int, address: int) -> str:
    """The string at a generic address."""
    data = _bytes_at(frame, lane, address)[:_LONGEST]
    end = int(np.argmin(data)) if len(data) else 0
    raw: bytes = data[:end].tobytes()
    return raw.decode(errors="replace") if address else "(null)"


class _Values:
    """The values of a printf in one lane, from the first to the last."""

    def __init__(self, frame: Frame, lane: int, at: int) -> None:
        self.bytes, self.place, self.count = _bytes_at(frame, lane, at), 0, 0

    def next(self, size: int) -> bytes:
        """The next one, of this size."""
        self.count += 1
        first = -(-self.place // size) * size
        self.place = first + size
        data: bytes = self.bytes[first : self.place].tobytes()
        return data


def formatted(frame: Frame, lane: int, form: str, at: int) -> tuple[str, int]:
    """What printf prints in one lane, and how many values that takes."""
    values = _Values(frame, lane, at)

    def number(digits: str | None) -> int:
        return int.from_bytes(values.next(4), "little", signed=True) if digits == "*" else int(digits or 0)

    def value(match: re.Match[str]) -> str:
        flags, width, digits, length, kind = match.groups()
        if kind == "%":
            return "%"
        wide, precise = number(width), None if digits is None else number(digits)
        raw = values.next(passed(length, kind))
        return converted(flags, wide, precise, length, kind, raw, lambda address: text_at(frame, lane, address))

    return CONVERSION.sub(value, form), values.count


def vprintf(frame: Frame, arguments: Sequence[int], returns: Sequence[int]) -> None:
    """printf in a kernel: the active lanes print one after the other. It returns how many values it has printed."""
    for lane in LANES[lanes_of(frame.run.bits)].tolist():
        form, values = (_argument(frame, lane, each) for each in arguments[:2])
        text, count = formatted(frame, lane, text_at(frame, lane, form), values) if form else ("", -1)
        frame.run.together.says(text)
        for at in returns:
            result = np.frombuffer(count.to_bytes(4, "little", signed=True), np.uint8)
            frame.run.local.bytes[lane, frame.base + at : frame.base + at + 4] = result


def assertfail(frame: Frame, arguments: Sequence[int], returns: Sequence[int]) -> None:
    """A failed assert of the first active lane: message, file, line, function."""
    run = frame.run
    lane = run.first
    said, file, function = (text_at(frame, lane, _argument(frame, lane, arguments[each])) for each in (0, 1, 3))
    line = _argument(frame, lane, arguments[2], 4)
    thread = ", ".join(str(int(axis[lane])) for axis in run.warp.tid)
    block = ", ".join(map(str, run.warp.ctaid))
    message = f"{place(file, line)}: {function}: block ({block}), thread ({thread}): assertion `{said}` failed"
    run.core.grid.fail(KernelAssertion(message))


def _heap(frame: Frame) -> Heap:
    """The heap, which will change."""
    run = frame.run
    run.core.grid.memory.changed_heap()
    return run.together.heap(run.pointers[HEAP.name])


def malloc(frame: Frame, arguments: Sequence[int], returns: Sequence[int]) -> None:
    """Malloc in a kernel, lane by lane."""
    for lane in LANES[lanes_of(frame.run.bits)].tolist():
        heap, core, size = _heap(frame), frame.run.core, _argument(frame, lane, arguments[0])
        fresh = heap.fresh
        address = heap.take(size, str(core.at))
        if 0 < address < fresh:
            core.tell(GivenAgain, core.by(), address, address + size)
        at = frame.base + returns[0]
        frame.run.local.bytes[lane, at : at + 8] = np.frombuffer(address.to_bytes(8, "little"), np.uint8)


def free(frame: Frame, arguments: Sequence[int], returns: Sequence[int]) -> None:
    """Free in a kernel, lane by lane. For observers, it writes to all that it frees."""
    for lane in LANES[lanes_of(frame.run.bits)].tolist():
        address, core, heap = _argument(frame, lane, arguments[0]), frame.run.core, _heap(frame)
        size = heap.size(address)
        if size and core.watched:
            parts = np.arange(address, address + size, _PART, dtype=np.int64)
            extent, lanes = (address, int(parts[-1]) + _PART), np.full(len(parts), lane)
            store = parse("st.global.v4.b32", core.target)
            core.tell(partial(Accessed, function="free"), core.by(), store, "global", True, parts, _PART, extent, lanes)
        if not heap.give(address, str(core.at)):
            problem = f"malloc has not returned {address:#x}, or it is free already"
            place = f"lane {lane} of warp {core.index} of block {core.block.number} at {core.at}"
            core.grid.fail(LaunchError(f"free: {problem}: {place}"))


#: By name: called with the frame, and where the arguments and results lie in the local memory of its function.
FUNCTIONS: dict[str, Callable[[Frame, Sequence[int], Sequence[int]], None]] = {
    "vprintf": vprintf,
    "__assertfail": assertfail,
    "malloc": malloc,
    "free": free,
}

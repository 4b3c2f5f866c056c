"""Copies that run while the warps go on: cp.async, bulk copies, tensor copies (PTX ISA 9.1, 9.7.9.25 to 9.7.9.27)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from tcemu.errors import AddressError, OperandError, briefly
from tcemu.machine.core import Array
from tcemu.machine.events import (
    By,
    CopiesArrive,
    CopiesCommitted,
    CopiesWaited,
    Copy,
    CopyIssued,
    CopyKind,
    CopyLanded,
    Space,
)
from tcemu.machine.memory import Bytes
from tcemu.machine.pending import Groups, Task
from tcemu.machine.synchronise import Mbarriers
from tcemu.machine.tensor_map import TensorMap

ASYNC_SECTION, BULK_SECTION, TENSOR_SECTION = "9.7.9.25.3", "9.7.9.25.5", "9.7.9.27.1"
#: The unit of bulk copies: sizes and addresses are multiples of it.
UNIT = 16


class Copies(Mbarriers):
    """cp.async, cp.async.bulk, cp.async.bulk.tensor."""

    # ---------------------------------------------------------------------------------------- cp.async

    def cp_async(
        self,
        destination: npt.ArrayLike,
        source: npt.ArrayLike,
        size: int,
        src_size: npt.ArrayLike | None = None,
        *,
        cache: str = "ca",
    ) -> None:
        """cp.async: each lane copies `size` bytes (4, 8, 16) from global to shared memory, not waiting for them.

        Of the source only `src_size` bytes are read (an integer, or one a lane); the rest is filled with zeros.
        """
        if not _one_of(size, (4, 8, 16)) or not _one_of(cache, ("ca", "cg")) or (cache == "cg" and size != UNIT):
            raise OperandError(
                f"cp.async copies 4, 8 or 16 bytes, with .cg only 16; got .{cache}, {briefly(size)} (PTX ISA "
                f"{ASYNC_SECTION})"
            )
        opcode = f"cp.async.{cache}.shared.global"
        by = self._issue(opcode)
        if by is None:
            return
        to, start = self._lanes_of(destination, f"{opcode}: destination"), self._lanes_of(source, f"{opcode}: source")
        taken = self._lanes_of(size if src_size is None else src_size, f"{opcode}: src-size")
        if (taken < 0).any() or (taken > size).any():
            raise OperandError(f"{opcode}: src-size is 0 to {size}; got {taken.min()} to {taken.max()}")
        lanes, active = self.lanes[self._active], self._active
        to, start, taken = to[active], start[active], taken[active]
        self._checked(by, opcode, "shared", to, size, size, ASYNC_SECTION)
        self._checked(by, opcode, "global", start[taken > 0], 1, size, ASYNC_SECTION)
        self._checked(by, opcode, "global", (start + taken - 1)[taken > 0], 1, 1, ASYNC_SECTION)
        groups = self._groups("cp.async")
        pieces, whole = _pieces(start, taken)
        copy = Copy(
            "cp.async",
            opcode,
            by,
            ("global", pieces, whole),
            ("shared", to, size),
            size * len(to),
            groups.next,
            lanes=lanes,
        )
        self._begin(copy, lambda: self._move_lanes(to, start, taken, size), groups)

    def _move_lanes(self, to: Array, start: Array, taken: Array, size: int) -> None:
        data = np.zeros((len(to), size), np.uint8)
        places = start[:, None] + np.arange(size)
        wanted = np.arange(size) < taken[:, None]
        data[wanted] = self._block.memory.bytes[places[wanted]]
        self._block.shared.write(to, data)

    def cp_async_commit_group(self) -> None:
        """cp.async.commit_group: this warp's cp.async so far, that are in no group, become one."""
        self._commit_copies("cp.async")

    def cp_async_wait_group(self, pending: int) -> None:
        """cp.async.wait_group N: wait until at most the N youngest groups of this warp are under way."""
        self._wait_copies("cp.async", pending, False)

    def cp_async_wait_all(self) -> None:
        """cp.async.wait_all: wait for every cp.async of this warp, committed or not."""
        self._commit_copies("cp.async", "cp.async.wait_all")
        self._wait_copies("cp.async", 0, False, "cp.async.wait_all")

    def cp_async_mbarrier_arrive(self, address: npt.ArrayLike, *, noinc: bool = False) -> None:
        """cp.async.mbarrier.arrive: each active lane arrives at the mbarrier once its cp.async so far have ended.

        Without .noinc the phase expects that many more arrivals, so that the count set by init need not include them.
        """
        opcode = f"cp.async.mbarrier.arrive{'.noinc' if noinc else ''}.shared.b64"
        by = self._issue(opcode)
        if by is None:
            return
        wanted = self._distinct(address, f"{opcode}: address")
        before = self._groups("cp.async").under_way
        for place, count in wanted:
            phase = self._expect_more(by, opcode, place, 0 if noinc else count)
            self._block.tell(CopiesArrive, by, place, phase)

            def arrive(place: int = place, count: int = count) -> None:
                self._block.pending.finish(before)
                self._arrive_at(by, opcode, place, count)

            self._block.pending.add(Task((self.index, "arrive", len(before)), arrive))

    # ---------------------------------------------------------------------------------------- bulk copies

    def cp_async_bulk_shared_global(
        self, destination: npt.ArrayLike, source: npt.ArrayLike, size: npt.ArrayLike, mbarrier: npt.ArrayLike
    ) -> None:
        """cp.async.bulk.shared::cta.global: each active lane copies `size` bytes into shared memory.

        Their number is counted at `mbarrier`. Addresses and sizes are multiples of 16.
        """
        opcode = "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes"
        by = self._issue(opcode)
        if by is None:
            return
        given = [self._lanes_of(each, opcode) for each in (destination, source, size, mbarrier)]
        for to, start, count, barrier in zip(*(each[self._active].tolist() for each in given), strict=True):
            self._check_bulk(by, opcode, to, start, count)
            reads, writes = self._units("global", start, count), self._units("shared", to, count)
            move = self._copying(self._block.memory, start, self._block.shared, to, count)
            self._bulk_load(by, opcode, reads, writes, count, barrier, move)

    def cp_async_bulk_global_shared(
        self, destination: npt.ArrayLike, source: npt.ArrayLike, size: npt.ArrayLike
    ) -> None:
        """cp.async.bulk.global.shared::cta.bulk_group: each active lane copies `size` bytes out of shared memory."""
        opcode = "cp.async.bulk.global.shared::cta.bulk_group"
        by = self._issue(opcode)
        if by is None:
            return
        given = [self._lanes_of(each, opcode) for each in (destination, source, size)]
        for to, start, count in zip(*(each[self._active].tolist() for each in given), strict=True):
            self._check_bulk(by, opcode, start, to, count)
            reads, writes = self._units("shared", start, count), self._units("global", to, count)
            move = self._copying(self._block.shared, start, self._block.memory, to, count)
            self._bulk_store(by, opcode, reads, writes, count, move)

    def cp_async_bulk_tensor_shared_global(
        self, destination: npt.ArrayLike, tensor_map: TensorMap, coordinates: Sequence[int], mbarrier: npt.ArrayLike
    ) -> None:
        """cp.async.bulk.tensor, tile mode: each active lane copies the box at `coordinates` (innermost first) in.

        The whole box, of `tensor_map.bytes`, is counted at `mbarrier`.
        """
        opcode = f"cp.async.bulk.tensor.{_map(tensor_map).rank}d.shared::cta.global.tile.mbarrier::complete_tx::bytes"
        by = self._issue(opcode)
        if by is None:
            return
        given = [self._lanes_of(each, opcode) for each in (destination, mbarrier)]
        for to, barrier in zip(*(each[self._active].tolist() for each in given), strict=True):
            reads, writes = self._box(by, opcode, tensor_map, coordinates, to, storing=False)
            load = self._load_box(tensor_map, coordinates, to)
            self._bulk_load(by, opcode, reads, writes, tensor_map.bytes, barrier, load)

    def cp_async_bulk_tensor_global_shared(
        self, tensor_map: TensorMap, coordinates: Sequence[int], source: npt.ArrayLike
    ) -> None:
        """cp.async.bulk.tensor, tile mode: each active lane copies the box at `source` out, where the tensor is."""
        opcode = f"cp.async.bulk.tensor.{_map(tensor_map).rank}d.global.shared::cta.tile.bulk_group"
        by = self._issue(opcode)
        if by is None:
            return
        starts = self._lanes_of(source, opcode)
        for start in starts[self._active].tolist():
            writes, reads = self._box(by, opcode, tensor_map, coordinates, start, storing=True)
            store = self._store_box(tensor_map, coordinates, start)
            self._bulk_store(by, opcode, reads, writes, tensor_map.bytes, store)

    def cp_async_bulk_commit_group(self) -> None:
        """cp.async.bulk.commit_group: this warp's bulk copies out of shared memory so far become a group."""
        self._commit_copies("bulk")

    def cp_async_bulk_wait_group(self, pending: int, *, read: bool = False) -> None:
        """cp.async.bulk.wait_group N: at most N groups are under way then; with .read, their sources may change."""
        self._wait_copies("bulk", pending, read)

    # ---------------------------------------------------------------------------------------- how

    def _bulk_load(
        self,
        by: By,
        opcode: str,
        reads: tuple[Space, Array, int],
        writes: tuple[Space, Array, int],
        count: int,
        barrier: int,
        move: Callable[[], None],
    ) -> None:
        phase = self._expect_more(by, opcode, barrier, 0)
        copy = Copy("bulk", opcode, by, reads, writes, count, mbarrier=barrier, phase=phase)

        def land() -> None:
            move()
            self._block.tell(CopyLanded, copy)
            self._complete_tx(by, opcode, barrier, count)

        self._block.tell(CopyIssued, copy)
        self._block.pending.add(Task(copy, land))

    def _bulk_store(
        self,
        by: By,
        opcode: str,
        reads: tuple[Space, Array, int],
        writes: tuple[Space, Array, int],
        count: int,
        move: Callable[[], None],
    ) -> None:
        groups = self._groups("bulk")
        self._begin(Copy("bulk", opcode, by, reads, writes, count, groups.next), move, groups)

    def _begin(self, copy: Copy, move: Callable[[], None], groups: Groups) -> None:
        def land() -> None:
            move()
            self._block.tell(CopyLanded, copy)

        self._block.tell(CopyIssued, copy)
        task = Task(copy, land)
        groups.open.append(task)
        self._block.pending.add(task)

    def _groups(self, kind: CopyKind) -> Groups:
        found: Groups = self._block.kept.setdefault(f"{kind} of warp {self.index}", Groups())
        return found

    def _commit_copies(self, kind: CopyKind, opcode: str = "") -> None:
        name = "cp.async" if kind == "cp.async" else "cp.async.bulk"
        by = self._issue(opcode or f"{name}.commit_group")
        if by is not None:
            self._block.tell(CopiesCommitted, by, kind, self._groups(kind).commit())

    def _wait_copies(self, kind: CopyKind, pending: int, read: bool, opcode: str = "") -> None:
        name = "cp.async" if kind == "cp.async" else "cp.async.bulk"
        if isinstance(pending, bool) or not isinstance(pending, int | np.integer) or pending < 0:
            raise OperandError(f"{name}.wait_group takes an integer of at least 0; got {briefly(pending)}")
        by = self._issue(opcode or f"{name}.wait_group{'.read' if read else ''}") if not opcode else self._by()
        if by is None:
            return
        below = self._groups(kind).wait(self._block.pending, int(pending))
        self._block.tell(CopiesWaited, by, kind, below, read)

    def _checked(
        self, by: By, opcode: str, space: Space, addresses: Array, size: int, align: int, section: str
    ) -> None:
        try:
            self._space(space).check(opcode, addresses, size, align, section)
        except AddressError as error:
            self._fault(by, opcode, space, error)

    def _check_bulk(self, by: By, opcode: str, shared: int, far: int, count: int) -> None:
        if count <= 0 or count % UNIT:
            raise OperandError(
                f"{opcode}: the size is a multiple of {UNIT} bytes; got {count} (PTX ISA {BULK_SECTION})"
            )
        self._checked(by, opcode, "shared", np.array([shared]), count, UNIT, BULK_SECTION)
        self._checked(by, opcode, "global", np.array([far]), count, UNIT, BULK_SECTION)

    @staticmethod
    def _units(space: Space, address: int, count: int) -> tuple[Space, Array, int]:
        return space, np.arange(address, address + count, UNIT), UNIT

    @staticmethod
    def _copying(source: Bytes, start: int, destination: Bytes, to: int, count: int) -> Callable[[], None]:
        def move() -> None:
            destination.bytes[to : to + count] = source.bytes[start : start + count]

        return move

    def _box(
        self, by: By, opcode: str, tensor_map: TensorMap, coordinates: Sequence[int], address: int, *, storing: bool
    ) -> tuple[tuple[Space, Array, int], tuple[Space, Array, int]]:
        """What a box touches in global memory, and in shared; checked."""
        try:
            places = tensor_map.places(coordinates, address, storing=storing)
            far = places.global_addresses[places.inside]
            near = places.shared_addresses[places.inside] if storing else places.shared_addresses
            self._block.shared.check(opcode, near, places.size, 1, TENSOR_SECTION)
            # a store's last unit may go beyond the array, into the gap behind it
            own = tensor_map.places(coordinates, address) if storing else places
            self._block.memory.check(opcode, own.global_addresses[own.inside], own.size, 1, TENSOR_SECTION)
        except AddressError as error:
            self._fault(by, opcode, "global" if "global memory" in str(error) else "shared", error)
        return ("global", far, places.size), ("shared", near, places.size)

    def _load_box(self, tensor_map: TensorMap, coordinates: Sequence[int], to: int) -> Callable[[], None]:
        return lambda: tensor_map.load(self._block.memory.bytes, self._block.shared.bytes, to, coordinates)

    def _store_box(self, tensor_map: TensorMap, coordinates: Sequence[int], start: int) -> Callable[[], None]:
        return lambda: tensor_map.store(self._block.memory.bytes, self._block.shared.bytes, start, coordinates)


def _pieces(starts: Array, counts: Array) -> tuple[Array, int]:
    """Pieces of one size that make up `counts` (n,) bytes from `starts` (n,): their addresses, and the size."""
    size = int(np.gcd.reduce(counts)) or 1
    ends = (starts + counts).tolist()
    return np.concatenate([np.arange(*each, size) for each in zip(starts.tolist(), ends, strict=True)]), size


def _map(given: object) -> TensorMap:
    if not isinstance(given, TensorMap):
        raise OperandError(f"a tensor copy takes a TensorMap; got {briefly(given)} (PTX ISA {TENSOR_SECTION})")
    return given


def _one_of(given: object, accepted: tuple[object, ...]) -> bool:
    return isinstance(given, int | str | np.integer) and not isinstance(given, bool) and given in accepted

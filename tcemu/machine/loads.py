"""Ordinary loads and stores: ld and st of shared and global memory (PTX ISA 9.1, 9.7.9.8 and 9.7.9.11)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.errors import AddressError, OperandError, listing, shown
from tcemu.machine.barriers import WARP
from tcemu.machine.core import Array, Core
from tcemu.machine.events import Accessed, By, Order, Space, Waiting
from tcemu.machine.memory import SHARED_WINDOW
from tcemu.machine.orders import LOAD, STORE, ordered
from tcemu.machine.registers import POISON, Registers

LOAD_SECTION, STORE_SECTION = "9.7.9.8", "9.7.9.11"


@dataclass(frozen=True)
class Form:
    """What an access moves for each lane: `count` elements of `bits`; s8 and s16 are extended with their sign."""

    spelling: str
    count: int
    bits: int
    signed: bool

    @property
    def bytes(self) -> int:
        """Bytes of a lane, and their alignment."""
        return self.count * self.bits // 8

    @property
    def register(self) -> np.dtype[Any]:
        """The dtype of the registers that hold it."""
        return np.dtype(np.uint64 if self.bits == 64 else np.uint32)

    @property
    def element(self) -> np.dtype[Any]:
        """The dtype of an element in memory."""
        return np.dtype(f"<{'i' if self.signed else 'u'}{self.bits // 8}")


_TYPES = [f"{kind}{bits}" for kind in "bus" for bits in (8, 16, 32, 64)] + ["f32", "f64"]
FORMS = {
    form.spelling: form
    for form in (
        Form(f"{vector}{kind}", count, int(kind[1:]), kind[0] == "s")
        for vector, count in (("", 1), ("v2.", 2), ("v4.", 4))
        for kind in _TYPES
    )
    if form.bytes <= 16
}


def form_of(access: object) -> Form:
    """The form that "b32", "v4.f32" or ".v2.b64" spells."""
    found = FORMS.get(access.lstrip(".")) if isinstance(access, str) else None
    if found is None:
        raise OperandError(
            f"an access of ld or st is spelt as PTX spells it after the state space: {listing(_TYPES)}, with v2. or "
            f"v4. in front, up to 16 bytes; got {shown(access)} (PTX ISA {LOAD_SECTION})"
        )
    return found


class Loads(Core):
    """ld and st."""

    def generic(self, shared_address: npt.ArrayLike) -> Any:
        """cvta.shared: the generic addresses of addresses in shared memory, an int or int64 of their shape."""
        array = self._values(shared_address)
        if array.dtype.kind not in "iu":
            raise OperandError(f"cvta.shared: addresses are integers; got dtype {array.dtype} (PTX ISA 9.7.9.20)")
        found = SHARED_WINDOW + array.astype(np.int64)
        return found if array.ndim else int(found)

    def ld_shared(self, addresses: npt.ArrayLike, access: str = "b32", *, order: str = "") -> Registers:
        """ld.shared: registers (32, n) from byte addresses (32,), or one for all; `access` is "v4.b32" or such.

        `order` is "volatile", "relaxed" or "acquire", with a scope behind it or not ("acquire.cta"): a strong load.
        """
        return self._ld("shared", addresses, access, order)

    def ld_global(self, addresses: npt.ArrayLike, access: str = "b32", *, order: str = "") -> Registers:
        """ld.global, as ld_shared; a pointer is the address of its first byte."""
        return self._ld("global", addresses, access, order)

    def st_shared(
        self, addresses: npt.ArrayLike, values: npt.ArrayLike, access: str = "b32", *, order: str = ""
    ) -> None:
        """st.shared: store values (32, n), (32,) or one for all; floats of the access's width go as they are.

        `order` is "volatile", "relaxed" or "release", with a scope behind it or not: a strong store.
        """
        self._st("shared", addresses, values, access, order)

    def st_global(
        self, addresses: npt.ArrayLike, values: npt.ArrayLike, access: str = "b32", *, order: str = ""
    ) -> None:
        """st.global, as st_shared."""
        self._st("global", addresses, values, access, order)

    # ---------------------------------------------------------------------------------------- how

    def _ld(self, space: Space, addresses: npt.ArrayLike, access: str, given: str) -> Registers:
        form = form_of(access)
        order, spelling = ordered(f"ld.{space}", given, LOAD, space)
        opcode = f"ld{spelling}.{space}.{form.spelling}"
        bits = np.full((WARP, form.count), POISON, form.register)
        active = self._active
        by = self._issue(opcode)
        if by is not None:
            where = self._lanes_of(addresses, f"{opcode}: addresses")[active]
            self._access(by, opcode, space, False, where, form, LOAD_SECTION, order)
            data = self._space(space).read(where, form.bytes)
            self._loaded(by, space, where, data)
            found = data.view(form.element)
            bits[active] = found.astype(f"i{form.register.itemsize}").view(form.register)
        return self._made(bits, active)

    def _loaded(self, by: By, space: Space, where: Array, data: Array) -> None:
        """The scheduler hears of it: a loop that finds the same again and again waits for others."""
        place = int(where[0])
        alone = ", and no other block runs before this one has ended" if space == "global" else ""
        told = f"{space} memory at {place} to change, which it loads again and again{alone}"
        found = space, where.tobytes(), data.tobytes()
        self._block.scheduler.loaded(self.index, found, lambda: Waiting(by, told, "memory", place))

    def _st(self, space: Space, addresses: npt.ArrayLike, values: npt.ArrayLike, access: str, given: str) -> None:
        form = form_of(access)
        order, spelling = ordered(f"st.{space}", given, STORE, space)
        opcode = f"st{spelling}.{space}.{form.spelling}"
        active = self._active
        by = self._issue(opcode)
        if by is not None:
            where = self._lanes_of(addresses, f"{opcode}: addresses")[active]
            patterns = self._patterns(opcode, values, form)[active]
            self._access(by, opcode, space, True, where, form, STORE_SECTION, order)
            self._space(space).write(where, np.ascontiguousarray(patterns).view(np.uint8))

    def _access(
        self,
        by: By,
        opcode: str,
        space: Space,
        writes: bool,
        where: Array,
        form: Form,
        section: str,
        order: Order = "",
    ) -> None:
        """Check an access of the active lanes, and tell of it."""
        lanes = self.lanes[self._active]
        try:
            self._space(space).check(opcode, where, form.bytes, form.bytes, section, lanes)
        except AddressError as error:
            self._fault(by, opcode, space, error)
        self._block.tell(Accessed, by, opcode, space, writes, where, form.bytes, lanes, False, order)

    def _patterns(self, opcode: str, values: Any, form: Form) -> Array:
        """Elements (32, count) as they stand in memory."""
        array = self._values(values)
        if array.dtype.kind == "f" and array.dtype.itemsize * 8 == form.bits:
            array = array.astype(array.dtype.newbyteorder("=")).view(f"u{array.dtype.itemsize}")
        if array.dtype.kind not in "iu":
            raise OperandError(
                f"{opcode} stores integers, or floats of {form.bits} bits; got dtype {array.dtype}. Say which bits are "
                f"meant: .view(np.uint32), or Fragment.pack (PTX ISA {STORE_SECTION})"
            )
        if array.shape == (WARP,) and form.count == 1:
            array = array[:, None]
        if array.shape not in ((), (WARP, form.count)):
            wanted = "(32, 1) or (32,)" if form.count == 1 else f"(32, {form.count})"
            raise OperandError(
                f"{opcode} stores values {wanted}, or one for all; got shape {array.shape} (PTX ISA {STORE_SECTION})"
            )
        return np.broadcast_to(array, (WARP, form.count)).astype(f"<u{form.bits // 8}")

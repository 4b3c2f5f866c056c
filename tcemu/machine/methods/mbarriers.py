"""mbarriers (PTX ISA 9.1, 9.7.13.15)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from tcemu.errors import OperandError, briefly
from tcemu.machine.lanes import Lanes
from tcemu.machine.masks import bits_of
from tcemu.machine.methods.opcodes import form

if TYPE_CHECKING:
    from tcemu.machine.warp import Warp


def mbarrier_init(self: Warp, address: npt.ArrayLike, count: int) -> None:
    """mbarrier.init (9.7.13.15.9): make 8 bytes an mbarrier that expects `count` arrivals in each phase.

    Other threads may use it after a barrier; bulk copies also need fence_mbarrier_init before that barrier.
    """
    self.core.execute("mbarrier.init.shared::cta.b64", address, count)


def mbarrier_inval(self: Warp, address: npt.ArrayLike) -> None:
    """mbarrier.inval (9.7.13.15.10): make the 8 bytes ordinary memory again."""
    self.core.execute("mbarrier.inval.shared::cta.b64", address)


def mbarrier_arrive(self: Warp, address: npt.ArrayLike, count: npt.ArrayLike = 1) -> Any:
    """mbarrier.arrive (9.7.13.15.13): each active lane arrives `count` times.

    Returns the state of the mbarrier before the warp's first arrival, for mbarrier_test_wait and mbarrier_wait: an
    int or, if lanes give different addresses, uint64 (32,) with 0 for inactive lanes.
    """
    return self.core.execute("mbarrier.arrive.shared::cta.b64", address, count)


def mbarrier_arrive_drop(self: Warp, address: npt.ArrayLike, count: npt.ArrayLike = 1) -> Any:
    """mbarrier.arrive_drop (9.7.13.15.14): each active lane arrives `count` times, and later phases expect fewer.

    They expect as many fewer as lanes have dropped here. Returns the state, as mbarrier_arrive does.
    """
    return self.core.execute("mbarrier.arrive_drop.shared::cta.b64", address, count)


def mbarrier_expect_tx(self: Warp, address: npt.ArrayLike, tx_count: npt.ArrayLike) -> None:
    """mbarrier.expect_tx (9.7.13.15.11): each active lane makes the phase wait for `tx_count` more bytes."""
    self.core.execute("mbarrier.expect_tx.relaxed.cta.shared::cta.b64", address, tx_count)


def mbarrier_arrive_expect_tx(self: Warp, address: npt.ArrayLike, tx_count: npt.ArrayLike) -> Any:
    """mbarrier.arrive.expect_tx (9.7.13.15.13): each active lane adds `tx_count` bytes to wait for, then arrives.

    Returns the state, as mbarrier_arrive does.
    """
    return self.core.execute("mbarrier.arrive.expect_tx.shared::cta.b64", address, tx_count)


def mbarrier_arrive_shared_cluster(self: Warp, address: npt.ArrayLike, count: npt.ArrayLike = 1) -> None:
    """mbarrier.arrive.release.cluster.shared::cluster (9.7.13.15.13): arrive at any mbarrier of the cluster."""
    self.core.execute("mbarrier.arrive.release.cluster.shared::cluster.b64", address, count)


def mbarrier_arrive_expect_tx_shared_cluster(self: Warp, address: npt.ArrayLike, tx_count: npt.ArrayLike) -> None:
    """mbarrier.arrive.expect_tx.release.cluster.shared::cluster (9.7.13.15.13): after an expect_tx of `tx_count`."""
    self.core.execute("mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64", address, tx_count)


def mbarrier_test_wait(self: Warp, address: npt.ArrayLike, parity: Any = None, *, state: Any = None) -> bool:
    """mbarrier.test_wait (9.7.13.15.16): whether the phase with this parity is complete; if not, other warps run first.

    Instead of the parity you can pass the `state` that an arrival in the phase returned. If lanes test different
    phases, the result says whether all of them are complete.
    """
    done = _asked(self, "mbarrier.test_wait", address, parity, state)
    return bool(self.core.bits) and bits_of(done) == self.core.bits


def mbarrier_try_wait(self: Warp, address: npt.ArrayLike, parity: Any = None, *, state: Any = None) -> Lanes:
    """mbarrier.try_wait (9.7.13.15.16): wait until the phase is complete; the predicate, bool (32,), is then true."""
    return _asked(self, "mbarrier.try_wait", address, parity, state)


def mbarrier_wait(self: Warp, address: npt.ArrayLike, parity: Any = None, *, state: Any = None) -> None:
    """mbarrier.try_wait in a loop (9.7.13.15.16): wait until the phase with this parity is complete.

    Instead of the parity you can pass the `state` that an arrival in the phase returned.
    """
    _asked(self, "mbarrier.try_wait", address, parity, state)


def _asked(self: Warp, name: str, address: npt.ArrayLike, parity: Any, state: Any) -> Lanes:
    if (parity is None) == (state is None):
        got = f"{briefly(parity)} and {briefly(state)}"
        raise OperandError(f"{name} takes either a parity or a state; got {got} (PTX ISA 9.7.13.15.16)")
    if state is None:
        done = self.core.execute(form(name, "parity.shared::cta.b64"), address, parity)
    else:
        done = self.core.execute(form(name, "shared::cta.b64"), address, state)
    return done  # type: ignore[no-any-return]

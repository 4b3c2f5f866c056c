"""Threads that share tiles: each tile is computed once, whoever comes late or fails."""

import threading

import numpy as np
import pytest

pytest.importorskip("numba")

from tcemu.kernels.batch import sharing
from tcemu.kernels.host import threads
from tcemu.kernels.host.compiling import njit


@njit(nogil=True)
def count_tiles(numbers, counts, limit, wait):
    """Count the tiles that this thread takes, seven at a time; those from `limit` on are left out."""
    shares = np.uint64(numbers.ctypes.data)
    part = sharing.take(shares, 7)
    while part < counts.size:
        stop = min(part + 7, counts.size)
        for tile in range(part, stop):
            if tile >= limit:
                sharing.leave(shares, tile)
                break
            counts[tile] += 1
        sharing.finish_some(shares, stop - part)
        part = sharing.take(shares, 7)
    return sharing.wait_for_all(shares, counts.size) if wait else 0


def shared(count, limit, monkeypatch, fails=lambda: None):
    """How often each tile was computed by three threads, and the first that was left out."""
    monkeypatch.setattr(threads, "cores", lambda: 3)
    monkeypatch.setattr(sharing, "cores", lambda: 3)
    counts = np.zeros(count, np.int64)

    def compute(numbers, wait):
        if not wait:
            fails()
        count_tiles(numbers, counts, limit, wait)

    return counts, sharing.share_tiles(count, compute)


@pytest.mark.parametrize("count", [1, sharing.SHARED, sharing.SHARED + 1, 50_000])
def test_each_tile_is_computed_once(count, monkeypatch):
    counts, first = shared(count, count, monkeypatch)
    assert (counts == 1).all()
    assert first == count


def test_the_first_tile_that_is_left_out_is_known(monkeypatch):
    counts, first = shared(30_000, 12_345, monkeypatch)
    assert first == 12_345
    assert (counts[:12_345] == 1).all()


def test_a_thread_that_fails_delays_nothing(monkeypatch):
    counts, first = shared(50_000, 50_000, monkeypatch, fails=[].pop)
    assert (counts == 1).all()
    assert first == 50_000


def test_threads_that_come_late_find_nothing_left(monkeypatch):
    late, seen = threading.Event(), []

    def wait():
        late.wait(20)
        seen.append(None)

    counts, _ = shared(50_000, 50_000, monkeypatch, fails=wait)
    assert (counts == 1).all()
    assert not seen
    late.set()

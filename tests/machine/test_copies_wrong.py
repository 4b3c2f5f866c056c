"""Copies and mbarriers used wrongly: deadlocks that are explained, faults, and what no GPU would do."""

import numpy as np
import pytest

from tcemu.errors import Deadlock, IllegalInstruction, LaunchError, MbarrierMisused, MemoryFault, OperandError
from tcemu.machine import events
from tcemu.machine.launch import launch
from tcemu.machine.tensor_map import TensorMap


def one_lane(warp):
    return warp.only(warp.elect_sync())


# ------------------------------------------------------------------------------------------------ deadlocks


def told(kernel, block=32, args=(), shared=1024):
    heard = []
    with pytest.raises(Deadlock) as error:
        launch(kernel, block=block, args=args, shared=shared, observers=[heard.append])
    (stuck,) = [event for event in heard if isinstance(event, events.Stuck)]
    return str(error.value), stuck.waiting


def test_more_bytes_expected_than_come():
    def kernel(warp, source):
        with one_lane(warp):
            warp.mbarrier_init(512, 1)
            warp.mbarrier_arrive_expect_tx(512, 512)
            warp.cp_async_bulk_shared_global(0, int(source), 256, 512)
        warp.mbarrier_wait(512, 0)

    words, (waiting,) = told(kernel, args=(np.zeros(512, np.uint8),))
    assert "block (0, 0, 0) cannot continue" in words
    assert "the mbarrier at 512, whose phase 0 waits for 0 arrivals and 256 bytes" in words
    assert (waiting.kind, waiting.key) == ("mbarrier", 512)
    assert waiting.by.site.file == __file__


def test_a_wait_with_the_wrong_parity():
    """On a new mbarrier parity 1 is complete, and after one phase parity 1 is not."""

    def kernel(warp):
        with one_lane(warp):
            warp.mbarrier_init(0, 32)
        warp.mbarrier_wait(0, 1)
        warp.mbarrier_arrive(0)
        warp.mbarrier_wait(0, 0)
        warp.mbarrier_wait(0, 1)

    words, (waiting,) = told(kernel)
    assert "whose phase 1 waits for 32 arrivals and 0 bytes" in words
    assert waiting.by.site.line == kernel.__code__.co_firstlineno + 6


def test_consumers_that_never_say_empty():
    def kernel(warp):
        if warp.warpid == 0:
            with one_lane(warp):
                warp.mbarrier_init(0, 1)
                warp.mbarrier_init(8, 1)
        warp.bar_sync()
        for turn in range(3):
            if warp.warpid == 0:
                with one_lane(warp):
                    warp.mbarrier_wait(8, (turn + 1) % 2)
                    warp.mbarrier_arrive(0)
            else:
                warp.mbarrier_wait(0, turn % 2)

    words, waiting = told(kernel, block=64)
    assert [each.key for each in waiting] == [8, 0]
    assert "the mbarrier at 8, whose phase 0 waits for 1 arrival and 0 bytes" in words
    assert "the mbarrier at 0, whose phase 1 waits for 1 arrival and 0 bytes" in words


def test_a_loop_that_only_looks():
    def kernel(warp):
        with one_lane(warp):
            warp.mbarrier_init(0, 2)
            warp.mbarrier_arrive(0)
        while not warp.mbarrier_test_wait(0, 0):
            pass

    words, _ = told(kernel)
    assert "the mbarrier at 0, whose phase 0 waits for 1 arrival and 0 bytes" in words


# ------------------------------------------------------------------------------------------------ mbarriers


def _never(warp):
    warp.mbarrier_arrive(0)


def _overwritten(warp):
    with one_lane(warp):
        warp.mbarrier_init(0, 32)
        warp.st_shared(4, 0)
    warp.mbarrier_arrive(0)


def _gone(warp):
    with one_lane(warp):
        warp.mbarrier_init(0, 32)
        warp.mbarrier_inval(0)
    warp.mbarrier_wait(0, 0)


def _everybody(warp):
    with one_lane(warp):
        warp.mbarrier_init(0, 1)
    warp.mbarrier_arrive(0)


def _unaligned(warp):
    with one_lane(warp):
        warp.mbarrier_init(4, 1)


def _outside(warp):
    with one_lane(warp):
        warp.mbarrier_init(1024, 1)


@pytest.mark.parametrize(
    ("kernel", "error", "words"),
    [
        (_never, OperandError, "which mbarrier.init did not write"),
        (_overwritten, OperandError, "do not store to the bytes before mbarrier.inval"),
        (_gone, OperandError, "which mbarrier.init did not write"),
        (_everybody, OperandError, "32 arrivals at an mbarrier that has 1 pending"),
        (_unaligned, MemoryFault, "not a multiple of 8"),
        (_outside, MemoryFault, "lies outside shared memory, which has 1024 bytes"),
    ],
)
def test_mbarriers_used_wrongly(kernel, error, words):
    with pytest.raises(error) as raised:
        launch(kernel, shared=1024)
    assert words in str(raised.value)


# ------------------------------------------------------------------------------------------------ copies that cannot be


def bad(do, shared=4096, target="sm_90a"):
    """Run `do(warp, source)` in one lane of a warp, with an mbarrier at 0 and a tensor of f16, 32 x 64."""

    def kernel(warp, source):
        with one_lane(warp):
            warp.mbarrier_init(0, 1)
            do(warp, source)

    launch(kernel, args=(np.zeros((32, 64), np.float16),), shared=shared, target=target)


def box(source, *, swizzle=0):
    return TensorMap.of(source, (64, 16), swizzle=swizzle)


#: What is done, the error, words of its message.
BAD = {
    "destination": (lambda w, s: w.cp_async(8, int(s), 16), MemoryFault, "not a multiple of 16"),
    "source": (lambda w, s: w.cp_async(16, int(s) + 2, 4), MemoryFault, "not a multiple of 4"),
    "size": (lambda w, s: w.cp_async(16, int(s), 12), OperandError, "copies 4, 8 or 16 bytes"),
    "size of cg": (lambda w, s: w.cp_async(16, int(s), 8, cache="cg"), OperandError, "with .cg only 16"),
    "behind the array": (lambda w, s: w.cp_async(16, int(s) + 4096, 16), MemoryFault, "0 bytes after the end of arg"),
    "group": (lambda w, _: w.cp_async_wait_group(-1), OperandError, "an immediate, an integer of at least 0; got -1"),
    "bulk size": (lambda w, s: w.cp_async_bulk_shared_global(16, int(s), 24, 0), MemoryFault, "16 bytes; got 24"),
    "bulk destination": (lambda w, s: w.cp_async_bulk_shared_global(8, int(s), 16, 0), MemoryFault, "multiple of 16"),
    "bulk too long": (lambda w, s: w.cp_async_bulk_shared_global(16, int(s), 4112, 0), MemoryFault, "lies outside"),
    "bulk out of": (lambda w, s: w.cp_async_bulk_global_shared(int(s), 4080, 32), MemoryFault, "outside shared memory"),
    "no mbarrier": (lambda w, s: w.cp_async_bulk_shared_global(16, int(s), 16, 16), OperandError, "did not write"),
    "box at 64": (lambda w, s: tensor(w, 64, box(s), (0, 0)), MemoryFault, "at a multiple of 128; got 64"),
    "box too far": (lambda w, s: tensor(w, 3072, box(s), (0, 0)), MemoryFault, "lies outside shared memory"),
    "coordinates": (lambda w, s: tensor(w, 128, box(s), (0, 0, 0)), OperandError, "2 dimensions needs 2 coord"),
    "no map": (lambda w, s: tensor(w, 128, int(s), (0, 0)), OperandError, "Pass a TensorMap, or the address of one"),
    "store before 0": (
        lambda w, s: w.cp_async_bulk_tensor_global_shared(box(s), (-8, 0), 128),
        OperandError,
        "cannot have negative coordinates",
    ),
    "map beyond the array": (
        lambda w, s: tensor(w, 128, TensorMap(int(s), "f16", (64, 33), (128,), (64, 16)), (0, 32)),
        MemoryFault,
        "0 bytes after the end of argument 0",
    ),
    "swizzle": (lambda _, s: box(s, swizzle=64), OperandError, "Copy 2 boxes side by side"),
}


def tensor(warp, to, made, at):
    warp.cp_async_bulk_tensor_shared_global(to, made, at, 0)


@pytest.mark.parametrize(("do", "error", "words"), BAD.values(), ids=BAD)
def test_copies_that_no_gpu_makes(do, error, words):
    with pytest.raises(error) as raised:
        bad(do)
    assert words in str(raised.value)
    assert __file__ in str(raised.value) or error is not MemoryFault


#: What is done, and a target that has no such instruction.
NEWER = {
    "cp.async": (lambda w, s: w.cp_async(0, int(s), 16), "sm_75"),
    "bulk": (lambda w, s: w.cp_async_bulk_shared_global(0, int(s), 16, 0), "sm_80"),
    "tensor": (lambda w, s: tensor(w, 128, box(s), (0, 0)), "sm_89"),
    "expect_tx": (lambda w, _: w.mbarrier_expect_tx(0, 16), "sm_80"),
}


@pytest.mark.parametrize(("do", "target"), NEWER.values(), ids=NEWER)
def test_older_chips_do_not_have_them(do, target):
    def kernel(warp, source):
        do(warp, source)

    with pytest.raises(IllegalInstruction, match=f"does not exist on {target}"):
        launch(kernel, args=(np.zeros((32, 64), np.float16),), shared=4096, target=target)


@pytest.mark.parametrize("policy", ["late", "early", "random"])
def test_more_bytes_land_than_an_mbarrier_counts(policy):
    """PTX ISA 9.1, 9.7.13.15.2: tx-count is at least -(2^20 - 1). Eight copies of 2^17 bytes are one too many."""
    most, heard = 1 << 17, []

    def kernel(warp, source):
        with one_lane(warp):
            warp.mbarrier_init(most, 1)
            for _ in range(8):
                warp.cp_async_bulk_shared_global(0, int(source), most, most)
            warp.mbarrier_wait(most, 0)

    with pytest.raises(MbarrierMisused) as error:
        launch(kernel, args=(np.zeros(most, np.uint8),), shared=most + 8, policy=policy, observers=[heard.append])
    line = kernel.__code__.co_firstlineno + 4
    told = str(error.value)
    assert "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes completes 131072 bytes on the" in told
    assert "mbarrier at 131072: the tx-count would be -1048576, but its limit is 1048575 bytes" in told
    assert f"(warp 0 of block 0 at {__file__}:{line})" in told
    (fault,) = [event for event in heard if isinstance(event, events.Faulted)]
    assert (fault.kind, fault.address, fault.by.site.line) == ("bytes", most, line)


def test_errors_of_copies_are_launch_errors():
    """The caller of a launch can catch all of its errors as one class."""
    assert issubclass(MemoryFault, LaunchError)
    assert issubclass(Deadlock, LaunchError)

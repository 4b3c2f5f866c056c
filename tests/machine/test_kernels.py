"""What kernels do that no kernel should: raise, catch, yield, keep their warp, launch kernels."""

import threading
import traceback
from contextlib import suppress

import numpy as np
import pytest
from greenlet import greenlet

import tcemu
from tcemu.errors import Deadlock, Interrupted, LaunchError, MemoryFault, OperandError, TcemuError
from tcemu.machine import events
from tcemu.machine.launch import launch

SEEDS = (0, 1, 2, 3, 17)
every_seed = pytest.mark.parametrize("seed", SEEDS)


# ------------------------------------------------------------------------------------------------ exceptions


@every_seed
def test_an_error_of_the_kernel_comes_out_with_its_traceback(seed):
    out = np.zeros(4, np.int32)
    left = []

    def helper(number):
        raise ValueError(f"no {number}")

    def kernel(warp, out):
        try:
            warp.st_global(out.at(warp.warpid), 1)
            warp.bar_sync()
            if warp.warpid == 2:
                helper(warp.warpid)
            warp.bar_sync()
        finally:
            left.append(warp.warpid)

    with pytest.raises(ValueError, match="no 2") as caught:
        launch(kernel, 2, 128, (out,), seed=seed)
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names[-2:] == ["kernel", "helper"]
    assert set(left) == {0, 1, 2, 3}  # the other warps have left too
    assert not out.any()


def test_an_interrupt_ends_the_launch():
    left = []

    def kernel(warp):
        with suppress(Exception):
            try:
                if warp.warpid == 1:
                    raise KeyboardInterrupt
                warp.bar_sync()
            finally:
                left.append(warp.warpid)

    with pytest.raises(KeyboardInterrupt):
        launch(kernel, 1, 96)
    assert left == [1, 0]  # 2 never began


def for_ever(warp, out, rounds):
    """The first three warps store in a loop, until one of them is interrupted."""
    if warp.warpid == 3:
        warp.bar_sync()
    while warp.warpid < 3:
        warp.st_global(out.at(warp.laneid % 8), 1, order="relaxed")
        rounds.append(warp.warpid)
        if len(rounds) == 2000:
            raise KeyboardInterrupt


@pytest.mark.parametrize("grid", [1, 3])
def test_an_interrupt_says_where_each_warp_was(grid):
    out, rounds = np.zeros(8, np.uint32), []
    with pytest.raises(Interrupted) as told:
        tcemu.launch(for_ever, grid, 160, (out, rounds), resident=2, seed=grid - 1, sanitizer="collect")
    lines = str(told.value).splitlines()
    many = "2 blocks, (1, 0, 0) among them, ran:" if grid > 1 else "block (0, 0, 0) ran:"  # seed 2 begins with 1
    done = f"0 of {grid} block{'s' * (grid > 1)} had ended"
    assert lines[:2] == [f"the launch was interrupted; {done}, and the arrays are unchanged.", many]
    line = for_ever.__code__.co_firstlineno
    assert lines[2].startswith("  warps 0 to 2 came to ")
    assert lines[2].endswith(f"test_kernels.py:{line + 5}")
    assert lines[3].startswith("  warp 3 waits since ")
    assert lines[3].endswith("for barrier 0, where 32 of 160 threads have arrived (warp 3)")
    assert lines[4:] == ["  warp 4 reached the end of the kernel"]
    assert not out.any()
    assert told.value.launch.counts["st.relaxed.gpu.global.b32"] == 2000
    assert told.value.launch.reports == []


def test_a_launch_after_an_interrupt_is_like_any_other():
    out = np.zeros(8, np.uint32)
    for seeds in (None, 3):
        with pytest.raises(KeyboardInterrupt):
            tcemu.launch(for_ever, 1, 160, (out, []), seeds=seeds)
        assert not out.any()
        tcemu.launch(lambda warp, out: warp.st_global(out.at(warp.laneid % 8), 7, order="relaxed"), args=(out,))
        assert (out == 7).all()
        out[:] = 0


def test_an_interrupt_under_the_second_seed_leaves_the_arrays_as_they_were():
    out, launches = np.zeros(8, np.uint32), []

    def kernel(warp, out):
        warp.st_global(out.at(warp.laneid % 8), 7, order="relaxed")
        launches.append(warp)
        if len(launches) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as told:
        tcemu.launch(kernel, args=(out,), seeds=3)
    assert told.value.__notes__ == ["It occurred after 1 of 3 seeds; to reproduce it: seed=1"]
    assert not out.any()


def test_the_last_words_of_other_warps_hide_no_error():
    """Operations in a kernel's finally are not executed once the launch is over; errors raised there are ignored."""
    went_on = []

    def kernel(warp):
        try:
            if warp.warpid == 2:
                raise ZeroDivisionError
            warp.bar_sync()
        finally:
            if warp.warpid == 0:
                warp.st_shared(0, 1)
                went_on.append(0)
            raise RuntimeError(str(warp.warpid)) if warp.warpid == 1 else ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        launch(kernel, 1, 96, shared=16)
    assert not went_on


def fault(warp):
    warp.ld_shared(3)


def quarrel(warp):
    warp.bar_sync(1, 32 + 32 * warp.warpid)
    warp.bar_sync(1, 96 - 32 * warp.warpid)


def no_warpgroup(warp):
    warp.wgmma_fence()


def broken_rule(_):
    raise LaunchError("an observer")


@every_seed
def test_a_kernel_does_not_survive_what_ends_the_launch_by_catching_it(row, seed):
    reached, heard = [], []

    def observer(event):
        if isinstance(event, events.Issued) and event.opcode == "elect.sync":
            broken_rule(event)
        heard.append(event.name)

    def surviving(does, after):
        def kernel(warp):
            if warp.warpid == 0:
                with suppress(TcemuError):
                    does(warp)
                after(warp)
            else:
                warp.bar_sync(7, 64)

        return kernel

    def stores(warp):
        warp.st_shared(0, 1)
        reached.append("store")

    for does, kind in (
        (fault, MemoryFault), (no_warpgroup, LaunchError), (lambda warp: warp.elect_sync(), LaunchError),
        (lambda warp: warp.setmaxnreg("dec", 25), OperandError),
    ):  # fmt: skip
        for after in (lambda _: None, stores):
            with row(f"{does} {after}"), pytest.raises(kind):
                launch(surviving(does, after), 1, 96, shared=16, seed=seed, observers=(observer,))
    assert not reached
    assert "BlockEnded" not in heard


def test_a_wrong_operand_may_be_caught():
    """Nothing happened: the kernel may continue."""
    out = np.zeros(32, np.int32)

    def kernel(warp, out):
        with pytest.raises(OperandError):
            warp.st_global(out.at(warp.laneid), 1.5)
        warp.st_global(out.at(warp.laneid), 2)

    launch(kernel, 1, 32, (out,))
    assert out.tolist() == [2] * 32


def test_a_kernel_that_catches_everything_still_ends():
    def kernel(warp):
        while True:
            with suppress(Exception):
                warp.bar_sync(warp.warpid, 64)

    with pytest.raises(Deadlock):
        launch(kernel, 1, 64)


def test_an_error_of_an_observer_comes_out():
    def observer(event):
        raise KeyError(event.name)

    with pytest.raises(KeyError, match="BlockStarted"):
        launch(lambda _: None, observers=(observer,))


# ------------------------------------------------------------------------------------------------ what a kernel is


def test_a_kernel_may_return_anywhere_and_anything():
    out = np.zeros(4, np.int32)

    def kernel(warp, out):
        for number in range(9):
            with warp.only(warp.laneid == number):
                warp.st_global(out.at(warp.warpid), number)
                if number == warp.warpid:
                    return number, warp
        return None

    result = launch(kernel, 1, 128, (out,))
    assert out.tolist() == [0, 1, 2, 3]
    assert result.counts == {"st.global.b32": 10}


def test_what_would_not_run_is_no_kernel(row):
    def generator(warp):
        warp.bar_sync()
        yield

    async def coroutine(warp):
        warp.bar_sync()

    async def both(warp):
        yield warp.bar_sync()

    for kernel in (generator, coroutine, both):
        with row(kernel.__name__), pytest.raises(LaunchError, match=f"{kernel.__name__} has a yield or is async") as no:
            launch(kernel)
        assert no.value.launch.blocks == 0
    for kernel in (None, 5, "kernel", generator(None)):
        with row(repr(kernel)), pytest.raises(LaunchError, match="a kernel must be a function that takes a warp"):
            launch(kernel)
    with pytest.raises(TypeError, match="positional argument"):  # Python says it well
        launch(lambda _, __, ___: None, args=(1,))


def test_kernels_that_are_not_functions():
    class Kernel:
        def __init__(self):
            self.seen = []

        def __call__(self, warp):
            self.seen.append(warp.warpid)

    kernel = Kernel()
    assert repr(launch(kernel, 1, 64)).startswith("<launch of Kernel on sm_90a: 1 block of (64, 1, 1), 0 instructions")
    launch(kernel.seen.append)
    assert kernel.seen[:2] == [0, 1]


# ------------------------------------------------------------------------------------------------ a warp's life

#: Something of every kind that a warp does.
DEEDS = {
    "ld": lambda warp: warp.ld_shared(0),
    "vote": lambda warp: warp.vote_sync("all", True),
    "bar": lambda warp: warp.bar_sync(),
    "wgmma": lambda warp: warp.wgmma_fence(),
    "copy": lambda warp: warp.cp_async_wait_all(),
    "mbarrier": lambda warp: warp.mbarrier_wait(0, 0),
    "run": lambda warp: warp.run(
        "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64", *[np.zeros((32, n), np.uint64) for n in (1, 1, 2)]
    ),
    "run a bar": lambda warp: warp.run("bar.warp.sync"),
}


def test_a_warp_is_not_used_after_its_launch(row):
    kept, heard = [], []
    launch(kept.append, 1, 64, shared=64, observers=(heard.append,))
    count = len(heard)
    for name, deed in DEEDS.items():
        with (
            row(name),
            pytest.raises(LaunchError, match=r"warp 1 of block 0 is no longer running: .* only while that kernel runs"),
        ):
            deed(kept[1])
    assert repr(kept[1]) == "<warp 1 of block (0, 0, 0): 0 active lanes>"
    assert kept[1].registers(2, fill=5)[3].tolist() == [5, 5]  # a value like any other
    assert len(heard) == count


def test_registers_may_be_read_after_the_launch():
    kept, heard = [], []

    def kernel(warp):
        kept.append(warp.registers(2, fill=5))
        kept.append(warp.registers(1))

    launch(kernel, observers=(heard.append,))
    count = len(heard)
    assert (np.asarray(kept[0]) == 5).all()
    assert (kept[0] + kept[1]).shape == (32, 2)
    kept[0][...] = 6
    assert len(heard) == count


def test_a_warp_is_used_by_its_own_kernel(row):
    for name, deed in DEEDS.items():
        warps = []

        def kernel(warp, warps=warps, deed=deed):
            warps.append(warp)
            warp.bar_sync()
            deed(warps[1 - warp.warpid] if len(warps) == 2 else warp)

        with (
            row(name),
            pytest.raises(LaunchError, match=r"warp \d of block 0 is (no longer running|not the one that runs here)"),
        ):
            launch(kernel, 1, 64, shared=64)


def test_a_warp_is_used_in_its_own_thread_and_not_in_other_greenlets():
    said = []

    def attempt(warp):
        try:
            warp.ld_shared(0)
        except LaunchError as error:
            said.append(str(error))

    def kernel(warp):
        thread = threading.Thread(target=attempt, args=(warp,))
        thread.start()
        thread.join()
        greenlet(attempt).switch(warp)
        warp.ld_shared(0)

    launch(kernel, shared=64)
    assert [text.partition(":")[0] for text in said] == ["warp 0 of block 0 is not the one that runs here"] * 2


# ------------------------------------------------------------------------------------------------ launches together


def doubled(warp, p):
    at = p.at(warp.threads)
    warp.st_shared(4 * warp.threads, warp.ld_global(at))
    warp.bar_sync()
    warp.st_global(at, 2 * warp.ld_shared(4 * warp.threads)[:, 0])


@every_seed
def test_a_kernel_may_launch_kernels(seed):
    out = np.zeros(64, np.int32)
    failures = []

    def outer(warp, out):
        mine = np.arange(64, dtype=np.int32) + warp.warpid
        launch(doubled, 1, 64, (mine,), shared=256, seed=seed)
        try:
            launch(lambda inner: inner.bar_sync(inner.warpid, 64), 1, 64)
        except Deadlock as error:
            failures.append(error)
        with pytest.raises(LaunchError, match=r"warp \d of block 0 is not the one that runs here"):
            launch(lambda _: warp.ld_shared(0), 1, 32, shared=64)
        warp.bar_sync()
        warp.st_global(out.at(warp.threads), mine[:32] if warp.warpid == 0 else mine[32:])

    launch(outer, 1, 64, (out,), seed=seed, shared=64)
    assert out.tolist() == [2 * i for i in range(32)] + [2 * (i + 1) for i in range(32, 64)]
    assert len(failures) == 2


def test_launches_from_several_threads():
    arrays = [np.arange(256, dtype=np.int32) + 1000 * n for n in range(8)]
    expected = [2**5 * array for array in arrays]
    errors = []

    def work(number):
        try:
            for _ in range(5):
                launch(doubled, 1, 256, (arrays[number],), shared=1024, seed=number)
        except BaseException as error:  # noqa: BLE001 - of a thread, for the assertion below
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert all(np.array_equal(*pair) for pair in zip(arrays, expected, strict=True))

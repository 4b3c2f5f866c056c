"""Special registers under PTX's names, and what a warp says of CUDA's names and habits."""

import operator
import re

import numpy as np
import pytest

from tcemu.errors import OperandError, TcemuError, UnknownName
from tcemu.machine.launch import launch
from tcemu.machine.methods.other_names import OTHERS

LANES = np.arange(32)


def one(body, *args, block=32, **options):
    """What `body` answers in warp 0."""
    answers = {}

    def kernel(warp, *given):
        answers.setdefault(warp.warpid, body(warp, *given))

    launch(kernel, 1, block, args, shared=4096, **options)
    return answers[0]


def test_every_special_register_of_every_warp():
    """PTX ISA 9.1, 10: %ctaid, %nctaid, %tid, %ntid, %laneid, %warpid, %nwarpid, and those of clusters."""
    seen = []

    def kernel(warp):
        seen.append((warp.ctaid, warp.warpid, [axis.tolist() for axis in warp.tid]))
        assert (warp.nctaid, warp.ntid, warp.nwarpid, warp.target) == ((2, 2, 1), (10, 3, 3), 3, "sm_90a")
        assert (warp.cluster_ctarank, warp.cluster_nctarank, warp.warpgroup) == (0, 1, 0)
        assert warp.laneid.tolist() == list(range(32))
        assert warp.threads.tolist() == list(range(32 * warp.warpid, 32 * warp.warpid + 32))

    launch(kernel, (2, 2), (10, 3, 3))
    expected = []
    for y in range(2):
        for x in range(2):
            for warp in range(3):
                threads = range(32 * warp, 32 * warp + 32)
                tid = [[t % 10 for t in threads], [t // 10 % 3 for t in threads], [t // 30 for t in threads]]
                expected.append(((x, y, 0), warp, tid))
    assert seen == expected


def test_masks_of_lanes(row):
    """PTX ISA 9.1, 10: bits of the lanes that are equal, less, less or equal, greater, greater or equal."""
    found = one(lambda warp: {name: getattr(warp, f"lanemask_{name}") for name in ("eq", "lt", "le", "gt", "ge")})
    for name, mask in found.items():
        expected = [sum(1 << other for other in range(32) if getattr(operator, name)(other, lane)) for lane in range(32)]
        with row(name):
            assert mask.dtype == np.uint32
            assert mask.tolist() == expected
            with pytest.raises(ValueError, match="read-only"):
                mask[0] = 0


def test_the_memory_of_a_block(row):
    """Shared memory is allocated in units of 128 bytes, and 1024 bytes of each block are the system's."""
    for shared, total in ((0, 0), (1, 128), (128, 128), (4097, 4224)):
        seen = []
        launch(lambda w, s=seen: s.append((w.dynamic_smem_size, w.total_smem_size, w.aggr_smem_size)), shared=shared)
        with row(str(shared)):
            assert seen == [(shared, total, total + 1024)]


def test_a_launch_of_its_own():
    assert one(lambda warp: (warp.gridid, warp.current_graph_exec)) == (1, 0)


@pytest.mark.parametrize("seed", range(3))
def test_multiprocessors(seed):
    """%smid is below %nsmid, and the same again under the same seed."""
    seen = [[], []]
    for each in seen:
        launch(lambda warp, e=each: e.append((warp.ctaid[0], warp.smid, warp.nsmid)), 7, resident=3, seed=seed)
    assert seen[0] == seen[1]
    assert {nsmid for _, _, nsmid in seen[0]} == {3}
    assert {smid for _, smid, _ in seen[0]} == {0, 1, 2}


@pytest.mark.parametrize("name", ["clock", "clock64", "globaltimer", "globaltimer_lo"])
@pytest.mark.parametrize("seed", range(2))
def test_clocks_grow_from_reading_to_reading_in_all_warps(name, seed):
    seen = []

    def kernel(warp):
        for _ in range(3):
            seen.append(getattr(warp, name))
            warp.bar_sync()
        start = warp.clock64
        while warp.clock64 - start < 100:  # a delay ends
            pass
        assert warp.clock_hi == warp.globaltimer_hi == 0

    launch(kernel, 2, 96, seed=seed)
    assert len(set(seen)) == len(seen) == 18
    assert seen == sorted(seen)


def test_names_of_cuda_and_of_before_say_what_to_write(row):
    def body(warp):
        for name, instead in OTHERS.items():
            with row(name), pytest.raises(UnknownName, match=re.escape(f"a warp has no {name} here; write {instead}")):
                getattr(warp, name)
        for name, says in (
            ("lane_id", "Did you mean 'laneid'?"),
            ("ld_sharde", "Did you mean 'ld_shared'?"),
            ("mbarrier_int", "Did you mean 'mbarrier_init'?"),
            ("zzz", "a warp has no zzz."),
        ):
            with row(name), pytest.raises(UnknownName, match=re.escape(says)):
                getattr(warp, name)
        with row("call"), pytest.raises(UnknownName, match=r"write warp\.bar_sync\(\)"):
            warp.__syncthreads()
        assert not hasattr(warp, "threadIdx")
        assert issubclass(UnknownName, AttributeError)

    one(body)


def test_what_stands_beside_those_names_exists(row):
    """Each `warp.NAME` that an error proposes is one."""

    def body(warp):
        for name, instead in OTHERS.items():
            for word in re.findall(r"warp\.(\w+)", instead):
                with row(f"{name} {word}"):
                    assert hasattr(warp, word)

    one(body)


def test_a_condition_of_lanes_is_none_of_python(row):
    """What a learner writes who thinks of one thread."""

    def body(warp, p):
        registers = warp.ld_global(p.at(warp.laneid))
        for name, condition in (
            ("threads", lambda: warp.threads < 16),
            ("laneid", lambda: warp.laneid == 0),
            ("tid", lambda: warp.tid[0] == 3),
            ("not", lambda: not warp.laneid),
            ("elect", warp.elect_sync),
            ("active", lambda: warp.active),
            ("registers", lambda: registers),
            ("try_wait", lambda: warp.run("mbarrier.try_wait.parity.shared::cta.b64", 0, 1)),
        ):
            with row(name), pytest.raises(OperandError, match=r"may differ from lane to lane: write `with warp\.only"):
                bool(condition())
        return warp.vote_sync("any", warp.threads < 16)

    def kernel(warp, p):
        warp.mbarrier_init(0, 1)
        return body(warp, p)

    assert one(kernel, np.zeros(32, np.int32)) is True


def test_an_element_of_lanes_is_a_number():
    def body(warp):
        assert bool(warp.laneid[3])
        assert not warp.laneid[:1]
        assert int(warp.threads[31]) == 31
        return [lane for lane in LANES if warp.laneid[lane] < 2]

    assert one(body) == [0, 1]


def test_a_pointer_is_neither_read_nor_written_like_an_array(row):
    def body(warp, p):
        with row("write"), pytest.raises(OperandError, match=r"warp\.st_global\(pointer\.at\(index\), value, 'b32'\)"):
            p[3] = 1
        with row("read"), pytest.raises(OperandError, match=r"warp\.ld_global\(pointer\.at\(index\), 'b32'\)"):
            p[warp.laneid]
        with row("add"), pytest.raises(OperandError, match="PTX ISA 9"):
            p[0] += 1

    one(body, np.zeros(32, np.int32))


def test_errors_of_names_are_errors_of_tcemu():
    with pytest.raises(TcemuError) as caught:
        one(lambda warp: warp.blockIdx)
    assert "warp.ctaid" in str(caught.value)

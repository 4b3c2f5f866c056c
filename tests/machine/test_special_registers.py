"""Special registers under PTX's names, and a warp's errors about CUDA's names and habits."""

import operator
import re

import numpy as np
import pytest

from tcemu.errors import IllegalInstruction, OperandError, TcemuError, UnknownName
from tcemu.machine.launch import launch
from tcemu.machine.other_names import OTHERS

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
        compare = getattr(operator, name)
        expected = [sum(1 << other for other in range(32) if compare(other, lane)) for lane in range(32)]
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


def test_names_of_cuda_say_what_to_write(row):
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


#: Code in the text of a row: what begins with one of these words, with its attributes and arguments.
CODE = re.compile(r"(?:\d+ - )?(?:\(mask & -mask\)|\b(?:warp|np|mask|int))(?:\.\w+)*(?:\((?:[^()]|\([^()]*\))*\))?")


def test_the_code_beside_those_names_runs(row):
    """Each expression that a row proposes is one, with the operands that all rows share."""

    def operands(warp, pointer, code):
        near = "shared" in code or "mapa" in code or "generic" in code
        fragment = np.zeros((32, 8), np.uint32)
        return {
            "warp": warp, "np": np, "address": 0 if near else int(pointer), "pointer": int(pointer),
            "counter": int(pointer), "source": int(pointer), "destination": 1024, "size": 16, "mbarrier": 2048,
            "count": 32, "parity": 0, "pending": 0, "duration": 10, "value": 3, "compare": 0, "values": warp.laneid,
            "predicate": warp.laneid < 4, "lane": 0, "delta": 1, "mask": 6, "rank": 0,
            "a": fragment, "b": fragment, "c": fragment,
        }  # fmt: skip

    def kernel(warp, pointer, codes):
        with warp.only(warp.laneid == 0):
            warp.mbarrier_init(2048, 32)
        for code in codes:
            with warp.only((warp.laneid == 0) | ("_init" not in code)):
                eval(code, operands(warp, pointer, code))  # noqa: S307 - the rows are the package's

    for name, instead in OTHERS.items():
        codes = [code for code in CODE.findall(instead) if "." in code or "(" in code]
        with row(name):
            assert codes or name in ("warpSize", "WARP_SZ", "__shared__", "printf", "__trap", "__brkpt")
            launch(lambda warp, p, c=codes: kernel(warp, p, c), 1, 32, (np.zeros(64, np.uint32),), shared=8192)


def test_what_a_bit_of_an_integer_is_called(row):
    """__ffs, __clz and __brev of CUDA, beside numbers worked out by hand."""
    for name, mask, expected in (
        ("__popc", 0b1011, 3), ("__ffs", 0b1000, 4), ("__ffs", 0, 0), ("__clz", 1, 31), ("__clz", 0, 32),
        ("__clzll", 1 << 40, 23), ("__brev", 1, 1 << 31), ("__brev", 0xF0000000, 0xF),
    ):  # fmt: skip
        with row(f"{name} {mask}"):
            assert eval(OTHERS[name].split(",")[0] if name != "__brev" else OTHERS[name], {"mask": mask}) == expected  # noqa: S307


def test_cpp_in_place_of_an_opcode_says_what_to_write(row):
    def body(warp):
        for text, instead in (
            ("__syncthreads()", "warp.bar_sync()"),
            ("cuda::barrier<cuda::thread_scope_block>", "warp.mbarrier_init("),
            ("wmma::load_matrix_sync(a, p, 16)", "tcemu.wmma.load_matrix_sync"),
            ("cluster.map_shared_rank(p, 1)", "warp.mapa(address, rank)"),
            ("cluster.sync();", "warp.barrier_cluster_arrive()"),
            ("__shfl_xor_sync", "warp.shfl_sync('bfly'"),
            ('asm volatile ("trap;");', "warp.run('redux.sync.add.u32', values): the opcode, then"),
        ):
            with row(text), pytest.raises(IllegalInstruction, match=re.escape(f"this is CUDA C++; write {instead}")):
                warp.run(text)
        for text, says in (("barrier.snc", "Nearest legal form: barrier"), ("nothing", "no instruction is called")):
            with row(text), pytest.raises(IllegalInstruction, match=says):
                warp.run(text)

    one(body)


def test_a_condition_of_lanes_is_none_of_python(row):
    """Code by a learner who thinks of a single thread."""

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

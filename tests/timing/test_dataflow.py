"""A timeline knows whose results the instructions of a kernel in PTX read: by hand, and as in Python."""

import numpy as np
import pytest

import tcemu
from tcemu import ptx
from tcemu.simt import dataflow
from tcemu.timing import Timeline

LDMATRIX = "ldmatrix.sync.aligned.m8n8.x4.shared.b16"
MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
REGISTERS = ".reg .pred %p<9>; .reg .b32 %r<40>; .reg .f32 %f<9>; .reg .b64 %rd<9>;"
#: %rd1: the thread's word of `data`; %r0: %tid.x.
BEGIN = "ld.param.u64 %rd0, [data]; mov.u32 %r0, %tid.x; mad.wide.u32 %rd1, %r0, 4, %rd0;"


def module(body, function=""):
    head = f".version 8.5\n.target sm_90a\n.address_size 64\n{function}\n.visible .entry k(.param .u64 data)"
    return ptx.Module(f"{head} {{ {REGISTERS} .shared .align 16 .b8 tile[1024]; {BEGIN}\n{body}\nret; }}", "test.ptx")


def timed(body, function=""):
    timeline = Timeline()
    module(body, function)["k"](1, 32, np.zeros(64, np.uint32), observers=[timeline], sanitizer="off")
    return timeline


def operations(timeline):
    """Of warp 0: the first word of each operation's opcode, and the numbers of those whose results it reads."""
    ops = timeline._recorder.launch.blocks[0].warps[0]
    return [(op.opcode.partition(".")[0], sorted(op.reads)) for op in ops]


def without_arithmetic(timeline):
    """The operations as `operations` gives them, but the kernel's own arithmetic stands for what it reads."""
    found, numbers, sources = [], {}, {}
    for number, (name, read) in enumerate(operations(timeline)):
        through = set().union(*(sources.get(each, {each}) for each in read))
        if name == "arithmetic":
            sources[number] = through
            continue
        numbers[number] = len(found)
        found.append((name, sorted(numbers[each] for each in through)))
    return found


def reads(body, function=""):
    return without_arithmetic(timed(body, function))


# ---------------------------------------------------------------------------------------------- straight code

CHAIN = f"""
    ld.global.u32 %r1, [%rd1];
    add.u32 %r2, %r1, 1;
    mov.u32 %r3, tile;
    mad.lo.u32 %r4, %r0, 4, %r3;
    st.shared.u32 [%r4], %r2;
    bar.sync 0;
    mad.lo.u32 %r5, %r0, 16, %r3;
    {LDMATRIX} {{%r6, %r7, %r8, %r9}}, [%r5];
    mov.f32 %f0, 0f00000000;
    {MMA} {{%f1, %f2, %f3, %f4}}, {{%r6, %r7, %r8, %r9}}, {{%r6, %r7}}, {{%f0, %f0, %f0, %f0}};
    {MMA} {{%f5, %f6, %f7, %f8}}, {{%r6, %r7, %r8, %r9}}, {{%r8, %r9}}, {{%f1, %f2, %f3, %f4}};
    st.global.f32 [%rd1], %f5;
"""


def chain(warp, data):
    words = warp.ld_global(data.at(0) + 4 * warp.laneid)
    words[:] = np.asarray(words) + 1
    warp.st_shared(4 * warp.laneid, words)
    warp.bar_sync()
    a = warp.run(LDMATRIX, 16 * warp.laneid)
    c = warp.run(MMA, a, a[:, :2], warp.registers(4, fill=0))
    c = warp.run(MMA, a, a[:, 2:], c)
    warp.st_global(data.at(0) + 4 * warp.laneid, c[:, :1])


def test_a_chain_of_loads_and_products():
    assert reads(CHAIN) == [
        ("ld", []), ("st", [0]), ("bar", []), ("ldmatrix", []), ("mma", [3]), ("mma", [3, 4]), ("st", [5]),
    ]  # fmt: skip


def test_a_kernel_in_python_reads_the_same_and_takes_as_long():
    ours, theirs = Timeline(), timed(CHAIN)
    tcemu.launch(chain, 1, 32, (np.zeros(64, np.uint32),), shared=1024, observers=[ours], sanitizer="off")
    assert without_arithmetic(ours) == without_arithmetic(theirs)
    assert theirs.cycles == pytest.approx(ours.cycles, rel=0.05)


def test_vectors_strong_loads_atomics_and_generic_addresses():
    assert reads("""
        ld.global.v2.u32 {%r1, %r2}, [%rd0];
        ld.relaxed.gpu.global.u32 %r3, [%rd1];
        atom.global.add.u32 %r4, [%rd1], %r2;
        cvta.global.u64 %rd2, %rd1;
        ld.u32 %r5, [%rd2];
        add.u32 %r6, %r3, %r4;
        st.u32 [%rd2], %r6;
        st.global.v2.u32 [%rd0], {%r5, %r1};
    """) == [("ld", []), ("ld", []), ("atom", [0]), ("ld", []), ("st", [1, 2]), ("st", [0, 3])]


def test_an_address_and_a_guard_are_read_too():
    assert reads("""
        ld.global.u32 %r1, [%rd1];
        mad.wide.u32 %rd2, %r1, 4, %rd1;
        ld.global.u32 %r2, [%rd2];
        setp.eq.u32 %p1, %r2, 0;
        @%p1 st.global.u32 [%rd1], 7;
    """) == [("ld", []), ("ld", [0]), ("st", [1])]


def test_what_is_overwritten_is_not_read():
    assert reads("""
        ld.global.u32 %r1, [%rd1];
        mov.u32 %r1, 5;
        st.global.u32 [%rd1], %r1;
    """) == [("ld", []), ("st", [])]


# ---------------------------------------------------------------------------------------------- guards, ways, loops


def test_a_guard_leaves_what_was_there_or_not():
    assert reads("""
        ld.global.u32 %r1, [%rd1];
        ld.global.u32 %r2, [%rd1+4];
        setp.lt.u32 %p1, %r0, 16;
        @%p1 mov.u32 %r1, %r2;
        @%p1 ld.global.u32 %r3, [%rd1+8];
        @!%p1 mov.u32 %r3, 0;
        st.global.u32 [%rd1], %r1;
        st.global.u32 [%rd1], %r3;
    """) == [("ld", []), ("ld", []), ("ld", []), ("st", [0, 1]), ("st", [2])]


def test_where_ways_meet_both_count():
    """Half of the lanes load one word, the others another."""
    found = reads("""
        setp.lt.u32 %p1, %r0, 16;
        @%p1 bra ONE;
        ld.global.u32 %r1, [%rd1];
        bra BOTH;
        ONE: ld.global.u32 %r1, [%rd1+4];
        BOTH: st.global.u32 [%rd1], %r1;
    """)
    assert found == [("ld", []), ("ld", []), ("st", [0, 1])]


def test_a_loop_that_loads_a_step_ahead_waits_for_the_load_of_the_step_before():
    """The registers change their names with mov: each store reads the load before the latest one."""
    assert reads("""
        ld.global.u32 %r1, [%rd1];
        mov.u32 %r9, 0;
        LOOP:
        ld.global.u32 %r2, [%rd1+4];
        st.global.u32 [%rd1], %r1;
        mov.u32 %r1, %r2;
        add.u32 %r9, %r9, 1;
        setp.lt.u32 %p1, %r9, 3;
        @%p1 bra LOOP;
    """) == [("ld", []), ("ld", []), ("st", [0]), ("ld", []), ("st", [0, 1]), ("ld", []), ("st", [0, 3])]


def test_a_sum_in_a_loop_reads_every_load_of_the_latest_steps():
    found = reads("""
        mov.u32 %r1, 0;
        mov.u32 %r9, 0;
        LOOP:
        ld.global.u32 %r2, [%rd1];
        add.u32 %r1, %r1, %r2;
        add.u32 %r9, %r9, 1;
        setp.lt.u32 %p1, %r9, 12;
        @%p1 bra LOOP;
        st.global.u32 [%rd1], %r1;
    """)
    assert found == [*[("ld", [])] * 12, ("st", [*range(12 - dataflow.AGES, 12)])]


def test_what_a_call_returns_has_no_origin():
    found = reads(
        "ld.global.u32 %r1, [%rd1]; call (%r2), f, (%r1); st.global.u32 [%rd1], %r2;",
        ".func (.reg .u32 %to) f(.reg .u32 %of) { add.u32 %to, %of, 1; ret; }",
    )
    assert found == [("ld", []), ("st", [])]


# ---------------------------------------------------------------------------------------------- who pays


@pytest.mark.parametrize("more", [{}, {"sanitizer": "off"}, {"observers": [lambda event: None]}, {"seed": 3}])
def test_nothing_is_analysed_unless_an_observer_asks(monkeypatch, more):
    analysed, of = [], dataflow.Flow.__init__
    monkeypatch.setattr(dataflow.Flow, "__init__", lambda self, program: analysed.append(program) or of(self, program))
    kernel = module("ld.global.u32 %r1, [%rd1]; bar.sync 0; st.global.u32 [%rd1], %r1;")["k"]
    kernel(1, 32, np.zeros(32, np.uint32), **more)
    assert not analysed
    kernel(1, 32, np.zeros(32, np.uint32), observers=[Timeline()])
    assert len(analysed) == 1

"""Ordinary instructions of PTX, stores and copies on a timeline: what counts, and the cycles that a GPU took."""

import numpy as np
import pytest
from test_dataflow import timed

import tcemu
from tcemu.timing import Timeline
from tcemu.timing.costs import costs
from tcemu.timing.pipes import PIPES, pipe_of

TABLE = costs("sm_90a")


def stretches(body):
    """Of warp 0: the opcodes of each stretch of ordinary instructions that count."""
    ops = timed(body)._recorder.launch.blocks[0].warps[0]
    return [[each.opcode for each in op.stretch.instructions] for op in ops if op.stretch]


def test_what_is_stored_counts_and_what_makes_addresses_and_conditions_does_not():
    assert stretches("""
        ld.global.f32 %f1, [%rd1];
        fma.rn.f32 %f2, %f1, %f1, %f1;
        neg.f32 %f3, %f2;
        mov.f32 %f4, %f3;
        ex2.approx.ftz.f32 %f5, %f4;
        mul.lo.u32 %r1, %r0, 4;
        cvt.u64.u32 %rd2, %r1;
        add.u64 %rd3, %rd0, %rd2;
        add.u32 %r2, %r0, 1;
        setp.lt.u32 %p1, %r2, 99;
        @%p1 st.global.f32 [%rd3], %f5;
    """) == [["fma.rn.f32", "ex2.approx.ftz.f32"]]


def test_a_condition_that_selects_data_counts():
    assert stretches("""
        ld.global.u32 %r1, [%rd1];
        setp.lt.u32 %p1, %r1, 5;
        selp.b32 %r2, %r1, 7, %p1;
        st.global.u32 [%rd1], %r2;
    """) == [["setp.lt.u32", "selp.b32"]]


def test_a_loop_counts_each_time_and_a_branch_that_is_not_taken_does_not():
    assert stretches("""
        mov.u32 %r2, 0;
        mov.u32 %r3, 0;
    AGAIN:
        ld.global.u32 %r1, [%rd1];
        xor.b32 %r2, %r2, %r1;
        setp.eq.u32 %p2, %r3, 77;
        @!%p2 bra ON;
        not.b32 %r2, %r2;
        popc.b32 %r2, %r2;
    ON:
        add.u32 %r3, %r3, 1;
        setp.lt.u32 %p1, %r3, 3;
        @%p1 bra AGAIN;
        shl.b32 %r4, %r2, 2;
        st.global.u32 [%rd1], %r4;
    """) == [["xor.b32"], ["xor.b32"], ["xor.b32", "shl.b32"]]


def cycles_of(count, text, chains=1):
    """Cycles of `count` instructions on values in registers, in chains that do not depend on each other."""
    lines = [text.format(d=f"%f{1 + number % chains}") for number in range(count)]
    names = [f"%f{1 + chain}" for chain in range(chains)]
    loads = [f"ld.global.f32 {name}, [%rd1];" for name in names]
    stores = [f"st.global.f32 [%rd1], {name};" for name in names]
    return timed("\n".join([*loads, *lines, *stores])).cycles


@pytest.mark.parametrize(
    ("text", "latency", "interval"),
    [
        ("fma.rn.f32 {d}, {d}, {d}, {d};", 3.95, 1),
        ("max.f32 {d}, {d}, %f0;", 3.95, 2),
        ("ex2.approx.ftz.f32 {d}, {d};", 16.95, 8),
    ],
)
def test_chains_take_the_measured_latency_and_others_the_pipe(text, latency, interval):
    """What an H200 took: costs/sm_90a.json, one warp."""
    chain = (cycles_of(128, text) - cycles_of(64, text)) / 64
    apart = (cycles_of(128, text, 8) - cycles_of(64, text, 8)) / 64
    assert chain == pytest.approx(latency, rel=0.02)
    assert apart == pytest.approx(max(interval, latency / 8), rel=0.05)


#: Of each pipe some that were measured.
MEASURED = (
    "popc.b32 cvt.rni.s32.f32 cvt.rn.f32.s32 cvt.f32.f16 shf.l.wrap.b32 lop3.b32 mad.wide.u32 dp4a.s32.s32 max.f32 "
    "rsqrt.approx.ftz.f32"
)


@pytest.mark.parametrize("opcode", MEASURED.split())
def test_the_guide_s_throughput_is_what_was_measured(opcode):
    """The pipes' intervals are from the CUDA C++ Programming Guide, the rows from an H200."""
    assert 4 * TABLE.find(opcode, "SM interval", {"warps": 4}).median == pytest.approx(
        pipe_of(opcode).interval, rel=0.05
    )


@pytest.mark.parametrize("opcode", ["add.f16x2", "mul.bf16x2", "fma.rn.f16x2", "fma.rn.f16"])
def test_sixteen_bit_arithmetic_reaches_the_guide_s_throughput_with_sixteen_warps(opcode):
    """With fewer it waits for its latency of 8: a sub-partition's warp has 8 chains."""
    measured = 4 * TABLE.find(opcode, "SM interval", {"warps": 16}).median
    assert pipe_of(opcode).interval <= measured <= 1.4 * pipe_of(opcode).interval


@pytest.mark.parametrize("opcode", ["ex2.approx.f16x2", "tanh.approx.f16x2", "ex2.approx.ftz.bf16x2"])
def test_special_functions_of_two_values_take_twice_as_long(opcode):
    """16.02 clocks, tanh too, of 16 warps with 8 chains each on an H200."""
    assert pipe_of(opcode).interval == 16
    assert 4 * TABLE.find("ex2.approx.f16x2", "SM interval", {"warps": 4}).median == pytest.approx(16, rel=0.05)


def test_every_pipe_s_instruction_was_measured():
    for pipe in PIPES:
        assert TABLE.find(pipe.like, "latency"), pipe.name


# ---------------------------------------------------------------------------------------------- stores and copies


@pytest.mark.parametrize(("vector", "opcode"), [("b32", "st.global.b32"), ("v2.b32", "st.global.v2.b32")])
def test_an_sm_stores_as_fast_as_was_measured(vector, opcode):
    """Rows of four lanes, as in an accumulator: sectors that are written whole, or half."""
    width = 2 if vector.startswith("v2") else 1

    def kernel(warp, count, data):
        words = warp.registers(width, fill=0)
        for number in range(count):
            place = (number * 8 + warp.laneid // 4) * 8 * 4 + warp.laneid % 4 * 4 * width
            warp.st_global(data.at(0) + place, words, vector)

    def cycles(count):
        timeline, data = Timeline(), np.zeros(64 * 64, np.uint32)
        tcemu.launch(kernel, 1, 128, (count, data), observers=[timeline], sanitizer="off")
        return timeline.cycles

    measured = TABLE.find(opcode, "SM interval", {"lanes": "rows of four", "warps": 4}).median
    assert (cycles(64) - cycles(32)) / (4 * 32) == pytest.approx(measured, rel=0.01)


CHOICE = """
    setp.lt.u32 %p1, %r0, 16;
    mov.u64 %rd2, %rd0;
    @!%p1 bra HERE;
    mad.wide.u32 %rd2, %r0, 16, %rd0;
HERE:
    mov.u32 %r2, tile;
    mad.lo.u32 %r3, %r0, 16, %r2;
"""
ALWAYS = "mad.wide.u32 %rd2, %r0, 0, %rd0; mov.u32 %r2, tile; mad.lo.u32 %r3, %r0, 16, %r2;"
COPY = "cp.async.cg.shared.global [%r3], [%rd2], 16; cp.async.wait_all;"


def test_the_choice_of_a_copy_s_source_takes_time_and_a_source_that_is_known_does_not():
    """46 to 62 cycles for each copy of mma_pipeline on an H200: benchmarks/timeline.md."""
    assert stretches(CHOICE + COPY) == [["selp.b64 of a source"]]
    assert stretches(ALWAYS + COPY) == []
    assert 46 <= timed(CHOICE + COPY).cycles - timed(ALWAYS + COPY).cycles <= 70


def test_a_pointer_that_a_loop_moves_on_is_no_choice():
    loop = (
        "mov.u32 %r4, 0; AGAIN:"
        + COPY
        + "add.u64 %rd2, %rd2, 16; add.u32 %r4, %r4, 1; setp.lt.u32 %p1, %r4, 3; @%p1 bra AGAIN;"
    )
    assert stretches(ALWAYS + loop) == []

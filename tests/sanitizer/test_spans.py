"""Runs of bytes that copies access, against sets of bytes."""

import numpy as np

import tcemu
import tcemu.ptx
from tcemu.sanitizer.spans import Runs, Span, Spans

RANDOM = np.random.default_rng(7)


def spans_of(addresses, size):
    return {int(address) + byte for address in addresses for byte in range(size)}


def test_runs_are_the_bytes(row):
    for trial in range(60):
        with row(trial):
            size = int(RANDOM.integers(1, 9))
            places = RANDOM.integers(0, 400 // size, RANDOM.integers(1, 30))
            addresses = size * places  # in any order, some twice
            runs, there = Runs.of(addresses, size), spans_of(addresses, size)
            held = {byte for first, end in zip(runs.first, runs.end, strict=True) for byte in range(first, end)}
            assert held == there
            assert (runs.first[1:] > runs.end[:-1]).all(), "runs that touch are one"
            assert set(runs.units(16).tolist()) == {byte // 16 for byte in there}
            first, width = RANDOM.integers(0, 420, 50), int(RANDOM.integers(1, 20))
            expected = [not there.isdisjoint(range(at, at + width)) for at in first.tolist()]
            assert runs.touched(first, first + width).tolist() == expected


def test_spans_are_found_by_their_bytes():
    spans = Spans()
    for number in range(100):
        spans.add(Span(None, number, Runs.of(np.arange(64 * number, 64 * number + 32), 1)))
    assert len(spans) == 100
    assert [span.lane for span in spans.between(64, 200)] == [1, 2, 3]
    assert [span.lane for span in spans.between(96, 128)] == []
    assert spans.between(10_000, 20_000) == []


def test_the_oldest_spans_are_forgotten(monkeypatch):
    monkeypatch.setattr("tcemu.sanitizer.spans.MOST", 8)
    spans = Spans()
    for number in range(20):
        spans.add(Span(None, number, Runs.of(np.array([16 * number]), 16)))
    assert len(spans) <= 8
    assert [span.lane for span in spans.between(16 * 19, 16 * 20)] == [19]
    assert spans.between(0, 16) == []
    assert spans.forgotten == 20 - len(spans)


def streaming(tiles, turns):
    """The reports about a block that copies some tiles repeatedly, one after the other."""

    def kernel(warp, x):
        with warp.only(warp.laneid == 0):
            warp.mbarrier_init(256, 1)
            warp.fence_mbarrier_init()
        warp.bar_sync()
        for turn in range(turns):
            for tile in range(tiles):
                with warp.only(warp.laneid == 0):
                    warp.mbarrier_arrive_expect_tx(256, 16)
                    warp.cp_async_bulk_shared_global(0, x + 16 * tile, 16, 256)
                warp.mbarrier_wait(256, (turn * tiles + tile) % 2)

    return tcemu.launch(kernel, args=(np.zeros(1024, np.uint8),), shared=264).reports


def test_a_hint_says_that_copies_have_been_forgotten(monkeypatch):
    monkeypatch.setattr("tcemu.sanitizer.spans.MOST", 8)
    (report,) = streaming(20, 1)
    assert (report.rule, report.severity) == ("global-race", "hint")
    assert "than the sanitizer keeps: it dropped the first 12 and cannot find races with them" in report.message
    assert "Launch it on a smaller problem" in report.fix


def test_a_copy_takes_the_place_of_the_same_one_before(monkeypatch):
    """However long a kernel reads the same tiles, nothing is forgotten."""
    monkeypatch.setattr("tcemu.sanitizer.spans.MOST", 8)
    assert streaming(8, 5) == []


ALL_LANES_STORE = """.version 8.5
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out)
{
    .reg .pred %p<2>;
    .reg .b32 %r<5>;
    .reg .b64 %rd<2>;
    .shared .align 16 .b8 tile[256];
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, tile;
    mad.lo.u32 %r3, %r1, 4, %r2;
    st.shared.u32 [%r3], %r1;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    setp.ge.u32 %p1, %r1, 32;
    @%p1 bra done;
    SOURCE
again:
    cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r2], 128;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
    AGAIN
done:
    ret;
}
"""


def test_lanes_that_repeat_a_copy(row):
    """A whole warp that issues one copy writes the same bytes 32 times: needless, and no race if the source is one."""
    other = "and.b32 %r4, %r1, 1;\n    mad.lo.u32 %r2, %r4, 128, %r2;"
    once_more = "add.u32 %r1, %r1, 32;\n    setp.lt.u32 %p1, %r1, 64;\n    @%p1 bra again;"
    cases = [
        ("one source", "", "", ["hint"]),
        ("one source, twice", "", once_more, ["hint"]),
        ("two sources", other, "", ["error"]),
        ("one lane", "elect.sync _|%p1, -1;\n    @!%p1 bra done;", "", []),
    ]
    for name, source, again, severities in cases:
        with row(name):
            k = tcemu.ptx.load(ALL_LANES_STORE.replace("SOURCE", source).replace("AGAIN", again))["k"]
            out = np.zeros(32, np.uint32)
            reports = k(1, 64, out, sanitizer="collect").reports
            assert [report.severity for report in reports] == severities
            assert all(report.rule == "global-race" for report in reports)
            if severities != ["error"]:
                assert (out == np.arange(32)).all()

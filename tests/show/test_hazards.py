"""The order of a block: what happened, in the order of the events; and every broken rule where it happened."""

import re
from xml.etree import ElementTree as ET

import kernels_correct  # noqa: F401 - they fill the tables
import kernels_faulty_copies  # noqa: F401
import kernels_faulty_memory  # noqa: F401
import kernels_faulty_order  # noqa: F401
import kernels_faulty_wgmma  # noqa: F401
import kernels_lanes  # noqa: F401
import numpy as np
import pytest
from kernels_table import BYTES, CORRECT, FAULTY, MMA, finish, mma, one, ready, tiles
from quick import some, spread

import tcemu
from tcemu import show
from tcemu.errors import TcemuError
from tcemu.gemm import tcgen05_tma
from tcemu.machine.launch import launch
from tcemu.sanitizer import Sanitizer
from tcemu.show.order import order

SVG = "{http://www.w3.org/2000/svg}"


def _watched(row, **options):
    """The events of a kernel of the tables, and the sanitizer's reports."""
    events, sanitizer = [], Sanitizer("collect")
    given = {"block": 128, "shared": 8192, **row.options, **options}
    try:
        launch(row.kernel, args=(np.zeros(BYTES, np.uint8),), observers=(events.append, sanitizer), **given)
    except TcemuError:
        assert sanitizer.reports
    return events, sanitizer.reports


@pytest.mark.parametrize("row", some(spread(FAULTY, 3), 24), ids=lambda row: row.name)
def test_every_broken_rule_is_drawn_where_it_happened(row):
    events, reports = _watched(row)
    picture = show.hazards(events, reports)
    assert row.rule in picture.title
    texts = [text.text or "" for text in ET.fromstring(picture.svg).iter(f"{SVG}text")]  # noqa: S314 - our own text
    first = next(report for report in reports if report.block == reports[0].block)
    assert f"✗ {first.rule}" in texts
    assert any(text.startswith(f"✗ {first.rule}, line {first.site.line} of {first.site.function}") for text in texts)
    assert f"Fix: {first.fix}" in " ".join(texts)
    assert max(map(len, texts)) <= 130
    assert 'class="x"' in picture.svg


def test_correct_kernels_have_no_marks():
    for row in some(CORRECT, 10)[:20]:
        events, reports = _watched(row)
        picture = show.hazards(events, [report for report in reports if report.severity == "error"])
        assert picture.title.endswith("in order: no broken rule")
        assert 'class="x"' not in picture.svg


def read_early(warp, g):
    ready(warp)
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    mma(warp, d)
    warp.wgmma_commit_group()
    d.view(np.float32)[...]
    warp.wgmma_wait_group(0)


def right(warp, g):
    ready(warp)
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    for step in range(4):
        warp.run(MMA, d, *tiles(), step > 0, 1, 1, 0, 0)
    finish(warp)
    d.view(np.float32)[...]


def two_groups(warp, g):
    ready(warp)
    d, e = warp.registers(4, fill=0), warp.registers(4, fill=0)
    warp.wgmma_fence()
    for accumulator in (d, e):
        mma(warp, accumulator)
        warp.wgmma_commit_group()
    warp.wgmma_wait_group(1)
    d.view(np.float32)[...]
    warp.wgmma_wait_group(0)


def never_waited(warp, g):
    with one(warp):
        warp.cp_async(0, g, 16)
        warp.cp_async_commit_group()


def _told(kernel, **options):
    events = []
    given = {"block": 128, "shared": 8192, "sanitizer": "collect"} | options
    result = tcemu.launch(kernel, args=(np.zeros(BYTES, np.uint8),), observers=[events.append], **given)
    return show.hazards(events, result.reports)


def _lines(kernel, *marks):
    """The lines of a kernel, counted from its first, as they are in the file."""
    first = kernel.__code__.co_firstlineno
    return [first + mark for mark in marks]


def test_a_label_that_is_too_long_loses_whole_words():
    svg = _told(never_waited).svg
    assert ">async.commit_group: group 0<" in svg
    assert "…" not in svg


@pytest.mark.parametrize("policy", ["late", "early"])
def test_a_bar_goes_from_the_issue_to_the_wait_under_every_policy(policy):
    words = _told(right, policy=policy).description
    (issue,), wait = _lines(right, 5), re.search(r"line (\d+ of [\w.<>]+|\d+) wgmma.wait_group: 0 left", words)
    assert wait is not None
    assert f"wgmma m64n8k16 ×4, group 0: from warp 0 line {issue} of right until warp 0 line {wait[1]}." in words


def test_the_read_inside_the_bar_is_marked():
    read, wait = _lines(read_early, 6, 7)
    words = _told(read_early).description
    assert words.startswith(f"Broken rule wgmma-unwaited in line {read} of read_early, against line ")
    reads = rf"line {read} of read_early reads registers 0–3"
    assert re.search(rf"{reads}; warp \d line {wait} of read_early wgmma.wait_group: 0 left", words)


def test_a_wait_covers_the_groups_that_it_says():
    words = _told(two_groups).description
    first, second = _lines(two_groups, 7, 9)
    assert re.search(rf"group 0: from warp 0 line \d+ of mma until warp 0 line {first} of two_groups\.", words)
    assert re.search(rf"group 1: from warp 0 line \d+ of mma until warp 0 line {second} of two_groups\.", words)
    assert "wgmma.wait_group: 1 left" in words


def test_what_no_wait_covers_has_no_end():
    picture = _told(never_waited, block=32)
    assert "cp.async 16 bytes, group 0: from warp 0 line" in picture.description
    assert "and no wait covers it." in picture.description
    assert ">no wait</text>" in picture.svg


def test_warps_that_do_the_same_are_one_column():
    def kernel(warp):
        if warp.warpid == 2:
            warp.st_shared(4 * warp.laneid, 0)
        warp.bar_sync()

    events = []
    tcemu.launch(kernel, block=128, shared=128, observers=[events.append])
    assert order(events, 0, ()).warps == {0: (0, 1, 3), 2: (2,)}
    assert order(events, 0, (1, 3)).warps == {1: (1,), 2: (2,), 3: (3,)}


def test_the_rows_are_in_the_order_of_the_events():
    events = []
    result = tcemu.launch(read_early, block=128, shared=8192, args=(np.zeros(8, np.uint8),), sanitizer="collect",
                          observers=[events.append])  # fmt: skip
    found = order(events, 0, {report.warp for report in result.reports})
    places = [min(at for at, event in enumerate(events) if getattr(event, "by", None) is step.bys[0])
              for step in found.steps if step.bys]  # fmt: skip
    assert places == sorted(places)


def test_a_block_and_a_row_can_be_chosen():
    def racing(warp):
        for _ in range(20):
            warp.st_shared(0, 0)
            warp.bar_sync()
        if warp.ctaid == 1:
            warp.ld_shared(4 * warp.threads)

    events = []
    result = tcemu.launch(racing, 2, 64, shared=512, sanitizer="collect", observers=[events.append])
    assert {report.block for report in result.reports} >= {0}
    assert "Block 1 in order" in show.hazards(events, result.reports, block=1).title
    assert "Rows 5 to 34;" in show.hazards(events, result.reports, block=0, first=5).svg
    with pytest.raises(TcemuError, match="row 999: there are rows 0 to"):
        show.hazards(events, first=999)
    with pytest.raises(TcemuError, match="block 7 is not among these events; there are blocks 0 to 1"):
        show.hazards(events, block=7)


def test_something_other_than_events_is_refused():
    with pytest.raises(TcemuError, match=r"observers=\[events.append\]"):
        show.hazards(["Issued"])


def put(warp):
    warp.st_shared(4 * warp.threads, warp.threads)


def hasty(warp):
    put(warp)
    warp.ld_shared(4 * (63 - warp.threads))


def _hasty():
    events = []
    result = tcemu.launch(hasty, block=64, shared=256, sanitizer="collect", observers=[events.append])
    return show.hazards(events, result.reports)


def test_lines_are_those_of_a_function_and_their_code_is_below():
    shown = [element.text for element in ET.fromstring(_hasty().svg).iter(f"{SVG}text")]  # noqa: S314 - our own text
    (first,), (second,) = _lines(put, 1), _lines(hasty, 2)
    assert "function, line" in shown
    assert shown.index("put") < shown.index(str(first)) < shown.index("hasty") < shown.index(str(second))
    below = shown[len(shown) - shown[::-1].index("put") - 1 :]
    assert below == [
        "put", str(first), "warp.st_shared(4 * warp.threads, warp.threads)",
        "hasty", str(second), "warp.ld_shared(4 * (63 - warp.threads))",
    ]  # fmt: skip


def test_a_line_and_what_it_did_light_each_other():
    layer = _hasty().layer
    titles = re.findall(r'<path d="[^"]*" class="(n\d)"><title>([^<]*)</title>', layer)
    (first,), (second,) = _lines(put, 1), _lines(hasty, 2)
    assert set(titles) == {
        ("n0", f"put line {first}: 2 steps"), ("n0", "warp 0: st.shared.b32"), ("n0", "warp 1: st.shared.b32"),
        ("n1", f"hasty line {second}: 2 steps"), ("n1", "warp 0: ld.shared.b32"), ("n1", "warp 1: ld.shared.b32"),
    }  # fmt: skip
    assert all(f"&:has(.z .n{each}:is(:hover,.on)) .y .n{each}{{opacity:1}}" in layer for each in range(2))


def test_the_name_of_a_rule_is_beside_its_step_not_at_the_edge():
    picture = _hasty()
    texts = list(ET.fromstring(picture.svg).iter(f"{SVG}text"))  # noqa: S314 - our own text
    (name,) = (element for element in texts if element.text == "✗ shared-race")
    (step,) = (element for element in texts if element.text == "ld.shared.b32" and "halo" in element.get("class"))
    assert name.get("x") == step.get("x")
    assert 10 < float(name.get("y")) - float(step.get("y")) < 26


def tcgen05_bars(monkeypatch, *without):
    """The bars of tcgen05 in a small product, of which methods of a warp are left out."""
    for method in without:
        monkeypatch.setattr(tcgen05_tma.Warp, method, lambda *_, **__: None)
    events = []
    a, b = np.ones((128, 64), np.float16), np.ones((64, 32), np.float16)
    tcgen05_tma.multiply(a, b, tcgen05_tma.Plan(columns=32), sanitizer="off", observers=[events.append])
    return [work for work in order(events, 0, ()).work if work.column == "tcgen05"]


def test_bars_of_tcgen05_end_at_what_covers_them(monkeypatch):
    """Products at the phase of the mbarrier that their commit names, loads at their wait."""
    products, *loads = tcgen05_bars(monkeypatch)
    assert (products.label, products.count) == ("mma", 4)
    assert products.last.label.startswith(products.detail)
    assert {(load.label, load.detail, load.last.label) for load in loads} == {
        ("ld 32x32b", "wait::ld", "tcgen05.wait::ld")
    }


def test_a_load_without_a_wait_has_an_open_end(monkeypatch):
    products, *loads = tcgen05_bars(monkeypatch, "tcgen05_wait_ld")
    assert products.last is not None
    assert loads
    assert all(load.last is None for load in loads)


def test_columns_of_many_warps_move_together_until_they_fit_a_page():
    def kernel(warp):
        for step in range(warp.warpid + 1):
            warp.st_shared(4 * warp.threads + 1024 * step, warp.threads)
            warp.ld_shared(4 * warp.threads + 1024 * step)

    def drawn(warps):
        events = []
        tcemu.launch(kernel, block=32 * warps, shared=8192, sanitizer="off", observers=[events.append])
        return ET.fromstring(show.hazards(events).svg)  # noqa: S314 - our own

    for warps, distance in ((2, 222), (6, range(90, 222))):
        root = drawn(warps)
        heads = {each.text: float(each.get("x")) for each in root.iter() if str(each.text).startswith("warp ")}
        apart = heads["warp 1"] - heads["warp 0"]
        assert apart == distance if warps == 2 else min(distance) <= apart < max(distance)
        assert float(root.get("width")) <= 1080
        assert len(heads) == warps

"""The picture of a timeline: rows, windows, groups, waits in words and hatched, small, on its sheet."""

import re
from xml.etree import ElementTree as ET

import numpy as np
import pytest

import tcemu
from tcemu import show
from tcemu.errors import OperandError
from tcemu.gemm import mma_pipeline, wgmma_tma
from tcemu.timing import Timeline

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def hopper():
    run, plan = Timeline(), wgmma_tma.Plan(consumers=2)
    a, b = np.ones((2 * plan.rows, 512), np.float16), np.ones((512, plan.columns), np.float16)
    wgmma_tma.multiply(a, b, plan, observers=[run], sanitizer="off")
    return run


@pytest.fixture(scope="module")
def pipeline():
    run = Timeline()
    a = np.ones((64, 256), np.float16)
    mma_pipeline.multiply(a, a.T.copy(), observers=[run], sanitizer="off")
    return run


def texts(picture):
    return [element.text or "" for element in ET.fromstring(picture.svg).iter(f"{SVG}text")]  # noqa: S314 - our own


def test_there_is_a_row_for_each_unit(hopper, pipeline):
    rows = texts(show.timeline(hopper))
    assert {"tensor cores 0–3", "copies in flight", *(f"warp {number}" for number in range(9))} <= set(rows)
    assert {"product groups", "mbarrier phases"} <= set(rows)
    rows = texts(show.timeline(pipeline))
    assert {f"tensor core {number}" for number in range(4)} <= set(rows), "they do not do the same"
    assert "copy groups" in rows


def test_the_mark_of_a_commit_does_not_cross_the_name_of_its_group(pipeline):
    svg = show.timeline(pipeline).svg
    marks = {
        (float(x), float(y) + 11) for x, y in re.findall(r'<line x1="([0-9.]+)" y1="([0-9.]+)" [^>]*class="k"', svg)
    }
    names = {(float(x), float(y)) for x, y in re.findall(r'<text x="([0-9.]+)" y="([0-9.]+)" class="t c">\d+<', svg)}
    assert names
    assert {y for _, y in names} & {y for _, y in marks}
    assert not [name for name in names for mark in marks if name[1] == mark[1] and abs(name[0] - mark[0]) < 4]


def test_phases_are_named_by_the_functions_in_which_they_are_written(pipeline):
    functions = {span.site.function.rpartition(".")[2] for span in pipeline.spans if span.unit == "warp"}
    multiplies = next(span.site.function.rpartition(".")[2] for span in pipeline.spans if span.unit == "tensor core")
    assert multiplies in functions
    picture = show.timeline(pipeline, phases={multiplies: "product phase"})
    assert {"phases of warp 0", "product phase"} <= set(texts(picture))
    assert picture.description.endswith("Warp 0 goes through product phase.")
    assert "product in product phase, cycles" in picture.layer, "a tensor core's work belongs to the phase"
    assert "phases of warp 0" not in texts(show.timeline(pipeline))
    with pytest.raises(OperandError, match=r"^warp 0 was never in the phase 'x'; the functions that it executed are "):
        show.timeline(pipeline, phases={"nowhere": "x"})


def test_waits_are_hatched_and_named(hopper):
    picture = show.timeline(hopper)
    assert {"copy", "product", "mbarrier"} <= set(texts(picture))
    root = ET.fromstring(picture.svg)  # noqa: S314 - our own text
    hatched = [path for path in root.iter(f"{SVG}path") if path.get("class") == "h"]
    assert len(hatched) >= 9, "each warp waits"


def test_the_words_say_what_was_waited_for(hopper):
    words = show.timeline(hopper).description
    assert words.startswith(f"The tensor cores were busy for {hopper.busy:.0%} of the launch and waited for: ")
    assert re.search(r"Warps 0, .*? waited for global memory \d+%, copy \d+%, product \d+%", words)
    assert re.search(r"Warp 8 waited for mbarrier \d+%", words)
    assert re.search(r"16 product groups, each in flight for \d+ cycles on average", words), "8 steps, 2 warpgroups"


def test_a_window_shows_less_in_more_detail(pipeline):
    first, last = pipeline.blocks[0]
    whole, part = show.timeline(pipeline), show.timeline(pipeline, start=1000, end=1200)
    assert whole.title.startswith(f"Block 0: {last - first:,.0f} cycles; tensor cores busy ")
    assert "shown from 1,000 to 1,200" in part.title
    assert "mma" in texts(part), "now there is room for it"
    assert {"1,000", "1,100", "1,200"} <= set(texts(part))


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"block": 7}, "the timeline has no block 7: the launch had blocks 0 to 1"),
        ({"start": -5}, "block 0 ran from cycle 0 to"),
        ({"start": 500, "end": 400}, "must be in order and within; got 500 and 400"),
        ({"end": 10**9}, "block 0 ran from cycle 0 to"),
    ],
)
def test_it_says_which_windows_there_are(hopper, more, told):
    with pytest.raises(OperandError, match=told):
        show.timeline(hopper, **more)


def test_without_a_launch_there_is_nothing_to_draw():
    with pytest.raises(OperandError, match="it has seen no launch"):
        show.timeline(Timeline())


def test_every_picture_is_small_and_on_its_sheet(hopper, pipeline):
    for picture in (show.timeline(hopper), show.timeline(pipeline), show.timeline(hopper, block=1)):
        root = ET.fromstring(picture.svg)  # noqa: S314 - our own text
        width, height = (float(root.get(side)) for side in ("width", "height"))
        assert width <= 1110
        assert height <= 900
        assert len(picture.svg) < 80_000
        for element in root.iter():
            if element.tag in (f"{SVG}text", f"{SVG}rect"):
                assert 0 <= float(element.get("x", "0")) <= width
                assert 0 <= float(element.get("y", "0")) <= height
        used = {name for names in re.findall(r'class="([^"]*)"', picture.svg) for name in names.split()}
        assert all(f" .{name}{{" in picture.svg for name in used)
        assert show.timeline(hopper).key == show.timeline(hopper).key


def test_a_kernel_without_products_has_its_picture_too():
    run = Timeline()
    tcemu.launch(lambda warp: warp.bar_sync(), 1, 64, observers=[run])
    picture = show.timeline(run)
    assert "warp 1" in texts(picture)
    assert picture.title.endswith("no products")
    assert re.fullmatch(r"There were no products. Warps 0 to 1 waited for barrier \d+%.", picture.description)


def test_products_that_are_too_narrow_for_a_border_have_the_full_colour(pipeline):
    def widths(style, **window):
        elements = ET.fromstring(show.timeline(pipeline, **window).svg).iter(f"{SVG}path")  # noqa: S314 - our own
        drawn = "".join(element.get("d", "") for element in elements if element.get("class") == style)
        return [float(width) for width in re.findall(r"h(\d[\d.]*)v", drawn)]

    assert 0 < max(widths("tb")) < 4
    first, last = pipeline.blocks[0]
    product = next(span.start for span in pipeline.spans if span.unit == "tensor core")
    near = {"start": product, "end": product + (last - first) / 40}
    assert min(widths("fb", **near)) >= 4, "what is wide enough has a border and the pale fill"


def test_what_is_pointed_at_is_named_with_its_cycles_and_its_line(hopper):
    layer = show.timeline(hopper).layer
    titles = re.findall("<title>([^<]*)</title>", layer)
    first, last = hopper.blocks[0]
    for title in titles:
        row, _, told = title.partition(": ")
        if found := re.search(r", cycles ([\d,]+) to ([\d,]+), (\w+) line \d+", told):
            begin, end = (int(found[number].replace(",", "")) for number in (1, 2))
            assert first <= begin <= end <= last + 1, title
            assert re.fullmatch(r"warp \d|tensor cores 0–3|copies in flight", row), title
        else:
            assert re.match(r"(product groups,|mbarrier 0x[0-9a-f]+, phase) \d+: issued [\d,]+", title), title
    slivers = re.findall(r"h([\d.]+)v20", layer)
    assert min(map(float, slivers)) <= 2, "what has no room for a word has a name"


def test_what_took_longest_is_the_line_that_is_named():
    def slow(warp, x):
        warp.ld_global(x.at(warp.threads))
        warp.bar_sync()

    run = Timeline()
    tcemu.launch(slow, block=64, args=(np.zeros(64, np.uint32),), observers=[run])
    titles = re.findall("<title>([^<]*)</title>", show.timeline(run).layer)
    line = slow.__code__.co_firstlineno + 1
    assert any(re.match(rf"warp 0: .*global.*, cycles .*, slow line {line}, ld\.global", each) for each in titles)

"""What a notebook shows of values: pictures where there are some, and text everywhere else."""

import json
import subprocess
import sys
from functools import cache
from importlib import import_module

import numpy as np
import pytest

import tcemu
from tcemu import show
from tcemu.show.folded import folded
from tcemu.show.rich import PICTURED, html

MMA = tcemu.parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
LDMATRIX = "ldmatrix.sync.aligned.m8n8.x4.shared.b16"


def test_tcemu_tells_ipython_of_every_type_that_is_drawn() -> None:
    assert set(tcemu._PICTURED) == set(PICTURED)
    for module, name in PICTURED:
        assert isinstance(getattr(import_module(module), name), type)


SESSION = """
import json, sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
import tcemu
loaded = "tcemu.show.rich" in sys.modules
value = tcemu.layouts.Descriptor(1024, 16, 1024, 128)
data, _ = shell.display_formatter.format(value)
print(json.dumps([loaded, sorted(data), data["text/plain"], data["text/html"][:7]]))
"""


@cache
def in_ipython() -> list[object]:
    """What IPython makes of a descriptor."""
    done = subprocess.run([sys.executable, "-c", SESSION], capture_output=True, text=True, check=True, timeout=1800)
    return list(json.loads(done.stdout))


def test_ipython_shows_the_picture_and_keeps_the_text() -> None:
    loaded, media, text, page = in_ipython()
    assert loaded is False
    assert media == ["text/html", "text/plain"]
    assert str(text).startswith("Descriptor(start=1024")
    assert page == "<figure"


def test_an_instruction_shows_its_operands_and_its_map() -> None:
    page = html(MMA) or ""
    assert "16 x 16 f16" in page
    assert folded("Which lane holds what", "<figure").removesuffix("</details>") in page
    assert show.mma_map(MMA).key in page
    assert "Which lane holds what" not in (html(tcemu.parse("bar.sync")) or "")
    wgmma = html(tcemu.parse("wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16")) or ""
    assert "64 x 256 f32" in wgmma
    assert len(wgmma) < 10_000


def test_fragments_and_layouts_show_who_holds_what() -> None:
    a = MMA.fragments["a"]
    assert show.fragment_map(a).key in (html(a) or "")
    page = html(a.layout) or ""
    assert "<caption" in page
    assert '<th scope="row" style="text-align:left">g</th><td style="text-align:left">8</td>' in page
    assert "row, lane" in page
    assert "column, slot" in page


def test_wavefronts_show_the_banks() -> None:
    page = html(tcemu.wavefronts(np.arange(32) * 128, "ld.shared.b32")) or ""
    assert "ld.shared.b32: 32 wavefronts, 1 without conflicts" in page
    assert "padding" in page
    assert html(tcemu.wavefronts(np.zeros((2, 32), int), "ld.shared.b32")) is None


@pytest.mark.parametrize(
    ("addresses", "access", "words"),
    [
        (np.arange(32) * 4, "ld.shared.b32", "1 wavefront, at most 1 word from a bank, from banks 0 to 31"),
        (np.arange(32) * 8, "ld.shared.b32", "2 wavefronts, at most 2 words from a bank, from banks 0, 2, 4"),
        (np.arange(32) * 128, LDMATRIX, "Part 3, lanes 24 to 31: 8 wavefronts, at most 8 words from a bank"),
        (np.zeros(32, int), "ld.shared.b32", "1 wavefront, at most 1 word from a bank, from bank 0"),
    ],
)
def test_the_banks_are_told_in_words(addresses: np.ndarray, access: str, words: str) -> None:
    picture = show.banks(tcemu.wavefronts(addresses, access))
    assert words in picture.description


def test_a_launch_shows_its_reports() -> None:
    def reverse(warp, out):  # type: ignore[no-untyped-def]
        threads = warp.threads
        warp.st_shared(4 * threads, threads)
        warp.st_global(out.at(threads), warp.ld_shared(4 * (63 - threads)))

    out = np.zeros(64, np.uint32)
    launch = tcemu.launch(reverse, block=64, args=(out,), shared=256, sanitizer="collect")
    page = html(launch) or ""
    assert "error shared-race: a race in shared memory between warps</strong>" in page
    assert "st.shared.b32" in page
    assert (html(launch.reports[0]) or "").startswith("<p")


def test_a_comparison_shows_whether_the_bits_are_equal() -> None:
    equal = tcemu.live.Comparison("mma", "NVIDIA H200", "sm_90a", 128, "registers", 0, None, "")
    assert "<strong>equal, 128 registers</strong>" in (html(equal) or "")


# ---------------------------------------------------------------------------------------------- what lights up


def test_an_element_of_d_lights_its_row_of_a_and_its_column_of_b() -> None:
    picture = show.mma_map(MMA)
    live = picture.html
    assert f"#{picture.key}:has(.zd .i3:is(:hover,.on)) .ai3{{opacity:1}}" in live
    assert f"#{picture.key}:has(.zd .j2:is(:hover,.on)) .bj2{{opacity:1}}" in live
    assert f"#{picture.key}:has(.za .k5:is(:hover,.on)) .bk5{{opacity:1}}" in live
    assert "<title>D[3, 2]: d0 of lane 13</title>" in live
    assert "<title>A[3, 2–3]: a0 of lane 13</title>" in live
    assert 'onkeydown="' in live


def test_a_map_without_its_layer_is_complete() -> None:
    picture = show.mma_map(MMA)
    assert picture.layer not in picture.svg
    assert picture.quiet().svg == picture.svg
    assert "onkeydown" not in picture.quiet().html


def test_a_stored_column_of_a_sparse_matrix_lights_no_row_of_b() -> None:
    sparse = show.mma_map(tcemu.parse("mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32")).html
    assert ".zd .i3:is" in sparse
    assert ".za .k" not in sparse


def test_large_maps_light_nothing() -> None:
    assert not show.mma_map(tcemu.parse("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16")).layer

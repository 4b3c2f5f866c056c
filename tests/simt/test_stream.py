"""Kernels in PTX as launches of tcemu.Stream."""

import numpy as np
import pytest

import tcemu
from tcemu.errors import LaunchError, OperandError
from tests.simt.texts import text_of

PRODUCE = "griddepcontrol.launch_dependents;  st.global.u32 [%rd0], %r0;"
#: Takes twice what the thread on the other side has produced.
CONSUME = """
    {wait}
    ld.param.u64 %rd2, [in];
    sub.u32 %r1, 63, %r0;
    mad.wide.u32 %rd2, %r1, 4, %rd2;
    ld.global.u32 %r2, [%rd2];
    add.u32 %r2, %r2, %r2;
    st.global.u32 [%rd0], %r2;
"""


def module(wait):
    first, second = text_of(PRODUCE), text_of(CONSUME.format(wait=wait), ".param .u64 out, .param .u64 in")
    entry = second.index(".visible")
    return tcemu.ptx.Module(first + second[entry:].replace(".entry k(", ".entry consume("), "two.ptx")


def launched(wait, overlaps=True, **options):
    """A stream of two launches, what the second one has stored, and their results."""
    made, x, out = module(wait), np.zeros(64, np.uint32), np.zeros(64, np.uint32)
    stream = tcemu.Stream(**options)
    stream.launch(made["k"], 1, 64, (x,))
    stream.launch(made["consume"], 1, 64, (out, x), programmatic_stream_serialization=overlaps)
    return out, stream.synchronize()


WANTED = [2 * (63 - number) for number in range(64)]


def test_a_launch_waits_for_the_one_before():
    for seed in range(4):
        out, results = launched("griddepcontrol.wait;", seed=seed)
        assert out.tolist() == WANTED
        assert [each.reports for each in results] == [[], []]


def test_a_launch_that_does_not_wait_is_a_race():
    _, results = launched("", sanitizer="collect", seed=1)
    (report,) = results[1].reports or results[0].reports
    assert report.rule == "global-race"
    assert "griddepcontrol.wait (cudaGridDependencySynchronize) in consume" in report.remedy


def test_one_after_the_other_without_the_attribute():
    out, results = launched("", overlaps=False)
    assert out.tolist() == WANTED
    assert [each.reports for each in results] == [[], []]


def test_instructions_are_counted_as_in_a_launch_by_itself():
    _, (first, second) = launched("griddepcontrol.wait;", seeds=3)
    x = np.zeros(64, np.uint32)
    assert first.counts == module("")["k"](1, 64, x).counts
    assert second.counts["sub.u32"] == 2
    assert not first.parted


def test_arguments_are_checked_when_the_launch_is_planned():
    stream = tcemu.Stream()
    with pytest.raises(OperandError, match="takes 1 argument; got 0"):
        stream.launch(module("")["k"], 1, 64, ())


def test_addresses_are_not_known_in_advance():
    text = ".global .u32 other[64];\n.global .align 8 .u64 where = generic(other);\n"
    made = tcemu.ptx.Module(text_of("ld.global.u64 %rd2, [where];", before=text), "where.ptx")
    with pytest.raises(LaunchError, match=r"has a variable with the address of another: in a tcemu.Stream"):
        tcemu.Stream().launch(made["k"], 1, 32, (np.zeros(32, np.uint32),))

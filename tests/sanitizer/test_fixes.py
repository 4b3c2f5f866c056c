"""What a report advises first mends the kernel: the report goes away, and the result no longer depends on the order.

And the words of reports.
"""

from itertools import product

import kernels_mended_tcgen05  # noqa: F401 - it fills the table
import numpy as np
import pytest
from kernels_mended import MENDED
from kernels_mended_variants import VARIANTS, a_store_of_the_first_part_and_a_sum_of_the_second

import tcemu
from tcemu.machine.events import BlockEnded, BlockStarted
from tcemu.sanitizer.report import said_once
from tcemu.sanitizer.rules import BYTES, EXAMPLES

#: Orders under which the mended kernels run: each policy, with two seeds.
ORDERS = [{"policy": policy, "seed": seed} for policy, seed in product(("late", "early", "random"), (0, 1))]


def results(kernel, options, *args, **order):
    """What a launch reports, and what it leaves in global memory and in the shared memory of its blocks."""
    g, contents, shared = np.zeros(BYTES, np.uint8), {}, {}

    def watch(event):
        if type(event) is BlockStarted:
            contents[event.block] = event.content
        if type(event) is BlockEnded:
            shared[event.block] = bytes(contents[event.block])

    result = tcemu.launch(kernel, args=(g, *args), sanitizer="collect", observers=[watch], **options, **order)
    return result.reports, (bytes(g), shared)


def test_every_rule_has_one():
    assert set(MENDED) == set(EXAMPLES)


@pytest.mark.parametrize("rule", EXAMPLES)
def test_the_first_advice_mends_the_smallest_kernel(rule):
    broken, mended = EXAMPLES[rule], MENDED[rule]
    reports, _ = results(broken.kernel, broken.launch)
    assert mended.advice in reports[0].fix
    found = []
    for order in ORDERS:
        reports, result = results(mended.kernel, {**broken.launch, **mended.options}, **order)
        assert not reports, f"{order}:\n{reports[0]}"
        found.append(result)
    assert all(each == found[0] for each in found)


@pytest.mark.parametrize("name", VARIANTS)
def test_a_fix_for_special_accesses_mends_them_too(name):
    kernel, rule, advice, options = VARIANTS[name]
    reports, _ = results(kernel, options, "wrong")
    assert reports[0].rule == rule
    assert advice in reports[0].fix
    found = []
    for order in ORDERS:
        reports, result = results(kernel, options, "mended", **order)
        assert not [report for report in reports if report.severity != "hint"], f"{order}:\n{reports[0]}"
        found.append(result)
    assert all(each == found[0] for each in found)


def test_what_only_silences_a_report_is_not_advised():
    """A strong store does not race with an atomic sum; which comes first still decides the result."""
    kernel = a_store_of_the_first_part_and_a_sum_of_the_second
    *_, options = VARIANTS[kernel.__name__]
    reports, _ = results(kernel, options, "wrong")
    assert "A strong store would only hide the race" in reports[0].fix
    found = {results(kernel, options, "silenced", policy="random", seed=seed)[1][0] for seed in range(10)}
    assert len(found) > 1
    assert not results(kernel, options, "silenced")[0]


# ------------------------------------------------------------------------------------------------ words

NAMES = {
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16": "wgmma.mma_async",
    "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16": "wgmma.mma_async.sp",
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32": "mma.sync",
    "wmma.load.a.sync.aligned.row.m16n16k16.global.f16": "wmma.load.a",
    "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes": "cp.async.bulk",
    "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster": (
        "cp.async.bulk.tensor"
    ),
    "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32": "st.async",
}


def test_a_long_opcode_is_said_in_full_once():
    for opcode, name in NAMES.items():
        assert tcemu.parse(opcode).opcode == opcode
        assert said_once(f"{opcode} reads; {opcode} (A)") == f"{opcode} reads; {name} (A)"
    kept = "st.shared.b32 writes bytes; st.shared.b32 wrote them at /a/b.c/d.py:3"
    assert said_once(kept) == kept
    a, b = list(NAMES)[:2]
    assert said_once(f"{a}, {b}, {b}, {a}") == f"{a}, {b}, {NAMES[b]}, {NAMES[a]}"


def test_a_report_of_a_multicast_names_the_arrivals_of_all_blocks():
    kernel, _, _, options = VARIANTS["a_multicast_over_a_stage_that_the_peer_reads"]
    report = results(kernel, options, "wrong")[0][0]
    assert report.rule == "overwritten-early"
    assert str(report).count("multicast::cluster") == 1
    assert "wait_group" not in report.fix
    assert "mbarrier.init counts the arrivals of all blocks" in report.fix

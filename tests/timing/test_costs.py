"""The cost table: complete, plausible, and in agreement with what is published about the chip."""

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

import tcemu.timing.costs as package
from tcemu.errors import CostUnknown, TargetError
from tcemu.instructions import FAMILIES, parse, target_named
from tcemu.timing.costs import COLUMNS, WHAT, costs, read

TABLE = costs("sm_90a")
WGMMA = "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16"
MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"


def legal(family, target="sm_90a"):
    """Return the opcodes of a family that the target has."""
    chip = target_named(target)
    (found,) = (each for each in FAMILIES if each.name == family)
    return [instruction for _, instruction in found.variants if instruction.gate.admits(chip)]


def plain(instruction, what, how=None):
    """Return the median of a row."""
    return TABLE.find(str(instruction), what, how).median


# ---------------------------------------------------------------------------------------------- complete


def test_it_says_where_it_comes_from():
    provenance = TABLE.provenance
    assert provenance["target"] == "sm_90a"
    assert provenance["gpu"].startswith("NVIDIA H")
    assert provenance["command"].startswith("tcemu measure")  # a suite measured again names itself
    assert provenance["runs"] >= 15
    assert provenance["failed"] == {}
    assert 1000 < provenance["sm_clock_mhz"] < 2500
    assert {"driver", "cuda", "ptx", "date", "tcemu"} <= set(provenance)


@pytest.mark.parametrize("family", ["mma", "mma.sp"])
def test_every_product_of_a_warp_was_measured(family):
    for instruction in legal(family):
        assert {row.what for row in TABLE.of(instruction)} == set(WHAT), instruction


def test_every_product_of_a_warpgroup_was_measured_with_a_in_both_places():
    for instruction in legal("wgmma"):
        for a in ("shared", "registers"):
            assert plain(instruction, "latency", {"a": a}) > 0
            assert plain(instruction, "interval", {"a": a}) > 0


def test_wgmma_was_measured_with_1_to_8_in_flight():
    for a in ("shared", "registers"):
        flights = [plain(WGMMA, "interval", {"a": a, "in flight": count}) for count in range(1, 9)]
        assert flights == sorted(flights, reverse=True)
        assert flights[0] == pytest.approx(plain(WGMMA, "latency", {"a": a}), abs=1)
        assert flights[-1] == pytest.approx(plain(WGMMA, "interval", {"a": a}), abs=1)


@pytest.mark.parametrize(
    "name",
    [
        *(f"{verb}.shared{vector}.b32" for verb in ("ld", "st") for vector in ("", ".v2", ".v4")),
        *(f"{verb}matrix.sync.aligned.m8n8.x{count}.shared.b16" for verb in ("ld", "st") for count in (1, 2, 4)),
        "movmatrix.sync.aligned.m8n8.trans.b16",
        "cp.async.cg.shared.global",
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes",
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes",
        "cp.async.bulk.global.shared::cta.bulk_group",
        "bar.sync",
        "mbarrier.arrive; mbarrier.try_wait",
        "wgmma.fence",
        "fence.proxy.async",
    ],
)
def test_what_moves_and_what_waits_was_measured(name):
    assert TABLE.of(name)


def test_no_row_stands_there_twice():
    counts = Counter((row.instruction, row.what, tuple(row.how.items())) for row in TABLE)
    assert max(counts.values()) == 1


# ---------------------------------------------------------------------------------------------- plausible


def test_medians_are_positive_and_lie_between_their_quartiles():
    for row in TABLE:
        low, high = row.quartiles
        assert 0 < low <= row.median <= high, row


def test_the_spread_is_small():
    """Half of the launches within 2 percent; copies from memory and warps that race each other are less regular."""
    wide = [
        row
        for row in TABLE
        if row.quartiles[1] - row.quartiles[0] > max(0.02 * row.median, 0.05)
        and row.how.get("source") != "memory"
        and row.what != "SM interval"
    ]
    assert len(wide) <= len(TABLE) // 500, wide


def test_a_latency_is_no_shorter_than_the_interval():
    """Of instructions of the chip; a sequence in their place may profit from a chain, which needs fewer registers."""
    for family in ("mma", "mma.sp"):
        for instruction in legal(family):
            latency = TABLE.of(instruction)[0]
            if latency.how == {"through": "c"}:
                assert latency.median >= plain(instruction, "interval") >= plain(instruction, "SM interval"), (
                    instruction
                )
    for instruction in legal("wgmma"):
        for a in ("shared", "registers"):
            how = {"a": a}
            assert plain(instruction, "latency", how) > plain(instruction, "interval", how), instruction


def test_a_chain_through_a_is_no_shorter_than_one_through_c():
    for row in TABLE:
        if row.how == {"through": "a"}:
            assert row.median >= plain(row.instruction, "latency", {"through": "c"}) - 1, row


def test_larger_shapes_and_copies_take_no_less():
    for a in ("shared", "registers"):
        for what in ("latency", "interval"):
            sizes = [plain(WGMMA.replace("n256", f"n{n}"), what, {"a": a}) for n in range(8, 257, 8)]
            assert all(later > earlier - 1 for earlier, later in pairwise(sizes))
    bulk = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
    near = [row for row in TABLE.of(bulk) if row.what == "latency" and row.how["source"] == "L2"]
    assert near[-1].how["bytes"] == 32768
    assert near[0].median < near[-1].median
    waits = [row.median for row in TABLE.of("bar.sync")]
    assert waits == sorted(waits)


# ---------------------------------------------------------------------------------------------- published figures


def test_shared_memory_gives_a_wavefront_a_cycle():
    """32 banks of 32 bits a clock cycle each (CUDA C++ Programming Guide, compute capability 9.x, shared memory)."""
    rows = [row for row in TABLE if "wavefronts" in row.how and row.what == "SM interval"]
    assert len(rows) > 80
    for row in rows:
        assert row.median == pytest.approx(row.how["wavefronts"], rel=0.1), row


@pytest.mark.parametrize(
    ("opcode", "tera"),
    [
        ("m64n256k16.f32.f16.f16", 989.4),
        ("m64n256k16.f32.bf16.bf16", 989.4),
        ("m64n256k8.f32.tf32.tf32", 494.7),
        ("m64n256k32.f32.e4m3.e4m3", 1978.9),
        ("m64n256k32.s32.s8.s8", 1978.9),
    ],
)
def test_wgmma_reaches_the_peak_of_the_data_sheet(opcode, tera):
    """Dense peaks of the H100 SXM5, whose SMs the H200 has: 132 SMs at 1.83 GHz (NVIDIA H100 whitepaper, 2022)."""
    instruction = parse(f"wgmma.mma_async.sync.aligned.{opcode}")
    m, n, k = instruction.shape
    cycles = plain(instruction, "interval", {"a": "shared"})
    assert 2 * m * n * k / cycles * 132 * 1.83e9 == pytest.approx(tera * 1e12, rel=0.01)


# ---------------------------------------------------------------------------------------------- looking up


def test_a_cost_reads_as_a_sentence():
    row = TABLE.find(WGMMA, "interval", {"a": "shared"})
    assert str(row) == f"{WGMMA} interval, a shared: 128 cycles (128 to 128)"
    assert parse(WGMMA) in {parse(row.instruction) for row in TABLE.of(parse(WGMMA))}


def test_conditions_may_be_left_out_where_one_row_is_left():
    assert TABLE.find(MMA, "SM interval").how == {"warps": 16}
    assert TABLE.find(WGMMA, "latency", {"swizzle": 0}).how == {"a": "shared", "swizzle": 0}


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ((MMA + ".rn",), "there is no measurement of"),
        ((MMA.replace("m16n8k16", "m16n8k15"),), f"Did you mean '{MMA}'?"),
        ((WGMMA, "SM latency"), "only latency, interval and SM interval were measured, not 'SM latency'"),
        ((WGMMA, "interval", {"a": "memory"}), "no row or more than one matches; there are"),
        ((WGMMA, "interval"), "{'a': 'shared', 'in flight': 1}"),
    ],
)
def test_what_was_not_measured_is_told(asked, told):
    with pytest.raises(CostUnknown) as caught:
        TABLE.find(*asked)
    assert told in str(caught.value)


def test_targets_without_a_table():
    with pytest.raises(CostUnknown, match="only for sm_90a; `tcemu measure` makes one"):
        costs("sm_80")
    with pytest.raises(TargetError):
        costs("sm_1")


def test_the_file_has_a_row_a_line():
    path = Path(package.__file__).parent / "sm_90a.json"
    lines = path.read_text(encoding="utf-8").splitlines()
    assert sum(line.startswith("  [") for line in lines) == len(TABLE)
    head = json.loads(path.read_text(encoding="utf-8"))
    assert head["columns"] == list(COLUMNS)
    assert head["what"] == WHAT
    assert head["unit"] == "cycles"
    assert read(path).rows == TABLE.rows

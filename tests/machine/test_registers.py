"""Registers as views of a bank: operands of instructions that alias each other; lines that a front end says."""

import re

import numpy as np
import pytest
from wgmma_tiles import ACCUMULATED, F16, ONES, SPARSE, TILE_A, A, B, D, prepared, run_group

import tcemu
from tcemu.errors import MemoryFault, OperandError
from tcemu.machine import events
from tcemu.machine.events import Site
from tcemu.machine.launch import launch
from tcemu.machine.registers import Bank, Registers

LANES = np.arange(32)
MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"


def one(body, *args, **options):
    answers = []
    launch(lambda warp, *given: answers.append(body(warp, *given)), 1, 32, args, shared=4096, **options)
    return answers[0]


def bank_of(warp, count, fill=None):
    """Registers of a warp, as a front end allocates all of a kernel's at once."""
    return warp.registers(count, fill=fill).bank


# ------------------------------------------------------------------------------------------------ views


def test_views_show_the_bank():
    def body(warp):
        bank = bank_of(warp, 8, fill=0)
        ends, middle = bank.view([7, 0]), bank.view(range(2, 5))
        ends[:, 0] = 70
        ends[:, 1] = LANES
        middle[...] = np.array([2, 3, 4])
        assert (ends.shape, middle.shape, len(ends), ends.dtype) == ((32, 2), (32, 3), 32, np.uint32)
        assert bank.bits[5].tolist() == [5, 0, 2, 3, 4, 0, 0, 70]
        assert bank.view([3, 3, 7])[9].tolist() == [3, 3, 70]
        middle += 1
        assert bank.view([2])[:, 0].tolist() == [3] * 32
        assert np.array_equal(middle + ends[:, :1], np.tile([73, 74, 75], (32, 1)))
        assert (ends.numbers, middle.which()) == (tuple(bank.first + n for n in (7, 0)), (2, 3, 4))
        with warp.only(LANES < 4):
            middle[...] = 99
        assert bank.bits[:, 2].tolist() == [99] * 4 + [3] * 28
        copy = middle[...]
        middle[...] = 0
        assert copy[0, 0] == 99  # what was read is a copy

    one(body)


def test_what_only_arrays_have_is_refused_with_what_to_write():
    def body(warp):
        held = warp.registers(2, fill=0x3F800000)
        assert held.astype(np.int64).tolist() == [[0x3F800000] * 2] * 32
        with pytest.raises(OperandError, match=r"which is 1.0 in f32. .view\(np.float32\) reads the bits"):
            held.astype(np.float32)
        with pytest.raises(OperandError, match="cannot be converted to 'number'"):
            held.astype("number")
        with pytest.raises(AttributeError, match=r"registers have no .reshape: .* array \(32, 2\) of uint32"):
            held.reshape(-1)
        with pytest.raises(AttributeError, match="registers have no 'lanes'"):
            held.lanes  # noqa: B018
        assert not hasattr(held, "sum")

    one(body)


def test_views_and_junk(row):
    def body(warp):
        view = bank_of(warp, 4, fill=1).view([3, 1])
        for name, deed in (
            ("columns", lambda: view[:, 2]), ("rows", lambda: view[40]), ("text", lambda: view["x"]),
            ("write", lambda: view.__setitem__((0, 2), 1)), ("floats", lambda: view.__setitem__(0, 1.5)),
            ("shape", lambda: view.__setitem__(..., np.zeros((32, 3), int))), ("if", lambda: bool(view)),
        ):  # fmt: skip
            with row(name), pytest.raises(OperandError):
                deed()
        assert (view.bits == 1).all()

    one(body)
    with pytest.raises(OperandError, match="registers of a warp must be an array"):
        Bank(np.zeros(4, np.uint32))


def test_views_are_operands_of_every_kind(row):
    """A view gives the same results as an array with the same content."""
    random = np.random.default_rng(2)
    content = random.integers(0, 1 << 32, (32, 16), np.uint32)

    def body(warp, p):
        bank = bank_of(warp, 16, fill=0)
        bank.view(range(16))[...] = content
        cases = [
            ("mma", MMA, [[3, 1, 8, 8], [2, 5], [0, 9, 4, 7]]),
            ("movmatrix", "movmatrix.sync.aligned.m8n8.trans.b16", [[6]]),
        ]
        for name, opcode, columns in cases:
            with row(name):
                found = warp.run(opcode, *(bank.view(each) for each in columns))
                assert np.array_equal(found, warp.run(opcode, *(content[:, each] for each in columns)))
        addresses = bank.view([11])
        addresses[...] = 16 * LANES[:, None]
        with row("ld"):
            assert np.array_equal(warp.ld_shared(addresses, "v4.b32"), warp.ld_shared(16 * LANES, "v4.b32"))
        with row("st"):
            warp.st_shared(addresses, bank.view([1, 0, 3, 2]), "v4.b32")
            assert np.array_equal(warp.ld_shared(16 * LANES, "v4.b32"), content[:, [1, 0, 3, 2]])
        with row("ldmatrix"):
            opcode = "ldmatrix.sync.aligned.m8n8.x4.shared.b16"
            assert np.array_equal(warp.run(opcode, addresses), warp.run(opcode, 16 * LANES))
        with row("shfl"):
            assert np.array_equal(warp.shfl_sync("bfly", bank.view([2, 2]), 3), content[LANES ^ 3][:, [2, 2]])
        with row("atom"):
            old = warp.atom_shared("add.u32", addresses, bank.view([4]))
            assert np.array_equal(old, content[:, [1]])
            assert np.array_equal(warp.ld_shared(addresses), content[:, [1]] + content[:, [4]])
        with row("mma.sp"):
            sparse = "mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
            bank.view([15])[...] = 0x44444444
            rest = (bank.view([0, 1]), bank.view([2, 3]), bank.view([4, 5, 6, 7]))
            found = warp.run(sparse, *rest, bank.view([15]), 0)
            assert np.array_equal(found, warp.run(sparse, *rest, np.full(32, 0x44444444, np.uint32), 0))

    one(body, np.zeros(4, np.uint32))


def test_views_of_two_operands_may_overlap():
    """D over C and A: the instruction has read everything before anything is written."""
    content = np.random.default_rng(3).integers(0, 1 << 32, (32, 8), np.uint32)

    def body(warp):
        bank = bank_of(warp, 8, fill=0)
        bank.view(range(8))[...] = content
        a, b, c = bank.view([0, 1, 2, 3]), bank.view([2, 3]), bank.view([1, 2, 3, 4])
        found = warp.run(MMA, a, b, c)
        c[...] = found
        return bank.bits.copy(), found.bits

    bits, found = one(body)
    assert np.array_equal(found, tcemu.run(MMA, content[:, :4], content[:, 2:4], content[:, 1:5]))
    assert np.array_equal(bits[:, 1:5], found)
    assert np.array_equal(bits[:, [0, 5, 6, 7]], content[:, [0, 5, 6, 7]])


def test_observers_hear_numbers_within_the_bank():
    heard = []

    def body(warp):
        bank = bank_of(warp, 8)
        heard.clear()
        first, second = bank.view([6, 2]), bank.view([2])
        first[:, 1] = 5
        np.asarray(second)
        second[...] = 1
        assert not second.unwritten()
        np.asarray(bank.view([6]))

    one(body, observers=(heard.append,))
    touched = [event for event in heard if isinstance(event, events.Touched)]
    assert [(event.writes, event.which, event.unwritten) for event in touched] == [
        (True, (2,), ()), (False, (2,), ()), (True, (2,), ()), (False, (6,), (6,)),
    ]  # fmt: skip
    assert len({id(event.registers.bank) for event in touched}) == 1


# ------------------------------------------------------------------------------------------------ wgmma


def multiplied(warp, kept, *, wrong=""):
    """A whole mma_async on views of one bank; where `wrong`, another view accesses registers of a pending operation."""
    prepared(warp)
    bank = bank_of(warp, 16, fill=0)
    d = bank.view([12, 3, 8, 5])
    bank.view([1])[...] = 3
    warp.wgmma_fence()
    warp.run(F16, d, A, B, *ONES)
    warp.wgmma_commit_group()
    if wrong == "read":
        np.asarray(bank.view([0, 8]))
    if wrong == "write":
        bank.view(range(4))[...] = 1
    if wrong == "":
        np.asarray(bank.view([0, 1, 2]))  # others of the bank are nobody's concern
        bank.view([4])[...] = 7
    warp.wgmma_wait_group(0)
    kept[warp.warpid] = bank.bits.copy()


def test_an_accumulator_of_scattered_registers():
    kept = {}
    run_group(lambda warp: multiplied(warp, kept))
    for warp, bits in kept.items():
        assert np.array_equal(bits[:, [12, 3, 8, 5]], ACCUMULATED[32 * warp : 32 * warp + 32])
        others = [n for n in range(16) if n not in (12, 3, 8, 5)]
        assert np.array_equal(bits[:, others], np.tile([{4: 7, 1: 3}.get(n, 0) for n in others], (32, 1)))


@pytest.mark.parametrize(("wrong", "says"), [("read", "reads register 2"), ("write", "writes register 1")])
def test_another_view_of_what_is_under_way_is_found_out(wrong, says):
    told = rf"the kernel {says} of the accumulator .* no wgmma\.wait_group"
    found = tcemu.launch(
        lambda warp: multiplied(warp, {}, wrong=wrong), 1, 128, shared=4096, sanitizer="collect"
    ).reports
    (report,) = [report for report in found if report.rule == "wgmma-unwaited"]
    assert re.match(told, report.message)
    assert report.count == 4


def test_other_registers_of_the_bank_are_not():
    found = tcemu.launch(lambda warp: multiplied(warp, {}), 1, 128, shared=4096, sanitizer="collect")
    rules = {report.rule for report in found.reports if report.severity == "error"}
    assert rules == {"uninitialised-shared"}  # the tiles came without a store


@pytest.mark.parametrize("policy", ["late", "early", "random"])
@pytest.mark.parametrize("role", ["a", "d", "e"])
def test_a_plain_array_that_changes_while_it_is_read_is_found_out(role, policy):
    """The machine cannot see a numpy array being written; it compares it when the instruction ends."""
    pattern = tcemu.parse(F16).fragments["a"].pack(TILE_A.astype(np.float16))

    def kernel(warp, changed):
        prepared(warp)
        a = pattern[32 * warp.warpid : 32 * warp.warpid + 32].copy()
        d, e = np.zeros((32, 4), np.uint32), np.full(32, 0x44444444, np.uint32)
        if role == "a":
            warp.run(F16, d, a, B, True, 1, 1, 0)
        elif role == "d":
            warp.run(F16, d, A, B, *ONES)
        else:
            warp.run(SPARSE, d, A, B, e, 0, True, 1, 1, 0, 0)
        if changed and warp.warpid == 2:
            {"a": a, "d": d, "e": e}[role].reshape(-1)[5] ^= 0x0F000000 if role == "a" else 0x00000088
        warp.wgmma_commit_group()
        warp.wgmma_wait_group(0)

    def rules(changed):
        heard = []
        found = tcemu.launch(kernel, 1, 128, (changed,), shared=4096, policy=policy, sanitizer="collect",
                             observers=(heard.append,))  # fmt: skip
        changes = [event for event in heard if isinstance(event, events.OperandChanged)]
        told = [report for report in found.reports if "changed the array" in report.message]
        assert [(event.role, event.by.warp) for event in changes] == [(role, 2)] * len(changes)
        assert [report.by.warp for report in told] == [2] * len(told)
        assert len(changes) == len(told)
        return [report.rule for report in told]

    assert rules(False) == []
    # at once, under "early": nobody can change it while it is under way
    assert rules(True) in (["wgmma-unwaited"], *([[]] if policy != "late" else []))


def test_metadata_in_registers():
    """One register of each lane, as a front end has it."""
    results = {}

    def kernel(warp, made):
        prepared(warp)
        d = warp.registers(4, fill=0)
        e = warp.registers(1, fill=0x44444444) if made else np.full(32, 0x44444444, np.uint32)
        warp.run(SPARSE, d, A, B, e, 0, False, 1, 1, 0, 0)
        warp.wgmma_commit_group()
        warp.wgmma_wait_group(0)
        results.setdefault(made, {})[warp.warpid] = d.bits.copy()

    for made in (False, True):
        run_group(lambda warp, made=made: kernel(warp, made))
    assert all(np.array_equal(results[True][warp], results[False][warp]) for warp in range(4))
    assert D.shape == (64, 8)


# ------------------------------------------------------------------------------------------------ sites


def test_a_front_end_says_where_its_kernel_is():
    """`warp.core.at` stands for the line of Python in events, faults, reports and deadlocks."""
    heard, inner = [], Site("kernel.cu", 3, "helper")
    where = [Site("kernel.ptx", 12, "main", (inner,)), Site("kernel.ptx", 15, "main")]

    def kernel(warp):
        warp.core.at = where[0]
        registers = warp.registers(1, fill=0)
        registers[...] = 4
        warp.st_shared(4 * LANES, registers)
        warp.core.at = where[1]
        with warp.only(LANES < 3):
            warp.exit()
        warp.core.at = None
        warp.bar_warp_sync()

    tcemu.launch(kernel, 1, 32, shared=128, observers=(heard.append,))
    sites = [(event.name, event.by.site) for event in heard if hasattr(event, "by")]
    assert {site for name, site in sites if name in ("Touched", "Accessed")} == {where[0]}
    assert sites[0][1].inlined == (inner,)
    exits = [site for name, site in sites if name == "Exited"]
    assert exits[0] == where[1]
    last = [site for name, site in sites if name == "WarpSynced"]
    assert [(site.file, site.line) for site in last] == [(__file__, kernel.__code__.co_firstlineno + 9)]


def test_faults_and_reports_name_that_line():
    def faulty(warp):
        warp.core.at = Site("kernel.ptx", 7, "main")
        warp.ld_shared(2)

    def racing(warp):
        warp.core.at = Site("kernel.ptx", 20 + warp.warpid, "main")
        warp.st_shared(0, 1)

    def stuck(warp):
        warp.core.at = Site("kernel.ptx", 31, "main")
        warp.bar_sync(1, 64)

    with pytest.raises(MemoryFault, match=r"\(warp 0 of block 0 at kernel\.ptx:7\)"):
        one(faulty)
    found = tcemu.launch(racing, 1, 64, shared=128, sanitizer="collect").reports
    assert [(report.by.site.line, report.earlier.site.line) for report in found] == [(21, 20)]
    assert "kernel.ptx:20" in str(found[0])
    with pytest.raises(tcemu.TcemuError, match=r"since kernel\.ptx:31 for barrier 1"):
        launch(lambda warp: warp.warpid or stuck(warp), 1, 64)


def test_registers_that_no_warp_owns():
    bank = Bank(np.zeros((32, 2), np.uint32))
    view = Registers(bank)
    view[...] = 3
    assert bank.view([1])[:, 0].tolist() == [3] * 32


@pytest.mark.parametrize(
    ("work", "says"),
    [
        (lambda values: values + np.arange(32), r"np\.add of shapes \(32, 2\) and \(32,\).*; values\[:, None\] gives"),
        (lambda values: values[:, 0] ^ values, r"np\.bitwise_xor of shapes .*: they do not broadcast"),
        (lambda values: values * np.ones((32, 3), int), r"\(32, 3\): they do not broadcast.*with a row for each lane$"),
        (lambda values: values @ values, r"np\.matmul of shapes .* mismatch in its core dimension"),
    ],
)
def test_arrays_that_do_not_fit_registers_are_explained(work, says):
    with pytest.raises(OperandError, match=says):
        tcemu.launch(lambda warp: work(warp.registers(2, fill=1)))


def test_results_of_numpy_functions_go_where_out_says():
    held = {}

    def kernel(warp):
        values, rest = warp.registers(2, fill=7), warp.registers(2)
        quotient, remainder = np.divmod(values, 4, out=(None, rest))
        np.add(values, 1, out=values, where=np.arange(32)[:, None] < 2)
        held.update(quotient=quotient, same=remainder is rest, rest=rest.copy(), values=values.copy())

    tcemu.launch(kernel)
    assert held["same"]
    assert held["quotient"].tolist() == [[1, 1]] * 32
    assert held["rest"].tolist() == [[3, 3]] * 32
    assert held["values"].tolist() == [[8, 8]] * 2 + [[7, 7]] * 30

"""atom and red, strong loads and stores, fences, bar.red, and hints that change nothing."""

import re
import struct
from fractions import Fraction

import numpy as np
import pytest

from tcemu.errors import Deadlock, IllegalInstruction, MemoryFault, OperandError
from tcemu.instructions import atomic
from tcemu.machine import events
from tcemu.machine.launch import launch
from tcemu.machine.registers import POISON
from tcemu.machine.tensor_map import TensorMap


def run(body, *args, block=32, **options):
    """Launch one block; what `body` answered for each warp."""
    answers = {}

    def kernel(warp, *given):
        answers[warp.warpid] = body(warp, *given)

    launch(kernel, 1, block, args, shared=4096, **options)
    return answers[0] if len(answers) == 1 else [answers[warp] for warp in sorted(answers)]


def spellings(family):
    """The opcode after order, scope and state space: "add.u32", of one element that a lane holds."""
    every = (words for words, _ in family.variants if "vec" not in words)
    return dict.fromkeys(".".join(words[slot] for slot in ("op", "noftz", "type") if slot in words) for words in every)


ATOM, RED = spellings(atomic.ATOM), spellings(atomic.RED)

# ------------------------------------------------------------------------------------------------ what is computed

#: The semantics of PTX ISA 9.1, 9.7.13.5, line by line, on integers without a bound.
INTEGERS = {
    "and": lambda r, s: r & s, "or": lambda r, s: r | s, "xor": lambda r, s: r ^ s, "exch": lambda _, s: s,
    "add": lambda r, s: r + s, "min": min, "max": max,
    "inc": lambda r, s: 0 if r >= s else r + 1, "dec": lambda r, s: s if r == 0 or r > s else r - 1,
}  # fmt: skip


def number(bits, width, signed):
    return bits - (1 << width) if signed and bits >> width - 1 else bits


@pytest.mark.parametrize("places", [1, 2, 20, 32])
def test_integers_one_lane_after_the_other(row, places):
    """Lanes that share a place: all of them, many, a few, none."""
    random, lanes = np.random.default_rng(1), np.arange(32) % places
    for spelling in ATOM:
        operation, _, kind = spelling.rpartition(".")
        if kind[0] not in "bus" or kind.startswith("bf") or operation == "cas" or kind == "b128":
            continue
        width, signed = int(kind[1:]), kind[0] == "s"
        start = int(random.integers(0, 1 << width, dtype=np.uint64)) if width < 64 else 3 << 62
        given = random.integers(0, 1 << 62, 32).astype(np.uint64) * 5 % (1 << min(width, 63))
        given = np.where(random.random(32) < 0.3, 7, given).astype(f"u{width // 8}")
        expected, values = [], [start] * places
        for lane, each in zip(lanes.tolist(), given.tolist(), strict=True):
            old = values[lane]
            expected.append(old)
            values[lane] = INTEGERS[operation](number(old, width, signed), number(each, width, signed)) % (1 << width)
        for space in ("shared", "global"):

            def body(warp, p, space=space, given=given, spelling=spelling, start=start, width=width):
                at = (8 if space == "shared" else p) + lanes * (width // 8)
                getattr(warp, f"st_{space}")(at, np.full(32, start, given.dtype), f"b{width}")
                old = getattr(warp, f"atom_{space}")(spelling, at, given)
                return old[:, 0].tolist(), getattr(warp, f"ld_{space}")(at, f"b{width}")[:places, 0].tolist()

            with row(f"{space} {spelling}"):
                assert run(body, np.zeros(32, np.uint64)) == (expected, values)


def halves(*numbers):
    return int.from_bytes(struct.pack(f"<{len(numbers)}e", *numbers), "little")


def test_floats_round_to_nearest_even(row):
    tiny = 2.0**-149
    cases = [
        ("add.f32", np.float32, 1.0, 2.0**-24, 1.0), ("add.f32", np.float32, 1.0, 3 * 2.0**-24, 1 + 2.0**-22),
        ("add.f64", np.float64, 1.0, 2.0**-53, 1.0),
        ("add.noftz.f16", np.uint32, halves(1), halves(2.0**-11), halves(1)),
        ("add.noftz.f16", np.uint32, halves(2.0**-24), halves(2.0**-24), halves(2.0**-23)),
        ("add.noftz.f16x2", np.uint32, halves(1, 2), halves(3, -5), halves(4, -3)),
        ("add.noftz.bf16", np.uint32, 0x3F80, 0x3F80, 0x4000), ("add.noftz.bf16", np.uint32, 0x3F80, 0x3B80, 0x3F80),
        ("add.noftz.bf16x2", np.uint32, 0x3F80_4000, 0x3F80_C000, 0x4000_0000),
        ("add.f32", np.float32, np.inf, -np.inf, 0x7FFFFFFF), ("add.noftz.f16", np.uint32, 0x7C00, 0xFC00, 0x7FFF),
        ("add.f32", np.float32, tiny, tiny, (2 * tiny, 0.0)), ("add.f32", np.float32, -tiny, 1.0, (1.0, 1.0)),
        ("add.f32", np.float32, 2.0**-126, -(2.0**-127), (2.0**-127, 2.0**-126)),
    ]  # fmt: skip
    for number_of, (spelling, dtype, start, given, wanted) in enumerate(cases):
        size = {"f64": 8, "f16": 2, "bf16": 2}.get(spelling.rpartition(".")[2], 4)
        for space in ("shared", "global"):

            def body(warp, p, space=space, start=start, given=given, dtype=dtype, spelling=spelling, size=size):
                at = 16 if space == "shared" else p
                kind = f"b{8 * size}"
                one = warp.only(warp.laneid == 3)
                with one:
                    getattr(warp, f"st_{space}")(at, np.full(32, start, dtype), kind)
                    getattr(warp, f"red_{space}")(spelling, at, np.full(32, given, dtype))
                    return int(getattr(warp, f"ld_{space}")(at, kind)[3, 0])

            want = wanted[space == "global"] if isinstance(wanted, tuple) else wanted
            bits = want if isinstance(want, int) else int(np.array(want, dtype).view(f"u{size}"))
            with row(f"{number_of} {space} {spelling}"):
                assert run(body, np.zeros(2, np.uint64)) == bits


def test_the_largest_sum_of_halves_is_exact():
    """512 additions of 0.125: every one is exact in f16, in whatever order."""
    out = np.zeros(1, np.float16)
    for seed in range(3):
        out[:] = 0
        launch(
            lambda warp, p: warp.red_global("add.noftz.f16", p, np.full(32, 0.125, np.float16)),
            4, 128, (out,), seed=seed,
        )  # fmt: skip
        assert Fraction(float(out[0])) == 64


def test_compare_and_swap():
    def body(warp):
        warp.st_shared(0, 5, "b64")
        first = warp.atom_shared("cas.b32", 0, 5, warp.laneid + 100)
        then = warp.atom_shared("cas.b64", 0, np.where(warp.laneid == 31, 100, 9), 1 << 40)
        half = warp.atom_shared("cas.b16", 6, 0, 0x1234)
        return (
            first[:, 0].tolist(),
            then.dtype,
            then[:, 0].tolist(),
            half[:, 0].tolist(),
            warp.ld_shared(0, "b64")[0, 0],
        )

    first, kind, then, half, left = run(body)
    assert first == [5] + [100] * 31
    assert (kind, then) == (np.uint64, [100] * 32)
    assert half == [0] + [0x1234] * 31
    assert left == (1 << 40) + (0x1234 << 48)


def test_lanes_in_any_order_under_other_seeds():
    orders = set()
    for seed in range(4):
        old = run(lambda warp: warp.atom_shared("inc.u32", 0, 1000)[:, 0].tolist(), seed=seed)
        assert sorted(old) == list(range(32))
        orders.add(tuple(old))
    assert tuple(range(32)) in orders
    assert len(orders) == 4


def test_only_active_lanes_take_part():
    def body(warp):
        with warp.only(warp.laneid % 8 == 5):
            old = warp.atom_shared("add.u32", 4 * (warp.laneid // 16), 10)
        with warp.only(False):
            nothing = warp.atom_shared("add.u32", -1, 1)
        return old.bits[:, 0].tolist(), old.unwritten(), nothing.unwritten(), warp.ld_shared(0, "v2.b32")[0].tolist()

    bits, some, none, left = run(body)
    assert [bits[lane] for lane in (5, 13, 21, 29)] == [0, 10, 0, 10]
    assert bits[0] == POISON
    assert (some, none, left) == ((0,), (0,), [20, 20])


# ------------------------------------------------------------------------------------------------ what is told


def accesses(body, **options):
    heard = []
    run(body, observers=(heard.append,), **options)
    return [each for each in heard if isinstance(each, events.Accessed)]


def test_what_observers_hear(row):
    cases = {
        "ld_shared(0, order='acquire')": [("ld.acquire.cta.shared.b32", False, "acquire")],
        "ld_shared(0, order='acquire.gpu')": [("ld.acquire.gpu.shared.b32", False, "acquire")],
        "ld_shared(0, order='weak')": [("ld.weak.shared.b32", False, "")],
        "run('ld.volatile.shared.v2.b32', 0)": [("ld.volatile.shared.v2.b32", False, "volatile")],
        "run('st.release.sys.shared.b32', 0, 1)": [("st.release.sys.shared.b32", True, "release")],
        "run('st.relaxed.cta.shared.b32', 0, 1)": [("st.relaxed.cta.shared.b32", True, "relaxed")],
        "atom_shared('add.u32', 0, 1)": [
            ("atom.shared.add.u32", False, "relaxed"), ("atom.shared.add.u32", True, "relaxed"),
        ],
        "run('atom.acq_rel.cta.shared.add.u32', 0, 1)": [
            ("atom.acq_rel.cta.shared.add.u32", False, "acquire"), ("atom.acq_rel.cta.shared.add.u32", True, "release"),
        ],
        "atom_shared('cas.b32', 0, 1, 2, order='acquire')": [
            ("atom.acquire.cta.shared.cas.b32", False, "acquire"), ("atom.acquire.cta.shared.cas.b32", True, "relaxed"),
        ],
        "run('atom.sys.shared::cta.exch.b32', 0, 1)": [
            ("atom.sys.shared::cta.exch.b32", False, "relaxed"), ("atom.sys.shared::cta.exch.b32", True, "relaxed"),
        ],
        "run('red.release.gpu.shared.add.u32', 0, 1)": [
            ("red.release.gpu.shared.add.u32", False, "relaxed"), ("red.release.gpu.shared.add.u32", True, "release"),
        ],
    }  # fmt: skip
    for call, expected in cases.items():
        with row(call):
            heard = accesses(lambda warp, call=call: eval(f"warp.{call}", {"warp": warp}))  # noqa: S307 - the table
            assert [(each.opcode, each.writes, each.order) for each in heard] == expected


def test_hints_to_the_caches_change_nothing():
    def body(warp, p):
        warp.prefetch_tensormap(TensorMap.of(p, (16,)))
        warp.prefetch_global("L1", p + 4 * warp.laneid)
        warp.griddepcontrol("launch_dependents")
        warp.run("st.global.cs.b32", p + 4 * warp.laneid, warp.laneid + 1)
        warp.run("cp.async.cg.shared.global.L2::128B", 16 * (warp.laneid % 8), p + 16 * (warp.laneid % 8), 16)
        warp.cp_async_wait_all()
        found = warp.run("ld.global.nc.L1::no_allocate.L2::256B.v2.b32", p + 8)
        return found[0].tolist(), warp.ld_shared(12)[0, 0]

    assert run(body, np.zeros(64, np.uint32)) == ([3, 4], 4)


@pytest.mark.slow
def test_loops_that_wait_for_a_place(row):
    """A loop on memory ends if another warp changes it; if none does, an error says so."""

    def flag(warp):
        if warp.warpid == 0:
            warp.bar_warp_sync()
            warp.st_shared(0, 1, order="release")
            return
        while not warp.ld_shared(0, order="acquire")[0, 0]:
            warp.nanosleep(100)

    def lock(warp):
        with warp.only(warp.laneid == 0):
            while warp.atom_shared("cas.b32", 0, 0, 1)[0, 0]:
                pass
            if warp.warpid < 2:
                warp.atom_shared("exch.b32", 0, 0)

    for seed in range(4):
        with row(f"flag {seed}"):
            run(flag, block=64, seed=seed)
        with row(f"lock {seed}"):
            run(lock, block=64, seed=seed)
        with row(f"kept {seed}"), pytest.raises(Deadlock, match="shared memory at 0 to change"):
            run(lock, block=160, seed=seed)


# ------------------------------------------------------------------------------------------------ bar.red


def test_votes_of_the_block(row):
    for seed in range(3):

        def body(warp, seed=seed):
            found = []
            for step in range(5):
                mine = warp.threads % 7 < step
                found += [warp.bar_red("popc", mine), warp.bar_red("and", mine), warp.bar_red("or", mine)]
            found.append(warp.run("bar.red.or.pred", 3, 96, warp.warpid == 1))
            return found

        true = [[thread % 7 < step for thread in range(80)] for step in range(5)]
        with row(seed):
            expected = [each for votes in true for each in (sum(votes), all(votes), any(votes))]
            assert run(body, block=80, seed=seed) == [[*expected, True]] * 3


def test_bar_red_is_a_barrier():
    def body(warp):
        warp.st_shared(4 * warp.threads, warp.threads)
        warp.bar_red("or", False)
        return warp.ld_shared(4 * (127 - warp.threads))[:, 0].tolist()

    for seed in range(4):
        assert np.concatenate(run(body, block=128, seed=seed)).tolist() == list(range(127, -1, -1))
    with pytest.raises(Deadlock, match="barrier 2, where 32 of 64 threads have arrived"):
        run(lambda warp: warp.warpid or warp.bar_red("or", True, 2, 64), block=64)


# ------------------------------------------------------------------------------------------------ what is refused


def test_refusals(row):
    """Invalid operands, and invalid instructions, whose errors name the words that would be legal."""
    operands = [
        (lambda w: w.atom_shared(None, 0, 1), "atom: what follows .shared is text, as the opcode spells it; got None"),
        (lambda w: w.atom_shared("cas.b32", 0, 1), "atom.shared.cas.b32 takes address, b and c; got 2 operands"),
        (lambda w: w.atom_shared("add.u32", 0, 1, 2), "atom.shared.add.u32 takes address and b; got 3 operands"),
        (lambda w: w.st_shared(0, 0, order=5), "st: order is text, as the opcode spells it; got 5 (PTX ISA 9.1, 9.7."),
        (lambda w: w.atom_shared("add.f32", 0, 1.5), "stores integers, or floats of 32 bits"),
        (lambda w: w.bar_red("or", 1), f"bar.red.or.pred: a predicate must be bool (32,); got dtype {np.dtype(int)}"),
        (lambda w: w.bar_red(3, True), "bar.red: mode is text, as the opcode spells it; got 3 (PTX ISA 9.1, 9.7.13.1 "),
        (lambda w: w.prefetch_tensormap(0), "takes a TensorMap; got 0"),
        (lambda w: w.nanosleep("long"), "nanosleep.u32: duration must be one integer for all lanes"),
        (lambda w: w.fence(None), "fence: semantics is text, as the opcode spells it; got None (PTX ISA 9.1, 9.7."),
        (lambda w: w.redux_sync(None, 1), "redux.sync: operation is text"),
    ]
    forms = [
        (lambda w: w.atom_shared("add.s16", 0, 1), "'.s16' is not a qualifier of atom"),
        (lambda w: w.atom_shared("sub.u32", 0, 1), "'.sub' is not a qualifier of atom"),
        (lambda w: w.atom_shared("cas.u32", 0, 1, 2), ".u32 cannot be combined with the other qualifiers: .type"),
        (lambda w: w.atom_shared("add.u32", 0, 1, order="sc"), "'.sc' is not a qualifier of atom"),
        (lambda w: w.red_shared("add.u32", 0, 1, order="acquire"), "'.acquire' is not a qualifier of red"),
        (lambda w: w.red_shared("exch.b32", 0, 1), "'.exch' is not a qualifier of red"),
        (lambda w: w.ld_shared(0, order="release"), "'.release' is not a qualifier of ld"),
        (lambda w: w.ld_shared(0, order="cta"), "The .order qualifier is missing: .order must be .relaxed"),
        (lambda w: w.ld_shared(0, order="volatile.cta"), ".volatile cannot be combined with the other qualifiers"),
        (lambda w: w.st_shared(0, 0, order="acquire"), "'.acquire' is not a qualifier of st"),
        (lambda w: w.bar_red("xor", True), "'.xor' is not a qualifier of bar"),
        (lambda w: w.fence("strong"), "'.strong' is not a qualifier of fence"),
        (lambda w: w.fence("sc", "block"), "'.block' is not a qualifier of fence"),
        (lambda w: w.membar("gpu"), "'.gpu' is not a qualifier of membar"),
        (lambda w: w.prefetch_global("L3", 0), "'.L3' is not a qualifier of prefetch"),
        (lambda w: w.griddepcontrol("go"), "'.go' is not a qualifier of griddepcontrol"),
    ]
    for kind, cases in ((OperandError, operands), (IllegalInstruction, forms)):
        for does, says in cases:
            with row(f"{kind.__name__} {says}"), pytest.raises(kind, match=re.escape(says)) as caught:
                run(does)
            assert "PTX ISA 9.1, 9.7." in str(caught.value)
            assert kind is OperandError or "Nearest legal form: " in str(caught.value)
    for does, kind in (
        (lambda w: w.atom_shared("add.u64", 4, 1), MemoryFault),
        (lambda w: w.red_shared("add.u32", 4096, 1), MemoryFault),
        (lambda w: w.atom_global("add.u32", 0, 1), MemoryFault),
    ):
        with row(f"{does}"), pytest.raises(kind):
            run(does)


def test_gates(row):
    for target, does in (
        ("sm_80", lambda w: w.red_shared("add.noftz.bf16x2", 0, 0)),
        ("sm_80", lambda w: w.fence("acq_rel", "cluster")),
        ("sm_80", lambda w: w.fence("acquire", "cta")),
        ("sm_80", lambda w: w.griddepcontrol("wait")),
    ):
        with row(f"{does}"), pytest.raises(IllegalInstruction, match="does not exist on sm_80: it needs"):
            run(does, target=target)
        run(does)
    run(lambda w: w.red_shared("add.noftz.f16x2", 0, 0), target="sm_70")


# ------------------------------------------------------------------------------------------------ lanes and registers


def test_assignments_write_active_lanes():
    """As a move under a predicate does."""

    def body(warp):
        r = warp.registers(2, fill=1)
        empty = warp.registers(1)
        with warp.only(warp.laneid < 4):
            r[:, 0] = 7
            r += 1
            empty[...] = 3
            loaded = warp.ld_shared(0)
            r[:, 1:] = loaded
        return r[:5].tolist(), empty.unwritten(), empty.bits[:5, 0].tolist()

    left, unwritten, bits = run(body)
    assert left == [[8, 0]] * 4 + [[1, 1]]
    assert (unwritten, bits) == ((0,), [3, 3, 3, 3, POISON])


def test_a_choice_among_lanes_reads_none_that_was_never_written():
    """`inside ? loaded : 0`, and a shuffle from the one lane that has a value."""
    heard = []

    def body(warp):
        with warp.only(warp.laneid < 4):
            loaded = warp.ld_shared(0)
        chosen = np.where(warp.laneid < 4, loaded[:, 0], 5)
        return chosen.tolist(), warp.shfl_sync("idx", loaded, 3)[:, 0].tolist()

    assert run(body, observers=(heard.append,)) == ([0] * 4 + [5] * 28, [0] * 32)
    unwritten = [each for each in heard if isinstance(each, events.Touched) and each.unwritten]
    assert not unwritten
    for use in (lambda _, r: r + 1, lambda w, r: w.shfl_sync("down", r, 1), lambda w, r: w.st_shared(0, r)):

        def faulty(warp, use=use):
            with warp.only(warp.laneid < 4):
                loaded = warp.ld_shared(0)
            use(warp, loaded)

        heard.clear()
        run(faulty, observers=(heard.append,))
        assert any(isinstance(each, events.Touched) and each.unwritten == (0,) for each in heard)


def test_the_table_of_reductions():
    assert set(ATOM) - set(RED) == {
        "exch.b32", "exch.b64", "exch.b128", "cas.b16", "cas.b32", "cas.b64", "cas.b128"
    }  # fmt: skip
    assert {"add.u32", "inc.u32", "min.s64", "and.b32", "add.f64", "add.noftz.bf16x2"} <= set(RED)

"""The families that belong in a kernel: legal is what ptxas takes, spellings go both ways, errors teach.

tests/golden/ptxas-words.txt has ptxas's verdicts; tools/ask_assembler.py writes it.
"""

import re
from collections import defaultdict
from itertools import product

import plain_families
import pytest
from click.testing import CliRunner
from quick import some
from rows import rows

import tcemu
from tcemu import IllegalInstruction, OperandError, parse
from tcemu.commands.isa import isa
from tcemu.errors import TableError
from tcemu.instructions import FAMILIES, TARGETS
from tcemu.instructions.elements import elements_of, order_of, space_of
from tcemu.instructions.explain import default_target, explain
from tcemu.instructions.operand import Operand
from tcemu.instructions.plain import family, one

KERNEL = [family for family in FAMILIES if family.execute is None]


def verdicts():
    """For each family its forms and its hinted forms: (words, lowest PTX version, targets), and the words asked."""
    found = defaultdict(lambda: {"forms": [], "hints": [], "asked": {}})
    for name, entries in plain_families.read()[1].items():
        for entry in entries:
            family, kind = found[name], "hints" if entry.kind else "forms"
            words = plain_families.products_of(entry)
            if not entry.version:
                family["asked"][kind] = words
                continue
            for chosen in product(*words.values()):
                spelt = {slot: word for slot, word in zip(words, chosen, strict=True) if word != "-"}
                family[kind].append((spelt, entry.version, list(entry.targets)))
    return found


VERDICTS = verdicts()


def gate(instruction):
    return instruction.gate.ptx, [name for name, target in TARGETS.items() if instruction.gate.admits(target)]


#: What ptxas takes beyond the manual, and the table leaves out: it says nothing of what these would mean.
BEYOND = {
    "fence.proxy": lambda words: (
        (words["proxy"] != "tensormap::generic" and words.get("order") == "acq_rel")
        or (words["proxy"] != "async::generic" and "sync_restrict" in words)
        or (words["proxy"] == "alias" and "order" in words)
    ),
    "st.async": lambda words: "order" not in words and "done" not in words,
    "red.async": lambda words: words["order"] == "relaxed" and "done" not in words,
}  # fmt: skip


@rows("family", some(KERNEL, 6), lambda family: family.name)
def test_legal_is_what_the_assembler_takes(family):
    """Every product of words was asked: the forms of the table are those that ptxas takes, there and from then on."""
    told = VERDICTS[family.name]
    beyond = BEYOND.get(family.name, lambda _: False)
    forms = [each for each in told["forms"] if not beyond(each[0])]
    assert len(forms) < len(told["forms"]) or family.name not in BEYOND
    spelt = {family.spelling.write(words): (version, targets) for words, version, targets in forms}
    assert {form.opcode: gate(form) for _, form in family.variants} == spelt
    for slot, words in family.spelling.vocabulary.items():
        asked = {word for kind in told["asked"].values() for word in kind.get(slot, ())}
        assert asked >= set(words), f"ptxas was not asked for all words of .{slot}"


HINTED = [family for family in KERNEL if any(row.hints for row in family.rows)]


@pytest.mark.slow
@pytest.mark.parametrize("family", HINTED, ids=lambda family: family.name)
def test_hints_are_what_the_assembler_takes(family):
    """The first form of each row with every combination of hints."""
    told = VERDICTS[family.name]
    taken = {family.spelling.write(words): (version, targets) for words, version, targets in told["hints"]}
    slots = {slot: {} for row in family.rows for slot in row.hints}
    for slot, words in ((slot, words) for row in family.rows for slot, words in row.hints.items()):
        slots[slot] |= dict.fromkeys(words)
    mine = {}
    for chosen in product(*(["", *words] for words in slots.values())):
        hints = {slot: word for slot, word in zip(slots, chosen, strict=True) if word}
        for words in (row.ends[0] | hints for row in family.rows if hints):
            if any(row.admits(words) for row in family.rows):
                mine[family.spelling.write(words)] = gate(family.find(words))
    assert mine == taken


def test_a_file_that_is_read_and_written_stays_the_same(tmp_path):
    plain_families.write(*plain_families.read(), tmp_path / "again.txt")
    assert (tmp_path / "again.txt").read_text() == plain_families.WORDS_FILE.read_text()


def test_a_family_with_new_words_is_asked_again():
    _, sections = plain_families.read()
    family = next(each for each in KERNEL if each.name == "setmaxnreg")
    assert not any(plain_families.unasked(each, sections) for each in KERNEL)
    assert plain_families.unasked(family, {name: held for name, held in sections.items() if name != family.name})
    fewer = [entry._replace(words=entry.words.replace("dec,inc", "dec")) for entry in sections[family.name]]
    assert plain_families.unasked(family, sections | {family.name: fewer})


def test_roles_of_a_family_of_its_own_need_no_operands_in_the_tool():
    """The assembler is asked with registers of the width that the role's record gives; a word may name the role."""
    roles = {f"d_{num}": Operand("d", "registers", registers=int(num[1:])) for num in ("x1", "x4")}
    roles |= {"cell": Operand("cell", "address"), "columns": Operand("columns", "value", bits=64)}
    own = family("tryout", "tryout.{num}", "0", [one(num="x1 x4")], signature="d_{num} = cell columns", roles=roles)
    assert plain_families.line(own, {"num": "x1"}) == "tryout.x1 {%r0}, [%r1], %rd1;"
    assert plain_families.line(own, {"num": "x4"}) == "tryout.x4 {%r0,%r1,%r2,%r3}, [%r1], %rd1;"


def test_every_family_was_asked():
    assert set(VERDICTS) == {family.name for family in KERNEL}


# Spelling -------------------------------------------------------------------------------------------------------------

#: An opcode as programs write it, and the family that has it.
WRITTEN = {
    "ld.shared.v4.b32": "ld",
    "ld.global.nc.L1::no_allocate.L2::128B.v4.f32": "ld",
    "ld.acquire.gpu.global.u32": "ld",
    "ld.volatile.shared::cta.b8": "ld",
    "ld.weak.global.cg.u64": "ld",
    "ld.relaxed.cta.shared.b32": "ld",
    "st.global.wt.f32": "st",
    "st.release.sys.b128": "st",
    "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32": "st.async",
    "atom.global.add.noftz.bf16x2": "atom",
    "atom.acq_rel.cluster.shared::cta.cas.b16": "atom",
    "red.relaxed.gpu.global.add.u32": "red",
    "red.global.add.v4.f32": "red",
    "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.inc.u32": "red.async",
    "fence.cta": "fence",
    "fence.proxy.tensormap::generic.acquire.gpu": "fence.proxy",
    "fence.mbarrier_init.release.cluster": "fence.mbarrier_init",
    "membar.gl": "membar",
    "match.all.sync.b64": "match.sync",
    "redux.sync.and.b32": "redux.sync",
    "bar.cta.red.popc.u32": "bar.red",
    "barrier.sync.aligned": "barrier.sync",
    "barrier.cluster.arrive.relaxed.aligned": "barrier.cluster.arrive",
    "bar.warp.sync": "bar.warp.sync",
    "mbarrier.arrive.release.cta.shared::cta.b64": "mbarrier.arrive",
    "mbarrier.arrive.expect_tx.shared.b64": "mbarrier.arrive.expect_tx",
    "mbarrier.try_wait.parity.shared::cta.b64": "mbarrier.try_wait.parity",
    "cp.async.cg.shared.global.L2::128B": "cp.async",
    "cp.async.mbarrier.arrive.noinc.shared.b64": "cp.async.mbarrier.arrive",
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint": "cp.async.bulk.load",
    "cp.async.bulk.global.shared::cta.bulk_group": "cp.async.bulk.store",
    "cp.async.bulk.wait_group.read": "cp.async.bulk.wait_group",
    "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes": "cp.async.bulk.tensor.load",
    "cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group": "cp.async.bulk.tensor.store",
    "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group": "cp.reduce.async.bulk.tensor",
    "cp.async.bulk.prefetch.L2.global": "cp.async.bulk.prefetch",
    "prefetch.param.tensormap": "prefetch.tensormap",
    "griddepcontrol.launch_dependents": "griddepcontrol",
    "clusterlaunchcontrol.try_cancel.async.mbarrier::complete_tx::bytes.b128": "clusterlaunchcontrol.try_cancel",
    "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128": "clusterlaunchcontrol.is_canceled",
    "multimem.red.relaxed.gpu.global.add.v4.bf16x2": "multimem.red",
    "tensormap.replace.tile.rank.shared::cta.b1024.b32": "tensormap.replace",
}


def test_opcodes_find_their_family(row):
    for opcode, name in WRITTEN.items():
        with row(opcode):
            found = parse(opcode)
            assert (found.family, found.opcode) == (name, opcode)
            assert parse(f" {opcode};") is found
            assert found.knows_fragments
            assert found.fragments == found.types == {}


def test_qualifiers_in_any_order_but_the_first_words_and_the_ends_of_a_copy():
    assert parse("ld.v4.shared.b32.relaxed.cta").opcode == "ld.relaxed.cta.shared.v4.b32"
    assert parse("cp.async.global.shared.cg").opcode == "cp.async.cg.shared.global"
    # ptxas 13.0 takes .sync anywhere in these; CUB writes vote.ballot.sync.b32
    assert parse("vote.ballot.sync.b32").opcode == "vote.sync.ballot.b32"
    assert parse("vote.any.pred.sync").opcode == "vote.sync.any.pred"
    assert parse("shfl.bfly.sync.b32").opcode == "shfl.sync.bfly.b32"
    assert parse("match.sync.any.b32").opcode == "match.any.sync.b32"
    assert parse("redux.s32.add.sync").opcode == "redux.sync.add.s32"
    for opcode in ("bar.sync.cta", "vote.ballot.b32", "cp.bulk.async.commit_group", "sync.bar"):
        with pytest.raises(IllegalInstruction):
            parse(opcode)
    with pytest.raises(IllegalInstruction, match=r"\.dst and \.src qualifiers must be in this order: \.global before"):
        parse("cp.async.bulk.shared::cta.global.bulk_group")


# Errors ---------------------------------------------------------------------------------------------------------------

#: What is asked, and what the answer says.
REFUSED = {
    "ld.shared.v3.b32": ["Did you mean 'v4'? .vec must be .v2, .v4 or .v8", "ld.shared.v4.b32 (PTX ISA 9.1, 9.7.9.8 "],
    "ld.shared.v2.b128": [".b128 cannot be combined", ".vec must be absent", "form: ld.shared.b128"],
    "ld.shared.v4.b64": [".v4 cannot be combined", ".vec must be absent or .v2", "form: ld.shared.v2.b64"],
    "ld.relaxed.shared.b32": ["The .scope qualifier is missing", ".scope must be .cta, .gpu, .cluster or .sys"],
    "ld.cta.shared.b32": ["The .order qualifier is missing: .order must be .relaxed or .acquire"],
    "ld.volatile.global.ca.b32": [".ca cannot be combined", "form: ld.volatile.global.b32"],
    "ld.shared.nc.b32": [".ss must be .global", ".nc must be absent"],
    "ld.global": ["the .type qualifier is missing; it must be .b32, ", "form: ld.global.b32"],
    "st.global.ca.b32": ["'.ca' is not a qualifier of st", "form: st.global.b32"],
    "st.acquire.gpu.global.b32": ["'.acquire' is not a qualifier of st"],
    "atom.shared.add.s64": [".op must be .min or .max", ".type must be .u32, .s32, .u64, .f32 or .f64"],
    "atom.shared.add.f16": ["form: atom.shared.add.noftz.f16"],
    "red.shared.exch.b32": ["'.exch' is not a qualifier of red", "form: red.shared.and.b32 (PTX ISA 9.1, 9.7.13.6 "],
    "vote.sync.any": ["the .type qualifier is missing", "form: vote.sync.any.pred"],
    "vote.sync.ballot.pred": ["form: vote.sync.ballot.b32"],
    "vote.any.pred": ["vote is followed by .sync"],
    "bar.sync.aligned": ["'.aligned' is not a qualifier of bar", "form: bar.sync (PTX ISA 9.1, 9.7.13.1 "],
    "bar.wait": ["bar is followed by .arrive, .cta.arrive, .cta.red, .cta.sync, .red, .sync or .warp.sync"],
    "mbarrier.arrive.cta.shared.b64": ["The .order qualifier is missing", "mbarrier.arrive.release.cta.shared.b64"],
    "mbarrier.init.shared::cluster.b64": ["'.shared::cluster' is not a qualifier", "form: mbarrier.init.shared"],
    "mbarrier.test_wait.shared.b32": ["form: mbarrier.test_wait.shared.b64"],
    "cp.async.commit_groups": ["form: cp.async.commit_group (PTX ISA 9.1, 9.7.9.25.3.2 "],
    "cp.async.bulk.tensor.6d.global.shared::cta.bulk_group": [".dim must be .1d, .2d, .3d, .4d or .5d"],
    "cp.async.bulk.shared::cta.global": [".mbarrier::complete_tx::bytes is missing; it is mandatory"],
    "fence.acq_rel": ["the .scope qualifier is missing; it must be .cta, .gpu, .sys or .cluster"],
    "setmaxnreg.keep.sync.aligned.u32": ["'.keep' is not a qualifier", "form: setmaxnreg.inc.sync.aligned.u32"],
    "mbarier.init.b64": ["no instruction is called 'mbarier'", "Did you mean 'mbarrier'?"],
}  # fmt: skip


def test_what_is_refused_teaches(row):
    for opcode, says in REFUSED.items():
        with row(opcode):
            with pytest.raises(IllegalInstruction) as error:
                parse(opcode)
            for words in says:
                assert words in str(error.value)


def test_gates_tell_what_a_target_and_a_version_lack(row):
    cases = [
        ("ld.global.v8.b32", {"target": "sm_90"}, "needs sm_100 or later"),
        ("ld.global.L2::256B.b32", {"target": "sm_75"}, "needs sm_80 or later"),
        ("ld.global.L2::256B.b32", {"ptx": "7.3"}, r"was introduced in PTX ISA 7\.4"),
        ("ld.shared::cta.b32", {"ptx": "7.7"}, r"was introduced in PTX ISA 7\.8"),
        ("atom.global.add.noftz.bf16", {"target": "sm_80"}, "needs sm_90 or later"),
        ("redux.sync.add.u32", {"target": "sm_75"}, "needs sm_80 or later"),
        ("setmaxnreg.inc.sync.aligned.u32", {"target": "sm_90"}, "needs sm_90a"),
        ("fence.acquire.gpu", {"ptx": "8.5"}, r"was introduced in PTX ISA 8\.6"),
    ]
    for opcode, where, says in cases:
        with row(f"{opcode} {where}"):
            assert parse(opcode)
            with pytest.raises(IllegalInstruction, match=says):
                parse(opcode, **where)


# What the machine reads -----------------------------------------------------------------------------------------------


def test_elements(row):
    cases = {
        "ld.shared.v4.s16": ("s16", 4, 16, True, 8, "uint32", 4, "int16"),
        "ld.global.b128": ("b128", 1, 128, False, 16, "uint64", 2, "uint64"),
        "st.v2.f64": ("f64", 2, 64, False, 16, "uint64", 2, "uint64"),
        "ld.u8": ("u8", 1, 8, False, 1, "uint32", 1, "uint8"),
        "red.global.add.noftz.v4.bf16x2": ("bf16x2", 4, 32, False, 16, "uint32", 4, "uint32"),
        "atom.shared.cas.b64": ("b64", 1, 64, False, 8, "uint64", 1, "uint64"),
    }
    for opcode, (type_, count, bits, signed, size, register, registers, element) in cases.items():
        with row(opcode):
            found = elements_of(parse(opcode))
            assert (found.type, found.count, found.bits, found.signed) == (type_, count, bits, signed)
            assert (found.bytes, found.register, found.registers, found.element) == (size, register, registers, element)
    with pytest.raises(TableError, match=r"bar\.sync has no \.type"):
        elements_of(parse("bar.sync"))


def test_orders_and_spaces(row):
    cases = {
        "ld.shared.b32": (("weak", ""), "shared"),
        "ld.weak.b32": (("weak", ""), "generic"),
        "st.volatile.global.b32": (("volatile", "sys"), "global"),
        "ld.acquire.cta.shared::cluster.b32": (("acquire", "cta"), "shared::cluster"),
        "ld.mmio.relaxed.sys.global.u32": (("relaxed", "sys"), "global"),
        "atom.global.add.u32": (("relaxed", "gpu"), "global"),
        "red.release.shared::cta.add.u32": (("release", "gpu"), "shared"),
        "membar.gl": (("sc", "gpu"), "generic"),
        "fence.sys": (("acq_rel", "sys"), "generic"),
        "fence.sc.cta": (("sc", "cta"), "generic"),
        "mbarrier.arrive.shared.b64": (("release", "cta"), "shared"),
        "mbarrier.try_wait.relaxed.cluster.shared.b64": (("relaxed", "cluster"), "shared"),
        "mbarrier.expect_tx.shared::cta.b64": (("relaxed", "cta"), "shared"),
    }
    for opcode, (order, space) in cases.items():
        with row(opcode):
            assert order_of(parse(opcode)) == order
            assert space_of(parse(opcode)) == space


def test_operands(row):
    cases = {
        "ld.shared.v4.b32": "out:d address",
        "ld.global.L2::cache_hint.b32": "out:d address cache_policy",
        "st.global.b64": "address b",
        "atom.shared.add.u32": "out:d address b",
        "atom.shared.cas.b32": "out:d address b c",
        "shfl.sync.up.b32": "out:d out:p? a b c membermask?",
        "match.any.sync.b32": "out:d a membermask?",
        "match.all.sync.b64": "out:d out:p? a membermask?",
        "vote.sync.uni.pred": "out:d predicate membermask?",
        "elect.sync": "out:d? out:p membermask?",
        "bar.sync": "barrier threads?",
        "bar.red.or.pred": "out:d barrier threads? predicate",
        "mbarrier.arrive.shared::cta.b64": "out:state mbarrier count?",
        "mbarrier.arrive.shared::cluster.b64": "mbarrier count?",
        "mbarrier.try_wait.parity.b64": "out:p mbarrier parity suspend_hint?",
        "cp.async.ca.shared.global": "destination source size src_size?",
        "cp.async.wait_group": "N",
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster":
            "destination tensor_map coordinates mbarrier cta_mask",
        "cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.bulk_group": "tensor_map coordinates source",
        "setmaxnreg.dec.sync.aligned.u32": "count",
        "tensormap.replace.tile.box_dim.b1024.b32": "tensor_map ordinal value",
        "tensormap.replace.tile.rank.b1024.b32": "tensor_map value",
    }  # fmt: skip
    for opcode, expected in cases.items():
        with row(opcode):
            told = [
                f"{'out:' if each.direction == 'out' else ''}{each.role}{'?' if each.optional else ''}"
                for each in parse(opcode).operands
            ]
            assert told == expected.split()


def test_registers_of_operands_are_those_of_the_elements():
    found = {each.role: (each.kind, each.registers, each.bits) for each in parse("atom.global.cas.b128").operands}
    assert found == dict.fromkeys("dbc", ("value", 2, 64)) | {"address": ("address", 0, 64)}
    (answer, *_) = parse("vote.sync.all.pred").operands
    assert (answer.kind, answer.bits) == ("predicate", 1)
    (answer, *_) = parse("vote.sync.ballot.b32").operands
    assert (answer.kind, answer.registers, answer.bits) == ("value", 1, 32)


def test_who_executes_and_what_changes():
    lanes = {"ld.b32": 1, "bar.sync": 32, "shfl.sync.up.b32": 32, "mbarrier.init.b64": 1}
    assert {opcode: parse(opcode).lanes for opcode in lanes} == lanes
    aligned = "bar.sync", "barrier.sync.aligned", "setmaxnreg.inc.sync.aligned.u32"
    assert all(parse(opcode).aligned for opcode in aligned)
    assert not parse("barrier.sync").aligned
    changing, looking = ("st.b32", "bar.sync", "red.add.u32"), ("ld.b32", "nanosleep.u32", "mbarrier.test_wait.b64")
    assert [parse(opcode).changes for opcode in (*changing, *looking)] == [True, True, True, False, False, False]


def test_what_the_machine_does_not_execute_says_why():
    reasons = {
        "st.bulk": "no bulk store",
        "ld.param.b64": "the machine has no .param memory",
        "cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group": "no copies of four rows at once",
        "multimem.st.f32": "multimem addresses",
    }
    for opcode, reason in reasons.items():
        assert reason in parse(opcode).unsupported
        assert reason in " ".join(CliRunner().invoke(isa, [opcode]).output.split())
    for opcode in ("ld.shared.b32", "cp.async.bulk.prefetch.L2.global", "barrier.sync", "mapa.u64"):
        assert not parse(opcode).unsupported


@rows("family", some(KERNEL, 6), lambda family: family.name)
def test_alone_none_has_anything_to_act_on(family):
    _, form = family.variants[0]
    with pytest.raises(OperandError, match=r"only has a meaning in a kernel; .* tcemu\.launch"):
        tcemu.run(form, target=default_target(form.gate))


# tcemu isa ------------------------------------------------------------------------------------------------------------


@rows("family", some(KERNEL, 6), lambda family: family.name)
def test_a_learner_is_told_what_it_is(family):
    assert family.about
    for _, form in (family.variants[0], family.variants[-1]):
        told = explain(form)
        assert [each.name for each in told.operands] == [each.role for each in form.operands]
        assert all(each.what for each in told.operands)
        assert all(text.endswith(".") for text in told.rules)
    text = CliRunner().invoke(isa, ["--family", family.name]).output
    assert len(text.splitlines()) < 60
    prose = [line for line in text.splitlines()[1:] if not re.search(r"[^ .]+(\.[^ .]+){4}$", line)]
    assert max(map(len, prose)) <= 80, "only opcodes are longer"

"""The families without fragments, from ld to setmaxnreg: which products of their words the assembler takes.

Every product of the words of a family's slots is asked, legal or not, with operands that fit. Hints are asked apart:
each combination of them, with the first form of each row.

tests/golden/ptxas-words.txt has a section for each family: the words that were asked, slot by slot, and lines with
products of words that the assembler takes, each with its first PTX version and its targets (T0, T1 ... are listed at
the top of the file). - is a slot without a word. What was asked and is in no line was refused.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import NamedTuple

from tcemu.instructions import FAMILIES
from tcemu.instructions.family import Family
from tcemu.instructions.operand import Operand
from tcemu.instructions.targets import TARGETS
from tools.ptxas import VERSIONS, Ptxas

WORDS_FILE = Path(__file__).resolve().parent.parent / "tests" / "golden" / "ptxas-words.txt"

Words = dict[str, str]
#: An instruction with operands, and the words that it has.
Lines = dict[str, Words]
#: A first PTX version and targets.
Verdict = tuple[str, tuple[str, ...]]
Verdicts = dict[str, Verdict]

#: What is legal on any target is legal on one of these.
_RICHEST = ("sm_90a", "sm_100a", "sm_103a", "sm_107a", "sm_110a", "sm_120a")

# ---------------------------------------------------------------------------------------------------- one line

_PLACES = {"shared": "[near]", "shared::cta": "[near]", "local": "[own]", "const": "[far]"}
_PLACES |= {"param": "[parameter]", "param::entry": "[parameter]"}
_NUMBERED = {"global_stride", "box_dim", "global_dim", "element_stride"}
#: Registers for each .num of a shape of tcgen05.ld and tcgen05.st.
_IN_TENSOR_MEMORY = {"32x32b": 1, "16x64b": 1, "16x32bx2": 1, "16x128b": 2, "16x256b": 4}
_COUNTS = {"": 1, "v2": 2, "v4": 4, "v8": 8}
#: Roles with the same operand whatever the words.
_FIXED = {
    "destination": "[a]", "source": "[a]", "mbarrier": "[a]", "size": "16", "src_size": "r6", "cache_policy": "d6",
    "barrier": "0", "threads": "64", "count": "r6", "tx_count": "r6", "state": "d5", "parity": "r5",
    "suspend_hint": "r7", "membermask": "-1", "predicate": "p2", "N": "0", "duration": "r5", "register_count": "40",
    "cta": "r5", "response": "q5", "cta_mask": "h5", "byte_mask": "h5", "tensor_map": "[a]", "ordinal": "0",
}  # fmt: skip


def line(family: Family, words: Words) -> str:
    """The instruction with operands that fit its words, as far as any do."""
    target, _, source = family.signature.format_map(words).partition("=")
    roles = [role for text in (target, source) for role in _roles(text, words)]
    if "coordinates" in roles:
        roles.remove("tensor_map")  # the two stand in one pair of brackets
    given = [_operand(role, words, family) for role in roles]
    if "[answers" in target and words.get("ss") == "shared::cluster":
        given.insert(0, "_")
    return f"{family.spelling.write(words)} {', '.join(given)};"


def _roles(text: str, words: Words) -> Iterator[str]:
    """The roles of one side of a signature that these words ask for; optional ones are left out, but the membermask."""
    conditions = {
        "swaps": words.get("op") == "cas",
        "agrees": words.get("mode") == "all",
        "answers": words.get("ss") != "shared::cluster",
        "completes": words.get("done", "").startswith("mbarrier"),
        "numbered": words.get("field") in _NUMBERED,
        "ranged": words.get("order") == "acquire" and words.get("proxy") == "tensormap::generic",
        "halves": words.get("shape") == "16x32bx2",
        "masks": True,
        "scales_d": True,
        "windows": words.get("mode", "") in {"im2col", "im2col::w", "im2col::w::128"},
    }

    def group(match: re.Match[str]) -> str:
        condition, _, roles = match[1].partition(": ")
        there = words.get(condition[1:]) if condition.startswith(".") else conditions[condition]
        return roles if there else ""

    there = re.sub(r"\[(.*?)\]", group, text.replace("membermask?", "membermask")).split()
    return (role.partition("/")[0] for role in there if not role.endswith("?"))


def _operand(role: str, words: Words, family: Family) -> str:
    if role in family.roles and role not in _FIXED:
        return "[%r2]" if role == "a_matrix" and words.get("ashift") else _own(family.roles[role])
    if role.endswith("_num"):
        return _vector("%r", _IN_TENSOR_MEMORY[words["shape"]] * int(words["num"][1:]))
    if role.endswith("_value") and role != "new_value":
        return _registers(words.get("type", "b32"), words.get("vec", ""), "abcd".index(role[0]))
    if role == "new_value":
        if words["field"] not in {*_NUMBERED, "global_address", "rank"}:
            return "1"
        return "d5" if words["type"] == "b64" else "r5"
    if role == "d_answer":
        return "p1" if words.get("type") == "pred" or family.name.endswith("is_canceled") else "r1"
    if role == "predicate_out":
        return "r1|p1" if family.name == "elect.sync" else "p1"
    if role == "address" and family.name in {"isspacep", "getctarank"}:
        return "r5" if words.get("type") == "u32" else "d5"
    if role == "address":
        return "[a]" if family.name == "st.bulk" else _PLACES.get(words.get("ss", ""), "[a]")
    if role == "coordinates":
        rows = words.get("mode") in {"tile::gather4", "tile::scatter4"}
        return f"[a, {_vector('r', 5 if rows else int(words['dim'][0]))}]"
    if role == "offsets":
        return _vector("h", 2 if "::w" in words["mode"] else max(int(words["dim"][0]) - 2, 1))
    if role == "size":
        return {"st.bulk": "16, 0", "fence.proxy": "128", "tensormap.cp_fenceproxy": "128"}.get(family.name, "16")
    return _FIXED[role]


def _own(operand: Operand) -> str:
    """An operand that no other family has: an address, a value or several registers, of its width."""
    letter = {1: "%p", 16: "%h", 32: "%r", 64: "%rd"}[operand.bits]
    if operand.kind in ("address", "pointer", "tensor address"):
        return f"[{letter}1]"
    if operand.kind == "immediate":
        return "16"
    return _vector(letter, operand.registers) if operand.kind == "registers" else f"{letter}1"


def _registers(type_: str, vec: str, place: int) -> str:
    letter = {"f32": "f", "f64": "g", "e4m3": "b", "e5m2": "b"}.get(type_)
    if letter is None:
        letter = "r" if "x" in type_ else {8: "h", 16: "h", 32: "r", 64: "d", 128: "q"}[int(type_.lstrip("bfsu"))]
    count = _COUNTS[vec]
    return _vector(letter, count, place) if count > 1 else f"{letter}{place + 1}"


def _vector(letter: str, count: int, place: int = 0) -> str:
    return "{" + ",".join(f"{letter}{place + number}" for number in range(count)) + "}"


# ---------------------------------------------------------------------------------------------------- the file


class Entry(NamedTuple):
    """A line of a section: what was asked ("" for forms, "hints "), and what is taken where, or (version "") asked."""

    kind: str
    version: str
    targets: tuple[str, ...]
    words: str


Sections = dict[str, list[Entry]]


def read(path: Path = WORDS_FILE) -> tuple[str, Sections]:
    """The release of the assembler that answered, and the sections of the file by family."""
    release = ""
    targets: dict[str, tuple[str, ...]] = {}
    sections: Sections = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("ptxas "):
            release = line.removeprefix("ptxas ")
        elif line.startswith("["):
            entries = sections.setdefault(line.strip("[]"), [])
        elif " = " in line:
            mark, _, names = line.partition(" = ")
            targets[mark] = tuple(names.split())
        elif line and not line.startswith("#"):
            kind = "hints " if line.startswith("hints ") else ""
            head, _, words = line.removeprefix(kind).partition(":")
            version, _, mark = head.removeprefix("asked").partition(" ")
            entries.append(Entry(kind, version, targets.get(mark, ()), words.strip()))
    return release, sections


def write(release: str, sections: Sections, path: Path = WORDS_FILE) -> None:
    """Write the sections, in the order of the tables."""
    marks: dict[tuple[str, ...], str] = {}
    body: list[str] = []
    for family in plain_families():
        body += ["", f"[{family.name}]"]
        for entry in sections.get(family.name, ()):
            where = f"{entry.version} {marks.setdefault(entry.targets, f'T{len(marks)}')}" if entry.version else "asked"
            body.append(f"{entry.kind}{where}: {entry.words}")
    head = [
        "# What NVIDIA's assembler takes of families without fragments; tools/plain_families.py says how to read it.",
        "# Written by tools/ask_assembler.py; do not edit.",
        f"ptxas {release}",
        *(f"{mark} = {' '.join(names)}" for names, mark in marks.items()),
    ]
    path.write_text("\n".join([*head, *body]) + "\n", encoding="utf-8")


def products_of(entry: Entry) -> dict[str, list[str]]:
    """The words of an entry's slots; - is a slot without a word."""
    return {slot: words.split(",") for slot, _, words in (each.partition("=") for each in entry.words.split())}


# ---------------------------------------------------------------------------------------------------- a family


def plain_families() -> list[Family]:
    """The families without fragments."""
    return [family for family in FAMILIES if family.execute is None]


def _named(name: str) -> Family:
    return next(family for family in FAMILIES if family.name == name)


def unasked(family: Family, sections: Sections) -> bool:
    """Whether the file says nothing of the family, or not of all of its words."""
    asked = [products_of(entry) for entry in sections.get(family.name, ()) if not entry.version]
    return family.name not in sections or any(
        not set(words) <= {word for each in asked for word in each.get(slot, ())}
        for slot, words in family.spelling.vocabulary.items()
    )


def candidates(family: Family, hints: set[str]) -> list[Words]:
    """Every product of the words of its slots, hints aside; slots that every form has are never left out."""
    slots = [slot for slot in family.spelling.vocabulary if slot not in hints]
    return [
        {slot: word for slot, word in zip(slots, chosen, strict=True) if word}
        for chosen in product(*(_words(family, slot) for slot in slots))
    ]


def _words(family: Family, slot: str) -> list[str]:
    spelt = [word for row in family.rows for word in row.words_of(slot) if word]
    return [*([""] if slot in family.spelling.optional else []), *dict.fromkeys(spelt)]


def hinted(family: Family, hints: set[str]) -> list[Words]:
    """The first form of each row with every combination of hints."""
    order = [slot for slot in family.spelling.vocabulary if slot in hints]
    words = [["", *dict.fromkeys(word for row in family.rows for word in row.hints.get(slot, ()))] for slot in order]
    chosen = [dict(zip(order, each, strict=True)) for each in product(*words)]
    found = []
    for row in family.rows:
        there = ({slot: word for slot, word in each.items() if word} for each in chosen)
        found += [row.ends[0] | words for words in there if words]
    return found


# ---------------------------------------------------------------------------------------------------- the question


def ask(ptxas: Ptxas, families: Sequence[Family]) -> Sections:
    """The sections of families."""
    asked = {(family.name, kind): forms for family in families for kind, forms in _asked(family).items()}
    lines = {key: {line(_named(key[0]), words): words for words in forms} for key, forms in asked.items()}
    verdicts = _verdicts(ptxas, lines.values())
    sections: Sections = {family.name: [] for family in families}
    for (name, kind), forms in asked.items():
        slots = [slot for slot in _named(name).spelling.vocabulary if any(slot in words for words in forms)]
        words = [sorted({each.get(slot, "") for each in forms}) for slot in slots]
        sections[name] += [Entry(kind, "", (), _written(slots, words))]
        sections[name] += _entries(kind, slots, lines[name, kind], verdicts)
    return sections


def _asked(family: Family) -> dict[str, list[Words]]:
    """The forms of a family that are asked, and those with hints, if it has any."""
    hints = {slot for row in family.rows for slot in row.hints}
    alone = hints - {slot for row in family.rows for key in row.slots for slot in key.split()}
    asked = {"": candidates(family, alone), "hints ": hinted(family, hints)}
    return {kind: forms for kind, forms in asked.items() if forms}


def _entries(kind: str, slots: Sequence[str], lines: Lines, verdicts: Verdicts) -> Iterator[Entry]:
    groups: dict[Verdict, list[tuple[str, ...]]] = defaultdict(list)
    order = list(TARGETS)
    for text in sorted(lines.keys() & verdicts.keys(), key=lambda text: (order.index(verdicts[text][1][0]), text)):
        groups[verdicts[text]].append(tuple(lines[text].get(slot, "") for slot in slots))
    for (version, names), found in sorted(groups.items(), key=lambda each: VERSIONS.index(each[0][0])):
        for cell in products(found, len(slots)):
            yield Entry(kind, version, names, _written(slots, cell))


def _verdicts(ptxas: Ptxas, asked: Iterable[Lines]) -> Verdicts:
    """For each line that is taken anywhere, its first PTX version, and the targets that take it with the newest."""
    newest = ptxas.versions[-1]
    with ThreadPoolExecutor() as pool:
        pairs = [(list(lines), target) for lines in asked for target in _RICHEST]
        some = pool.map(lambda pair: ptxas.taken(pair[0], newest, pair[1]), pairs)
        legal = sorted(set().union(*some))
        there = dict(zip(TARGETS, pool.map(lambda target: ptxas.taken(legal, newest, target), TARGETS), strict=True))
        targets = {text: tuple(target for target in TARGETS if text in there[target]) for text in legal}
        first = {target: [text for text in legal if targets[text][0] == target] for target in TARGETS}
        steps = [(version, target) for target in TARGETS if first[target] for version in ptxas.versions]
        answers = pool.map(lambda step: ptxas.taken(first[step[1]], *step), steps)
        lowest: dict[str, str] = {}
        for (version, _), answer in zip(steps, answers, strict=True):
            for text in answer:
                lowest.setdefault(text, version)
    return {text: (lowest[text], targets[text]) for text in legal}


def products(found: Iterable[tuple[str, ...]], width: int) -> list[tuple[tuple[str, ...], ...]]:
    """The tuples as few products of words, place by place."""
    best: list[tuple[tuple[str, ...], ...]] = []
    every = list(found)
    dice = random.Random(0)  # noqa: S311 - any few orders will do
    for _ in range(40):
        order = dice.sample(range(width), width)
        cells: set[tuple[tuple[str, ...], ...]] = {tuple((word,) for word in each) for each in every}
        for place in order:
            merged: dict[tuple[tuple[str, ...], ...], list[str]] = defaultdict(list)
            for cell in sorted(cells):
                merged[cell[:place] + cell[place + 1 :]] += cell[place]
            cells = {(*rest[:place], tuple(words), *rest[place:]) for rest, words in merged.items()}
        if not best or len(cells) < len(best):
            best = sorted(cells)
    return best


def _written(slots: Sequence[str], words: Iterable[Sequence[str]]) -> str:
    """slot=word,word, a missing word as -; slots without a word are left out."""
    there = [(slot, some) for slot, some in zip(slots, words, strict=True) if list(some) != [""]]
    return " ".join(f"{slot}={','.join(word or '-' for word in some)}" for slot, some in there)

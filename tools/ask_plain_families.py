"""Ask ptxas which spellings of the families without fragments it takes, and write down its verdicts for the tests.

    .venv/bin/python tools/ask_plain_families.py [--ptxas PATH] [FAMILY ...] > tests/instructions/assembler.txt

For each family every product of the words of its slots is asked, with operands that fit: those that are legal and those
that are not. What ptxas takes is told in lines, each the product of words of the slots, with the lowest PTX version and
the targets that take it. Everything that was asked and stands in no line was refused. Words that are hints stand apart:
each combination of them is asked with the first form of each row. Nothing is assembled, only read, which takes a few
seconds for all of them.

ptxas comes from the package nvidia-cuda-nvcc.
"""

from __future__ import annotations

import argparse
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from pathlib import Path

from tcemu.instructions import FAMILIES
from tcemu.instructions.family import Family
from tcemu.instructions.targets import TARGETS

Words = dict[str, str]

#: PTX versions, the newest last: which of them ptxas knows it says itself.
VERSIONS = [f"{major}.{minor}" for major, minors in ((6, 6), (7, 9), (8, 9), (9, 6)) for minor in range(minors)]
#: ptxas has code for these no longer, but reads modules for them.
_READ_AS = {"sm_70": "sm_75", "sm_72": "sm_75"}

_DECLARATIONS = """
.reg .pred p<8>; .reg .b8 b<16>; .reg .b16 h<16>; .reg .b32 r<16>; .reg .b64 d<16>; .reg .f32 f<16>; .reg .f64 g<16>;
.reg .b64 a; .shared .align 128 .b8 near[1024]; .local .align 128 .b8 own[1024];
"""
_WIDE = ".reg .b128 q<16>;\n"
#: What is legal anywhere is legal on one of these.
_RICHEST = ("sm_90a", "sm_100a", "sm_110a", "sm_120a")
#: A line that stops ptxas before it assembles anything.
_END = "ld.stop;"

# ---------------------------------------------------------------------------------------------------- one line

_PLACES = {"shared": "[near]", "shared::cta": "[near]", "local": "[own]", "const": "[far]"}
_PLACES |= {"param": "[parameter]", "param::entry": "[parameter]"}
_NUMBERED = {"global_stride", "box_dim", "global_dim", "element_stride"}
_COUNTS = {"": 1, "v2": 2, "v4": 4, "v8": 8}
#: Roles with the same operand whatever the words.
_FIXED = {
    "destination": "[a]", "source": "[a]", "mbarrier": "[a]", "size": "16", "src_size": "r6", "cache_policy": "d6",
    "barrier": "0", "threads": "64", "count": "r6", "tx_count": "r6", "state": "d5", "parity": "r5",
    "suspend_hint": "r7", "membermask": "-1", "predicate": "p2", "N": "0", "duration": "r5", "register_count": "40",
    "cta": "r5", "cta_mask": "h5", "byte_mask": "h5", "tensor_map": "[a]", "ordinal": "0",
}  # fmt: skip


def line(family: Family, words: Words) -> str:
    """The instruction with operands that fit its words, as far as any do."""
    target, _, source = family.signature.partition("=")
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
        "answers": words.get("ss") != "shared::cluster",
        "completes": words.get("done", "").startswith("mbarrier"),
        "numbered": words.get("field") in _NUMBERED,
        "ranged": words.get("order") == "acquire" and words.get("proxy") == "tensormap::generic",
        "windows": words.get("mode", "") in {"im2col", "im2col::w", "im2col::w::128"},
    }

    def group(match: re.Match[str]) -> str:
        condition, _, roles = match[1].partition(": ")
        there = words.get(condition[1:]) if condition.startswith(".") else conditions[condition]
        return roles if there else ""

    there = re.sub(r"\[(.*?)\]", group, text.replace("membermask?", "membermask")).split()
    return (role for role in there if not role.endswith("?"))


def _operand(role: str, words: Words, family: Family) -> str:
    if role.endswith("_value") and role != "new_value":
        return _registers(words.get("type", "b32"), words.get("vec", ""), "abcd".index(role[0]))
    if role == "new_value":
        if words["field"] not in {*_NUMBERED, "global_address", "rank"}:
            return "1"
        return "d5" if words["type"] == "b64" else "r5"
    if role == "d_answer":
        return "p1" if words.get("type") == "pred" else "r1"
    if role == "predicate_out":
        return "r1|p1" if family.name == "elect.sync" else "p1"
    if role == "address" and family.name == "st.bulk":
        return "[a]"
    if role == "address" and family.name in {"isspacep", "getctarank"}:
        return "r5" if words.get("type") == "u32" else "d5"
    if role == "address":
        return _PLACES.get(words.get("ss", ""), "[a]")
    if role == "coordinates":
        rows = words.get("mode") in {"tile::gather4", "tile::scatter4"}
        return f"[a, {_vector('r', 5 if rows else int(words['dim'][0]))}]"
    if role == "offsets":
        return _vector("h", 2 if "::w" in words["mode"] else max(int(words["dim"][0]) - 2, 1))
    if role == "size":
        return {"st.bulk": "16, 0", "fence.proxy": "128", "tensormap.cp_fenceproxy": "128"}.get(family.name, "16")
    return _FIXED[role]


def _registers(type_: str, vec: str, place: int) -> str:
    letter = {"f32": "f", "f64": "g", "e4m3": "b", "e5m2": "b"}.get(type_)
    if letter is None:
        letter = "r" if "x" in type_ else {8: "h", 16: "h", 32: "r", 64: "d", 128: "q"}[int(type_.lstrip("bfsu"))]
    count = _COUNTS[vec]
    return _vector(letter, count, place) if count > 1 else f"{letter}{place + 1}"


def _vector(letter: str, count: int, place: int = 0) -> str:
    return "{" + ",".join(f"{letter}{place + number}" for number in range(count)) + "}"


# ---------------------------------------------------------------------------------------------------- ptxas


class Assembler:
    """One ptxas."""

    def __init__(self, path: str) -> None:
        self.path = path
        said = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout  # noqa: S603
        self.version = next(part for part in said.split() if part.startswith("V"))
        #: For each target that it knows the newest PTX version.
        self.newest = {name: version for name in TARGETS if (version := self._newest(name))}

    def _newest(self, target: str) -> str:
        """The newest PTX version in which it knows the target; empty where it does not."""
        return next((version for version in reversed(VERSIONS) if self.taken([], target, version) is not None), "")

    def taken(self, lines: Sequence[str], target: str, version: str) -> set[str] | None:
        """The lines that it takes there; None where it knows no such target or version."""
        left = list(lines)
        while True:
            wrong = self._wrong(left, target, version)
            if wrong is None:
                return None
            if not wrong:
                break
            left = [text for number, text in enumerate(left) if number not in wrong]
        return set(left)

    def _wrong(self, lines: Sequence[str], target: str, version: str) -> set[int] | None:
        """The numbers of the lines that it refuses; a syntax error hides those behind it."""
        wide = _WIDE if tuple(map(int, version.split("."))) >= (8, 3) else ""
        head = (
            f".version {version}\n.target {target}\n.address_size 64\n.const .align 128 .b8 far[1024];\n"
            f".visible .entry k(.param .align 128 .b8 parameter[256])\n{{{_DECLARATIONS}{wide}"
        )
        first = head.count("\n") + 1
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "asked.ptx"
            path.write_text(head + "\n".join([*lines, _END, "ret;", "}"]) + "\n")
            command = [self.path, "-arch", _READ_AS.get(target, target), "-o", "/dev/null", str(path)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
        told = done.stdout + done.stderr
        numbers = {int(number) - first for number in re.findall(r"line (\d+); (?:error|fatal)", told)}
        if not numbers or min(numbers) < 0:
            return None
        return {number for number in numbers if number < len(lines)}


# ---------------------------------------------------------------------------------------------------- a family


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


def verdicts(assembler: Assembler, lines: Iterable[str]) -> dict[str, tuple[str, tuple[str, ...]]]:
    """For each line that is taken anywhere its lowest PTX version, and the targets that take it with the newest."""
    asked: set[str] = set()
    for name in _RICHEST:
        asked |= assembler.taken(list(dict.fromkeys(lines)), name, assembler.newest[name]) or set()
    targets: dict[str, list[str]] = defaultdict(list)
    for name, version in assembler.newest.items():
        for text in sorted(assembler.taken(sorted(asked), name, version) or ()):
            targets[text].append(name)
    lowest: dict[str, str] = {}
    for name in dict.fromkeys(names[0] for names in targets.values()):
        mine = [text for text, names in targets.items() if names[0] == name]
        for version in VERSIONS:
            for text in assembler.taken(mine, name, version) or ():
                lowest.setdefault(text, version)
    return {text: (lowest[text], tuple(names)) for text, names in targets.items()}


def products(found: Iterable[tuple[str, ...]], width: int) -> list[tuple[tuple[str, ...], ...]]:
    """The tuples as few products of words, place by place."""
    best: list[tuple[tuple[str, ...], ...]] = []
    every = list(found)
    dice = random.Random(0)  # noqa: S311 - any few orders will do
    for _ in range(40):
        order = dice.sample(range(width), width)
        cells = {tuple((word,) for word in each) for each in every}
        for place in order:
            merged: dict[tuple[tuple[str, ...], ...], list[str]] = defaultdict(list)
            for cell in sorted(cells):
                merged[cell[:place] + cell[place + 1 :]] += cell[place]
            cells = {(*rest[:place], tuple(words), *rest[place:]) for rest, words in merged.items()}
        if not best or len(cells) < len(best):
            best = sorted(cells)
    return best


def report(assembler: Assembler, families: Sequence[Family]) -> Iterator[str]:
    """The lines of the file."""
    legend: dict[tuple[str, ...], str] = {}
    body: list[str] = []
    for family in families:
        hints = {slot for row in family.rows for slot in row.hints}
        alone = hints - {slot for row in family.rows for key in row.slots for slot in key.split()}
        sys.stderr.write(f"{family.name}\n")
        body += ["", f"[{family.name}]"]
        for what, asked in (("", candidates(family, alone)), ("hints ", hinted(family, hints))):
            if not asked:
                continue
            slots = [slot for slot in family.spelling.vocabulary if any(slot in words for words in asked)]
            words = [sorted({each.get(slot, "") for each in asked}) for slot in slots]
            body.append(f"{what}asked: {_told(slots, words)}")
            spelt = {line(family, words): words for words in asked}
            groups: dict[tuple[str, tuple[str, ...]], list[tuple[str, ...]]] = defaultdict(list)
            for text, verdict in verdicts(assembler, spelt).items():
                groups[verdict].append(tuple(spelt[text].get(slot, "") for slot in slots))
            for (version, names), found in sorted(groups.items(), key=lambda each: VERSIONS.index(each[0][0])):
                mark = legend.setdefault(names, f"T{len(legend)}")
                body += [f"{what}{version} {mark}: {_told(slots, each)}" for each in products(found, len(slots))]
    yield f"# What ptxas {assembler.version} takes, written by tools/ask_plain_families.py, which says how to read it."
    yield from (f"{mark} = {' '.join(names)}" for names, mark in legend.items())
    yield from body


def _told(slots: Sequence[str], words: Iterable[Sequence[str]]) -> str:
    """slot=word,word, a missing word as -; slots without a word are left out."""
    there = [(slot, some) for slot, some in zip(slots, words, strict=True) if list(some) != [""]]
    return " ".join(f"{slot}={','.join(word or '-' for word in some)}" for slot, some in there)


def main() -> None:
    """Ask, and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ptxas", default=shutil.which("ptxas"))
    parser.add_argument("families", nargs="*")
    given = parser.parse_args()
    chosen = [each for each in FAMILIES if each.execute is None and (not given.families or each.name in given.families)]
    for text in report(Assembler(given.ptxas), chosen):
        sys.stdout.write(text + "\n")


if __name__ == "__main__":
    main()

"""Ask NVIDIA's assembler about the instructions of the tables, and write its verdicts where the tests compare them.

    .venv/bin/python tools/ask_assembler.py [--all] [--ptxas PROGRAM]

It asks about new rows; with --all, about every row. Without ptxas, or with one that is too old for a row, it lists the
row as one that nobody has asked about, until somebody runs this with a newer one.

tests/golden/ptxas.txt has a block for each pair of PTX version and targets: the opcodes that the assembler takes from
that .version on and with those .target lines, as patterns in which {a,b} stands for a and for b. ptxas-operands.txt has
lines with right and wrong operands. ptxas-words.txt has the families without fragments; plain_families.py describes it.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))
from tcemu.instructions import FAMILIES
from tcemu.instructions.instruction import Instruction
from tcemu.instructions.targets import ptx_version
from tools import plain_families
from tools.ptxas import Ptxas, find

GOLDEN = Path(__file__).resolve().parent.parent / "tests" / "golden"
VERDICTS = GOLDEN / "ptxas.txt"
#: Lines with right and wrong operands, each as "yes TARGET LINE" or "no TARGET LINE".
OPERAND_LINES = GOLDEN / "ptxas-operands.txt"
#: Targets that the assembler is asked about.
TARGETS = (
    "sm_70", "sm_72", "sm_75", "sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_100f",
    "sm_103a", "sm_107a", "sm_110a", "sm_120", "sm_120a", "sm_120f", "sm_121a", "sm_121f",
)  # fmt: skip
UNASKED = "nobody has asked"
NOTE = """\
# What NVIDIA's assembler takes: for each .version that brought them and the .targets that have them, the opcodes.
# Written by tools/ask_assembler.py; do not edit. {a,b} stands for a and for b.
"""


#: The words that may stand in each place of an opcode.
_Product = tuple[tuple[str, ...], ...]


class Verdict(NamedTuple):
    """What the assembler says about an opcode; `targets` is empty where it takes it nowhere."""

    ptxas: str
    version: str
    targets: tuple[str, ...]


NOBODY = Verdict("", "", ())


# ---------------------------------------------------------------------------------------------------- the file


def expand(pattern: str) -> list[str]:
    """Every opcode of a pattern."""
    parts = [part.split(",") for part in re.split(r"[{}]", pattern)]
    return ["".join(chosen) for chosen in itertools.product(*parts)]


def patterns(opcodes: Iterable[str]) -> list[str]:
    """Few patterns for the opcodes: those that differ in one word become one, word after word."""
    products: set[_Product] = {tuple((word,) for word in opcode.split(".")) for opcode in opcodes}
    for place in range(max((len(each) for each in products), default=0)):
        merged: dict[tuple[_Product, _Product], set[str]] = {}
        whole = {each for each in products if len(each) <= place}
        for each in products - whole:
            merged.setdefault((each[:place], each[place + 1 :]), set()).update(each[place])
        products = whole | {(*before, tuple(sorted(words)), *after) for (before, after), words in merged.items()}
    return sorted(".".join(f"{{{','.join(words)}}}" if words[1:] else words[0] for words in each) for each in products)


def read(path: Path = VERDICTS) -> dict[str, Verdict]:
    """The verdicts of the file by opcode."""
    found: dict[str, Verdict] = {}
    verdict, release = NOBODY, ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("ptxas "):
            release = line.split(",")[0].removeprefix("ptxas ")
        elif line.startswith(UNASKED):
            release, verdict = "", NOBODY
        elif line.startswith("PTX "):
            _, version, *targets = line.split()
            verdict = Verdict(release, version, tuple(targets))
        elif line.startswith("  "):
            for opcode in expand(line.strip()):
                if opcode in found:
                    raise ValueError(f"{path.name} has two verdicts on {opcode}")
                found[opcode] = verdict
    return found


def write(verdicts: dict[str, Verdict], path: Path = VERDICTS) -> None:
    """Write verdicts in blocks: the newest assembler first, then by version and targets."""
    lines = [NOTE]
    for release in sorted({verdict.ptxas for verdict in verdicts.values()}, key=_numbers, reverse=True):
        held = {opcode: verdict for opcode, verdict in verdicts.items() if verdict.ptxas == release}
        today = datetime.datetime.now(tz=datetime.UTC).date()
        lines.append(f"ptxas {release}\n" if release else f"{UNASKED}, {today}\n")
        for verdict in sorted(set(held.values()), key=lambda verdict: (_numbers(verdict.version), verdict.targets)):
            if release:
                lines.append(f"PTX {verdict.version} {' '.join(verdict.targets)}\n")
            lines += [f"  {each}\n" for each in patterns(opcode for opcode in held if held[opcode] == verdict)]
    path.write_text("".join(lines), encoding="utf-8")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version))


# ---------------------------------------------------------------------------------------------------- the question


def registers(instruction: Instruction, role: str) -> str:
    """The vector of registers of an operand, of the type that its format needs."""
    fragment = instruction.fragments[role]
    letter = {"f64": "d", "f32": "f"}.get(fragment.format.name, "r")
    return "{" + ",".join(f"%{letter}{number}" for number in range(fragment.registers)) + "}"


def _vectors(*roles: str) -> Callable[[Instruction], str]:
    return lambda instruction: ", ".join(registers(instruction, role) for role in roles)


def _block_scale(instruction: Instruction) -> str:
    metadata = ", %r1, 0" if "e" in instruction.fragments else ""
    return _vectors("d", "a", "b", "c")(instruction) + metadata + ", %r1, {0, 0}, %r2, {0, 0}"


def _wgmma(instruction: Instruction) -> str:
    metadata = ", %r1, 0" if "e" in instruction.fragments else ""
    more = ", 1, 1" * ("f" in instruction.types["d"].name) + ", 0, 0" * (instruction.types["a"].name in ("f16", "bf16"))
    return f"{registers(instruction, 'd')}, %q1, %q2{metadata}, %p1{more}"


#: How the operands of a family are written.
OPERANDS: dict[str, Callable[[Instruction], str]] = {
    "mma": _vectors("d", "a", "b", "c"),
    "mma.sp": lambda instruction: _vectors("d", "a", "b", "c")(instruction) + ", %r1, 0",
    "mma.block_scale": _block_scale,
    "wmma.load": lambda i: f"{registers(i, next(iter(i.fragments)))}, [%q1], %r1",
    "wmma.store": lambda i: f"[%q1], {registers(i, next(iter(i.fragments)))}, %r1",
    "wmma.mma": _vectors("d", "a", "b", "c"),
    "ldmatrix": lambda i: f"{registers(i, 'd')}, [%q1]",
    "stmatrix": lambda i: f"[%q1], {registers(i, 'a')}",
    "movmatrix": lambda _: "%r0, %r1",
    "wgmma": _wgmma,
    "wgmma.fence": lambda _: "",
    "wgmma.commit_group": lambda _: "",
    "wgmma.wait_group": lambda _: "0",
    "fence.proxy.async": lambda _: "",
}


def instructions() -> Iterator[Instruction]:
    """Every instruction of the tables whose operands are known here."""
    for family in FAMILIES:
        if family.name in OPERANDS:
            yield from (instruction for _, instruction in family.variants)


def taken(assembler: Ptxas, asked: list[Instruction], version: str, target: str) -> set[str]:
    """The opcodes that the assembler takes in a module with that .version and .target."""
    lines = [f"{each.opcode} {OPERANDS[each.family](each)};" for each in asked]
    accepted = assembler.taken(lines, version, target)
    return {each.opcode for each, line in zip(asked, lines, strict=True) if line in accepted}


def ask(assembler: Ptxas, asked: list[Instruction]) -> dict[str, Verdict]:
    """The verdicts of an assembler on instructions."""
    versions = assembler.versions
    with ThreadPoolExecutor() as pool:
        answers = pool.map(lambda target: taken(assembler, asked, versions[-1], target), TARGETS)
        there = dict(zip(TARGETS, answers, strict=True))
        targets = {i.opcode: tuple(t for t in TARGETS if i.opcode in there[t]) for i in asked}
        earliest = {found[0] for found in targets.values() if found}
        pairs = list(itertools.product(sorted(earliest), versions))
        parts = [[i for i in asked if targets[i.opcode][:1] == (target,)] for target, _ in pairs]
        answers = pool.map(lambda pair, part: taken(assembler, part, pair[1], pair[0]), pairs, parts)
        by_pair = dict(zip(pairs, answers, strict=True))
    found = {}
    for opcode, where in targets.items():
        since = next((v for v in versions if where and opcode in by_pair[where[0], v]), "")
        found[opcode] = Verdict(assembler.release, since or versions[-1], where)
    return found


def operand_lines() -> list[tuple[bool, str, str]]:
    """(taken, target, line) of the other file."""
    lines = OPERAND_LINES.read_text(encoding="utf-8").splitlines()
    words = [line.split(" ", 2) for line in lines if not line.startswith("#")]
    return [(verdict == "yes", target, line) for verdict, target, line in words]


def ask_about_operands(assembler: Ptxas) -> None:
    """Ask again about the lines of the operands' file."""
    held = operand_lines()
    there = {
        target: assembler.taken([line for _, where, line in held if where == target], assembler.versions[-1], target)
        for target in {target for _, target, _ in held}
    }
    head = f"# Which operands ptxas {assembler.release} takes; tools/ask_assembler.py --all asks about these lines.\n"
    verdicts = [("yes" if line in there[target] else "no", target, line) for _, target, line in held]
    OPERAND_LINES.write_text(head + "".join(f"{' '.join(each)}\n" for each in verdicts), encoding="utf-8")


def ask_about_rows(assembler: Ptxas | None, everything: bool) -> None:
    """Ask about the rows that nobody has asked about, or about all of them, and report what is new."""
    known, rows = read(), {instruction.opcode: instruction for instruction in instructions()}
    verdicts = {opcode: verdict for opcode, verdict in known.items() if opcode in rows}
    asked = [rows[opcode] for opcode in rows if everything or not verdicts.get(opcode, NOBODY).ptxas]
    if assembler:
        newest = ptx_version(assembler.versions[-1])
        verdicts |= {
            opcode: verdict
            for opcode, verdict in ask(assembler, asked).items()
            if verdict.targets or ptx_version(rows[opcode].gate.ptx) <= newest
        }
    write({row.opcode: NOBODY for row in asked} | verdicts)
    print(f"{len(rows)} opcodes, {len(asked)} to ask about, {len(known.keys() - rows.keys())} gone from the tables")
    for row in asked:
        verdict = verdicts.get(row.opcode, NOBODY)
        if not verdict.ptxas:
            print(f"  nobody has asked about {row}")
        elif not everything or not verdict.targets:
            print(f"  {row}: PTX {verdict.version}, {' '.join(verdict.targets) or 'REFUSED for every target'}")


def ask_about_words(assembler: Ptxas | None, everything: bool) -> None:
    """Ask about the families without fragments that have new words, or about all of them."""
    release, sections = plain_families.read()
    families = plain_families.plain_families()
    asked = [family for family in families if everything or plain_families.unasked(family, sections)]
    if assembler and asked:
        print(f"words of {', '.join(family.name for family in asked)}")
        plain_families.write(assembler.release, sections | plain_families.ask(assembler, asked))
    elif asked or sections.keys() != {family.name for family in families}:
        plain_families.write(release, sections)
        print(f"  nobody has asked about the words of {', '.join(family.name for family in asked)}")


def main() -> None:
    """Ask, write the verdicts and report them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="ask about every row again")
    parser.add_argument("--ptxas", default=find(), help="the assembler (default: %(default)s)")
    given = parser.parse_args()
    assembler = Ptxas(given.ptxas) if given.ptxas else None
    latest = max((verdict.ptxas for verdict in read().values()), key=_numbers)
    if assembler and _numbers(assembler.release) < _numbers(latest):
        print(f"{given.ptxas} is {assembler.release}, older than {latest}, which answered before; it is not asked")
        assembler = None
    ask_about_rows(assembler, given.all)
    ask_about_words(assembler, given.all)
    if assembler and given.all:
        ask_about_operands(assembler)


if __name__ == "__main__":
    main()

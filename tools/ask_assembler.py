"""Ask NVIDIA's assembler about the instructions of the tables, and write its verdicts where the tests compare them.

    .venv/bin/python tools/ask_assembler.py [--all] [--ptxas PROGRAM]

New rows are asked about, with --all every row. ptxas comes with CUDA, or alone: pip install nvidia-cuda-nvcc (then it
is nvidia/cu13/bin/ptxas in that environment). Where there is none, or one too old for a row, the row is listed as
one that nobody has asked about, until somebody runs this with a newer assembler.

tests/golden/ptxas.txt has a block for each pair of PTX version and targets: the opcodes that the assembler takes from
that .version on and with those .target lines, as patterns in which {a,b} stands for a and for b.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from tcemu.instructions import FAMILIES
from tcemu.instructions.instruction import Instruction
from tcemu.instructions.targets import ptx_version

GOLDEN = Path(__file__).resolve().parent.parent / "tests" / "golden"
VERDICTS = GOLDEN / "ptxas.txt"
#: Lines with right and wrong operands, each as "yes TARGET LINE" or "no TARGET LINE".
OPERAND_LINES = GOLDEN / "ptxas-operands.txt"
#: Targets and PTX versions that the assembler is asked about.
TARGETS = (
    "sm_70", "sm_72", "sm_75", "sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_100f",
    "sm_103a", "sm_107a", "sm_110a", "sm_120", "sm_120a", "sm_120f", "sm_121a", "sm_121f",
)  # fmt: skip
VERSIONS = (
    "6.0", "6.1", "6.2", "6.3", "6.4", "6.5", "7.0", "7.1", "7.2", "7.3", "7.4", "7.5", "7.6", "7.7", "7.8", "8.0",
    "8.1", "8.2", "8.3", "8.4", "8.5", "8.6", "8.7", "8.8", "9.0", "9.1", "9.2", "9.3", "9.4", "9.5",
)  # fmt: skip
#: Code for sm_70 and sm_72 is no longer generated, but their .target lines are still checked.
ARCHITECTURES = {"sm_70": "sm_75", "sm_72": "sm_75"}
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
    verdict, ptxas = Verdict("", "", ()), ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("ptxas "):
            ptxas = line.split(",")[0].removeprefix("ptxas ")
        elif line.startswith(UNASKED):
            ptxas, verdict = "", Verdict("", "", ())
        elif line.startswith("PTX "):
            _, version, *targets = line.split()
            verdict = Verdict(ptxas, version, tuple(targets))
        elif line.startswith("  "):
            for opcode in expand(line.strip()):
                if opcode in found:
                    raise ValueError(f"{path.name} has two verdicts on {opcode}")
                found[opcode] = verdict
    return found


def write(verdicts: dict[str, Verdict], path: Path = VERDICTS) -> None:
    """Write verdicts in blocks: the newest assembler first, then by version and targets."""
    lines = [NOTE]
    for ptxas in sorted({verdict.ptxas for verdict in verdicts.values()}, key=_numbers, reverse=True):
        held = {opcode: verdict for opcode, verdict in verdicts.items() if verdict.ptxas == ptxas}
        today = datetime.datetime.now(tz=datetime.UTC).date()
        lines.append(f"ptxas {ptxas}\n" if ptxas else f"{UNASKED}, {today}\n")
        for verdict in sorted(set(held.values()), key=lambda verdict: (_numbers(verdict.version), verdict.targets)):
            if ptxas:
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


#: What the operands name: a module's shared memory, and registers of every type in a kernel.
DECLARATIONS = (
    ".shared .align 128 .b8 smem[1024];",
    ".visible .entry k() {",
    ".reg .b16 %h<20>; .reg .b32 %r<200>; .reg .f32 %f<200>; .reg .f64 %d<40>, %fd<40>; .reg .b64 %q<4>, %rd<40>;",
    ".reg .pred %p<4>;",
)
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


def taken(ptxas: str, asked: list[Instruction], version: str, target: str) -> set[str]:
    """The opcodes that the assembler takes in a module of that .version and .target."""
    lines = [f"{each.opcode} {OPERANDS[each.family](each)};" for each in asked]
    accepted = lines_taken(ptxas, lines, version, target)
    return {each.opcode for each, line in zip(asked, lines, strict=True) if line in accepted}


def lines_taken(ptxas: str, lines: list[str], version: str, target: str) -> set[str]:
    """The lines, opcodes with operands, that the assembler takes in a module of that .version and .target."""
    head = [f".version {version}", f".target {target}", ".address_size 64", *DECLARATIONS]
    # The last line is wrong, so that nothing is ever assembled: the verdicts stand in the errors before.
    text = "\n".join([*head, *lines, "nonsense.b32 %r0;", "ret;", "}"])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "asked.ptx")
        path.write_text(text, encoding="ascii")
        command = [ptxas, f"-arch={ARCHITECTURES.get(target, target)}", "-o", f"{folder}/asked.cubin", str(path)]
        said = subprocess.run(command, capture_output=True, text=True, check=False).stderr  # noqa: S603
    if re.search(r"does not support \.target|Unsupported \.version", said):
        return set()
    wrong = {int(line) for line in re.findall(r"asked\.ptx, line (\d+); error", said)}
    if len(head) + len(lines) + 1 not in wrong:
        raise SystemExit(f"{ptxas} with .version {version} and .target {target}:\n{said[:2000]}")
    return {line for number, line in enumerate(lines, len(head) + 1) if number not in wrong}


def ask(ptxas: str, asked: list[Instruction]) -> dict[str, Verdict]:
    """The verdicts of an assembler on instructions."""
    name = release(ptxas)
    versions = [version for version in VERSIONS if ptx_version(version) <= ptx_version(newest(ptxas))]
    with ThreadPoolExecutor() as pool:
        answers = pool.map(lambda target: taken(ptxas, asked, versions[-1], target), TARGETS)
        there = dict(zip(TARGETS, answers, strict=True))
        targets = {i.opcode: tuple(t for t in TARGETS if i.opcode in there[t]) for i in asked}
        earliest = {found[0] for found in targets.values() if found}
        pairs = list(itertools.product(sorted(earliest), versions))
        parts = [[i for i in asked if targets[i.opcode][:1] == (target,)] for target, _ in pairs]
        answers = pool.map(lambda pair, part: taken(ptxas, part, pair[1], pair[0]), pairs, parts)
        by_pair = dict(zip(pairs, answers, strict=True))
    found = {}
    for opcode, where in targets.items():
        since = next((v for v in versions if where and opcode in by_pair[where[0], v]), "")
        found[opcode] = Verdict(name, since or versions[-1], where)
    return found


def operand_lines() -> list[tuple[bool, str, str]]:
    """(taken, target, line) of the other file."""
    lines = OPERAND_LINES.read_text(encoding="utf-8").splitlines()
    words = [line.split(" ", 2) for line in lines if not line.startswith("#")]
    return [(verdict == "yes", target, line) for verdict, target, line in words]


def ask_about_operands(ptxas: str) -> None:
    """Write the other file again."""
    held = operand_lines()
    there = {
        target: lines_taken(ptxas, [line for _, where, line in held if where == target], newest(ptxas), target)
        for target in {target for _, target, _ in held}
    }
    head = f"# Operands that ptxas {release(ptxas)} takes; tools/ask_assembler.py --all asks about these lines again.\n"
    verdicts = [("yes" if line in there[target] else "no", target, line) for _, target, line in held]
    OPERAND_LINES.write_text(head + "".join(f"{' '.join(each)}\n" for each in verdicts), encoding="utf-8")


def release(ptxas: str) -> str:
    """13.5.37, say."""
    said = subprocess.run([ptxas, "--version"], capture_output=True, text=True, check=True).stdout  # noqa: S603
    return re.findall(r"V(\d+\.\d+\.\d+)", said)[0]  # type: ignore[no-any-return]


def newest(ptxas: str) -> str:
    """The newest PTX version that it knows: CUDA 13.0 has 9.0, and later ones have one each."""
    major, minor = _numbers(release(ptxas))[:2]
    known = [version for version in VERSIONS if _numbers(version) <= (major - 4, minor)]
    return known[-1]


def assembler() -> str | None:
    """The assembler of this environment, or the one on the path."""
    here = sorted(Path(sys.prefix).glob("lib/python*/site-packages/nvidia/*/bin/ptxas"))
    return str(here[-1]) if here else shutil.which("ptxas")


def main() -> None:
    """Ask, write and tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="ask about every row again")
    parser.add_argument("--ptxas", default=assembler(), help="the assembler (default: %(default)s)")
    given = parser.parse_args()
    known = read()
    latest = max((verdict.ptxas for verdict in known.values()), key=_numbers)
    if given.ptxas and _numbers(release(given.ptxas)) < _numbers(latest):
        print(f"{given.ptxas} is {release(given.ptxas)}, older than the {latest} that answered before; it is not asked")
        given.ptxas = None
    rows = {instruction.opcode: instruction for instruction in instructions()}
    gone = known.keys() - rows.keys()
    verdicts = {opcode: verdict for opcode, verdict in known.items() if opcode in rows}
    asked = [rows[opcode] for opcode in rows if given.all or not verdicts.get(opcode, Verdict("", "", ())).ptxas]
    if given.ptxas:
        verdicts |= {
            opcode: verdict
            for opcode, verdict in ask(given.ptxas, asked).items()
            if verdict.targets or ptx_version(rows[opcode].gate.ptx) <= ptx_version(newest(given.ptxas))
        }
    unasked = [instruction.opcode for instruction in asked if instruction.opcode not in verdicts]
    write(verdicts | {opcode: Verdict("", "", ()) for opcode in unasked})
    if given.ptxas and given.all:
        ask_about_operands(given.ptxas)
    print(f"{len(rows)} opcodes, {len(asked)} to ask about, {len(gone)} gone from the tables")
    for row in asked:
        verdict = verdicts.get(row.opcode)
        if verdict is None:
            print(f"  nobody has asked about {row}")
        elif not given.all or not verdict.targets:
            print(f"  {row}: PTX {verdict.version}, {' '.join(verdict.targets) or 'REFUSED for every target'}")


if __name__ == "__main__":
    main()

"""The kernels that tcemu.live makes for cards that are not here: ptxas takes them, from every family they have."""

import re
import shutil
import subprocess
import tempfile
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import pytest
from quick import spread, turn

from tcemu.instructions.targets import target_named
from tcemu.live import Device, ptx
from tcemu.live.runner import operands
from tcemu.live.runner.call import perform
from tcemu.live.runner.families import recordable
from tcemu.live.runner.operands import Call
from tcemu.vectors import cases, classes, inputs, patterns, warpgroup

PTXAS = shutil.which("ptxas")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(PTXAS is None, reason="there is no ptxas")]

#: V100, T4, A100, RTX 30, L4, H100, B200, RTX 50.
TARGETS = ["sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a"]
#: Kernels of one run of the assembler, and instructions of one kernel.
TOGETHER, INSTRUCTIONS = 200, 200
#: Of so many instructions that follow each other, one is asked, every day another: they differ in a type or a number of
#: columns.
ONE_IN = 12
#: The line of a kernel that has the instruction.
INSTRUCTION = r"^( +(?:mma|wmma|wgmma\.mma|ldmatrix|stmatrix|movmatrix).*\n)"


def card(target):
    """A card with everything that the target has."""
    major, minor = divmod(target_named(target).number, 10)
    found = Device(target, (major, minor), 13000, "", 227 << 10)
    assert found.target == target
    return found


class Made(Exception):  # noqa: N818 - no error
    """The kernel is made; what it answers does not matter."""


@pytest.fixture
def any_values(monkeypatch):
    """Operands of any value, drawn once, and taken without asking the emulator: a kernel's code does not hold them."""
    words, elements = cache(patterns.random_words), cache(patterns.elements)

    def any_elements(form, kind, _key, count, accumulator=False):
        return elements(form, kind, "any", count, accumulator)

    for module in (inputs, warpgroup):
        monkeypatch.setattr(module, "random_words", lambda _key, count: words("any", count))
        monkeypatch.setattr(module, "elements", any_elements)
    monkeypatch.setattr(operands, "emulate", lambda *_, **__: None)


def kernels(chip, instructions):
    """The code of every kernel, by PTX version: every instruction, every immediate, every place of its operands."""
    found = defaultdict(set)

    def ask(job):
        found[re.match(r"\.version (\S+)\n", job.code)[1]].add(job.code)
        raise Made

    for instruction in instructions:
        here = instruction.on(chip.chip)
        for case in cases(here, classes(here)[0], 1):
            memories = {case.space: case.bytes} if case.bytes is not None else {}
            with pytest.raises(Made):
                perform(Call(here, chip, case.operands, memories), ask)
    return found


def merged(codes):
    """Kernels that differ only in the line of their instruction as one that has all these lines, one after another."""
    frames = defaultdict(list)
    for code in sorted(codes):
        before, instruction, after = re.split(INSTRUCTION, code, flags=re.MULTILINE)
        frames[before, after].append(instruction)
    return [
        before + "".join(lines[start : start + INSTRUCTIONS]) + after
        for (before, after), lines in frames.items()
        for start in range(0, len(lines), INSTRUCTIONS)
    ]


def assembled(target, version, codes):
    """ptxas's output for the kernels of `codes` in one module, hardly optimised, because that takes longest."""
    shared = ".extern .shared .align 1024 .b8 bytes[];\n" if any(".extern" in code for code in codes) else ""
    entries = [code[code.index(".visible") :].replace("one_instruction", f"k{i}") for i, code in enumerate(codes)]
    head = f".version {version}\n.target {target}\n.address_size 64\n"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernels.ptx")
        path.write_text(head + shared + "".join(entries), encoding="ascii")
        command = [PTXAS, "-O1", f"-arch={target}", "-o", f"{folder}/kernels.cubin", str(path)]
        return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("target", TARGETS)
def test_the_assembler_takes_every_kernel(target, any_values):
    if assembled(target, ptx.SINCE[target], [".visible .entry k() { ret; }"]).returncode:
        pytest.skip(f"this ptxas does not assemble for {target}")
    chip = card(target)
    asked = spread(recordable(chip), ONE_IN, first=turn(ONE_IN))
    every = {version: merged(codes) for version, codes in kernels(chip, asked).items()}
    assert every
    parts = [
        (version, codes[start : start + TOGETHER])
        for version, codes in every.items()
        for start in range(0, len(codes), TOGETHER)
    ]
    with ThreadPoolExecutor() as pool:
        for done in pool.map(lambda part: assembled(target, *part), parts):
            assert done.returncode == 0, done.stderr[:2000]


def test_it_refuses_what_the_target_lacks():
    chip = card("sm_90a")
    ((version, (code,)),) = kernels(chip, recordable(chip)[:1]).items()
    assert assembled("sm_90a", version, [code]).returncode == 0
    assert assembled("sm_90a", version, [code.replace("aligned", "aligend")]).returncode


def test_an_instruction_that_is_refused_is_refused_among_others():
    """In a kernel with others, too, each line is read: kernels that differ in it alone are assembled as one."""
    chip = card("sm_90a")
    sparse = next(each for each in recordable(chip) if each.sparse)
    ((version, codes),) = kernels(chip, [sparse]).items()
    (whole,) = merged(codes)
    lines = [line for line in whole.splitlines() if sparse.opcode in line]
    assert len(lines) == len(codes) > 1
    for line in lines:
        wrong = whole.replace(line, line.replace("aligned", "aligend"))
        assert assembled("sm_90a", version, [wrong]).returncode

"""The kernels that tcemu.live makes for cards that are not here: ptxas takes each, of every instruction they have."""

import re
import shutil
import subprocess
import tempfile
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tcemu.instructions.targets import target_named
from tcemu.live import Device, ptx
from tcemu.live.runner.call import perform
from tcemu.live.runner.families import recordable
from tcemu.live.runner.operands import Call
from tcemu.vectors import cases, classes

PTXAS = shutil.which("ptxas")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(PTXAS is None, reason="there is no ptxas")]

#: V100, T4, A100, RTX 30, L4, H100, B200, RTX 50.
TARGETS = ["sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a"]
#: Kernels of one run of the assembler.
TOGETHER = 200


def card(target):
    """A card with everything that the target has."""
    major, minor = divmod(target_named(target).number, 10)
    found = Device(target, (major, minor), 13000, "", 227 << 10)
    assert found.target == target
    return found


class Made(Exception):  # noqa: N818 - no error
    """The kernel is made; what it answers does not matter."""


def kernels(chip):
    """The code of every kernel, by PTX version: every instruction, every immediate, every place of its operands."""
    found = defaultdict(set)

    def ask(job):
        found[re.match(r"\.version (\S+)\n", job.code)[1]].add(job.code)
        raise Made

    for instruction in recordable(chip):
        here = instruction.on(chip.chip)
        for case in cases(here, classes(here)[0], 1):
            memories = {case.space: case.bytes} if case.bytes is not None else {}
            with pytest.raises(Made):
                perform(Call(here, chip, case.operands, memories), ask)
    return found


def assembled(target, version, codes):
    """What ptxas says to the kernels of `codes` in one module; without optimising, which takes longer than reading."""
    shared = ".extern .shared .align 1024 .b8 bytes[];\n" if any(".extern" in code for code in codes) else ""
    entries = [code[code.index(".visible") :].replace("one_instruction", f"k{i}") for i, code in enumerate(codes)]
    head = f".version {version}\n.target {target}\n.address_size 64\n"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernels.ptx")
        path.write_text(head + shared + "".join(entries), encoding="ascii")
        command = [PTXAS, "-O0", f"-arch={target}", "-o", f"{folder}/kernels.cubin", str(path)]
        return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("target", TARGETS)
def test_the_assembler_takes_every_kernel(target):
    if assembled(target, ptx.SINCE[target], [".visible .entry k() { ret; }"]).returncode:
        pytest.skip(f"this ptxas does not assemble for {target}")
    found = kernels(card(target))
    assert found
    every = {version: sorted(codes) for version, codes in found.items()}
    parts = [
        (version, codes[start : start + TOGETHER])
        for version, codes in every.items()
        for start in range(0, len(codes), TOGETHER)
    ]
    with ThreadPoolExecutor() as pool:
        for done in pool.map(lambda part: assembled(target, *part), parts):
            assert done.returncode == 0, done.stderr[:2000]


def test_it_refuses_what_the_target_lacks():
    (code,) = list(kernels(card("sm_90a"))["8.0"])[:1]
    assert assembled("sm_90a", "8.0", [code]).returncode == 0
    assert assembled("sm_90a", "8.0", [code.replace("aligned", "aligend")]).returncode

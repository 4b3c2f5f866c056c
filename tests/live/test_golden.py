"""Golden files: what a GPU answered, replayed by the emulator; of dense mma.sync by test_mma_silicon.py."""

import json
from itertools import groupby

import pytest
from places import GOLDEN
from quick import some, spread, turn

import tcemu
from tcemu.instructions import target_named
from tcemu.live.process.device import Device
from tcemu.live.runner.families import recordable
from tcemu.vectors import cases, classes, digest, emulator

FILES = {path.stem: json.loads(path.read_text()) for path in sorted(GOLDEN.glob("sm_*.json"))}
FILES = {name: file for name, file in FILES.items() if "sha256" in file}
ELSEWHERE = {"sm_90a-mma"}
#: Where the inputs are made, and where they were made when the first files were recorded.
INPUTS = {"tcemu/vectors", "tcemu/live/inputs.py"}
H200 = Device("NVIDIA H200", (9, 0), 13000, "", 232448)


def opcodes(name):
    """The instructions of a file, each with its keys."""
    return [(opcode, list(keys)) for opcode, keys in groupby(FILES[name]["sha256"], lambda key: key.split("|")[0])]


#: About so many instructions are replayed by one test: few tests, and still enough of them for all cores.
TOGETHER = 25
#: Every eighth instruction is replayed, other ones every day; of a file with more than so many, as wgmma's, fewer.
MANY = 400
#: Parts of a file that the quick tests replay.
QUICK = 1


def parts():
    """The files in parts, each with something of everything."""
    for name in FILES:
        if name not in ELSEWHERE:
            whole = opcodes(name)
            one_in = 8 + len(whole) // MANY
            every = spread(whole, one_in, first=turn(one_in))
            count = -(-len(every) // TOGETHER)
            for part in range(count):
                marks = [pytest.mark.slow] if part >= QUICK else []
                yield pytest.param(name, every[part::count], id=f"{name} {part + 1} of {count}", marks=marks)


@pytest.mark.parametrize(("name", "part"), list(parts()))
def test_what_the_gpu_answered(row, name, part):
    """Of each instruction a sixth of the classes of inputs, in turn; the arithmetic is that of mma, which meets all."""
    provenance, answered = FILES[name]["provenance"], FILES[name]["sha256"]
    for number, (opcode, every) in enumerate(some(part, 9)):
        keys = spread(every, 6, first=number)
        with row(opcode):
            instruction, answer = tcemu.parse(opcode, provenance["target"]), emulator(provenance["target"])
            recorded = {key.split("|")[1] for key in keys}
            assert recorded <= set(classes(instruction))
            made = {case.key: case for kind in recorded for case in cases(instruction, kind, provenance["warps"])}
            assert set(keys) <= set(made)
            wrong = [key for key in keys if digest(made[key].answer(answer)) != answered[key]]
            assert not wrong, f"{provenance['gpu']} answered otherwise"


@pytest.mark.parametrize("name", FILES)
def test_a_golden_file_says_where_it_comes_from(name):
    provenance = FILES[name]["provenance"]
    assert {"gpu", "target", "driver", "ptx", "date", "warps", "command", "inputs"} <= set(provenance)
    assert name.startswith(target_named(provenance["target"]).__str__() + "-")
    assert provenance["command"].startswith("tcemu record")
    assert provenance["inputs"] in INPUTS


def test_every_instruction_of_the_gpu_is_recorded():
    recorded = {opcode for name in FILES for opcode, _ in opcodes(name)}
    assert {instruction.opcode for instruction in recordable(H200)} <= recorded


def test_a_flipped_bit_is_seen():
    """One bit of one register of one warp changes the hash."""
    opcode = "mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
    case = next(cases(tcemu.parse(opcode), "near", 256))
    answer = case.answer(emulator("sm_90a"))
    assert digest(answer) == FILES["sm_90a-mma.sp"]["sha256"][case.key]
    answer[200, 31, 3] ^= 1
    assert digest(answer) != FILES["sm_90a-mma.sp"]["sha256"][case.key]

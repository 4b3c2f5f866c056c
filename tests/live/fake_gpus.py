"""Fake GPUs for tests: one whose answers the emulator computes, and others that fail in every known way."""

import os
import re
import time

import numpy as np

import tcemu
from tcemu.live import Device
from tcemu.live.process.job import Failed, Failure
from tcemu.live.process.troubles import MISALIGNED, in_words, too_old, unknown_chip
from tcemu.vectors import cases
from tcemu.vectors.operands import sources

MMA = "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32"
STORE = "stmatrix.sync.aligned.m8n8.x1.shared.b16"
#: Name of the GPU whose process runs.
RUNNING = []
CARD = Device("Emulated GPU", (9, 0), 13000, "580.0", 232448)
OPCODE = re.compile(r"^ +((?:wmma|wgmma|mma|ldmatrix|stmatrix|movmatrix)\.\S+) (.*%.*);$", re.MULTILINE)
#: One operand in PTX: registers or numbers in braces, an address, a register or a number.
OPERAND = re.compile(r"\{[^}]*\}|\[[^\]]*\]|[^,\s]+")


class EmulatedGpu:
    """Reads the instruction out of the kernel and lets the emulator answer, group by group, block by block."""

    device = CARD

    def run(self, job):
        opcode, text = OPCODE.search(job.code).groups()
        instruction = tcemu.parse(opcode)
        held = {argument.name: argument.value for argument in job.arguments}
        out = {a.name: np.full(a.shape, 0xA5, np.dtype(a.dtype)) for a in job.arguments if a.direction == "out"}
        both = {a.name: np.array(a.value) for a in job.arguments if a.direction == "both"}
        space = "shared" if ".shared" in job.code else "memory"
        assert list(job.grid) == [len(held["start"]) - 1]
        assert job.block == (instruction.lanes,)
        for block in range(job.grid[0]):
            memories = {}
            if "bytes" in held:
                memories[space] = both.get("bytes", held["bytes"])[held["which"][block]]
            for group in range(held["start"][block], held["start"][block + 1]):
                operands = [self.operand(*each, held, group) for each in self.written(instruction, text)]
                answer = tcemu.run(opcode, *operands, target=self.device.target, **memories)
                for array in out.values():
                    array[group] = answer
        return out | both

    def written(self, instruction, text):
        """The operands that are read, each with its text."""
        words = OPERAND.findall(text)
        described = "%desc_a" in text
        operands = sources(instruction, described)
        return list(zip(operands, words[len(words) - len(operands) :], strict=True))

    def operand(self, operand, text, held, group):
        """What one is given."""
        if operand.in_the_text:
            numbers = tuple(int(word) for word in re.findall(r"-?\d+", text))
            return numbers if text.startswith("{") else numbers[0]
        assert operand.role in text, f"{text} stands where {operand.role} belongs"
        value = held[operand.role][group]
        return bool(value) if operand.kind == "predicate" else value

    def close(self):
        pass


class V100(EmulatedGpu):
    """As a data centre or Colab had it."""

    device = Device("Tesla V100-SXM2-16GB", (7, 0), 12040, "550.54.15", 98304)


class T4(EmulatedGpu):
    """As Colab has it."""

    device = Device("Tesla T4", (7, 5), 12040, "550.54.15", 65536)


class A100(EmulatedGpu):
    """As Colab has it."""

    device = Device("NVIDIA A100-SXM4-40GB", (8, 0), 12040, "550.54.15", 166912)


class L4(EmulatedGpu):
    """As Colab has it."""

    device = Device("NVIDIA L4", (8, 9), 12040, "550.54.15", 101376)


class Wrong(EmulatedGpu):
    """Its tensor core flips a bit now and then: of D[0][0], where A[0][0] has a certain bit."""

    def run(self, job):
        arrays = super().run(job)
        held = {argument.name: argument.value for argument in job.arguments}
        if "a" in held and "out" in arrays:
            arrays["out"][..., 0, 0] ^= (held["a"][..., 0, 0] >> 3 & 1).astype(arrays["out"].dtype)
        return arrays


class Strict(EmulatedGpu):
    """Like an H200 in one respect: a wmma.load from shared memory wants lines at multiples of 16 bytes."""

    def run(self, job):
        if any(argument.name == "pointer" and (argument.value % 16).any() for argument in job.arguments):
            raise Failed(Failure("gpu", in_words(MISALIGNED), fatal=True))
        return super().run(job)


class _Kernels(EmulatedGpu):
    """Obeys the kernel's name."""

    def run(self, job):
        return getattr(self, job.kernel, super().run)(job)


class Troubled(_Kernels):
    """Kernels that end badly."""

    def hang(self, job):
        time.sleep(job.seconds)
        raise Failed(Failure("gpu", in_words("time limit", job.seconds), fatal=True))

    def deaf(self, job):
        time.sleep(3600)

    def illegal_address(self, job):
        raise Failed(Failure("gpu", in_words("CUDA_ERROR_ILLEGAL_ADDRESS"), fatal=True))

    def illegal_instruction(self, job):
        raise Failed(Failure("gpu", in_words("CUDA_ERROR_ILLEGAL_INSTRUCTION"), fatal=True))

    def crash(self, job):
        os._exit(7)

    def syntax(self, job):
        log = 'kernel.cu(2): error: identifier "y" is undefined\n    x[0] = y;\n           ^\n\n1 error detected'
        raise Failed(Failure("compilation", log))

    def twice(self, job):
        return {a.name: a.value * 2 for a in job.arguments if a.direction == "both"}

    def says(self, job):
        os.write(1, b"hello from a thread\n")
        return {}


def no_driver():
    raise Failed(Failure("unavailable", in_words("no driver", "libcuda.so.1 not found"), fatal=True))


def no_device():
    raise Failed(Failure("unavailable", in_words("CUDA_ERROR_NO_DEVICE"), fatal=True))


def too_old_a_device():
    raise Failed(Failure("unavailable", too_old("Tesla P100", (6, 0)), fatal=True))


def too_new_a_device():
    raise Failed(Failure("unavailable", unknown_chip("NVIDIA X1", (99, 0)), fatal=True))


def ends_at_once():
    os._exit(3)


def emulated(instruction, *operands, **memories):
    """Answers as tcemu.live.run would, without a GPU."""
    return tcemu.run(instruction, *operands, target=CARD.target, **memories)


def flawed(instruction, *operands, **memories):
    """A bit of D[0][0] is wrong wherever C[0][0] and A's first element have their lowest bits set."""
    answer = emulated(instruction, *operands, **memories)
    if "a" in instruction.types and "c" in instruction.types:
        a, c = operands[0], operands[2]
        answer[..., 0, 0] ^= (a[..., 0, 0] & c[..., 0, 0] & 1).astype(answer.dtype) << 4
    return answer


def flickering(instruction, *operands, **memories):
    """Wrong only among many."""
    answer = emulated(instruction, *operands, **memories)
    if len(answer) > 1:
        answer[1, 3, 0] ^= 1
    return answer


def sample(opcode=MMA, warps=2, kind="near"):
    """The first case of an instruction."""
    return next(cases(tcemu.parse(opcode), kind, warps))

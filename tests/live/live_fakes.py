"""GPUs that are none, for tests: one that the emulator answers for, and others that go wrong in every known way."""

import os
import re
import time

import numpy as np

import tcemu
from tcemu.live.cases import cases
from tcemu.live.device import Device
from tcemu.live.job import Failure
from tcemu.live.words import MISALIGNED, in_words, too_old, unknown_chip
from tcemu.live.worker import Failed

MMA = "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32"
#: Name of the GPU whose process runs.
RUNNING = []
CARD = Device("Emulated GPU", (9, 0), 13000, "580.0", 232448)
OPCODE = re.compile(r"^ +((?:wmma|wgmma|mma|ldmatrix|stmatrix|movmatrix)\.\S+) (.*%.*);$", re.MULTILINE)


class EmulatedGpu:
    """Reads the instruction out of the kernel and lets the emulator answer, warp by warp, block by block."""

    device = CARD
    junk = 0

    def run(self, job):
        opcode, text = OPCODE.search(job.code).groups()
        held = {argument.name: argument.value for argument in job.arguments}
        out = {a.name: np.full(a.shape, 0xA5, np.dtype(a.dtype)) for a in job.arguments if a.direction == "out"}
        both = {a.name: np.array(a.value) for a in job.arguments if a.direction == "both"}
        order = [a.name for a in job.arguments if a.name not in ("start", "which", "bytes", "size", *out)]
        braces = [tuple(map(int, pair)) for pair in re.findall(r"\{(\d+), (\d+)\}", text)]
        number = re.search(r", (\d+)(?:,|$)", text)
        space = "memory" if ".shared" not in job.code else "shared"
        if job.block == (128,):
            return self.warpgroups(opcode, text, job, held)
        assert list(job.grid) == [len(held["start"]) - 1]
        assert job.block == (32,)
        for block in range(job.grid[0]):
            for warp in range(held["start"][block], held["start"][block + 1]):
                operands = [held[name][warp] for name in order]
                if number:
                    operands.insert(4, int(number[1]))
                for place, pair in zip((-1, len(operands) + 1), braces, strict=False):
                    operands.insert(place if place > 0 else len(operands) - 1, pair)
                memories = {}
                if "bytes" in held:
                    memories[space] = both.get("bytes", held["bytes"])[held["which"][block]]
                answer = tcemu.run(opcode, *operands, target=self.device.target, **memories)
                for array in out.values():
                    array[warp] = answer
        return out | both

    def warpgroups(self, opcode, text, job, held):
        """wgmma: what follows the predicate is immediate, and so is the selector before it."""
        before, after = text.split("%add")
        immediates = [int(word) for word in re.findall(r"-?\d+", after)]
        selector = [int(word) for word in re.findall(r"%e, (\d)", before)]
        out = []
        for group in range(job.grid[0]):
            sparse = [held["e"][group], *selector] if selector else []
            scale_d = bool(held["scale_d"][group])
            operands = [held["d"][group], held["a"][group], held["b"][group], *sparse, scale_d, *immediates]
            bytes_ = held["bytes"][held["which"][group]]
            out.append(tcemu.run(opcode, *operands, target=self.device.target, shared=bytes_))
        return {"out": np.stack(out)}

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
        if "a" in held and "d" in arrays:
            arrays["d"][..., 0, 0] ^= (held["a"][..., 0, 0] >> 3 & 1).astype(arrays["d"].dtype)
        return arrays


class Strict(EmulatedGpu):
    """An H200 in one point: a wmma.load from shared memory wants lines at multiples of 16 bytes."""

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

"""What every recording in the repository asks of a row of the arithmetic table, so that a change can be asked too.

Recordings are the golden files of this project's GPUs, the outputs that others published of theirs, and the answers of
other models (tests/arithmetic/peers/). Tests replay all of them: where a changed row gives another output for one of
these inputs, a test fails.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from unittest.mock import patch

import numpy as np
from dots import compute_dots, dots
from peers import PEERS, RECORDED
from places import GOLDEN
from published import published

import tcemu
from tcemu import backend
from tcemu.arithmetic import ROWS, Operation, compute
from tcemu.arithmetic.operation import narrow
from tcemu.instructions import Instruction, target_named
from tcemu.instructions.table import family_of
from tcemu.vectors.cases import cases

#: Dot products, or warps, that the reference is asked: it takes a thousand times as long as the kernels.
FEW, WARPS = 48, 4


@dataclass(frozen=True)
class Asked:
    """The inputs of one recorded answer. `answer` takes an operation; `few` does so for some of them, slowly."""

    key: str
    answer: Callable[[Operation], np.ndarray]
    few: Callable[[Operation], np.ndarray]


@dataclass(frozen=True)
class Recording:
    """What one source recorded of one instruction on one target."""

    who: str
    instruction: object
    target: str
    ask: Callable[[], Iterator[Asked]]

    @property
    def operation(self):
        """What the instruction computes there, according to the table."""
        return self.instruction.operation(target_named(self.target))


@cache
def recordings():
    """{row: its recordings}, the shortest first; of every row that computes, also where there are none."""
    found = {row: [] for row in ROWS}
    for each in (*_published(), *_peers(), *_golden()):
        found[each.instruction.arithmetic(target_named(each.target))].append(each)
    return found


@contextmanager
def by_reference():
    """Within it the reference computes, not the kernels, nor what was prepared for them."""
    without_plans = patch.object(Instruction, "plans", property(lambda _: {}))
    with patch.object(backend._State, "chosen", "reference"), without_plans:
        yield


def compared(key, given, told=lambda patterns: patterns):
    """Dot products that were asked."""

    def few(operation):
        with by_reference():
            return told(compute_dots(operation, *(x[:FEW] for x in given)))

    return Asked(key, lambda operation: told(compute_dots(operation, *given)), few)


# ------------------------------------------------------------------------------------------------------ other models


def _peers():
    for path in sorted(RECORDED.glob("*.json")):
        file, peer = json.loads(path.read_text()), PEERS[path.stem.split("-")[0]]
        for case, answers in file["answers"].items():
            target, opcode = case.split("|")
            instruction = tcemu.parse(opcode, target=target)
            yield Recording(path.stem, instruction, target, _of_peer(peer, instruction, answers, file["provenance"]))


def _of_peer(peer, instruction, answers, provenance):
    def ask():
        for kind in answers:
            given = peer.asked(instruction, dots(instruction, kind, provenance["series"], provenance["count"]))
            yield compared(kind, given, lambda patterns: peer.told(instruction, patterns))

    return ask


# ------------------------------------------------------------------------------------------------------ published


#: Target and formats of each GPU.
_GPUS = {
    "V100": ("sm_70", "fp16"),
    "A100": ("sm_80", "fp16 bf16 tf32"), "A2": ("sm_86", "fp16 bf16 tf32"),
    "Ada": ("sm_89", "fp16 bf16 tf32 E4M3 E5M2"), "L40S": ("sm_89", "fp16 bf16 tf32 E4M3 E5M2"),
    "H100": ("sm_90a", "fp16 bf16 tf32 E4M3 E5M2"), "H200": ("sm_90a", "fp16 bf16 tf32 E4M3 E5M2"),
    "B200": ("sm_100a", "fp16 bf16 tf32 E4M3 E5M2"),
}  # fmt: skip
_MMA, _WGMMA = "mma.sync.aligned.{shape}.row.col.{d}.{a}.{a}.{d}", "wgmma.mma_async.sync.aligned.m64n8k32.{d}.{a}.{a}"
#: The instructions of each format: wmma made the outputs of f16, bf16 and tf32, and is the HMMA of mma.
_SPELLED = {
    "fp16": (_MMA, "wmma.mma.sync.aligned.row.col.m16n16k16.{d}.{d}"),
    "bf16": (_MMA, "wmma.mma.sync.aligned.row.col.m16n16k16.f32.bf16.bf16.f32"),
    "tf32": (_MMA, "wmma.mma.sync.aligned.row.col.m16n16k8.f32.tf32.tf32.f32"),
    "E4M3": (_MMA,), "E5M2": (_MMA,),
}  # fmt: skip


def _published():
    for gpu, (target, forms) in _GPUS.items():
        for form in forms.split():
            for result in ("fp32", "fp16") if form in ("fp16", "E4M3", "E5M2") else ("fp32",):
                if (gpu, form[0], result) != ("L40S", "E", "fp16"):  # not published
                    for opcode in _made_by(gpu, form, result):
                        instruction = tcemu.parse(opcode, target=target)
                        yield Recording(gpu, instruction, target, _of_gpu(gpu, form, result, instruction))


def _made_by(gpu, form, result):
    """The opcodes of what computed these outputs."""
    native = gpu in ("H100", "H200") and form[0] == "E" and result == "fp32"
    words = {"fp16": "f16", "fp32": "f32"}
    shape = "m8n8k4" if gpu == "V100" else f"m16n8k{published(gpu, form, result)[0].shape[1]}"
    for spelling in (_WGMMA,) if native else _SPELLED[form]:
        yield spelling.format(shape=shape, a=words.get(form, form.lower()), d=words[result])


def _of_gpu(gpu, form, result, instruction):
    def ask():
        a, b, c, _ = published(gpu, form, result)
        depth = ((0, 0), (0, instruction.shape.k - a.shape[1]))
        c = np.zeros_like(c) if instruction.family == "wgmma" else c  # as it was published
        c = c.view(np.float32).astype(instruction.types["c"].dtype).view(instruction.types["c"].storage)
        yield compared(form, (np.pad(a, depth), np.pad(b, depth), c))

    return ask


# ------------------------------------------------------------------------------------------------------ golden files


def _golden():
    for path in sorted(GOLDEN.glob("sm_*.json")):
        file = json.loads(path.read_text())
        for opcode, keys in _opcodes(file.get("sha256", ())).items():
            target = file["provenance"]["target"]
            instruction = tcemu.parse(opcode, target=target)
            if family_of(instruction).computes:
                yield Recording(
                    path.stem, instruction, target, _of_golden(instruction, keys, file["provenance"]["warps"])
                )


def _opcodes(keys):
    found = {}
    for key in keys:
        found.setdefault(key.split("|")[0], []).append(key)
    return found


def _of_golden(instruction, keys, warps):
    def ask():
        for kind in dict.fromkeys(key.split("|")[1] for key in keys):
            for case in cases(instruction, kind, warps):
                if case.key in keys:
                    yield _case(case)

    return ask


def _case(case):
    def answer(operation, case=case):
        execute = family_of(case.instruction).execute

        def run(instruction, *operands, **memories):
            return execute(instruction, operation, operands, {"shared": None, "memory": None} | memories)

        return case.answer(run)

    def few(operation):
        warps = _close(case, operation) if getattr(operation.model, "via", None) else range(1)
        with by_reference():
            return np.concatenate([answer(operation, case.only(warp)) for warp in warps])

    return Asked(case.key, answer, few)


def _close(case, operation):
    """Of f16 results of f32 sums, some warps where the last bit of a sum decides: elsewhere its rounding is lost."""
    given = [case.instruction.fragments[role].unpack(x) for role, x in zip("abc", case.operands, strict=True)]
    patterns = [operation.formats[role].patterns(x, role) for role, x in zip("abc", given, strict=True)]
    sums = compute(replace(operation, model=replace(operation.model, via=None), d=operation.model.via), *patterns)
    warps = np.flatnonzero((narrow(sums) != narrow(sums + 1)).any(axis=(1, 2)))
    return warps[:WARPS] if warps.size else range(1)

"""``tcemu warm``: compile all kernels in advance, on all cores."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Hashable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt

import tcemu
from tcemu.backend import backend
from tcemu.errors import ArithmeticUnknown
from tcemu.formats import Format
from tcemu.instructions import FAMILIES, TARGETS, Instruction, Shape, Target
from tcemu.instructions.catalogue import catalogue
from tcemu.instructions.table import family_of
from tcemu.kernels.host.threads import cores
from tcemu.machine import memory
from tcemu.progress import Progress
from tcemu.sanitizer import batches, marks
from tcemu.vectors import cases, classes, elements, emulator

#: The file beside the compiled kernels that says what they were compiled for.
STAMP = "tcemu-warm.txt"
#: Warps at a time: one alone, some, and enough that the kernels handle them in another way.
WARPS = (1, 5, 40)
#: Rows, columns and depth of whole matrices, at least: one instruction, and enough to divide the work.
WHOLE = (1, 192)


@dataclass(frozen=True)
class Work:
    """An instruction on a target, which stands for all that the same code computes or moves."""

    opcode: str
    target: str


def works() -> list[Work]:
    """What has to run once to compile everything, according to the tables: each model on each set of dtypes.

    Of the instructions that agree in this, those with the smallest and the largest tile stand for the others.
    """
    alike: dict[Hashable, list[tuple[Instruction, Target]]] = {}
    for family in FAMILIES:
        for instruction in catalogue(family=family.name) if family.execute else ():
            for target in TARGETS.values():
                key = _manner(instruction, target)
                if key is not None:
                    alike.setdefault((family.name, key), []).append((instruction, target))
    ends = (end(same, key=_size) for same in alike.values() for end in (min, max))
    return list(dict.fromkeys(Work(instruction.opcode, str(target)) for instruction, target in ends))


def _size(each: tuple[Instruction, Target]) -> tuple[Shape, int]:
    """The shape and the registers of a lane: ldmatrix's .x1 and .x4 differ in these alone."""
    return each[0].shape, sum(fragment.registers for fragment in each[0].fragments.values())


def _manner(instruction: Instruction, target: Target) -> Hashable | None:
    """What decides which code computes an instruction; None if the target lacks it or its arithmetic is unknown."""
    if not instruction.gate.admits(target):
        return None
    on_target = instruction.on(target)
    if not on_target.knows_fragments:
        return None
    held = tuple((role, str(each.container.storage), each.lanes) for role, each in sorted(on_target.fragments.items()))
    if not family_of(on_target).computes:
        return held
    try:
        operation = on_target.operation(target)
    except ArithmeticUnknown:
        return None
    return held, operation.model, operation.depth, operation.keeps_addend


def perform(work: Work) -> None:
    """Run one work on every class of inputs, the first and the last with several numbers of warps; and on matrices."""
    instruction = tcemu.parse(work.opcode, target=work.target)
    kinds = classes(instruction)
    for kind in kinds:
        for warps in WARPS if kind in (kinds[0], kinds[-1]) else WARPS[:1]:
            for case in islice(cases(instruction, kind, warps, "warm"), 1):
                case.answer(emulator(work.target))
                if case.bytes is not None:  # all warps in one memory, as in a kernel
                    replace(case, bytes=case.bytes[0]).answer(emulator(work.target))
    if family_of(instruction).matrices and not instruction.sparse:
        for least in WHOLE:
            multiply(instruction, work.target, least)


def multiply(instruction: Instruction, target: str, least: int) -> None:
    """Whole matrices through the instruction, in no dimension less than `least`: ordinary numbers, and any bits."""
    m, n, k = (-(-least // size) * size for size in instruction.shape)
    k = instruction.shape.k if instruction.types["c"] != instruction.types["d"] else k
    sizes = {"a": (m, k), "b": (k, n), "c": (m, n)}
    for kind in ("near", "bits"):
        a, b, c = (_matrix(instruction.types[role], kind, *size) for role, size in sizes.items())
        tcemu.matmul(a, b, c, instruction=instruction, target=target)


def _matrix(form: Format, kind: str, rows: int, columns: int) -> npt.NDArray[Any]:
    patterns = elements(form, kind, "warm", rows * columns).astype(form.storage)
    return form.matrix(patterns.reshape(rows, columns))


def _prepare() -> None:
    """Set up a process that only compiles: the kernels compute from the first product on, without any notice."""
    os.environ.update(TCEMU_KERNELS="numba", TCEMU_QUIET="1")
    np.seterr(all="ignore")


def perform_all(some: Sequence[Work]) -> Iterator[Work]:
    """Perform works on all cores, in processes of their own, and yield each when it is done."""
    with ProcessPoolExecutor(min(cores(), len(some)), get_context("spawn"), _prepare) as pool:
        with _deaf():
            waiting = {pool.submit(perform, work): work for work in some}
        try:
            for done in as_completed(waiting):
                done.result()
                yield waiting[done]
        except KeyboardInterrupt:
            for process in active_children():  # what they were compiling is not worth waiting for
                process.kill()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _deaf() -> Iterator[None]:
    """Let the processes that are started here hear no Ctrl + C, which this process hears for them, a little later."""
    if sys.platform == "win32":  # which has no masks of signals
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def warm_up() -> str:
    """Compile what is not compiled for this processor yet, and return a sentence about it; "" if nothing was left."""
    if backend() != "numba":
        return "There is nothing to compile: the reference computes, because numba is not installed or is switched off."
    from tcemu.kernels.host.compiling import cache_folder, fingerprint

    folder, wanted = cache_folder(), fingerprint()
    if folder is None:
        return "There is no folder to keep compiled kernels in; set NUMBA_CACHE_DIR to one."
    stamp = folder / STAMP
    if _text(stamp) == wanted:
        return ""
    click.echo(
        "Compiling the kernels for this processor, once. This takes about a minute; with --no-warm, lab, grade and "
        "classroom start without it.",
        err=True,
    )
    some = _spread(works())
    try:
        with Progress("compiling", len(some)) as shown:
            shown.show()
            for done, _ in enumerate(perform_all(some), 1):
                shown.show(done)
            compile_small()
        stamp.write_text(wanted, encoding="utf-8")
    except (OSError, BrokenExecutor) as error:  # no space, no memory: the course opens anyway
        return f"Not all kernels could be compiled in advance ({error}); each is compiled when it is first needed."
    return f"The kernels are compiled, in {folder}."


def compile_small() -> None:
    """Compile the kernels of the machine and the sanitizer, which no instruction needs."""
    memory.compile_all()
    marks.compile_all()
    batches.compile_all()


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""


def _spread(some: list[Work]) -> list[Work]:
    """Move works that are neighbours in the tables, and need the same kernels, far apart: processes wait less."""
    step = 1 + int(len(some) ** 0.5)
    return [work for start in range(step) for work in some[start::step]]


@click.command()
def warm() -> None:
    """Compile the kernels in advance, on all cores.

    Without this, each kernel is compiled when it is first needed. `tcemu lab` does it before it opens for the first
    time. The compiled kernels are kept for this processor and this version of tcemu.
    """
    click.echo(warm_up() or "The kernels are already compiled; there is nothing to do.")

"""The system calls that a box may not make: those that take memory nobody counts, and those that make new namespaces.

Limits count the pages of a process. What memfd_create and shmget allocate is in nobody's pages, and neither is a file
system that is mounted in a namespace of one's own. The list travels as a program of seccomp, which bubblewrap loads.
"""

from __future__ import annotations

import os
import platform
import struct
from collections.abc import Iterator
from errno import ENOSYS, EPERM

#: Each call's number on x86-64, and on 64-bit ARM as in the kernel's asm-generic/unistd.h.
_DENIED = {
    "memfd_create": (319, 279), "memfd_secret": (447, 447),
    "shmget": (29, 194), "msgget": (68, 186), "semget": (64, 190), "mq_open": (240, 180),
    "unshare": (272, 97), "setns": (308, 268),
    "mount": (165, 40), "fsopen": (430, 430), "open_tree": (428, 428), "move_mount": (429, 429), "fsmount": (432, 432),
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "io_uring_setup": (425, 425),
}  # fmt: skip
#: clone makes processes and threads, and with one of these flags namespaces. The flags of clone3 are in memory, where
#: seccomp cannot look, so it is told not to exist, and libraries use clone.
_CLONE, _CLONE3 = (56, 220), 435
_NAMESPACES = 0x7E02_0000
#: The machines, by what `platform.machine` calls them, and by what the kernel does.
_MACHINES = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7}
#: Calls of the x32 ABI of x86-64 have this bit in their numbers.
_X32 = 0x4000_0000

#: Instructions of BPF: load a word, jump if equal, at least, or if a bit is set, return.
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
#: Where the number of a call, the machine and the first argument are.
_NUMBER, _MACHINE, _FIRST = 0, 4, 16
_ALLOWED, _REFUSED = 0x7FFF_0000, 0x0005_0000


def program(machine: str = "") -> bytes:
    """The program for a machine, by default this one; empty if its calls are not known here.

    >>> from tcemu.grade.syscalls import program
    >>> len(program("x86_64")) % 8, program("pdp11")
    (0, b'')
    """
    machine = machine or platform.machine()
    if machine not in _MACHINES:
        return b""
    return b"".join(struct.pack("<HBBI", *each) for each in _instructions(machine))


def _instructions(machine: str) -> Iterator[tuple[int, int, int, int]]:
    """Code, the two jumps and the constant of each instruction. A jump skips the return after it."""
    column = list(_MACHINES).index(machine)
    refuse = _RETURN, 0, 0, _REFUSED | EPERM
    yield _LOAD, 0, 0, _MACHINE
    yield _EQUAL, 1, 0, _MACHINES[machine]
    yield refuse
    yield _LOAD, 0, 0, _NUMBER
    yield _AT_LEAST, 0, 1, _X32
    yield refuse
    for numbers in _DENIED.values():
        yield _EQUAL, 0, 1, numbers[column]
        yield refuse
    yield _EQUAL, 0, 1, _CLONE3
    yield _RETURN, 0, 0, _REFUSED | ENOSYS
    yield _EQUAL, 0, 3, _CLONE[column]
    yield _LOAD, 0, 0, _FIRST
    yield _ANY_BIT, 0, 1, _NAMESPACES
    yield refuse
    yield _RETURN, 0, 0, _ALLOWED


def opened() -> int:
    """A descriptor from which the program can be read once; -1 if there is none for this machine."""
    held = program()
    if not held:
        return -1
    reading, writing = os.pipe()  # a pipe holds 64 KB
    os.write(writing, held)
    os.close(writing)
    return reading

"""The system calls that a box may not make, as a program of seccomp, which bubblewrap loads.

Limits count the pages of processes, and `Scales` the files in the box's folder. Neither counts the memory of
memfd_create, shmget, socket buffers, inotify queues and pages lent to a pipe, so a box gets none of these. The other
calls make namespaces, look into other processes, or use up something that the whole machine shares. To a
learner's box in a classroom, in which Jupyter needs sockets and more, only new namespaces are denied.
"""

from __future__ import annotations

import os
import platform
import struct
from collections.abc import Iterable, Iterator, Mapping
from errno import ENOSYS, EPERM

#: A call that 64-bit ARM does not have.
_NONE = -1
#: Names of calls, and the number of each on x86-64, and on 64-bit ARM as in the kernel's asm-generic/unistd.h.
Calls = Mapping[str, tuple[int, int]]
#: The calls that make namespaces and file systems.
NAMESPACES: Calls = {
    "unshare": (272, 97), "setns": (308, 268),
    "mount": (165, 40), "fsopen": (430, 430), "open_tree": (428, 428), "move_mount": (429, 429), "fsmount": (432, 432),
}  # fmt: skip
#: All that a grading box may not make.
ALL: Calls = {
    **NAMESPACES,
    # memory that is in no process
    "memfd_create": (319, 279), "memfd_secret": (447, 447),
    "shmget": (29, 194), "msgget": (68, 186), "semget": (64, 190), "mq_open": (240, 180),
    "socket": (41, 198), "socketpair": (53, 199), "vmsplice": (278, 75), "splice": (275, 76), "tee": (276, 77),
    "inotify_init": (253, _NONE), "inotify_init1": (294, 26), "fanotify_init": (300, 262),
    "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218),
    # other processes, and the kernel
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "pidfd_getfd": (438, 438),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "io_uring_setup": (425, 425),
    # what the machine has once
    "io_setup": (206, 0), "sync": (162, 81), "syncfs": (306, 267),
}  # fmt: skip
#: Calls that are refused if an argument has certain values: each call's numbers, which argument, and the values.
_LOCKS = (72, 25), 1, (6, 7, 37, 38)  # fcntl: each locked range of a file takes memory of the kernel
#: clone makes processes and threads, and with one of these flags namespaces. The flags of clone3 are in memory, where
#: seccomp cannot look, so the call is reported as missing, and libraries use clone.
_CLONE, _CLONE3 = (56, 220), 435
_NEW = 0x7E02_0000
#: The machines, by what `platform.machine` calls them, and by what the kernel does.
_MACHINES = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7}
#: Calls of the x32 ABI of x86-64 have this bit in their numbers.
_X32 = 0x4000_0000

#: Instructions of BPF: load a word, jump if equal, at least, or if a bit is set, return.
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
#: Where the number of a call, the machine and the arguments are, and the bytes of an argument.
_NUMBER, _MACHINE, _ARGUMENTS, _WIDE = 0, 4, 16, 8
_ALLOWED, _REFUSED = 0x7FFF_0000, 0x0005_0000
_REFUSE, _ALLOW = (_RETURN, 0, 0, _REFUSED | EPERM), (_RETURN, 0, 0, _ALLOWED)

Code = Iterator[tuple[int, int, int, int]]


def program(machine: str = "", denied: Calls = ALL) -> bytes:
    """The program for a machine, by default this one; empty if its calls are not known here.

    Whatever is `denied`, no process or thread gets a namespace of its own; locks are limited where memory is.

    >>> from tcemu.grade.syscalls import program
    >>> len(program("x86_64")) % 8, program("pdp11")
    (0, b'')
    """
    machine = machine or platform.machine()
    if machine not in _MACHINES:
        return b""
    return b"".join(struct.pack("<HBBI", *each) for each in _instructions(machine, denied))


def _instructions(machine: str, denied: Calls) -> Code:
    """Code, the two jumps and the constant of each instruction. A jump skips the return after it."""
    column = list(_MACHINES).index(machine)
    yield _LOAD, 0, 0, _MACHINE
    yield _EQUAL, 1, 0, _MACHINES[machine]
    yield _REFUSE
    yield _LOAD, 0, 0, _NUMBER
    yield _AT_LEAST, 0, 1, _X32
    yield _REFUSE
    for numbers in denied.values():
        if numbers[column] != _NONE:
            yield _EQUAL, 0, 1, numbers[column]
            yield _REFUSE
    yield _EQUAL, 0, 1, _CLONE3
    yield _RETURN, 0, 0, _REFUSED | ENOSYS
    if denied is ALL:
        numbers, which, values = _LOCKS
        yield from _examined(numbers[column], which, ((_EQUAL, value) for value in values))
    yield from _examined(_CLONE[column], 0, [(_ANY_BIT, _NEW)])
    yield _ALLOW


def _examined(number: int, which: int, refused: Iterable[tuple[int, int]]) -> Code:
    """Refuse a call if one of the comparisons of its argument holds, and allow it otherwise."""
    tests = [each for test, value in refused for each in ((test, 0, 1, value), _REFUSE)]
    yield _EQUAL, 0, len(tests) + 2, number
    yield _LOAD, 0, 0, _ARGUMENTS + _WIDE * which
    yield from tests
    yield _ALLOW


def opened(denied: Calls = ALL) -> int:
    """A descriptor from which the program can be read once; -1 if there is none for this machine."""
    held = program(denied=denied)
    if not held:
        return -1
    reading, writing = os.pipe()  # a pipe holds 64 KB
    os.write(writing, held)
    os.close(writing)
    return reading

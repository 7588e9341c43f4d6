"""System calls that no program needs and that would pass the sandbox's limits, as a filter for the kernel."""

from __future__ import annotations

import errno
import os
import platform
import struct
from collections.abc import Iterator
from contextlib import contextmanager

FORBIDDEN = {
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "msgget": (68, 186),
    "ptrace": (101, 117),
    "process_vm_writev": (311, 271),
    "add_key": (248, 217),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
}
"""Numbers on x86_64 and aarch64. Memory that no process maps is in no count of theirs; others reach into processes."""
MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""Place in FORBIDDEN, and the kernel's name of the architecture (linux/audit.h)."""
LOAD, EQUAL, AT_LEAST, RETURN = 0x20, 0x15, 0x35, 0x06
ALLOW, DENY, KILL = 0x7FFF0000, 0x00050000 | errno.EPERM, 0x80000000
OTHER_ABI = 0x40000000


def rules() -> bytes:
    """The filter as classic BPF; b"" for a machine that is not in MACHINES."""
    if platform.machine() not in MACHINES:
        return b""
    place, architecture = MACHINES[platform.machine()]
    numbers = [pair[place] for pair in FORBIDDEN.values()]
    steps = [(LOAD, 0, 0, 4), (EQUAL, 1, 0, architecture), (RETURN, 0, 0, KILL), (LOAD, 0, 0, 0)]
    steps.append((AT_LEAST, len(numbers) + 1, 0, OTHER_ABI))
    steps += [(EQUAL, len(numbers) - i, 0, number) for i, number in enumerate(numbers)]
    steps += [(RETURN, 0, 0, ALLOW), (RETURN, 0, 0, DENY)]
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


@contextmanager
def rules_file() -> Iterator[int]:
    """A descriptor that reads the filter, closed at the end."""
    fd = os.memfd_create("rules")
    try:
        os.write(fd, rules())
        os.lseek(fd, 0, os.SEEK_SET)
        yield fd
    finally:
        os.close(fd)

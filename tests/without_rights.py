"""``python -m tests.without_rights MODULE ARGUMENTS``: a module without root's rights on files."""

import ctypes
import os
import runpy
import sys

RIGHTS = (1, 2)  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
DROP_FROM_BOUNDING_SET = 24


def drop() -> None:
    """Give up the two rights, also for the programs that are started. Raises ``OSError`` if the kernel refuses."""
    if os.geteuid() != 0:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    for right in RIGHTS:
        libc.prctl(DROP_FROM_BOUNDING_SET, right, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # version 3, this process
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted and inheritable of the first 32 rights, then of the others
    for call in (libc.capget, libc.capset):
        if call(header, sets):
            raise OSError(ctypes.get_errno(), "cannot give up root's rights on files")
        for at in range(3):
            sets[at] &= ~sum(1 << right for right in RIGHTS)


if __name__ == "__main__":
    drop()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)

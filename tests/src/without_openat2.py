"""Runs a command in which openat2 fails: without_openat2.py ERRNO COMMAND..."""

import ctypes
import os
import struct
import sys

PR_SET_SECCOMP, SECCOMP_MODE_FILTER, PR_SET_NO_NEW_PRIVS = 22, 2, 38
# On every architecture.
OPENAT2 = 437

instructions = [
    (0x20, 0, 0, 0),  # load the number of the system call
    (0x15, 0, 1, OPENAT2),  # skip one instruction unless it is openat2
    (0x06, 0, 0, 0x50000 | int(sys.argv[1])),  # SECCOMP_RET_ERRNO
    (0x06, 0, 0, 0x7FFF0000),  # SECCOMP_RET_ALLOW
]
code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *one) for one in instructions))
program = ctypes.create_string_buffer(struct.pack("@HP", len(instructions), ctypes.addressof(code)))
libc = ctypes.CDLL(None, use_errno=True)
for arguments in (PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0):
    if libc.prctl(*arguments) != 0:
        sys.exit(f"prctl: {os.strerror(ctypes.get_errno())}")
os.execvp(sys.argv[2], sys.argv[2:])

"""What an operator is told of resources that are used up and of processes that ended."""

from __future__ import annotations

import errno
import sqlite3

import pytest

from server.errors import DISK, FILES, MEMORY, THREADS, ending, remedy

FULL = sqlite3.OperationalError("database or disk is full")
FULL.sqlite_errorcode = sqlite3.SQLITE_FULL


@pytest.mark.parametrize(
    ("error", "resource"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), DISK),
        (OSError(errno.EMFILE, "Too many open files"), FILES),
        (FULL, DISK),
        (MemoryError(), MEMORY),
        (RuntimeError("can't start new thread"), THREADS),
        (OSError(errno.EACCES, "Permission denied"), None),
        (ValueError("no"), None),
    ],
    ids=str,
)
def test_a_resource_that_is_used_up_has_a_remedy(error, resource):
    assert remedy(error) == (f": {resource.remedy}" if resource else "")


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (1, "ended with code 1"),
        (-11, "was ended by signal 11"),
        (-9, f"was ended by signal 9 (by the kernel if memory is short: {MEMORY.remedy})"),
    ],
)
def test_the_end_of_a_process_says_who_may_have_ended_it(code, said):
    assert ending(code) == said

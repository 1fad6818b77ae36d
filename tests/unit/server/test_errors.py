"""What an operator is told of a process that ended."""

from __future__ import annotations

import pytest

from server.errors import MEMORY, ending


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

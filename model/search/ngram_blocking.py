"""N-gram blocking: no n tokens occur in a target twice (`no_repeat_ngram_size`, as in Hugging Face and CTranslate2)."""

from __future__ import annotations

from collections.abc import Sequence


def blocked_tokens(tokens: Sequence[int], size: int) -> set[int]:
    """Returns the tokens that would complete an n-gram of `size` tokens that `tokens` already contains."""
    if size == 0 or len(tokens) < size:
        return set()
    last = tuple(tokens[len(tokens) - size + 1 :])
    return {tokens[i + size - 1] for i in range(len(tokens) - size + 1) if tuple(tokens[i : i + size - 1]) == last}

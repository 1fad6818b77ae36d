"""Reading of untrusted shortlists in Marian's binary format (`lex.*.bin` of Firefox's models).

Six numbers (uint64): a constant, a checksum, the number of first tokens, of best targets, of offsets and of targets. Then the
offsets (uint64) and the targets (uint32). The checksum is not read: every number is checked instead.
"""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

from model.config import ModelConfig
from model.convert.source_files import ImportRefused, read_bytes
from model.shortlist import Shortlist

MAGIC = 0xF11A48D5013417F5
_HEADER = struct.Struct("<6Q")
_MOST_BYTES = 1 << 28


def read_binary_shortlist(file: Path, config: ModelConfig) -> Shortlist:
    """Reads a shortlist for a model. Raises ImportRefused."""
    data = read_bytes(file, _MOST_BYTES)
    sources = config.source_vocab_size or config.vocab_size
    if len(data) < _HEADER.size:
        raise ImportRefused(file, ["the file is too short for a shortlist"])
    magic, _, first, _, offset_count, target_count = _HEADER.unpack_from(data)
    if magic != MAGIC:
        raise ImportRefused(file, ["the file is not a binary shortlist of Marian"])
    if len(data) != _HEADER.size + 8 * offset_count + 4 * target_count:
        raise ImportRefused(file, ["the file does not have the size that its header states"])
    offsets = np.frombuffer(data, "<u8", offset_count, _HEADER.size)
    if not sources <= offset_count - 1 or (offsets > target_count).any():
        raise ImportRefused(file, [f"its offsets are not those of a source vocabulary of {sources}"])
    targets = np.frombuffer(data, "<u4", target_count, _HEADER.size + 8 * offset_count)
    if (targets >= config.vocab_size).any():
        raise ImportRefused(file, [f"its targets are outside the vocabulary of {config.vocab_size}"])
    used = offsets[: sources + 1].astype(np.int64)
    shared = config.source_vocab_size is None and config.tied_embeddings
    allowed = targets[: used[-1]].astype(np.int32)
    try:
        return Shortlist(used, allowed, min(first, config.vocab_size), shared, config.vocab_size)
    except ValueError as error:
        raise ImportRefused(file, [str(error)]) from None

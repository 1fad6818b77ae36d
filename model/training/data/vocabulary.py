"""A vocabulary that is an older one with further symbols: every piece keeps its id, so trained weights stay of use."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sentencepiece

from model.training.recipe import RecipeError

_USER_DEFINED = 4
"""SentencePiece's number for the type of a piece that is never split (sentencepiece_model.proto)."""


def extend_vocabulary(old: Path, new: Path, symbols: Sequence[str]) -> None:
    """Write the SentencePiece model `old` to `new` with those `symbols` that it lacks as user-defined pieces at its end.

    Raises RecipeError where `old` is not a SentencePiece model.
    """
    # Generated code of the protocol; it needs the package protobuf, and nothing else here does.
    from sentencepiece import sentencepiece_model_pb2 as protocol

    model: Any = protocol.ModelProto()  # type: ignore[attr-defined]
    try:
        model.ParseFromString(old.read_bytes())
    except OSError:
        raise RecipeError(f"[vocabulary] start: there is no {old}.") from None
    except Exception:  # noqa: BLE001 - the parser's own kind of error
        raise RecipeError(f"[vocabulary] start: {old} is not a SentencePiece model.") from None
    known = {piece.piece for piece in model.pieces}
    for symbol in symbols:
        if symbol not in known:
            model.pieces.add(piece=symbol, score=0.0, type=_USER_DEFINED)
    model.trainer_spec.vocab_size = len(model.pieces)
    model.trainer_spec.user_defined_symbols.extend(symbol for symbol in symbols if symbol not in known)
    new.write_bytes(model.SerializeToString())


def has_symbols(processor: sentencepiece.SentencePieceProcessor, symbols: Sequence[str]) -> bool:
    """Whether the vocabulary has all `symbols` as pieces of their own."""
    return all(processor.piece_to_id(symbol) != processor.unk_id() for symbol in symbols)

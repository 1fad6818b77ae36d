"""Extension of a vocabulary by symbols. All existing pieces keep their ids, so trained weights can be used again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sentencepiece

from model.training.recipe import RecipeError

_USER_DEFINED = 4
"""Type of a piece that is never split (USER_DEFINED in sentencepiece_model.proto)."""


def extend_vocabulary(old: Path, new: Path, symbols: Sequence[str]) -> None:
    """Writes the SentencePiece model `old` to `new` and appends those `symbols` that it lacks as user-defined pieces.

    Raises RecipeError if `old` does not exist or is not a SentencePiece model.
    """
    # Imported here, because this generated code is the only part of training that needs the package protobuf.
    from sentencepiece import sentencepiece_model_pb2 as protocol

    model: Any = protocol.ModelProto()  # type: ignore[attr-defined]
    try:
        model.ParseFromString(old.read_bytes())
    except OSError:
        raise RecipeError(f"[vocabulary] start: there is no {old}.") from None
    except Exception:  # noqa: BLE001 - protobuf's DecodeError has no stable import path
        raise RecipeError(f"[vocabulary] start: {old} is not a SentencePiece model.") from None
    known = {piece.piece for piece in model.pieces}
    for symbol in symbols:
        if symbol not in known:
            model.pieces.add(piece=symbol, score=0.0, type=_USER_DEFINED)
    model.trainer_spec.vocab_size = len(model.pieces)
    model.trainer_spec.user_defined_symbols.extend(symbol for symbol in symbols if symbol not in known)
    new.write_bytes(model.SerializeToString())


def has_symbols(processor: sentencepiece.SentencePieceProcessor, symbols: Sequence[str]) -> bool:
    """Returns whether every one of `symbols` is a piece of the vocabulary."""
    return all(processor.piece_to_id(symbol) != processor.unk_id() for symbol in symbols)

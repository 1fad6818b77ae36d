"""Initial weights from a finished model, which may have another vocabulary."""

from __future__ import annotations

from pathlib import Path

import sentencepiece
import torch

from model.checkpoint import load_model
from model.model_folder import FolderError, read_folder
from model.training.recipe import RecipeError
from model.transformer import Transformer


def start_from(
    folder: Path, model: Transformer, pieces: sentencepiece.SentencePieceProcessor, fresh: tuple[str, ...] = ()
) -> None:
    """Copies the weights of the model in `folder` to `model`, whose vocabulary is `pieces`.

    Parameters whose names begin with one of `fresh` are not changed. Embedding rows (V, d_model) are copied by piece. A
    piece that the old vocabulary lacks gets the mean row of the old pieces that spell it. A tag of a new language gets
    the mean row of the old tags. Raises RecipeError if `folder` is no model folder or another tensor differs in shape.
    """
    try:
        served = read_folder(folder)
        old = load_model(served).state_dict()
    except FolderError as error:
        raise RecipeError(f"[train] start: {error}") from None
    old_pieces = sentencepiece.SentencePieceProcessor(model_file=str(served.path / served.tokenizer.source))
    spelling = _spelling(old_pieces, pieces)
    new = model.state_dict()
    for name, tensor in new.items():
        by_piece = (
            name in old and tensor.dim() <= 2 and len(old[name]) == len(old_pieces) and len(tensor) == len(pieces)
        )
        if by_piece and tensor.shape[1:] == old[name].shape[1:]:
            old[name] = torch.stack([old[name][ids].mean(0) for ids in spelling])
        elif fresh and name.startswith(fresh):
            old[name] = tensor
        elif name not in old or old[name].shape != tensor.shape:
            raise RecipeError(f"[train] start: {name} has another shape in {folder.name} than in this recipe.")
    model.load_state_dict(old)


def _spelling(
    old_pieces: sentencepiece.SentencePieceProcessor, pieces: sentencepiece.SentencePieceProcessor
) -> list[list[int]]:
    """Returns for every piece of the new vocabulary the ids of the old pieces that spell it."""
    tags = [
        i for i in range(len(old_pieces)) if old_pieces.is_control(i) and old_pieces.id_to_piece(i).startswith(">>")
    ]
    ids: list[list[int]] = []
    for i in range(len(pieces)):
        piece = pieces.id_to_piece(i)
        same = old_pieces.piece_to_id(piece)
        if same != old_pieces.unk_id() or pieces.is_unknown(i):
            ids.append([same])
        elif pieces.is_control(i) and tags:
            ids.append(tags)
        else:
            spelled = old_pieces.encode(piece.replace("\u2581", " "))
            # Every encoding starts with a word boundary. A piece from inside a word has none, so it is removed.
            inside = (
                len(spelled) > 1 and not piece.startswith("\u2581") and old_pieces.id_to_piece(spelled[0]) == "\u2581"
            )
            ids.append((spelled[1:] if inside else spelled) or [old_pieces.unk_id()])
    return ids

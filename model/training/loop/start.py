"""Start a training from a finished model, also one with another vocabulary: what the two share is taken over."""

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
    """Copy the weights of the model in `folder` into `model`, whose vocabulary is `pieces`; parameters whose names begin
    with one of `fresh` stay as they are.

    Rows of embeddings (V, d_model) go by piece. A piece the old vocabulary lacks gets the mean of the rows of the pieces
    that the old one spells it with, a tag of a new language the mean of the old tags. Raises RecipeError where another
    tensor differs in shape.
    """
    try:
        served = read_folder(folder)
        old = load_model(served).state_dict()
    except FolderError as error:
        raise RecipeError(f"[train] start: {error}") from None
    before = sentencepiece.SentencePieceProcessor(model_file=str(served.path / served.tokenizer.source))
    spelling = _spelling(before, pieces)
    new = model.state_dict()
    for name, tensor in new.items():
        rows = name in old and tensor.dim() <= 2 and len(old[name]) == len(before) and len(tensor) == len(pieces)
        if rows and tensor.shape[1:] == old[name].shape[1:]:
            old[name] = torch.stack([old[name][ids].mean(0) for ids in spelling])
        elif fresh and name.startswith(fresh):
            old[name] = tensor
        elif name not in old or old[name].shape != tensor.shape:
            raise RecipeError(f"[train] start: {name} has another shape in {folder.name} than in this recipe.")
    model.load_state_dict(old)


def _spelling(
    before: sentencepiece.SentencePieceProcessor, pieces: sentencepiece.SentencePieceProcessor
) -> list[list[int]]:
    """For every piece of the new vocabulary the ids of the old one that stand for it."""
    tags = [i for i in range(len(before)) if before.is_control(i) and before.id_to_piece(i).startswith(">>")]
    ids: list[list[int]] = []
    for i in range(len(pieces)):
        piece = pieces.id_to_piece(i)
        same = before.piece_to_id(piece)
        if same != before.unk_id() or pieces.is_unknown(i):
            ids.append([same])
        elif pieces.is_control(i) and tags:
            ids.append(tags)
        else:
            spelled = before.encode(piece.replace("\u2581", " "))
            # Every encoding starts with a word boundary, which a piece from inside a word has not.
            inside = len(spelled) > 1 and not piece.startswith("\u2581") and before.id_to_piece(spelled[0]) == "\u2581"
            ids.append((spelled[1:] if inside else spelled) or [before.unk_id()])
    return ids

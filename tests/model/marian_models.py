"""Random Marian models in Hugging Face's layout, with SentencePiece models trained on made-up text."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch

SPECIAL = ("</s>", "<unk>", "<pad>")


def made_up_text(seed: int, lines: int = 400) -> list[str]:
    """Sentences of invented words in several scripts, with digits, punctuation and odd spaces."""
    chance = random.Random(seed)
    alphabets = ("abcdefghijklmnopqrstuvwxyz", "äöüßéèçñåø", "абвгдежзийклмнопрст", "αβγδεζηθικλ", "東京都北海道日本語")
    words = [
        "".join(chance.choice(chance.choices(alphabets, (12, 2, 2, 1, 1))[0]) for _ in range(chance.randint(1, 8)))
        for _ in range(250)
    ]
    ends = [".", "?", "!", "...", ",", " –", "»"]

    def line() -> str:
        chosen = [chance.choice(words) for _ in range(chance.randint(1, 14))]
        if chance.random() < 0.3:
            chosen.insert(0, str(chance.randint(0, 99_999)))
        return chance.choice([" ", " ", " ", "  "]).join(chosen).capitalize() + chance.choice(ends)

    return [line() for _ in range(lines)]


def train_sentencepiece(file: Path, seed: int, size: int = 200, **options: Any) -> list[str]:
    """Train a SentencePiece model to `file` and return its pieces without the special ones."""
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(made_up_text(seed)), model_prefix=str(file.with_suffix("")), vocab_size=size,
        minloglevel=2, hard_vocab_limit=False, **options,
    )
    file.with_suffix(".model").rename(file)
    file.with_suffix(".vocab").unlink()
    processor = sentencepiece.SentencePieceProcessor(model_file=str(file))
    pieces = [processor.id_to_piece(i) for i in range(processor.get_piece_size())]
    return [piece for piece in pieces if piece not in ("<unk>", "<s>", "</s>", "<pad>")]


def vocabulary_with(pieces: list[str], ids: dict[str, int]) -> dict[str, int]:
    """Piece -> id with the special pieces at the given ids and the others around them."""
    rest = iter(dict.fromkeys(pieces))
    at = {i: piece for piece, i in ids.items()}
    size = len(dict.fromkeys(pieces)) + len(ids)
    return {at[i] if i in at else next(rest): i for i in range(size)}


def random_huggingface(folder: Path, seed: int = 0, **changes: Any) -> Any:
    """A MarianMTModel of random weights whose output distributions are neither flat nor certain, saved to `folder` as
    OPUS-MT publishes its models. `special` places </s>, <unk> and <pad>; `untied` gives the target its own vocabulary;
    `tags` puts language tags into the vocabulary."""
    transformers = pytest.importorskip("transformers")
    special = changes.pop("special", {"</s>": 0, "<unk>": 1, "<pad>": None})
    tags, untied = changes.pop("tags", ()), changes.pop("untied", False)
    folder.mkdir(parents=True, exist_ok=True)
    source = train_sentencepiece(folder / "source.spm", seed=seed + 1)
    target = train_sentencepiece(folder / "target.spm", seed=seed + 2, size=190)
    pieces = [*tags, *source, *(() if untied else target)]
    last = len(dict.fromkeys(pieces)) + 2
    ids = {piece: last if i is None else i for piece, i in special.items()}
    vocabulary = vocabulary_with(pieces, ids)
    (folder / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    size = target_size = len(vocabulary)
    target_ids = ids
    if untied:
        target_ids = {"</s>": 7, "<unk>": 4, "<pad>": ids["<pad>"]}
        written = vocabulary_with(target, target_ids)
        (folder / "target_vocab.json").write_text(json.dumps(written), encoding="utf-8")
        target_size = len(written)
    torch.manual_seed(seed)
    settings: dict[str, Any] = {
        "vocab_size": size, "decoder_vocab_size": target_size, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2,
        "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64,
        "activation_function": "swish", "max_position_embeddings": 96, "scale_embedding": True, "dropout": 0.0,
        "pad_token_id": ids["<pad>"], "eos_token_id": target_ids["</s>"], "decoder_start_token_id": ids["<pad>"],
        "bos_token_id": None, "forced_eos_token_id": None, "share_encoder_decoder_embeddings": not untied, **changes,
    }
    model = transformers.MarianMTModel(transformers.MarianConfig(**settings)).eval()
    _sharpen(model, settings["pad_token_id"], settings["eos_token_id"])
    model.generation_config.bad_words_ids = [[settings["pad_token_id"]]]
    model.save_pretrained(folder)
    tokenizer = {
        "tokenizer_class": "MarianTokenizer", "separate_vocabs": untied, "source_lang": "eng", "target_lang": "deu",
        "unk_token": "<unk>", "eos_token": "</s>", "pad_token": "<pad>", "model_max_length": 96,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    (folder / "README.md").write_text("---\nlicense: cc-by-4.0\nlanguage:\n- en\n- de\n---\n# Made up\n", encoding="utf-8")
    return model


def _sharpen(model: Any, pad: int, eos: int) -> None:
    """Spread the weights so that sources matter and distributions are neither flat nor certain. Padding has a zero
    embedding and no probability, the end of sentence a good one."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            width = parameter.shape[-1] ** -0.5
            if "embed_positions" in name or "norm.weight" in name:
                continue
            if "embed" in name or "shared" in name or "lm_head" in name:
                torch.nn.init.normal_(parameter, std=width)
                parameter[pad] = 0
            elif parameter.dim() == 2:
                spread = 3.0 if "attn" in name else 1.0
                torch.nn.init.normal_(parameter, std=spread * width)
            else:
                torch.nn.init.normal_(parameter, std=0.1)
        model.model.decoder.layers[-1].final_layer_norm.weight.mul_(2.0)
        model.final_logits_bias.normal_(std=0.5)
        model.final_logits_bias[0, pad] = -40.0
        model.final_logits_bias[0, eos] = 4.0


def random_sources(count: int, size: int, end: int, seed: int, avoid: tuple[int, ...] = ()) -> list[list[int]]:
    """Random source ids of 1 to 14 tokens, the end of sentence last."""
    chance = random.Random(seed)
    usable = [i for i in range(size) if i not in (end, *avoid)]
    return [[*(chance.choice(usable) for _ in range(chance.randint(1, 14))), end] for _ in range(count)]


def without_end(ids: list[int], end: int, pad: int) -> Iterator[int]:
    """Generated ids up to the end of sentence, the decoder's start left out."""
    for i in ids[1:]:
        if i in (end, pad):
            return
        yield i

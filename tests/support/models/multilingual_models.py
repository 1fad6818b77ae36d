"""Random M2M100, NLLB, SMaLL-100 and mBART-50 models in the layout of Hugging Face."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support.models.marian_models import sharpen, train_sentencepiece

FILE = "sentencepiece.bpe.model"
CODES = {
    "m2m100": ("en", "de", "fr", "zh", "ceb"),
    "mbart50": ("en_XX", "de_DE", "fr_XX", "zh_CN"),
    "nllb": ("ace_Arab", "ace_Latn", "deu_Latn", "eng_Latn", "zho_Hans", "zho_Hant"),
}


def random_multilingual(folder: Path, family: str, seed: int = 0, **changes: Any) -> Any:
    """Returns a random model of transformers and saves it. `family` is a key of CODES, or
    "small100"."""
    transformers = pytest.importorskip("transformers")
    folder.mkdir(parents=True)
    pieces = train_sentencepiece(folder / FILE, seed=seed + 1, size=220, model_type="bpe")
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    if family in ("nllb", "mbart50"):
        tokens = list(CODES[family])
    else:
        tokens = [f"__{code}__" for code in CODES["m2m100"]]
        # As in the real files, the order of vocab.json is not that of SentencePiece.
        (folder / "vocab.json").write_text(
            json.dumps({piece: i for i, piece in enumerate([*special, *pieces[::-1]])})
        )
    (folder / "special_tokens_map.json").write_text(
        json.dumps({"additional_special_tokens": tokens})
    )
    names = {"nllb": "Nllb", "m2m100": "M2M100", "small100": "SMALL100", "mbart50": "MBart50"}
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": f"{names[family]}Tokenizer"})
    )
    if family == "nllb":  # the real folders have a tokenizer.json too
        transformers.NllbTokenizer.from_pretrained(
            folder, extra_special_tokens=tokens
        ).save_pretrained(folder)
    (folder / "README.md").write_text("---\nlicense: cc-by-nc-4.0\n---\n")
    settings: dict[str, Any] = {
        "vocab_size": len(special) + len(pieces) + len(tokens) + 3,
        "d_model": 32,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 64,
        "decoder_ffn_dim": 64,
        "max_position_embeddings": 160,
        "dropout": 0.0,
        **changes,
    }
    torch.manual_seed(seed)
    if family == "mbart50":
        stated = {
            "d_model": 64,
            "scale_embedding": True,
            "activation_function": "gelu",
            "decoder_start_token_id": 2,
        }
        model = transformers.MBartForConditionalGeneration(
            transformers.MBartConfig(**settings | stated)
        ).eval()
        # tables of their own, as the real models have
        for side in (model.model.encoder, model.model.decoder):
            torch.nn.init.normal_(side.embed_positions.weight, std=0.3)
    else:
        model = transformers.M2M100ForConditionalGeneration(
            transformers.M2M100Config(**settings)
        ).eval()
    sharpen(model)
    model.generation_config.num_beams = 5
    # A random model writes padding, which has no position of its own in transformers.
    model.generation_config.bad_words_ids = [[1]]
    model.save_pretrained(folder)
    return model

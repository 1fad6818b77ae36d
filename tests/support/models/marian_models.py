"""Random Marian models in the layouts of Hugging Face and Marian, with SentencePiece models of
random text."""

from __future__ import annotations

import io
import json
import random
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
import torch
import yaml
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file

from model.config import ModelConfig
from model.convert.tensor_names import parts
from model.transformer import Transformer

OUR_IDS = {"pad_id": 0, "unk_id": 1, "bos_id": 2, "eos_id": 3}
"""The special ids of our own vocabularies, as options of SentencePiece."""


def made_up_text(seed: int, lines: int = 400) -> list[str]:
    """Returns sentences of random words in several scripts, with digits, punctuation and double
    spaces."""
    chance = random.Random(seed)
    alphabets = (
        "abcdefghijklmnopqrstuvwxyz",
        "äöüßéèçñåø",
        "абвгдежзийклмнопрст",
        "αβγδεζηθικλ",
        "東京都北海道日本語",
    )
    words = [
        "".join(
            chance.choice(chance.choices(alphabets, (12, 2, 2, 1, 1))[0])
            for _ in range(chance.randint(1, 8))
        )
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
    """Writes a SentencePiece model of random text to `file` and returns the pieces without the
    special ones."""
    file.write_bytes(_trained(seed, size, json.dumps(options)))
    processor = sentencepiece.SentencePieceProcessor(model_file=str(file))
    pieces = [processor.id_to_piece(i) for i in range(processor.get_piece_size())]
    return [piece for piece in pieces if piece not in ("<unk>", "<s>", "</s>", "<pad>")]


@cache
def _trained(seed: int, size: int, options: str) -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(made_up_text(seed)),
        model_writer=model,
        vocab_size=size,
        minloglevel=2,
        hard_vocab_limit=False,
        **json.loads(options),
    )
    return model.getvalue()


def vocabulary_with(pieces: list[str], ids: dict[str, int]) -> dict[str, int]:
    """Returns piece -> id. Special pieces have the given ids; the other pieces fill the remaining
    ids in order."""
    rest = iter(dict.fromkeys(pieces))
    at = {i: piece for piece, i in ids.items()}
    size = len(dict.fromkeys(pieces)) + len(ids)
    return {at[i] if i in at else next(rest): i for i in range(size)}


def random_huggingface(folder: Path, seed: int = 0, **changes: Any) -> Any:
    """Returns a random MarianMTModel and saves it to `folder` in the layout of OPUS-MT.

    `special` gives the ids of </s>, <unk> and <pad>. `untied` adds a separate target vocabulary.
    `tags` are language tags to add to the vocabulary. `pad_bias` is the output bias of padding;
    `generation` has settings of generation.
    """
    transformers = pytest.importorskip("transformers")
    special = changes.pop("special", {"</s>": 0, "<unk>": 1, "<pad>": None})
    tags, untied = changes.pop("tags", ()), changes.pop("untied", False)
    pad_bias, generation = changes.pop("pad_bias", -40.0), changes.pop("generation", {})
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
        "vocab_size": size,
        "decoder_vocab_size": target_size,
        "d_model": 32,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 64,
        "decoder_ffn_dim": 64,
        "activation_function": "swish",
        "max_position_embeddings": 96,
        "scale_embedding": True,
        "dropout": 0.0,
        "pad_token_id": ids["<pad>"],
        "eos_token_id": target_ids["</s>"],
        "decoder_start_token_id": ids["<pad>"],
        "bos_token_id": None,
        "forced_eos_token_id": None,
        "share_encoder_decoder_embeddings": not untied,
        **changes,
    }
    model = transformers.MarianMTModel(transformers.MarianConfig(**settings)).eval()
    _sharpen(model, settings["pad_token_id"], settings["eos_token_id"])
    model.final_logits_bias[0, settings["pad_token_id"]] = pad_bias
    model.generation_config.bad_words_ids = [[settings["pad_token_id"]]]
    model.generation_config.update(**generation)
    model.save_pretrained(folder)
    tokenizer = {
        "tokenizer_class": "MarianTokenizer",
        "separate_vocabs": untied,
        "source_lang": "eng",
        "target_lang": "deu",
        "unk_token": "<unk>",
        "eos_token": "</s>",
        "pad_token": "<pad>",
        "model_max_length": 96,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    (folder / "README.md").write_text(
        "---\nlicense: cc-by-4.0\nlanguage:\n- en\n- de\n---\n# Made up\n", encoding="utf-8"
    )
    return model


def split_into_shards(folder: Path) -> None:
    """Replaces model.safetensors by two files with an index."""
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    placed = {name: f"model-{1 + i % 2:05d}-of-00002.safetensors" for i, name in enumerate(tensors)}
    for file in set(placed.values()):
        save_file({name: tensors[name] for name in tensors if placed[name] == file}, folder / file)
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {}, "weight_map": placed})
    )


def _sharpen(model: Any, pad: int, eos: int) -> None:
    """Sharpens the weights. Padding gets a zero embedding and a probability near zero; the end of
    sentence gets a high probability."""
    sharpen(model)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "embed_positions" not in name and (
                "embed" in name or "shared" in name or "lm_head" in name
            ):
                parameter[pad] = 0
        model.model.decoder.layers[-1].final_layer_norm.weight.mul_(2.0)
        model.final_logits_bias.normal_(std=0.5)
        model.final_logits_bias[0, pad] = -40.0
        model.final_logits_bias[0, eos] = 4.0


def sharpen(model: Any) -> None:
    """Replaces the weights by random ones with a larger spread, so that targets depend on the
    sources."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            width = parameter.shape[-1] ** -0.5
            if "embed_positions" in name or "norm.weight" in name:
                continue
            if "embed" in name or "shared" in name or "lm_head" in name:
                torch.nn.init.normal_(parameter, std=width)
            elif parameter.dim() == 2:
                spread = 3.0 if "attn" in name else 1.0
                torch.nn.init.normal_(parameter, std=spread * width)
            else:
                torch.nn.init.normal_(parameter, std=0.1)


def random_sources(
    count: int, size: int, end: int, seed: int, avoid: tuple[int, ...] = ()
) -> list[list[int]]:
    """Returns random sources of 1 to 14 tokens followed by the end of sentence."""
    chance = random.Random(seed)
    usable = [i for i in range(size) if i not in (end, *avoid)]
    return [
        [*(chance.choice(usable) for _ in range(chance.randint(1, 14))), end] for _ in range(count)
    ]


def random_marian(
    folder: Path, seed: int = 0, *, vocabularies: int = 1, tied_output: bool = False, **changes: Any
) -> Transformer:
    """Returns a random Transformer and saves it in the layout of Marian.

    The folder contains model.npz, decoder.yml, vocabularies and SentencePiece models. `tied_output`
    ties the output projection to the target embedding; the source embedding is separate.
    """
    folder.mkdir(parents=True, exist_ok=True)
    source_pieces = train_sentencepiece(folder / "source.spm", seed=seed + 1)
    target_pieces = train_sentencepiece(folder / "target.spm", seed=seed + 2, size=190)
    shared = [*source_pieces, *target_pieces]
    source = vocabulary_with(
        shared if vocabularies == 1 else source_pieces, {"</s>": 0, "<unk>": 1}
    )
    target = (
        source if vocabularies == 1 else vocabulary_with(target_pieces, {"</s>": 5, "<unk>": 2})
    )
    end = target["</s>"]
    torch.manual_seed(seed)
    settings = {
        "d_model": 32,
        "heads": 4,
        "d_ff": 64,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "positions": "sinusoidal_half",
        "output_bias": True,
        "zero_start_embedding": True,
        "tied_embeddings": vocabularies == 1,
        "source_vocab_size": None if vocabularies == 1 else len(source),
        **changes,
    }
    config = ModelConfig(
        vocab_size=len(target),
        pad_id=end,
        bos_id=end,
        eos_id=end,
        decoder_start_id=end,
        unk_id=target["<unk>"],
        **settings,
    )
    transformer = Transformer(config).eval()
    if tied_output:
        transformer.projection.weight = transformer.embedding.weight
    sharpened(transformer)
    write_marian(folder / "model.npz", transformer)
    files = ["vocab.yml", "vocab.yml"] if vocabularies == 1 else ["source.yml", "target.yml"]
    for file, vocabulary in zip(files, (source, target), strict=True):
        lines = "".join(
            f"{json.dumps(piece, ensure_ascii=False)}: {i}\n" for piece, i in vocabulary.items()
        )
        (folder / file).write_text(lines, encoding="utf-8")
    (folder / "decoder.yml").write_text(
        yaml.safe_dump({"models": ["model.npz"], "vocabs": files, "beam-size": 6})
    )
    return transformer


def sharpened(transformer: Transformer) -> Transformer:
    """Scales the weights so that targets depend on the sources and some end before the maximum
    length."""
    config = transformer.config
    with torch.no_grad():
        for name, parameter in transformer.named_parameters():
            if parameter.dim() == 1 and "norm.weight" not in name:
                parameter.normal_(std=0.2)
            elif "attention" in name:
                parameter.mul_(2.0)
            elif "recurrence" in name or "embedding" in name:
                parameter.mul_(1.5)
        transformer.output_bias[config.eos_id] = 2.5
    return transformer


def write_marian(file: Path, transformer: Transformer, **options: Any) -> None:
    """Writes the weights to a .npz file of Marian with the training options."""
    text = np.frombuffer(marian_options(transformer, **options), dtype=np.int8)
    np.savez(file, **{"special:model.yml": text}, **marian_arrays(transformer))


def marian_options(transformer: Transformer, **options: Any) -> bytes:
    """Returns Marian's training options of a model, as its files store them."""
    config = transformer.config
    pre = config.norm == "pre"
    training_options = {
        "type": "transformer",
        "dim-emb": config.d_model,
        "transformer-heads": config.heads,
        "transformer-dim-ffn": config.d_ff,
        "enc-depth": config.encoder_layers,
        "dec-depth": config.decoder_layers,
        "transformer-ffn-activation": config.activation,
        "transformer-preprocess": "n" if pre else "",
        "transformer-postprocess": "da" if pre else "dan",
        "transformer-postprocess-top": "n" if pre else "",
        "transformer-postprocess-emb": "d",
        "transformer-decoder-autoreg": "self-attention" if config.recurrence == "none" else "rnn",
        "dec-cell": "ssru",
        "transformer-no-projection": False,
        "transformer-guided-alignment-layer": "last",
        "tied-embeddings-all": config.tied_embeddings,
        "dim-vocabs": [config.source_vocab_size or config.vocab_size, config.vocab_size],
        **options,
    }
    return yaml.safe_dump(training_options).encode() + b"\0"


def marian_arrays(transformer: Transformer) -> dict[str, NDArray[np.float32]]:
    """Returns the weights by Marian's names."""
    config, tensors = (
        transformer.config,
        {name: tensor.numpy() for name, tensor in transformer.state_dict().items()},
    )
    arrays = {}
    for part in parts(config):
        weight = tensors[f"{part.ours}.weight"]
        arrays[part.marian_weight] = weight.T if part.linear else weight[None]
        if part.marian_bias is not None:
            arrays[part.marian_bias] = tensors[f"{part.ours}.bias"][None]
    if config.tied_embeddings:
        arrays["Wemb"] = tensors["embedding.weight"]
    else:
        arrays["encoder_Wemb"] = tensors["source_embedding.weight"]
        arrays["decoder_Wemb"] = tensors["embedding.weight"]
        if not np.array_equal(tensors["projection.weight"], tensors["embedding.weight"]):
            arrays["decoder_ff_logit_out_W"] = tensors["projection.weight"].T
    arrays["decoder_ff_logit_out_b"] = tensors["output_bias"][None]
    return {name: np.ascontiguousarray(array) for name, array in arrays.items()}

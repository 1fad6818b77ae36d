"""A model in Marian's own layout is decoded as marian-decoder does with its decoder.yml: sinusoids
and epsilon, beam and length normalization, the unknown piece. `make conformance` runs these tests
if pymarian is installed (`pip install pymarian`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch
import yaml

from model.backends.torch.backend import TorchBackend
from model.checkpoint import load_model
from model.convert.importer import ImportOptions, import_model
from model.convert.marian.reader import marian_sinusoids
from model.search.driver import translate
from model.search.options import DecodingOptions
from model.transformer import Transformer
from tests.support.models.firefox_models import train
from tests.support.models.marian_models import (
    made_up_text,
    random_marian,
    train_sentencepiece,
    write_marian,
)

pytestmark = pytest.mark.programs
CASES = 60
SETTINGS: list[dict[str, Any]] = [
    {"beam-size": 1},
    {"beam-size": 6, "normalize": 1.0},
    {"beam-size": 6, "normalize": 0.6, "allow-unk": True},
    {"beam-size": 4},
    {},
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained model with self-attention that often writes the unknown piece where it may."""
    pytest.importorskip("pymarian", reason="pymarian is not installed")
    path = tmp_path_factory.mktemp("marian") / "model"
    special = {"eos_id": 0, "unk_id": 1, "bos_id": -1, "pad_id": -1}
    path.mkdir()
    size = len(train_sentencepiece(path / "vocab.spm", 4, 400, **special)) + 2
    made = random_marian(
        path, 4, d_model=64, vocabularies=1, dropout=0.0, positions="learned", norm_epsilon=1e-6
    )
    config = made.config.replace(
        vocab_size=size, eos_id=0, pad_id=0, bos_id=0, decoder_start_id=0, unk_id=1
    )
    torch.manual_seed(1)
    transformer = Transformer(config)
    with torch.no_grad():
        transformer.positions.weight.copy_(
            torch.from_numpy(marian_sinusoids(config.max_length, config.d_model))
        )
    processor = sentencepiece.SentencePieceProcessor(model_file=str(path / "vocab.spm"))
    train(transformer, [[*processor.encode(text)[:40], 0] for text in made_up_text(4, 1000)], 150)
    with torch.no_grad():
        transformer.output_bias[1] += 5.0
    write_marian(path / "model.npz", transformer)
    return path


def letters(text: str) -> str:
    """Returns a text without spaces and without what Marian writes for the unknown piece, which is
    no part of ours."""
    return "".join(text.replace("⁇", "").split())


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_targets_are_those_of_marian(
    settings: dict[str, Any], folder: Path, tmp_path: Path
) -> None:
    described = {"models": ["model.npz"], "vocabs": ["vocab.spm"] * 2, **settings}
    (folder / "decoder.yml").write_text(yaml.safe_dump(described))
    imported = import_model(
        folder, tmp_path, ImportOptions(name="ours", sources=["en"], targets=["de"])
    )
    tokenizer, stated = imported.load_tokenizer(), imported.generation
    texts = made_up_text(5, CASES)
    sources = [tokenizer.encode_ids(text) for text in texts]
    found = translate(
        TorchBackend(load_model(imported), 16 * CASES),
        sources,
        DecodingOptions(beam_size=0, max_length=120).with_defaults(stated.beam_size, stated),
        imported.model,
        stated,
    )
    files = {"models": str(folder / "model.npz"), "vocabs": [str(folder / "vocab.spm")] * 2}
    flags = {name.replace("-", "_"): value for name, value in settings.items()}
    marian = pytest.importorskip("pymarian").Translator(
        **files, **flags, quiet=True, cpu_threads=1, mini_batch=1, maxi_batch=1
    )
    theirs = marian.translate(texts)
    ours = [tokenizer.decode(best.tokens) for best, *_ in found]
    # Marian ends a target at three times the length of its source.
    ended = [
        number
        for number, (best, *_) in enumerate(found)
        if best.finish_reason == "stop" and len(best.tokens) < 3 * len(sources[number])
    ]
    assert len(ended) > CASES // 2
    different = [(ours[i], theirs[i]) for i in ended if letters(ours[i]) != letters(theirs[i])]
    assert not different, (len(different), different[:3])
    assert settings.get("allow-unk") or not any(1 in best.tokens for best, *_ in found)

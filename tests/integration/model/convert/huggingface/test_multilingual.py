"""Tests that M2M100, NLLB, SMaLL-100 and mBART-50 models give the tokens and targets of
transformers."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from model.checkpoint import load_model
from model.convert.importer import ImportOptions, import_model
from model.model_folder import AllPairs, ImportRefused, read_folder
from model.search.backend_interface import Backend
from tests.support.models.cpu_models import cpu_backend, needs_cpu_backend
from tests.support.models.folders import hypotheses
from tests.support.models.marian_models import made_up_text
from tests.support.models.multilingual_models import FILE, random_multilingual
from tests.support.models.transformers_pairs import Pair

transformers = pytest.importorskip("transformers")
CASES, LIMIT = 60, 20
TIES = {torch.bfloat16: 0.4, torch.float16: 0.05}
"""The largest difference of two logits, whose standard deviation is 1, that count as equal in a
precision."""
LANGUAGES = {
    "m2m100": ("de", "fr"),
    "mbart50": ("de", "fr"),
    "nllb": ("de", "zh-Hans"),
    "small100": ("de", "fr"),
}


@pytest.fixture(scope="module", params=LANGUAGES)
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pair]:
    path: Path = tmp_path_factory.mktemp("multilingual") / request.param
    theirs = random_multilingual(path, request.param, seed=3)
    folder = import_model(path, path.parent / "weights", ImportOptions())
    tokenizer, (source, target) = folder.load_tokenizer(), LANGUAGES[request.param]
    sources = [
        tokenizer.encode_ids(text, target, source) for text in made_up_text(seed=31, lines=CASES)
    ]
    yield Pair(
        path=path,
        theirs=theirs,
        folder=folder,
        ours=load_model(folder),
        sources=sources,
        limit=LIMIT,
        first_token=tokenizer.first_token(target),
        start_tokens=1 if request.param == "small100" else 2,
    )


def test_logits_are_equal(pair: Pair) -> None:
    source, mask = pair.padded(20)
    target = torch.randint(4, 200, (20, 9), generator=torch.Generator().manual_seed(3))
    target[:, 0] = 2
    with torch.inference_mode():
        theirs = pair.theirs(
            input_ids=source, attention_mask=mask.long(), decoder_input_ids=target
        ).logits
        ours = pair.ours(source, mask, target)
    assert (theirs - ours).abs().max() <= 1e-4


@pytest.mark.parametrize("beam", [1, 4])
def test_targets_are_equal(pair: Pair, beam: int) -> None:
    theirs = pair.generate(num_beams=beam)
    ours = pair.translate(beam_size=beam, length_penalty=1.0)
    expected = pair.targets(theirs.sequences)
    assert [list(listed[0].tokens) for listed in ours] == expected
    assert len({tuple(ids) for ids in expected}) > CASES // 2
    if beam > 1:
        scores = torch.tensor([listed[0].score for listed in ours])
        assert (scores - theirs.sequences_scores).abs().max() <= 1e-4


@pytest.mark.parametrize("dtype", TIES)
def test_targets_in_half_precision_are_equal_up_to_ties(pair: Pair, dtype: torch.dtype) -> None:
    """Where two greedy targets part, float32 says that both tokens are as good."""
    half = dataclasses.replace(
        pair, theirs=copy.deepcopy(pair.theirs).to(dtype), ours=load_model(pair.folder).to(dtype)
    )
    ours = [list(listed[0].tokens) for listed in half.translate(beam_size=1)]
    theirs = half.targets(half.generate(num_beams=1).sequences)
    config, parted = pair.folder.model, 0
    for source, written, expected in zip(pair.sources, ours, theirs, strict=True):
        if written == expected:
            continue
        parted += 1
        ends = ([*written, config.eos_id], [*expected, config.eos_id])
        same = sum(
            1
            for _ in itertools.takewhile(lambda both: both[0] == both[1], zip(*ends, strict=False))
        )
        first = () if pair.first_token is None else (pair.first_token,)
        read = torch.tensor([[config.decoder_start_id, *first, *written[:same]]])
        with torch.inference_mode():
            logits = pair.ours(
                torch.tensor([source]), torch.ones(1, len(source), dtype=torch.bool), read
            )[0, -1]
        assert abs(logits[ends[0][same]] - logits[ends[1][same]]) <= TIES[dtype]
    assert parted < CASES // 2


@needs_cpu_backend
@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("pair", ["mbart50"], indirect=True)
def test_targets_of_the_cpu_backend_are_equal(pair: Pair, beam: int) -> None:
    """Those of transformers, in float32. test_engine.py compares int8 step by step."""
    options = {
        "max_length": LIMIT,
        "normalization": "average",
        "first_token": pair.first_token,
        "beam_size": beam,
    }

    def targets(backend: Backend) -> list[list[int]]:
        found = hypotheses(pair.folder, pair.sources, backend, length_penalty=1.0, **options)
        return [list(each[0].tokens) for each in found]

    assert targets(cpu_backend(pair.ours, "float32")) == pair.targets(
        pair.generate(num_beams=beam).sequences
    )


def test_a_model_of_one_target_language_translates_into_this_one(tmp_path: Path) -> None:
    random_multilingual(tmp_path / "many-to-one", "mbart50")
    settings = tmp_path / "many-to-one" / "generation_config.json"
    ids = json.loads(
        (import_model(tmp_path / "many-to-one", tmp_path / "w").path / "vocab.json").read_text()
    )
    settings.write_text(
        json.dumps(json.loads(settings.read_text()) | {"forced_bos_token_id": ids["en_XX"]})
    )
    folder = import_model(tmp_path / "many-to-one", tmp_path / "weights")
    assert {target for _, target in folder.pairs} == {"en"}
    names = tmp_path / "many-to-one" / "tokenizer_config.json"
    names.write_text(json.dumps({"tokenizer_class": "MBartTokenizer"}))
    with pytest.raises(ImportRefused, match="only mBART-50 is supported"):
        import_model(tmp_path / "many-to-one", tmp_path / "other")


def test_source_ids_are_those_of_the_tokenizers_of_transformers(pair: Pair) -> None:
    ours = pair.folder.load_tokenizer()
    source, target = LANGUAGES[pair.path.name]
    shift = 0
    if pair.path.name == "nllb":
        theirs = transformers.NllbTokenizer.from_pretrained(pair.path, src_lang="deu_Latn")
    elif pair.path.name == "mbart50":
        theirs = transformers.MBart50Tokenizer.from_pretrained(pair.path, src_lang="de_DE")
        # It counts all 52 languages, the test's model has four of them.
        shift = theirs.convert_tokens_to_ids("de_DE") - ours.encode_ids("", target, source)[0]
    else:  # SMaLL-100 encodes as M2M100 does, with the target's language in place of the source's
        code = target if pair.path.name == "small100" else source
        theirs = transformers.M2M100Tokenizer(
            str(pair.path / "vocab.json"), str(pair.path / FILE), src_lang=code
        )
        shift = theirs.get_lang_id(code) - ours.encode_ids("", target, source)[0]
    for text in made_up_text(seed=32, lines=CASES):
        [first, *rest] = theirs(text)["input_ids"]
        # The tokenizer of M2M100 counts 100 languages, the test's model has five of them.
        assert [first - shift, *rest] == list(ours.encode_ids(text, target, source)), text


def test_pairs_languages_and_licence(pair: Pair) -> None:
    folder = pair.folder
    assert isinstance(folder.pairs, AllPairs)
    assert len(folder.pairs) == len(folder.languages) * (len(folder.languages) - 1)
    assert ("de", "de") not in folder.pairs
    codes = {
        "nllb": ("ace-Arab", "ace-Latn", "de", "en", "zh-Hans", "zh-Hant"),
        "mbart50": ("de", "en", "fr", "zh"),
    }
    assert folder.languages == codes.get(pair.path.name, ("ceb", "de", "en", "fr", "zh"))
    assert folder.license == "cc-by-nc-4.0"
    assert folder.generation.beam_size == 5
    assert read_folder(folder.path) == folder


def test_languages_can_be_chosen(pair: Pair, tmp_path: Path) -> None:
    folder = import_model(
        pair.path, tmp_path, ImportOptions(name="chosen", sources=["en", "de"], targets=["de"])
    )
    assert list(folder.pairs) == [("en", "de")]
    with pytest.raises(ImportRefused, match="does not have the language tlh"):
        import_model(pair.path, tmp_path, ImportOptions(name="other", sources=["tlh"]))


def test_models_without_language_tokens_are_refused(pair: Pair, tmp_path: Path) -> None:
    shutil.copytree(pair.path, tmp_path / "model")
    for name in ("special_tokens_map.json", "tokenizer.json"):
        (tmp_path / "model" / name).unlink(missing_ok=True)
    names = tmp_path / "model" / "tokenizer_config.json"
    names.write_text(
        json.dumps({"tokenizer_class": json.loads(names.read_text())["tokenizer_class"]})
    )
    with pytest.raises(ImportRefused, match="language tokens"):
        import_model(tmp_path / "model", tmp_path / "weights")

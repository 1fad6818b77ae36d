"""Roles of heads are measured on the sentences of the package."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import pytest

from model import head_roles
from model.analysis.attention_alignment import FILE, AlignmentLayer
from model.analysis.head_roles import HeadRoles
from model.head_roles import measure, open_exact
from model.model_folder import read_folder
from tests.support.servers.live import tiny_model


def test_every_head_has_a_role(tmp_path: Path) -> None:
    path = tiny_model(tmp_path / "tiny")
    head_roles.main([str(path)])
    folder, roles = read_folder(path), HeadRoles.read(path)
    assert (
        AlignmentLayer.load(path, folder.model.decoder_layers).to_json()
        == (path / FILE).read_text()
    )
    assert (
        roles is not None
        and roles.sentences > 0
        and set(roles.directions) <= {"-".join(pair) for pair in folder.pairs}
    )
    layers = {"encoder": folder.model.encoder_layers, "decoder": folder.model.decoder_layers}
    for kind, heads in roles.heads.items():
        assert [len(layer) for layer in heads] == [folder.model.heads] * layers.get(
            kind, folder.model.decoder_layers
        )


def test_heads_are_worth_what_the_loss_rises_without_them(tmp_path: Path) -> None:
    path = tiny_model(tmp_path / "tiny")
    head_roles.main([str(path)])
    folder, roles = read_folder(path), HeadRoles.read(path)
    assert (
        roles is not None and roles.losses is not None and roles.losses.sentences == roles.sentences
    )
    backend, tokenizer, losses, found = (
        open_exact(folder),
        folder.load_tokenizer(),
        roles.losses,
        [],
    )
    layers = {"encoder": folder.model.encoder_layers, "decoder": folder.model.decoder_layers}
    heads = range(folder.model.heads)
    off = [(), (("encoder", 0, 1),), tuple(("cross", 0, head) for head in heads)]
    for mask in off:
        scores: list[float] = []
        for source, target in (direction.split("-") for direction in roles.directions):
            texts = zip(head_roles.SENTENCES[source], head_roles.SENTENCES[target], strict=True)
            for ids, written in (
                (tokenizer.encode(a, target, source).ids, tokenizer.encode_target(b))
                for a, b in texts
            ):
                scores += backend.attention_maps(ids, written, mask).token_scores.tolist()
        found.append(-sum(scores) / len(scores))
    stored = [
        losses.loss,
        losses.loss + losses.heads["encoder"][0][1],
        losses.loss + losses.layers["cross"][0],
    ]
    assert stored == pytest.approx(found, abs=2e-4)
    for kind, costs in losses.heads.items():
        assert [len(layer) for layer in costs] == [len(heads)] * layers.get(
            kind, folder.model.decoder_layers
        )
        assert len(losses.layers[kind]) == len(costs) and kind in losses.others


def test_an_import_measures_no_losses(tmp_path: Path) -> None:
    folder = read_folder(tiny_model(tmp_path / "tiny"))
    assert measure(folder, open_exact(folder))
    roles = HeadRoles.read(folder.path)
    assert roles is not None and roles.heads["cross"] and roles.losses is None


def test_a_model_of_other_languages_has_no_roles(tmp_path: Path) -> None:
    folder = read_folder(tiny_model(tmp_path / "tiny"))
    assert measure(dataclasses.replace(folder, pairs=(("fi", "it"),)), open_exact(folder)) is False
    with pytest.raises(SystemExit, match="2"):
        head_roles.main([str(tmp_path / "missing")])


def test_the_layer_is_the_one_that_aligns_the_sentences(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = read_folder(tiny_model(tmp_path / "tiny"))
    last = AlignmentLayer(folder.model.decoder_layers - 1, shift=True)
    monkeypatch.setattr(head_roles, "alignment_map", lambda _, layer: layer)
    monkeypatch.setattr(head_roles, "agreement", lambda layer, *_: int(layer == last))
    assert (
        measure(folder, open_exact(folder))
        and AlignmentLayer.load(folder.path, last.layer + 1) == last
    )
    (folder.path / FILE).write_text('{"layer": 0}')
    assert (
        measure(folder, open_exact(folder)) and (folder.path / FILE).read_text() == '{"layer": 0}'
    )


def test_losses_measured_for_a_server_are_those_of_the_command(tmp_path: Path) -> None:
    path = tiny_model(tmp_path / "tiny")
    head_roles.main([str(path)])
    roles = HeadRoles.read(path)
    assert (
        roles is not None
        and head_roles.losses(read_folder(path), math.inf) == roles.losses is not None
    )

"""Tests that paths of other formats are refused with a sentence that says what they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from model.convert.importer import ImportOptions, import_model
from model.convert.source_files import ImportRefused


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        (("model.ende.intgemm.alphas.bin.gz", "vocab.deen.spm.gz", "lex.50.50.ende.s2t.bin.gz"), "gunzip"),
        (("vocab.deen.spm", "lex.50.50.ende.s2t.bin"), "without model"),
        (("model.onnx", "tokenizer.json"), "ONNX"),
        (("model.gguf",), "GGUF"),
        (("tf_model.h5",), "TensorFlow"),
        (("model.pt", "dict.en.txt", "dict.de.txt"), "fairseq"),
        (("model_step_1000.pt",), "PyTorch"),
        (("model.npz", "source.spm"), "without decoder.yml"),
        (("opus-2020-02-26.zip",), "unpack it"),
        (("en_de.argosmodel", "en_fr.argosmodel"), "import one .argosmodel file"),
        (("notes.txt",), "neither config.json"),
    ],
)
def test_other_formats_are_named(files: tuple[str, ...], reason: str, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    for file in files:
        (folder / file).write_bytes(b"\0\1\2")
    with pytest.raises(ImportRefused, match=reason) as refusal:
        import_model(folder, tmp_path / "weights")
    assert "\n" not in str(refusal.value)
    assert not (tmp_path / "weights").exists()


def test_files_and_missing_paths_are_refused(tmp_path: Path) -> None:
    (tmp_path / "model.npz").write_bytes(b"PK")
    (tmp_path / "opus.zip").write_bytes(b"PK")
    for name, reason in (("model.npz", "give the folder"), ("opus.zip", "unpack it"), ("absent", "does not exist")):
        with pytest.raises(ImportRefused, match=reason):
            import_model(tmp_path / name, tmp_path / "weights", ImportOptions(name="x"))

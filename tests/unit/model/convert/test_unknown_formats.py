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
        (("saved_model.pb",), "TensorFlow"),
        (("checkpoint", "ckpt-5000.index"), "TensorFlow"),
        (("adapter_config.json", "adapter_model.safetensors"), "merge it"),
        (("model.npz", "model.npz.decoder.yml", "vocab.spm"), "rename it to decoder.yml"),
        (("model.safetensors", "source.spm"), "without config.json"),
        (("pytorch_model-00001-of-00002.bin",), "without config.json"),
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


def test_pointers_of_git_lfs_are_named(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 298763\n"
    (folder / "pytorch_model.bin").write_text(pointer)
    with pytest.raises(ImportRefused, match=r"pytorch_model\.bin is a pointer of Git LFS .* `git lfs pull`"):
        import_model(folder, tmp_path / "weights")


def test_files_and_missing_paths_are_refused(tmp_path: Path) -> None:
    (tmp_path / "model.npz").write_bytes(b"PK")
    (tmp_path / "opus.zip").write_bytes(b"PK")
    for name, reason in (("model.npz", "give the folder"), ("opus.zip", "unpack it"), ("absent", "does not exist")):
        with pytest.raises(ImportRefused, match=reason):
            import_model(tmp_path / name, tmp_path / "weights", ImportOptions(name="x"))

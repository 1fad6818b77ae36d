"""Programs that CI does not install: translated files open in LibreOffice, and the CPU backend computes the same bits on
a processor that QEMU emulates.

`make conformance` runs these tests and says which programs are missing.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import requests

from model.backends.cpu.build import build
from tests.support.models.cpu_models import tiny
from tests.support.servers.live import ROOT, LiveServer
from tests.support.texts import document_files

pytestmark = pytest.mark.programs
DECODE = """
import json, sys
import numpy as np
from pathlib import Path
from model.backends.cpu.backend import CpuBackend
from model.backends.cpu.tensors import position_table
from model.config import ModelConfig
assert "torch" not in sys.modules
library, folder, precision = sys.argv[1:]
config = ModelConfig(**json.loads(Path(folder, "config.json").read_text()))
tensors = dict(np.load(Path(folder, "weights.npz")))
backend = CpuBackend(Path(library), config, tensors, position_table(config, tensors), slots=4, threads=1, precision=precision)
backend.prefill([[5, 9, 33, 17, 3], [40, 8, 3]], [0, 1])
output = backend.step([0, 1], [1, 1], 5, [-1, -1])
print(json.dumps([output.ids.tolist(), [score.hex() for score in output.scores.ravel().tolist()]]))
"""


def program(name: str) -> str:
    """Returns the path of a program, or skips the test."""
    return shutil.which(name) or pytest.skip(f"{name} is not installed")


def convert(file: Path, *targets: str) -> None:
    """Writes a file in other formats of LibreOffice into its folder."""
    for target in targets:
        profile = f"-env:UserInstallation=file://{file.parent}/profile"
        command = [program("soffice"), profile, "--headless", "--convert-to", target, "--outdir", str(file.parent)]
        subprocess.run([*command, str(file)], check=True, timeout=300)


@pytest.mark.parametrize("kind", ["docx", "odt"])
def test_translated_files_open_in_libreoffice(live: LiveServer, kind: str, tmp_path: Path) -> None:
    """The translation is a document with as many paragraphs as the original."""
    original, translated = tmp_path / f"original.{kind}", tmp_path / f"translated.{kind}"
    original.with_suffix(".docx").write_bytes(document_files.word_file())
    if kind == "odt":
        convert(original.with_suffix(".docx"), "odt")
    with original.open("rb") as file:
        fields = {"source": "en", "target": "de"}
        answer = requests.post(live.url + "/translate_file", files={"file": file}, data=fields, timeout=60)
    translated.write_bytes(requests.get(answer.json()["translatedFileUrl"], timeout=60).content)
    lines = []
    for document in (original, translated):
        convert(document, "pdf", "txt:Text")
        assert document.with_suffix(".pdf").read_bytes().startswith(b"%PDF")
        lines.append(len(document.with_suffix(".txt").read_text(encoding="utf-8-sig").splitlines()))
    assert lines[0] == lines[1] > 0


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_an_emulated_processor_computes_the_same_bits(precision: str, tmp_path: Path) -> None:
    """QEMU computes every instruction in software."""
    emulator = program("qemu-x86_64")
    transformer = tiny()
    np.savez(tmp_path / "weights.npz", **{name: tensor.numpy() for name, tensor in transformer.state_dict().items()})
    (tmp_path / "config.json").write_text(json.dumps(dataclasses.asdict(transformer.config)))
    command = [sys.executable, "-c", DECODE, str(build(isa="avx2")), str(tmp_path), precision]
    here, emulated = (
        subprocess.run(words, cwd=ROOT, check=True, capture_output=True, timeout=600).stdout
        for words in (command, [emulator, "-cpu", "max", *command])
    )
    assert json.loads(here) == json.loads(emulated)

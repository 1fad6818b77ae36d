"""The server, its worker and the commands without PyTorch, as in the container image for CPUs."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from model.backends.cpu.build import build
from model.backends.cpu.isa import CpuBackendUnavailable
from model.convert.argos import export_argos
from model.convert.ctranslate2.export import export_ctranslate2
from model.model_folder import read_folder
from server.errors import ADD_TORCH
from tests.support.models.firefox_models import random_firefox
from tests.support.models.marian_models import random_huggingface, random_marian
from tests.support.models.multilingual_models import random_multilingual
from tests.support.servers.live import ROOT, live_server
from tests.unit.model.convert.test_export import random_folder

pytestmark = pytest.mark.slow


@pytest.fixture
def no_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes `import torch` fail in the processes that a test starts."""
    (tmp_path / "torch.py").write_text(
        'raise ModuleNotFoundError("No module named \'torch\'", name="torch")\n'
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}")


def test_translations_and_attention_need_no_torch(
    tiny_weights: Path, tmp_path: Path, no_torch: None
) -> None:
    try:
        build()
    except CpuBackendUnavailable as reason:
        pytest.skip(f"needs a processor with the CPU backend: {reason}")
    with live_server(tiny_weights, tmp_path / "log") as server:
        assert server.get("/ready").json()["engine"] == "native"
        answer = server.post("/translate", {"q": "the house", "source": "en", "target": "de"})
        assert answer.status == 200
        assert server.get(f"/attention?id={answer.json()['id']}").status == 200
        study = server.get("/encoder?q=the+cat+sleeps+in+a+house&source=en&target=de").json()
        assert server.get("/encoder?q=+&source=en&target=de").status == 200
    pieces, order, fit = study["source"]["pieces"], study["order"], study["position_fit"]
    assert "".join(pieces[i] for i in order["pieces"][1:-1]) == "▁house▁a▁in▁sleeps▁cat▁the"
    assert max(order["moved_without_positions"]) < 1e-5 < 1e-2 < max(order["moved"])
    names = {
        "carried_past_attention",
        "attention",
        "carried_past_feed_forward",
        "feed_forward",
        "active",
    }
    assert [layer.keys() for layer in study["layers"]] == [names] * 2 and 0 < max(
        study["layers"][0]["active"]
    ) <= 1
    assert {len(x) for numbers in (*study["layers"], order) for x in numbers.values()} == {
        len(pieces)
    }
    assert (
        fit["sentences"] == 24
        and len(fit["with_positions"]) == len(fit["without_positions"]) == 1 + 2
    )
    assert fit["with_positions"][0] > 0.5 > fit["without_positions"][0]


IMPORT = """
import sys
from pathlib import Path
from model.convert.importer import ImportOptions, import_model
for path in map(Path, sys.argv[2:]):
    folder = import_model(path, Path(sys.argv[1]), ImportOptions(name=path.stem, sources=["en"], targets=["de"]))
    print(folder.name, folder.path.joinpath("roles.json").is_file())
assert "torch" not in sys.modules
"""


def test_imports_need_no_torch(tmp_path: Path, no_torch: None) -> None:
    """Of every layout: they give the weights that an import with torch would give."""
    folders = [
        tmp_path / name
        for name in ("hub", "pickled", "marian", "firefox", "many", "ct2", "package.argosmodel")
    ]
    hub, pickled, marian, firefox, many, ct2, package = folders
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
    random_huggingface(hub, **heads)
    shutil.copytree(hub, pickled)
    torch.save(load_file(hub / "model.safetensors"), pickled / "pytorch_model.bin")
    (pickled / "model.safetensors").unlink()
    random_marian(marian, heads=2)
    random_firefox(firefox, heads=2)
    random_multilingual(many, "m2m100", **heads)
    export_ctranslate2(random_folder(tmp_path / "own", heads=2), ct2)
    export_argos(read_folder(tmp_path / "own"), package, target="de")
    command = [sys.executable, "-c", IMPORT, str(tmp_path / "weights"), *map(str, folders)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.stdout.splitlines() == [f"{folder.stem} True" for folder in folders], found.stderr
    for one, other in (("hub", "pickled"), ("ct2", "package")):
        first, second = (
            load_file(tmp_path / "weights" / name / "model.safetensors") for name in (one, other)
        )
        assert first.keys() == second.keys() and all(
            torch.equal(first[name], second[name]) for name in first
        )


def test_a_command_that_needs_torch_names_the_command_that_adds_it(
    tmp_path: Path, no_torch: None
) -> None:
    random_marian(tmp_path / "marian", heads=4)  # of a width that the CPU backend does not have
    words = [
        "import",
        str(tmp_path / "marian"),
        "--weights",
        str(tmp_path / "weights"),
        "--source",
        "en",
        "--target",
        "de",
    ]
    command = [sys.executable, "-m", "server", *words]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert found.returncode == 1 and not list((tmp_path / "weights").iterdir())
    assert found.stderr.splitlines()[-1] == f"attentive: `import` needs PyTorch here. {ADD_TORCH}"

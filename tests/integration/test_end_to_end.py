"""The complete server with HTTP, translator, worker process and a model with random weights:
answers are consistent."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from model.tokenizer import Tokenizer
from tests.support.servers.in_process import wait_for
from tests.support.servers.live import ROOT, LiveServer, live_server, tiny_model

TEXTS = [
    f"the {thing} sleeps {place} the {other}"
    for thing in ("dog", "cat", "train")
    for place in ("in", "on", "under")
    for other in ("house", "station", "water")
]


def translate(server: LiveServer, text: str | list[str], **options) -> dict:
    answer = server.post("/translate", {"q": text, "source": "en", "target": "de", **options})
    assert answer.status == 200, answer.body
    return answer.json()


def metric(server: LiveServer, name: str) -> float:
    found = re.search(
        rf"^{re.escape(name)} (\S+)$", server.get("/metrics").body.decode(), re.MULTILINE
    )
    assert found, name
    return float(found[1])


def test_a_text_gets_the_same_answer_alone_in_a_list_and_under_load(live):
    alone = [translate(live, text, max_length=12)["translatedText"] for text in TEXTS]
    assert translate(live, TEXTS, max_length=12)["translatedText"] == alone
    with ThreadPoolExecutor(16) as pool:
        together = list(
            pool.map(lambda text: translate(live, text, max_length=12)["translatedText"], TEXTS)
        )
    assert together == alone


def test_maps_by_id_equal_maps_of_the_given_pair(live, tiny_weights):
    answer = translate(live, "a dog", max_length=12)
    served = live.get(f"/attention?id={answer['id']}").json()
    # What the model wrote is shown; a translation has no broken bytes.
    assert served["target"]["text"].replace("\ufffd", "").strip() == answer["translatedText"]
    for kind in ("cross", "encoder", "decoder"):
        assert np.allclose(np.array(served[kind]).sum(axis=-1), 1.0, atol=1e-4)  # five decimals
    assert np.allclose(np.triu(np.array(served["decoder"])[0, 0], 1), 0.0)
    tokenizer = Tokenizer(tiny_weights / "tiny" / "tokenizer.model", tags={"de": ">>de<<"})
    assert served["source"]["pieces"] == list(tokenizer.encode("a dog", "de").pieces)


def test_the_tensors_of_a_position_are_returned_and_others_refused(live):
    id = translate(live, "a dog", max_length=12)["id"]
    layers = {
        side: len(live.get(f"/attention?id={id}&kind={side}").json()[side])
        for side in ("encoder", "decoder")
    }
    for side, count in layers.items():
        asked = f"/attention/tensors?id={id}&part={side}"
        body = live.get(f"{asked}&layer={count - 1}&position=1").json()
        shown = body["tensors"]
        tensors = {name: np.array(tensor["values"]) for name, tensor in shown.items()}
        assert all(list(tensors[name].shape) == tensor["shape"] for name, tensor in shown.items())
        assert ("cross.output" in tensors) == (side == "decoder") == ("cross.residual" in tensors)
        assert np.allclose(tensors["self.residual"], tensors["stream"] + tensors["self.output"])
        assert tensors["self.weights"].shape == (1, len(body["keys"])) and len(body["rows"]) > 1
        assert len(body.get("candidates", [[]])[0]) == (
            len(tensors["logits"][0]) if side == "decoder" else 0
        )
        chosen = live.get(f"{asked}&layer={count - 1}&names=self.head,self.norm").json()["tensors"]
        assert list(chosen) == ["self.head", "self.norm"] and len(
            chosen["self.norm"]["values"]
        ) == len(body["rows"])
        for place in (
            f"layer={count}",
            "position=999",
            "names=logits,self.scores&part=encoder",
            "head=99",
            "names=x",
        ):
            refused = live.get(f"{asked}&{place}")
            assert refused.status == 400 and refused.json()["error"].endswith("."), place
    assert live.get("/attention/tensors?id=unknown").status in (404, 410)


def test_the_kernel_ends_the_worker_first_where_memory_is_used_up(live):
    worker = live.get("/ready").json()["workers"][0]["pid"]
    server, worker = (
        int(Path(f"/proc/{pid}/oom_score_adj").read_text()) for pid in (live.process.pid, worker)
    )
    assert worker == min(server + 300, 1000)


def test_metrics_add_up(live):
    before = metric(live, 'attentive_request_success_total{finish_reason="length"}')
    tokens = metric(live, "attentive_generated_tokens_total")
    with ThreadPoolExecutor(8) as pool:
        # No digits: a sentence whose number was lost is translated again.
        names = [first + second for first in "abcdefgh" for second in "klmno"]
        list(
            pool.map(lambda name: translate(live, f"the old dog {name} walks", max_length=3), names)
        )
    assert metric(live, 'attentive_request_success_total{finish_reason="length"}') == before + 40
    assert metric(live, "attentive_generated_tokens_total") == tokens + 40 * 3
    assert metric(live, "attentive_queue_tokens") == 0


def test_a_killed_worker_loses_no_request(live):
    texts = [f"{text} {number}" for number in range(4) for text in TEXTS]
    expected = {text: translate(live, text, max_length=20)["translatedText"] for text in texts[::9]}
    restarts = metric(live, "attentive_worker_restarts_total")
    worker = live.get("/ready").json()["workers"][0]["pid"]
    with ThreadPoolExecutor(16) as pool:
        waiting = [pool.submit(translate, live, text, max_length=20) for text in texts]
        waiting[5].result()
        os.kill(worker, signal.SIGKILL)
        answers = dict(zip(texts, (one.result()["translatedText"] for one in waiting), strict=True))
    assert {text: answers[text] for text in expected} == expected
    wait_for(lambda: metric(live, "attentive_worker_restarts_total") == restarts + 1)
    wait_for(lambda: live.get("/ready").status == 200)


def test_sigterm_finishes_accepted_requests_and_exits_with_0(tiny_weights, tmp_path):
    with (
        live_server(tiny_weights, tmp_path / "log", ("--dtype", "float32")) as server,
        ThreadPoolExecutor(8) as pool,
    ):
        waiting = []
        while not waiting or metric(server, "attentive_queue_requests") < 1:
            if all(one.done() for one in waiting):  # the answers may come before the metric is read
                bodies = [
                    {"q": f"{text * 3} {len(waiting)}", "source": "en", "target": "de"}
                    for text in TEXTS[:8]
                ]
                waiting += [pool.submit(server.post, "/translate", body) for body in bodies]
        server.process.send_signal(signal.SIGTERM)
        statuses = set()
        for one in waiting:
            try:
                statuses.add(one.result().status)
            except OSError:
                statuses.add("refused")  # it came after the door was closed
        assert 200 in statuses and statuses <= {200, "refused"}
        assert server.process.wait(60) == 0


def model_between(folder: Path, source: str, target: str, seed: int) -> Path:
    """Writes a tiny model for one direction, named after its folder."""
    tiny_model(folder, seed)
    config = json.loads((folder / "config.json").read_text())
    config["pairs"] = [[source, target]]
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def test_models_are_added_and_replaced_under_load(tmp_path):
    weights, aside = tmp_path / "weights", tmp_path / "aside"
    for name, source, target in (("one", "en", "de"), ("two", "en", "fr"), ("three", "de", "fr")):
        model_between(weights / name, source, target, seed=1)
    model_between(aside / "two", "en", "fr", seed=2)
    model_between(aside / "four", "fr", "de", seed=3)
    with (
        live_server(
            weights, tmp_path / "log", ("--dtype", "float32", "--admin-key", "key")
        ) as server,
        ThreadPoolExecutor(6) as pool,
    ):
        stop = threading.Event()

        def ask(number: int) -> list[int]:
            statuses = []
            source, target = [("en", "de"), ("en", "fr"), ("de", "fr")][number % 3]
            while not stop.is_set():
                body = {
                    "q": f"the dog {len(statuses)}",
                    "source": source,
                    "target": target,
                    "max_length": 4,
                }
                statuses.append(server.post("/translate", body).status)
            return statuses

        clients = [pool.submit(ask, number) for number in range(6)]
        before = translate(server, TEXTS[0], target="fr", max_length=9)["translatedText"]
        (weights / "two").rename(aside / "old")
        (aside / "two").rename(weights / "two")
        (aside / "four").rename(weights / "four")
        headers = {"Authorization": "Bearer key"}
        changed = server.ask(
            urllib.request.Request(server.url + "/admin/reload", b"", headers)
        ).json()
        assert changed == {
            "added": ["four"],
            "replaced": ["two"],
            "removed": [],
            "failed": [],
            "errors": {},
        }
        assert translate(server, TEXTS[0], target="fr", max_length=9)["translatedText"] != before
        assert translate(server, TEXTS[0], source="fr", max_length=4)["translatedText"]
        stop.set()
        statuses = [status for client in clients for status in client.result()]
        assert len(statuses) > 6 and set(statuses) == {200}


def run(*arguments: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "server", *arguments]
    return subprocess.run(
        command, cwd=ROOT, input=text, capture_output=True, text=True, timeout=120, check=False
    )


def test_the_command_line_and_the_server_translate_equally(live, tiny_weights, tmp_path):
    lines = [*TEXTS[:3], "", "42", "  the dog sleeps  "]
    source, target = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_bytes("\r\n".join(lines).encode())
    shared = ("--from", "en", "--to", "de", "--weights", str(tiny_weights), "--dtype", "float32")
    result = run("translate", *shared, str(source), "-o", str(target))
    assert result.returncode == 0, result.stderr
    expected = [translate(live, line)["translatedText"] if line else "" for line in lines]
    assert target.read_bytes().decode() == "\r\n".join(expected)


@pytest.mark.skipif(
    any(Path(file).exists() for file in ("/dev/nvidiactl", "/dev/dxg")), reason="There is a GPU."
)
def test_a_server_without_its_device_ends_with_one_sentence(tiny_weights):
    result = run("serve", "--port", "0", "--device", "cuda", "--weights", str(tiny_weights))
    assert result.returncode == 2
    assert result.stderr.splitlines()[-1].startswith(
        "attentive: --device (ATTENTIVE_DEVICE): There is no CUDA device"
    )
    assert "Traceback" not in result.stderr

"""The own engines of model families: their n-best targets, and tokens per second of processor time on one thread."""

from __future__ import annotations

import json
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch

from model.backends.torch.inputs import pad_ids

_HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Target:
    """A target as text that is compared, and its normalized score if the engine states one."""

    text: str
    score: float | None


class FamilyEngine(Protocol):
    """The engine that a family's models come from. `precision` is that of `speed`; targets are compared in float32."""

    name: str
    precision: str

    def targets(self, beam: int) -> list[list[Target]]:
        """Returns the n-best list of each source, n = beam, or the best one if the engine states no others."""

    def speed(self, batch: int, turns: int) -> float:
        """Returns tokens per second, greedily; the first turn is not counted."""


class Transformers:
    """A model of transformers. `sources` are ids; a target is the generated ids after `hidden` ones, up to the end."""

    name, precision = "transformers", "float32"

    def __init__(self, model: Any, sources: Sequence[Sequence[int]], limit: int, first: int | None) -> None:
        self._model, self._sources, self._limit, self._first = model, sources, limit, first
        self._hidden = 1 if first is None else 2

    def targets(self, beam: int) -> list[list[Target]]:
        found = self._generate(self._sources, num_beams=beam, num_return_sequences=beam, length_penalty=1.0)
        ids, scores = found.sequences.tolist(), found.sequences_scores.tolist() if beam > 1 else None
        listed = [Target(self._text(row), None if scores is None else scores[i]) for i, row in enumerate(ids)]
        return [listed[i : i + beam] for i in range(0, len(listed), beam)]

    def speed(self, batch: int, turns: int) -> float:
        def run() -> int:
            parts = [self._sources[i : i + batch] for i in range(0, len(self._sources), batch)]
            return sum(
                len(self._text(row).split()) for part in parts for row in self._generate(part).sequences.tolist()
            )

        return tokens_per_second(run, turns)

    def _generate(self, sources: Sequence[Sequence[int]], **options: Any) -> Any:
        source, mask = pad_ids(sources, self._model.config.pad_token_id, torch.device("cpu"))
        return self._model.generate(
            source, attention_mask=mask.long(), max_new_tokens=self._limit + self._hidden - 1, do_sample=False,
            forced_bos_token_id=self._first, return_dict_in_generate=True, output_scores=True, early_stopping=False,
            **{"num_beams": 1, **options},
        )  # fmt: skip

    def _text(self, ids: list[int]) -> str:
        rest, end = ids[self._hidden :], self._model.config.eos_token_id
        return " ".join(map(str, rest[: rest.index(end)] if end in rest else rest))


class CTranslate2:
    """A CTranslate2 folder. `sources` are pieces."""

    name, precision = "CTranslate2", "int8"

    def __init__(self, model: Path, sources: list[list[str]], limit: int) -> None:
        self._model, self._sources, self._limit = model, sources, limit

    def targets(self, beam: int) -> list[list[Target]]:
        results = self._translate("float32", self._sources, beam)
        return [
            [Target(" ".join(pieces), score) for pieces, score in zip(one.hypotheses, one.scores, strict=True)]
            for one in results
        ]

    def speed(self, batch: int, turns: int) -> float:
        def run() -> int:
            parts = [self._sources[i : i + batch] for i in range(0, len(self._sources), batch)]
            return sum(len(one.hypotheses[0]) for part in parts for one in self._translate("int8", part, 1))

        return tokens_per_second(run, turns)

    def _translate(self, kind: str, sources: list[list[str]], beam: int) -> Any:
        import ctranslate2

        if getattr(self, "_kind", None) != kind:
            self._kind = kind
            self._translator = ctranslate2.Translator(
                str(self._model), inter_threads=1, intra_threads=1, compute_type=kind
            )
        return self._translator.translate_batch(
            sources, beam_size=beam, num_hypotheses=beam, length_penalty=1.0, max_decoding_length=self._limit,
            min_decoding_length=0, return_scores=True,
        )  # fmt: skip


class Bergamot:
    """Bergamot in node. It states the best target only, without its score."""

    name, precision = "Bergamot", "int8"

    def __init__(self, package: Path, model: Path, int8: Path, vocabularies: list[Path], texts: list[str]) -> None:
        self._package, self._model, self._int8 = package.resolve(), model, int8
        self._vocabularies, self._texts = vocabularies, texts

    def targets(self, beam: int) -> list[list[Target]]:
        # By default it leaves out the softmax, with which only greedy search is right.
        config = {"gemm-precision": "float32", "beam-size": str(beam), "normalize": "1.0", "skip-cost": "false"}
        return [[Target(text, None)] for text in self._run(self._model, 1, 1, config)["targets"]]

    def speed(self, batch: int, turns: int) -> float:
        answer = self._run(self._int8, batch, turns + 1, {"gemm-precision": "int8shiftAlphaAll"})
        return float(sum(map(len, answer["targets"])) / statistics.median(answer["seconds"][1:]))

    def _run(self, model: Path, batch: int, repeat: int, config: dict[str, str]) -> Any:
        request = {
            "package": str(self._package), "model": str(model), "vocabs": [str(file) for file in self._vocabularies],
            "texts": self._texts, "html": False, "batch": batch, "repeat": repeat, "config": config,
        }  # fmt: skip
        return ask(["node", str(_HERE / "bergamot.mjs")], request)


class Marian:
    """Marian itself, in a Python that has pymarian. It does not run the int8 files of Bergamot."""

    name, precision = "Marian", "float32"

    def __init__(self, python: Path, model: Path, vocabularies: list[Path], texts: list[str]) -> None:
        self._python, self._texts = python, texts
        self._options = {
            "models": [str(model)], "vocabs": [str(vocabularies[0]), str(vocabularies[-1])], "normalize": 1.0,
            "cpu-threads": 1, "max-length-factor": 3, "quiet": True, "quiet-translation": True,
        }  # fmt: skip

    def targets(self, beam: int) -> list[list[Target]]:
        found: list[list[Target]] = [[] for _ in self._texts]
        for line in self._run({"beam-size": beam, "n-best": True, "mini-batch": 1}, None, 1)["lines"]:
            number, text, _, score = line.split(" ||| ")
            found[int(number)].append(Target(text.strip(), float(score)))
        return found

    def speed(self, batch: int, turns: int) -> float:
        answer = self._run({"beam-size": 1, "mini-batch": batch}, batch, turns + 1)
        return float(sum(map(len, answer["lines"])) / statistics.median(answer["seconds"][1:]))

    def _run(self, options: dict[str, Any], batch: int | None, repeat: int) -> Any:
        request = {"options": self._options | options, "texts": self._texts, "batch": batch, "repeat": repeat}
        return ask([str(self._python), str(_HERE / "marian_process.py")], request)


def tokens_per_second(run: Callable[[], int], turns: int) -> float:
    """Returns the tokens that `run` returns per second of processor time: the median of `turns` after one more."""
    seconds, tokens = [], 0
    for _ in range(turns + 1):
        started = time.process_time()
        tokens = run()
        seconds.append(time.process_time() - started)
    return tokens / statistics.median(seconds[1:])


def ask(command: list[str], request: dict[str, Any]) -> Any:
    """Runs a program that reads a JSON object from stdin. Returns the JSON that it writes."""
    done = subprocess.run(command, input=json.dumps(request), stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)

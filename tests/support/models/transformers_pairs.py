"""A random model of transformers beside the imported one: both decode the same sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

import torch

from model.backends.torch.backend import TorchBackend
from model.backends.torch.inputs import pad_ids
from model.model_folder import ModelFolder
from model.search.options import Hypothesis
from model.transformer import Transformer
from tests.support.models.folders import hypotheses


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """`path` is the folder of transformers, which writes `start_tokens` before a target; targets
    begin with `first_token` and have at most `limit` further tokens."""

    path: Path
    theirs: Any
    folder: ModelFolder
    ours: Transformer
    sources: Sequence[Sequence[int]]
    limit: int
    first_token: int | None = None
    start_tokens: int = 1

    def targets(self, sequences: torch.Tensor) -> list[list[int]]:
        """Returns generated ids without the start tokens and without the end and the padding."""
        ends = (self.theirs.config.eos_token_id, self.theirs.config.pad_token_id)
        return [
            list(takewhile(lambda i: i not in ends, ids[self.start_tokens :]))
            for ids in sequences.tolist()
        ]

    def padded(self, cases: int | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the ids and the mask of the first sources, (B, S) each."""
        return pad_ids(
            self.sources[:cases], int(self.theirs.config.pad_token_id), torch.device("cpu")
        )

    def translate(self, **options: Any) -> list[tuple[Hypothesis, ...]]:
        """Returns our hypotheses."""
        return hypotheses(
            self.folder,
            self.sources,
            TorchBackend(self.ours, 4 * len(self.sources)),
            max_length=self.limit,
            normalization="average",
            first_token=self.first_token,
            **options,
        )

    def generate(self, **options: Any) -> Any:
        """Returns what `generate` of transformers returns."""
        source, mask = self.padded()
        return self.theirs.generate(
            source,
            attention_mask=mask.long(),
            max_new_tokens=self.limit + (self.first_token is not None),
            forced_bos_token_id=self.first_token,
            do_sample=False,
            return_dict_in_generate=True,
            output_scores=True,
            **{"early_stopping": False, **options},
        )

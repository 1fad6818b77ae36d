"""The confidence of a translation, and the limits of its checks, fitted for each direction of a model folder.

The confidence is the probability that a translation is not wrong, which is a chrF of at least `GOOD_CHRF`: a logistic function
of three numbers that every translation has. `confidence.json` names the weights it was fitted for; with other weights it is
not used.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import FiniteFloat, TypeAdapter

from model.weight_files import hash_of_files, weight_files

FILE = "confidence.json"
FORMAT = 3
GOOD_CHRF = 40.0
LOW = 0.6
"""Confidence below which a translation is doubtful: the figures are in docs/checks.md."""
LEAST_GAP = 0.8
"""Smallest limit of `DirectionLimits.gap`."""
_SAMPLE_BYTES = 4_000_000
"""Bytes at each end of a weight file that its hash covers."""


@dataclass(frozen=True, slots=True)
class Quality:
    """How well a confidence fits sentences that it was not fitted on: their number, the correlations of confidence and
    chrF, the expected calibration error over ten bins with equal numbers of sentences (Guo et al. 2017), and the area under
    the ROC curve for sentences whose chrF is below `GOOD_CHRF`."""

    sentences: int
    pearson: float
    spearman: float
    calibration_error: float
    wrong: float


@dataclass(frozen=True, slots=True)
class DirectionLimits:
    """Fitted numbers of one direction. `coefficients` are those of `features` after the intercept. `flagged` is the
    probability for sentences with a flag. A target is short if the logarithm of its tokens per source token is below
    `short`. A gap in the attention above `gap` is an omission."""

    coefficients: tuple[FiniteFloat, FiniteFloat, FiniteFloat, FiniteFloat]
    flagged: float
    short: float
    gap: float
    quality: Quality

    def confidence(self, token_scores: Sequence[float], characters: int, flagged: bool) -> float:
        """Returns the probability that the translation is not wrong. `token_scores` are those of the best hypothesis, and
        `characters` is the length of its text."""
        if not token_scores:
            return 0.0
        base, mean, length, count = self.coefficients
        found = features(token_scores, characters)
        score = base + mean * found[0] + length * found[1] + count * found[2]
        probability = 1.0 / (1.0 + math.exp(-max(-30.0, min(30.0, score))))
        return min(probability, self.flagged) if flagged else probability


@dataclass(frozen=True, slots=True)
class Confidence:
    """The content of confidence.json. `weights` is the hash of the weight files; directions are written `en-de`."""

    weights: str
    directions: Mapping[str, DirectionLimits]

    def to_json(self) -> str:
        directions = {direction: asdict(limits) for direction, limits in sorted(self.directions.items())}
        content = {"format": FORMAT, "weights": self.weights, "good_chrf": GOOD_CHRF, "directions": directions}
        return json.dumps(content, indent=2) + "\n"

    @classmethod
    def load(cls, folder: Path) -> Confidence | None:
        """Reads confidence.json of a model folder. Returns None without a file, or if it was fitted for other weights.
        Raises ValueError for an invalid file."""
        file = folder / FILE
        if not file.is_file():
            return None
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            if content["format"] != FORMAT or content["weights"] != weights_hash(folder):
                return None
            return TypeAdapter(cls).validate_python(content)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{file} is not a valid calibration: {error!r}") from None


def features(token_scores: Sequence[float], characters: int) -> tuple[float, float, float]:
    """Returns the mean log-probability of the target tokens, the logarithm of their mean length in characters (words that the
    model puts together from many pieces are rare or invented), and that of their number."""
    tokens = len(token_scores)
    return sum(token_scores) / tokens, math.log(max(1, characters) / tokens), math.log(tokens)


def length_ratio(target_tokens: int, source_tokens: int) -> float:
    """Returns the logarithm of target tokens per source token, both with the end of sentence."""
    return math.log(max(1, target_tokens) / max(1, source_tokens))


def weights_hash(folder: Path) -> str:
    """Returns a hash of the names, sizes and ends of the weight files of a folder."""
    return hash_of_files(weight_files(folder), _SAMPLE_BYTES)[:16]

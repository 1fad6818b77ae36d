"""Sums over the worker's steps between two StepStats messages."""

from __future__ import annotations

from dataclasses import dataclass, field

from server.engine.ipc.messages import StepStats


@dataclass(slots=True)
class StepStatsCollector:
    """Adds up prefills, decode steps and attention passes."""

    steps: list[tuple[int, float]] = field(default_factory=list)
    prefill_sequences: int = 0
    prefill_tokens: int = 0
    prefill_padded_tokens: int = 0
    attention_jobs: int = 0

    def record_prefill(self, lengths: list[int]) -> None:
        """Adds one batch of sources with these lengths."""
        self.prefill_sequences += len(lengths)
        self.prefill_tokens += sum(lengths)
        self.prefill_padded_tokens += len(lengths) * max(lengths)

    def record_steps(self, steps: int, rows: int, seconds: float) -> None:
        """Adds `steps` decode steps of `rows` slots, which took `seconds` together."""
        self.steps += [(rows, seconds / steps)] * steps

    def record_attention(self) -> None:
        """Adds one attention pass."""
        self.attention_jobs += 1

    def collect(self, running: int, waiting: int, slots: tuple[int, int]) -> StepStats:
        """Returns the sums together with the present state, and starts again from zero."""
        stats = StepStats(
            running=running,
            waiting=waiting,
            slots_used=slots[0],
            slots_total=slots[1],
            prefill_sequences=self.prefill_sequences,
            prefill_tokens=self.prefill_tokens,
            prefill_padded_tokens=self.prefill_padded_tokens,
            steps=tuple(self.steps),
            attention_jobs=self.attention_jobs,
        )
        self.__init__()  # type: ignore[misc]
        return stats

"""Sums over the worker's steps between two StepStats messages."""

from __future__ import annotations

from dataclasses import dataclass, field

from server.engine.ipc.messages import StepStats


@dataclass(slots=True)
class StepStatsCollector:
    """Adds up prefills, decode steps and attention passes. Times are in seconds."""

    steps: list[tuple[int, float]] = field(default_factory=list)
    prefill_sequences: int = 0
    prefill_tokens: int = 0
    prefill_padded_tokens: int = 0
    prefill_seconds: float = 0.0
    generated_tokens: int = 0
    attention_jobs: int = 0
    attention_seconds: float = 0.0

    def record_prefill(self, lengths: list[int], seconds: float) -> None:
        """Adds one batch of sources with these lengths."""
        self.prefill_sequences += len(lengths)
        self.prefill_tokens += sum(lengths)
        self.prefill_padded_tokens += len(lengths) * max(lengths)
        self.prefill_seconds += seconds

    def record_steps(self, steps: int, rows: int, tokens: int, seconds: float) -> None:
        """Adds `steps` decode steps of `rows` slots, which took `seconds` together and generated `tokens` tokens."""
        self.steps += [(rows, seconds / steps)] * steps
        self.generated_tokens += tokens

    def record_attention(self, seconds: float) -> None:
        """Adds one attention pass."""
        self.attention_jobs += 1
        self.attention_seconds += seconds

    def collect(self, running: int, waiting: int, slots: tuple[int, int]) -> StepStats:
        """Returns the sums together with the present state, and starts again from zero."""
        stats = StepStats(
            running=running,
            waiting=waiting,
            slots_used=slots[0],
            slots_total=slots[1],
            decode_rows=sum(rows for rows, _ in self.steps),
            decode_seconds=sum(seconds for _, seconds in self.steps),
            prefill_sequences=self.prefill_sequences,
            prefill_tokens=self.prefill_tokens,
            prefill_padded_tokens=self.prefill_padded_tokens,
            prefill_seconds=self.prefill_seconds,
            generated_tokens=self.generated_tokens,
            steps=tuple(self.steps),
            attention_jobs=self.attention_jobs,
            attention_seconds=self.attention_seconds,
        )
        self.__init__()  # type: ignore[misc]
        return stats

"""Checks a job against the model before it runs: an id outside the vocabulary would break a device."""

from __future__ import annotations

from model.analysis.types import check_head, check_pair
from model.config import ModelConfig
from server.engine.ipc.messages import AttentionJob, TranslateJob


def refusal(config: ModelConfig, job: TranslateJob | AttentionJob) -> str | None:
    """Returns one sentence why the model cannot run the job, None if it can."""
    if isinstance(job, AttentionJob):
        first, target = job.first_token, job.target
        heads = job.masked_heads if job.vectors_of is None else (*job.masked_heads, job.vectors_of)
    else:
        first, target = job.options.first_token, (*job.options.prefix, *(job.options.target or ()))
        heads = job.options.masked_heads
    try:
        check_pair(config, job.source, target if first is None else (first, *target))
        for head in heads:
            check_head(config, head)
    except ValueError as error:
        return str(error)
    return None

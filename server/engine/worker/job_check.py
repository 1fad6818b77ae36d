"""Checks a job against the model before it runs: an id outside the vocabulary would break a device."""

from __future__ import annotations

from model.analysis.types import check_head
from model.model_folder import ModelFolder
from model.search.driver import new_search
from model.search.search import Search
from server.engine.ipc.messages import AttentionJob, TranslateJob


def refusal(folder: ModelFolder, job: TranslateJob | AttentionJob) -> str | None:
    """Returns one sentence why the model cannot run the job, None if it can."""
    config = folder.model
    if not 1 <= len(job.source) <= config.max_length:
        return f"A sentence has {len(job.source)} tokens; the model reads 1 to {config.max_length}."
    if max(job.source) >= (config.source_vocab_size or config.vocab_size) or min(job.source) < 0:
        return "A source token is outside the model's vocabulary."
    if isinstance(job, AttentionJob):
        target = job.target if job.first_token is None else (job.first_token, *job.target)
        heads = job.masked_heads if job.vectors_of is None else (*job.masked_heads, job.vectors_of)
        if len(target) >= config.max_length:
            most = config.max_length - 1 - len(target) + len(job.target)
            return f"The target has {len(job.target)} tokens; the model reads at most {most}."
    else:
        first = () if job.options.first_token is None else (job.options.first_token,)
        target, heads = (*first, *job.options.prefix, *(job.options.target or ())), job.options.masked_heads
    if target and (max(target) >= config.vocab_size or min(target) < 0):
        return "A target token is outside the model's vocabulary."
    try:
        for head in heads:
            check_head(config, head)
        if isinstance(job, TranslateJob):
            search_for(folder, job)
    except ValueError as error:
        return str(error)
    return None


def search_for(folder: ModelFolder, job: TranslateJob) -> Search:
    """Returns the search of a job. Raises ValueError for a prefix or target that is too long."""
    config = folder.model
    return new_search(
        job.options,
        start=config.decoder_start_id,
        end=config.eos_id,
        source=job.source,
        max_length=config.max_length,
        generation=folder.generation,
    )

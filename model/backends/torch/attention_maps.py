"""Attention maps of a given source and target: one teacher-forced pass with explicit softmax."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import torch

from model.analysis.contributions import value_products
from model.analysis.types import CANDIDATES, AttentionMaps, Head, HeadVectors, check_head, check_pair
from model.attention import MultiHeadAttention
from model.backends.torch.inputs import head_gates, pad_ids, to_array
from model.layers import DecoderLayer
from model.module_outputs import recorded
from model.transformer import Transformer


@torch.inference_mode()
def attention_maps(
    transformer: Transformer,
    source: Sequence[int],
    target: Sequence[int],
    masked_heads: Sequence[Head] = (),
    vectors_of: Head | None = None,
) -> AttentionMaps:
    """Returns the attention of a pair: `source` ids as the encoder reads them, `target` ids without start and end of
    sentence. `vectors_of` adds the queries, keys and values of one head.

    A causal decoder computes in parallel exactly the weights that it had when it decoded token by token (section
    3.2.3), so these are the weights that produced the target. Raises ValueError for lengths the model cannot read, ids
    outside its vocabulary and heads it does not have.
    """
    config = transformer.config
    check_pair(config, source, target)
    parameter = next(transformer.parameters())
    ids, mask = pad_ids([source], config.pad_id, parameter.device)  # (1, S)
    inputs = torch.tensor([[config.decoder_start_id, *target]], device=parameter.device)  # (1, T)
    if transformer.training:  # eval() visits every module
        transformer.eval()
    gates = head_gates(transformer, [tuple(masked_heads)]) if masked_heads else None
    attention = None if vectors_of is None else _attention(transformer, vectors_of)
    crossed = [cast(DecoderLayer, block).cross_attention for block in transformer.decoder]
    projections = [] if attention is None else [attention.query, attention.key, attention.value]
    recurrences = [cast(DecoderLayer, block).recurrence for block in transformer.decoder]
    forget = [recurrence.forget for recurrence in recurrences if recurrence is not None]
    with recorded([*projections, *forget, *(cross.value for cross in crossed)]) as passed:
        logits, weights = transformer.forward_with_weights(ids, mask, inputs, gates)
    forget_gates = [torch.sigmoid(passed[gate][1][0].float()).mean(dim=-1) for gate in forget]  # (T,) each
    scores = torch.log_softmax(logits[0].float(), dim=-1)  # (T, V)
    written = torch.tensor([*target, config.eos_id], device=parameter.device)
    best, best_ids = scores.topk(min(CANDIDATES, scores.shape[-1]), dim=-1)  # (T, C)
    return AttentionMaps(
        cross=to_array(weights.cross[:, 0]),
        encoder=to_array(weights.encoder[:, 0]),
        decoder=to_array(weights.decoder[:, 0]),
        token_scores=to_array(scores.gather(1, written[:, None])[:, 0]),
        candidate_ids=best_ids.cpu().numpy(),
        candidate_scores=to_array(best),
        value_products=value_products(
            np.stack([to_array(cross.split(passed[cross.value][1])[0]) for cross in crossed]),
            [to_array(cross.output.weight.T.reshape(config.heads, -1, config.d_model)) for cross in crossed],
            masked_heads,
        ),
        vectors=(
            None
            if attention is None or vectors_of is None
            else HeadVectors(*(to_array(attention.split(passed[part][1])[0, vectors_of[2]]) for part in projections))
        ),
        forget_gates=to_array(torch.stack(forget_gates)) if forget_gates else None,
    )


def _attention(transformer: Transformer, head: Head) -> MultiHeadAttention:
    check_head(transformer.config, head)
    kind, layer, _ = head
    block = (transformer.encoder if kind == "encoder" else transformer.decoder)[layer]
    return cast(MultiHeadAttention, block.cross_attention if kind == "cross" else block.self_attention)

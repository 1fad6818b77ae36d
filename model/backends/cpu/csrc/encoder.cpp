// Engine, first half: encode sentences as one packed batch without padding, and write cross-attention keys and values.
#include <algorithm>
#include <stdexcept>

#include "engine.h"

namespace attentive {

namespace {
constexpr int kChunk = 512;  // source tokens encoded together: bounds memory and keeps a layer's rows in the cache
size_t width(int features) { return static_cast<size_t>((features + kPanel - 1) / kPanel) * kPanel; }
}  // namespace

void Engine::prefill(const std::vector<Sentence>& sentences) {
    for (const Sentence& sentence : sentences) {
        slot(sentence.slot);
        check_source(sentence.length, sentence.tokens);
    }
    for (size_t first = 0; first < sentences.size();) {
        size_t last = first + 1;
        for (int tokens = sentences[first].length; last < sentences.size() && tokens + sentences[last].length <= kChunk; ++last) {
            tokens += sentences[last].length;
        }
        prefill_chunk(&sentences[first], last - first);
        first = last;
    }
}

void Engine::check_source(int length, const int32_t* tokens) const {
    if (length < 1 || length > config_.max_length) throw std::invalid_argument("a source has a length outside the model's");
    for (int i = 0; i < length; ++i) {
        if (tokens[i] < 0 || tokens[i] >= config_.source_vocabulary) throw std::invalid_argument("a source token is outside the vocabulary");
    }
}

void Engine::prefill_chunk(const Sentence* sentences, size_t count, const Watch* watch) {
    std::vector<Span> spans;
    int total = 0, longest = 0;
    for (size_t i = 0; i < count; ++i) {
        Slot& slot = slots_[sentences[i].slot];
        clear(slot);
        const int index = new_source();
        sources_[index].length = sentences[i].length;
        sources_[index].references = 1;
        slot.source = index;
        if (const uint8_t* masked = sentences[i].masked) {
            masked += config_.encoder_layers * config_.heads;
            slot.masked.assign(masked, masked + 2 * config_.decoder_layers * config_.heads);
        }
        for (int position = 0; position < sentences[i].length; position += kPage) sources_[index].pages.push_back(pages_.take());
        spans.push_back({total, sentences[i].length, index, sentences[i].tokens, sentences[i].masked});
        total += sentences[i].length;
        longest = std::max(longest, sentences[i].length);
    }
    reserve(total);
    for (Buffer& scratch : scratch_) scratch.reserve(encoder_scratch(longest, shape_.dim) * sizeof(float));
    const int phases = 1 + 9 * config_.encoder_layers + 2 * config_.decoder_layers;
    team_.run(phases, [&](Member& member) {
        encode(member, spans, total, watch);
        write_cross(member, spans, total);
    });
}

// `states`, if asked, receives every layer's output: (layers, total, d_model), in one more phase of each layer.
void Engine::encode(Member& member, const std::vector<Span>& spans, int total, const Watch* watch, float* states) {
    const int d = config_.d_model, sentences = static_cast<int>(spans.size());
    const size_t stride = width(3 * d);
    member.each(sentences, [&](int i) {
        for (int s = 0; s < spans[i].length; ++s) embed(spans[i].first + s, *source_embedding_, spans[i].tokens[s], s, encoder_norms_[0]);
    });
    for (int layer = 0; layer < config_.encoder_layers; ++layer) {
        const Norm* norms = &encoder_norms_[2 * layer + config_.pre_norm];
        apply(member, *encoder_[layer].qkv, residual_rows(), total, wide_.as<float>());
        member.each(sentences * config_.heads, [&](int task) {
            const Span& span = spans[task / config_.heads];
            const int head = task % config_.heads, column = head * shape_.dim;
            const float* query = wide_.as<float>() + span.first * stride + column;
            float* context = context_.as<float>() + span.first * width(d) + column;
            attend_sentence(shape_.dim, span.length, query, query + d, query + 2 * d, stride, context, width(d),
                            scratch_[member.index].as<float>(), watch ? watch->encoder_map(layer * config_.heads + head) : nullptr);
            if (span.masked && span.masked[layer * config_.heads + head]) {
                for (int s = 0; s < span.length; ++s) std::fill_n(context + s * width(d), shape_.dim, 0.0f);
            }
            if (watch && head == 0 && watch->wants(Watch::Encoder, layer)) copy_encoder_vectors(span, *watch);
        });
        member.each(total, [&](int row) { feed(row, context_.as<float>() + row * width(d), d); });
        apply(member, *encoder_[layer].output, rows(context_.as<float>(), d), total, out_.as<float>());
        member.each(total, [&](int row) { residual(row, norms[0]); });
        feed_forward(member, encoder_[layer].feed_forward, total, norms[1]);
        if (states) {
            member.each(total, [&](int row) { std::copy_n(x_.as<float>() + row * width(d), d, states + (static_cast<size_t>(layer) * total + row) * d); });
        }
    }
}

void Engine::write_cross(Member& member, const std::vector<Span>& spans, int total) {
    const int d = config_.d_model;
    const size_t stride = width(2 * d);
    for (int layer = 0; layer < config_.decoder_layers; ++layer) {
        apply(member, *decoder_[layer].cross_key_value, residual_rows(), total, wide_.as<float>());
        member.each(static_cast<int>(spans.size()), [&](int i) {
            for (int s = 0; s < spans[i].length; ++s) {
                char* page = pages_.at(sources_[spans[i].source].pages[s / kPage]) + layer * layout_.layer_bytes;
                const float* key = wide_.as<float>() + (spans[i].first + s) * stride;
                write_position(shape_, layout_, page, s % kPage, key, key + d);
            }
        });
    }
}

}  // namespace attentive

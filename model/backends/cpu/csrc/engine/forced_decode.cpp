// Teacher forcing with attention capture: a pair of source and target in one pass, bit for bit the
// rows of step-by-step decoding.
#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "engine/engine.h"

namespace attentive {

void Engine::forced_decode(const int32_t* source, const int32_t* inputs, const uint8_t* masked,
                           int common, const int32_t* own, int count, int candidates,
                           const int32_t* forced, int32_t* ids, float* scores, float* forced_scores,
                           const AttentionCapture& capture) {
    check_source(capture.source, source);
    const int layers = config_.decoder_layers;
    if (capture.depth < 0 || capture.depth > layers || (capture.scored && capture.depth < layers))
        throw std::invalid_argument("a pass needs another number of decoder layers");
    if (capture.queries < 1 || capture.queries > config_.max_length)
        throw std::invalid_argument("a target has a length outside the model's");
    for (int row = 0; row < capture.queries; ++row) check_token(inputs[row]);
    const int reserved = config_.slots;  // a slot that no caller can address
    struct ClearOnExit {
        Engine& engine;
        Slot& slot;
        ~ClearOnExit() { engine.clear(slot); }
    };
    const ClearOnExit clear_on_exit{*this, slots_[reserved]};
    const Sentence sentence{reserved, capture.source, source, masked};
    prefill_chunk(&sentence, 1, &capture);
    if (common >= 0 || count > 0) restrict(sources_[slots_[reserved].source], common, own, count);
    clear_step_rows();
    add_step_rows(slots_[reserved], capture.queries, inputs, &capture);
    run_step(capture.queries, candidates, forced, ids, scores, forced_scores, &capture);
    for (int row = 0; capture.scored && row < capture.queries; ++row)
        capture.normalizers[row] = top_k_.log_normalizer(row);
    copy_keys(slots_[reserved], capture);
    copy_cross_values(slots_[reserved], capture);
}

void Engine::capture(const std::vector<const AttentionCapture*>& captures, const int32_t* sources,
                     const int32_t* inputs) {
    const int reserved = config_.slots, count = static_cast<int>(captures.size());
    if (count < 1 || count > kCaptures)
        throw std::invalid_argument("a batch of captures is empty or too large");
    struct ClearOnExit {
        Engine& engine;
        int first, count;
        ~ClearOnExit() {
            for (int i = 0; i < count; ++i) engine.clear(engine.slots_[first + i]);
        }
    };
    const ClearOnExit clear_on_exit{*this, reserved, count};
    std::vector<Sentence> sentences;
    int rows = 0;
    const int32_t* token = inputs;
    for (int i = 0; i < count; ++i) {
        const AttentionCapture& capture = *captures[i];
        if (capture.depth != captures[0]->depth || capture.scored || capture.depth < 0 ||
            capture.depth > config_.decoder_layers)
            throw std::invalid_argument("the captures of a batch have one depth and no scores");
        if (capture.queries < 1 || capture.queries > config_.max_length)
            throw std::invalid_argument("a target has a length outside the model's");
        for (int row = 0; row < capture.queries; ++row) check_token(*token++);
        rows += capture.queries;
        if (sources) {
            check_source(capture.source, sources);
            sentences.push_back({reserved + i, capture.source, sources, nullptr});
            sources += capture.source;
            continue;
        }
        const int kept = slots_[reserved + i].source;
        if (kept < 0 || sources_[kept].length != capture.source)
            throw std::invalid_argument("the source of a capture was not read");
    }
    if (sources) prefill_chunk(sentences.data(), sentences.size());
    clear_step_rows();
    for (int i = 0; i < count; ++i) {
        add_step_rows(slots_[reserved + i], captures[i]->queries, inputs, captures[i]);
        inputs += captures[i]->queries;
    }
    reserve(rows);
    for (Buffer& scratch : scratch_)
        scratch.reserve(static_cast<size_t>(config_.max_length + kPage) * sizeof(float));
    pool_.run([&](PoolThread& thread) { decode(thread, rows, captures[0]); });
    for (int i = 0; i < count; ++i) copy_cross_values(slots_[reserved + i], *captures[i]);
}

// Copies the values of all heads of cross-attention from the pages.
void Engine::copy_cross_values(const Slot& slot, const AttentionCapture& capture) const {
    const std::vector<int>& pages = sources_[slot.source].pages;
    std::vector<float> key(shape_.dim);
    float* value = capture.cross_values;
    for (int layer = 0; layer < config_.decoder_layers; ++layer) {
        if (!AttentionCapture::has(capture.value_layers, layer)) {
            value += static_cast<size_t>(shape_.heads) * capture.source * shape_.dim;
            continue;
        }
        for (int head = 0; head < shape_.heads; ++head)
            for (int position = 0; position < capture.source; ++position, value += shape_.dim)
                read_position(shape_, layout_,
                              pages_.at(pages[position / kPage]) + layer * layout_.layer_bytes,
                              position % kPage, head, key.data(), value);
    }
}

// Copies the keys and values of the captured decoder head from the pages.
void Engine::copy_keys(const Slot& slot, const AttentionCapture& capture) const {
    if (capture.kind != AttentionCapture::Decoder && capture.kind != AttentionCapture::Cross)
        return;
    const bool cross = capture.kind == AttentionCapture::Cross;
    const std::vector<int>& pages = cross ? sources_[slot.source].pages : slot.pages;
    const int length = cross ? capture.source : capture.queries;
    for (int position = 0; position < length; ++position) {
        const char* layer =
            pages_.at(pages[position / kPage]) + capture.layer * layout_.layer_bytes;
        const size_t row = static_cast<size_t>(position) * shape_.dim;
        read_position(shape_, layout_, layer, position % kPage, capture.head, capture.key + row,
                      capture.value + row);
    }
}

// Copies one head's queries, keys and values of a sentence from the encoder's fused projection.
void Engine::copy_encoder_vectors(const Span& span, const AttentionCapture& capture) const {
    const int d = config_.d_model, dim = shape_.dim;
    const size_t stride = padded_width(3 * d);
    for (int s = 0; s < span.length; ++s) {
        const float* row = wide_.as<float>() + (span.first + s) * stride + capture.head * dim;
        std::memcpy(capture.query + static_cast<size_t>(s) * dim, row, dim * sizeof(float));
        std::memcpy(capture.key + static_cast<size_t>(s) * dim, row + d, dim * sizeof(float));
        std::memcpy(capture.value + static_cast<size_t>(s) * dim, row + 2 * d, dim * sizeof(float));
    }
}

}  // namespace attentive

// Teacher forcing with attention capture: a pair of source and target in one pass or in parts, bit
// for bit the rows of step-by-step decoding.
#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/engine.h"

namespace attentive {

void Engine::forced_decode(const int32_t* source, const int32_t* inputs, const uint8_t* masked,
                           int common, const int32_t* own, int count, int candidates,
                           const int32_t* forced, int32_t* ids, float* scores, float* forced_scores,
                           const AttentionCapture& capture) {
    check_source(capture.source, source);
    const int layers = config_.decoder_layers;
    fail_if(
        capture.depth < 0 || capture.depth > layers || (capture.scored && capture.depth < layers),
        "a pass needs another number of decoder layers");
    check_target(capture, inputs);
    fail_if(capture.held < 0 || capture.held >= kHeld, "too many forced passes have begun");
    ForcedPass& pass = passes_[capture.held];
    bool goes_on = false;
    swap_rows(pass);
    const OnExit end{[&] {
        swap_rows(pass);
        if (!goes_on) clear(pass.slot);
    }};
    const int last_layer = capture.first_layer + capture.layers,
              last_row = capture.first_row + capture.rows;
    if (!capture.layers && !capture.rows) return;
    fail_if(capture.first_layer < 0 || capture.layers < 0 || last_layer > config_.encoder_layers ||
                capture.first_row < 0 || capture.rows < 0 || last_row > capture.queries,
            "a forced pass has no such part");
    if (capture.layers) {
        const Sentence sentence{-1, capture.source, source, masked};
        fail_if(capture.first_layer && pass.slot.source < 0, "a forced pass has not begun");
        const std::vector<Span> spans{
            capture.first_layer ? Span{0, capture.source, pass.slot.source, source, masked}
                                : start_source(pass.slot, sentence, 0)};
        reserve_encoder(capture.source, capture.source);
        const bool encoded = last_layer == config_.encoder_layers;
        pool_.run([&](PoolThread& thread) {
            encode(thread, spans, capture.source, &capture, capture.first_layer, last_layer);
            if (encoded) write_cross(thread, spans, capture.source);
        });
        if (encoded && (common >= 0 || count > 0))
            restrict(sources_[pass.slot.source], common, own, count);
    }
    if (capture.rows) {
        fail_if(pass.slot.source < 0 || pass.slot.length != capture.first_row,
                "a forced pass has not begun");
        clear_step_rows();
        add_step_rows(pass.slot, capture.rows, inputs + capture.first_row, &capture);
        const size_t found = static_cast<size_t>(capture.first_row) * candidates;
        run_step(capture.rows, candidates, forced + capture.first_row, ids + found, scores + found,
                 forced_scores + capture.first_row, &capture);
        for (int row = 0; capture.scored && row < capture.rows; ++row)
            capture.normalizers[capture.first_row + row] = top_k_.log_normalizer(row);
        pass.slot.length = last_row;
    }
    if (last_row == capture.queries) {
        copy_keys(pass.slot, capture);
        copy_cross_values(pass.slot, capture);
    } else {
        goes_on = true;
    }
}

// Exchanges the rows that the encoder goes on with for those of a forced pass.
void Engine::swap_rows(ForcedPass& pass) {
    std::swap(x_, pass.x);
    std::swap(normed_, pass.normed);
    std::swap(quantized_, pass.quantized);
    std::swap(scales_, pass.scales);
}

void Engine::capture(const std::vector<const AttentionCapture*>& captures, const int32_t* sources,
                     const int32_t* inputs) {
    const int reserved = config_.slots, count = static_cast<int>(captures.size());
    fail_if(count < 1 || count > kCaptures, "a batch of captures is empty or too large");
    const OnExit clear_slots{[&] {
        for (int i = 0; i < count; ++i) clear(slots_[reserved + i]);
    }};
    std::vector<Sentence> sentences;
    int rows = 0;
    const int32_t* token = inputs;
    for (int i = 0; i < count; ++i) {
        const AttentionCapture& capture = *captures[i];
        fail_if(capture.depth != captures[0]->depth || capture.scored || capture.depth < 0 ||
                    capture.depth > config_.decoder_layers,
                "the captures of a batch have one depth and no scores");
        check_target(capture, token);
        token += capture.queries;
        rows += capture.queries;
        if (sources) {
            check_source(capture.source, sources);
            sentences.push_back({reserved + i, capture.source, sources, nullptr});
            sources += capture.source;
            continue;
        }
        const int kept = slots_[reserved + i].source;
        fail_if(kept < 0 || sources_[kept].length != capture.source,
                "the source of a capture was not read");
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
    pool_.run([&](PoolThread& thread) { decode(thread, {0, rows}, captures[0]); });
    for (int i = 0; i < count; ++i) copy_cross_values(slots_[reserved + i], *captures[i]);
}

void Engine::check_target(const AttentionCapture& capture, const int32_t* inputs) const {
    fail_if(capture.queries < 1 || capture.queries > config_.max_length,
            "a target has a length outside the model's");
    for (int row = 0; row < capture.queries; ++row) check_token(inputs[row]);
}

// Copies a head's keys and values of `count` positions from the pages.
void Engine::copy_head(const std::vector<int>& pages, int layer, int head, int count, float* key,
                       float* value) const {
    for (int position = 0; position < count; ++position, key += shape_.dim, value += shape_.dim)
        read_position(shape_, layout_,
                      pages_.at(pages[position / kPage]) + layer * layout_.layer_bytes,
                      position % kPage, head, key, value);
}

// Copies the values of all heads of cross-attention from the pages.
void Engine::copy_cross_values(const Slot& slot, const AttentionCapture& capture) const {
    const size_t size = static_cast<size_t>(capture.source) * shape_.dim;
    std::vector<float> keys(size);
    float* value = capture.cross_values;
    for (int layer = 0; layer < config_.decoder_layers; ++layer) {
        for (int head = 0; head < shape_.heads; ++head, value += size)
            if (AttentionCapture::has(capture.value_layers, layer))
                copy_head(sources_[slot.source].pages, layer, head, capture.source, keys.data(),
                          value);
    }
}

// Copies the keys and values of the captured decoder head from the pages.
void Engine::copy_keys(const Slot& slot, const AttentionCapture& capture) const {
    if (capture.kind == AttentionCapture::Decoder)
        copy_head(slot.pages, capture.layer, capture.head, capture.queries, capture.key,
                  capture.value);
    if (capture.kind == AttentionCapture::Cross)
        copy_head(sources_[slot.source].pages, capture.layer, capture.head, capture.source,
                  capture.key, capture.value);
}

// Copies one head's queries, keys and values of a sentence from the encoder's fused projection.
void Engine::copy_encoder_vectors(const Span& span, const AttentionCapture& capture) const {
    const int d = config_.d_model, dim = shape_.dim;
    for (int s = 0; s < span.length; ++s) {
        const float* row = wide_.as<float>() + (span.first + s) * wide_stride_ + capture.head * dim;
        std::memcpy(capture.query + static_cast<size_t>(s) * dim, row, dim * sizeof(float));
        std::memcpy(capture.key + static_cast<size_t>(s) * dim, row + d, dim * sizeof(float));
        std::memcpy(capture.value + static_cast<size_t>(s) * dim, row + 2 * d, dim * sizeof(float));
    }
}

}  // namespace attentive

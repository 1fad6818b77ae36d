// A look inside: the whole target in one pass, row by row what its decoding computed, with the attention weights written down.
#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "engine.h"

namespace attentive {

void Engine::look(const int32_t* source, const int32_t* inputs, const uint8_t* masked, int candidates, const int32_t* wanted, int32_t* ids,
                  float* scores, float* wanted_scores, const Watch& watch) {
    check_source(watch.source, source);
    if (watch.queries < 1 || watch.queries > config_.max_length) throw std::invalid_argument("a target has a length outside the model's");
    for (int row = 0; row < watch.queries; ++row) check_token(inputs[row]);
    const int own = config_.slots;  // a slot that nobody else can name
    struct Closing {
        Engine& engine;
        Slot& slot;
        ~Closing() { engine.clear(slot); }
    };
    const Closing closing{*this, slots_[own]};
    const Sentence sentence{own, watch.source, source, masked};
    prefill_chunk(&sentence, 1, &watch);
    open_rows(slots_[own], inputs, watch.queries);
    advance(watch.queries, candidates, wanted, ids, scores, wanted_scores, &watch);
    copy_keys(slots_[own], watch);
}

// One row for every position of a target: all read the pages of one slot, each up to its own position.
void Engine::open_rows(Slot& slot, const int32_t* inputs, int count) {
    for (int position = 0; position < count; position += kPage) slot.pages.push_back(pages_.take());
    const Source& source = sources_[slot.source];
    step_rows_.clear();
    step_pages_.clear();
    for (int page : slot.pages) step_pages_.push_back(pages_.at(page));
    for (int page : source.pages) step_pages_.push_back(pages_.at(page));
    for (int row = 0; row < count; ++row) {
        const int token = config_.zero_start && row == 0 ? -1 : inputs[row];
        step_rows_.push_back({token, row, source.length, 0, slot.pages.size(), slot.masked.empty() ? nullptr : slot.masked.data()});
    }
}

// The keys and values of the wanted head of the decoder, from the pages that its rows read.
void Engine::copy_keys(const Slot& slot, const Watch& watch) const {
    if (watch.kind != Watch::Decoder && watch.kind != Watch::Cross) return;
    const bool cross = watch.kind == Watch::Cross;
    const std::vector<int>& pages = cross ? sources_[slot.source].pages : slot.pages;
    const int length = cross ? watch.source : watch.queries;
    for (int position = 0; position < length; ++position) {
        const char* layer = pages_.at(pages[position / kPage]) + watch.layer * layout_.layer_bytes;
        const size_t row = static_cast<size_t>(position) * shape_.dim;
        read_position(shape_, layout_, layer, position % kPage, watch.head, watch.key + row, watch.value + row);
    }
}

// One head's queries, keys and values of a sentence: rows of the encoder's product of all three.
void Engine::copy_encoder_vectors(const Span& span, const Watch& watch) const {
    const int d = config_.d_model, dim = shape_.dim;
    const size_t stride = (static_cast<size_t>(3 * d) + kPanel - 1) / kPanel * kPanel;
    for (int s = 0; s < span.length; ++s) {
        const float* row = wide_.as<float>() + (span.first + s) * stride + watch.head * dim;
        std::memcpy(watch.query + static_cast<size_t>(s) * dim, row, dim * sizeof(float));
        std::memcpy(watch.key + static_cast<size_t>(s) * dim, row + d, dim * sizeof(float));
        std::memcpy(watch.value + static_cast<size_t>(s) * dim, row + 2 * d, dim * sizeof(float));
    }
}

}  // namespace attentive

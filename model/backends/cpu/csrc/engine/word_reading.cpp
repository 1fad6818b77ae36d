// Evidence for word alignment: the states after the last encoder layer, and target tokens scored
// against one source word at a time.
#include <algorithm>
#include <stdexcept>

#include "engine/engine.h"

namespace attentive {

void Engine::read_words(const int32_t* source, int length, const int32_t* bounds, int words,
                        int32_t start, const int32_t* wanted, int wanted_count, float* states,
                        float* scores) {
    check_source(length, source);
    check_token(start);
    std::vector<std::vector<int>> places(
        projection_->panels());  // indices of the wanted tokens by panel
    for (int k = 0; k < wanted_count; ++k) {
        check_token(wanted[k]);
        places[wanted[k] / kPanel].push_back(k);
    }
    for (int i = 0; i < words; ++i) {
        if (bounds[2 * i] < 0 || bounds[2 * i] >= bounds[2 * i + 1] || bounds[2 * i + 1] > length) {
            throw std::invalid_argument("a word lies outside its sentence");
        }
    }
    struct ClearOnExit {
        Engine& engine;
        std::vector<Slot> held;
        ~ClearOnExit() {
            for (Slot& slot : held) engine.clear(slot);
        }
    } clear_on_exit{*this, {}};
    clear_on_exit.held.reserve(words);
    const std::vector<Span> sentence{{0, length, -1, source, nullptr}};
    std::vector<Span> spans;  // every word is a source
    for (int i = 0; i < words; ++i) {
        Slot& slot = clear_on_exit.held.emplace_back();
        const int first = bounds[2 * i], count = bounds[2 * i + 1] - first;
        slot.source = new_source();
        sources_[slot.source].length = count;
        sources_[slot.source].references = 1;
        for (int position = 0; position < count; position += kPage)
            sources_[slot.source].pages.push_back(pages_.allocate());
        spans.push_back({first, count, slot.source, nullptr, nullptr});
    }
    reserve(std::max(length, words));
    const size_t dictionary =
        std::max<size_t>(config_.max_length + kPage, static_cast<size_t>(words) * kPanel);
    for (Buffer& scratch : scratch_)
        scratch.reserve(std::max(encoder_scratch(length, shape_.dim), dictionary) * sizeof(float));
    pool_.run([&](PoolThread& thread) {
        encode(thread, sentence, length, nullptr);
        write_cross(thread, spans, length);
    });
    const size_t d = config_.d_model;
    for (int s = 0; s < length; ++s)
        std::copy_n(x_.as<float>() + s * padded_width(d), d, states + s * d);
    if (!words || !wanted_count) return;
    clear_step_rows();
    for (Slot& slot : clear_on_exit.held) add_step_rows(slot, 1, &start);
    const std::vector<int32_t> none(words, -1);
    top_k_.begin(words, config_.vocabulary, 1, none.data(), pool_.size());
    pool_.run([&](PoolThread& thread) {
        decode(thread, words, nullptr);
        score_tokens(thread, words, places, wanted, wanted_count, scores);
    });
}

// Log-probabilities of the wanted tokens instead of the most probable ones.
void Engine::score_tokens(PoolThread& thread, int count,
                          const std::vector<std::vector<int>>& places, const int32_t* wanted,
                          int wanted_count, float* scores) {
    thread.parallel_for(projection_->panels(), [&](int panel) {
        float* logits = scratch_[thread.index].as<float>();
        projection_->panel(sublayer_input(), panel, panel + pool_.size(), 0, count, logits, kPanel);
        for (int row = 0; row < count; ++row) {
            const float* found = logits + static_cast<size_t>(row) * kPanel;
            for (int k : places[panel])
                scores[static_cast<size_t>(row) * wanted_count + k] = found[wanted[k] % kPanel];
            top_k_.add_panel(thread.index, row, panel, logits + static_cast<size_t>(row) * kPanel);
        }
    });
    thread.parallel_for(count, [&](int row) {
        const float log_sum = top_k_.log_normalizer(row);
        for (int k = 0; k < wanted_count; ++k)
            scores[static_cast<size_t>(row) * wanted_count + k] -= log_sum;
    });
}

}  // namespace attentive

// A sentence word by word: its encoder states, and the decoder as a dictionary that sees one word at a time.
#include <stdexcept>

#include "engine.h"

namespace attentive {

void Engine::read_words(const int32_t* source, int length, const int32_t* bounds, int words, int32_t start, const int32_t* wanted,
                        int wanted_count, float* states, float* scores) {
    check_source(length, source);
    check_token(start);
    std::vector<std::vector<int>> places(projection_->panels());  // of the wanted tokens, by the panel that computes them
    for (int k = 0; k < wanted_count; ++k) {
        check_token(wanted[k]);
        places[wanted[k] / kPanel].push_back(k);
    }
    for (int i = 0; i < words; ++i) {
        if (bounds[2 * i] < 0 || bounds[2 * i] >= bounds[2 * i + 1] || bounds[2 * i + 1] > length) {
            throw std::invalid_argument("a word lies outside its sentence");
        }
    }
    struct Closing {
        Engine& engine;
        std::vector<Slot> held;
        ~Closing() {
            for (Slot& slot : held) engine.clear(slot);
        }
    } closing{*this, {}};
    closing.held.reserve(words);
    const std::vector<Span> sentence{{0, length, -1, source, nullptr}};
    std::vector<Span> spans;  // every word is a source by itself
    for (int i = 0; i < words; ++i) {
        Slot& slot = closing.held.emplace_back();
        const int first = bounds[2 * i], count = bounds[2 * i + 1] - first;
        slot.source = new_source();
        sources_[slot.source].length = count;
        sources_[slot.source].references = 1;
        for (int position = 0; position < count; position += kPage) sources_[slot.source].pages.push_back(pages_.take());
        slot.pages.push_back(pages_.take());
        spans.push_back({first, count, slot.source, nullptr, nullptr});
    }
    reserve(std::max(length, words));
    const size_t dictionary = std::max<size_t>(config_.max_length + kPage, static_cast<size_t>(words) * kPanel);
    for (Buffer& scratch : scratch_) scratch.reserve(std::max(encoder_scratch(length, shape_.dim), dictionary) * sizeof(float));
    team_.run(1 + 10 * config_.encoder_layers + 2 * config_.decoder_layers, [&](Member& member) {
        encode(member, sentence, length, nullptr, states);
        write_cross(member, spans, length);
    });
    if (!words || !wanted_count) return;
    open_words(closing.held, start);
    const std::vector<int32_t> none(words, -1);
    choice_.begin(words, config_.vocabulary, 1, none.data(), team_.size());
    team_.run(3 + 12 * config_.decoder_layers, [&](Member& member) {
        decode(member, words, nullptr);
        choose_wanted(member, words, places, wanted, wanted_count, scores);
    });
}

// One row for every word, at the first position of a target.
void Engine::open_words(const std::vector<Slot>& words, int32_t start) {
    step_rows_.clear();
    step_pages_.clear();
    for (const Slot& slot : words) {
        const Source& source = sources_[slot.source];
        const size_t first = step_pages_.size();
        step_rows_.push_back({config_.zero_start ? -1 : start, 0, source.length, first, first + 1, nullptr});
        step_pages_.push_back(pages_.at(slot.pages[0]));
        for (int page : source.pages) step_pages_.push_back(pages_.at(page));
    }
}

// Log-probabilities of the wanted tokens in place of the likeliest ones.
void Engine::choose_wanted(Member& member, int count, const std::vector<std::vector<int>>& places, const int32_t* wanted,
                           int wanted_count, float* scores) {
    member.each(projection_->panels(), [&](int panel) {
        float* logits = scratch_[member.index].as<float>();
        projection_->panel(residual_rows(), panel, panel + team_.size(), 0, count, logits, kPanel);
        for (int row = 0; row < count; ++row) {
            const float* found = logits + static_cast<size_t>(row) * kPanel;
            for (int k : places[panel]) scores[static_cast<size_t>(row) * wanted_count + k] = found[wanted[k] % kPanel];
            choice_.take(member.index, row, panel, logits + static_cast<size_t>(row) * kPanel);
        }
    });
    member.each(count, [&](int row) {
        const float lost = choice_.normalizer(row);
        for (int k = 0; k < wanted_count; ++k) scores[static_cast<size_t>(row) * wanted_count + k] -= lost;
    });
}

}  // namespace attentive

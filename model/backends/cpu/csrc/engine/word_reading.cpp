// Evidence for word alignment: the states after the last encoder layer, and target tokens scored
// against one source word at a time.
#include <algorithm>

#include "engine/engine.h"

namespace attentive {

void Engine::read_words(const std::vector<WordSentence>& sentences, int32_t start, bool keep) {
    check_token(start);
    std::vector<Span> fresh, spans;  // sentences to encode, first in the batch; words are sources
    std::vector<const Encoded*> known;
    std::vector<int> firsts(sentences.size());
    std::vector<WordRow> rows;
    std::vector<std::vector<int>> places(  // by sentence and panel: indices of the wanted tokens
        sentences.size() * projection_->panels());
    std::vector<Slot> held;
    const OnExit clear_slots{[&] {
        for (Slot& slot : held) clear(slot);
    }};
    fail_if(keep && sentences.size() > 2 * kCaptures, "a batch of captures is empty or too large");
    int total = 0, longest = 0;
    for (const WordSentence& sentence : sentences) {
        check_source(sentence.length, sentence.tokens);
        known.push_back(find_encoded(sentence.length, sentence.tokens));
        longest = std::max(longest, sentence.length);
    }
    for (const bool encoded : {false, true}) {
        for (size_t number = 0; number < sentences.size(); ++number) {
            const WordSentence& sentence = sentences[number];
            if ((known[number] != nullptr) != encoded) continue;
            if (!encoded) fresh.push_back({total, sentence.length, -1, sentence.tokens, nullptr});
            firsts[number] = total;
            total += sentence.length;
        }
    }
    for (size_t number = 0; number < sentences.size(); ++number) {
        const WordSentence& sentence = sentences[number];
        for (int k = 0; k < sentence.wanted_count; ++k) {
            check_token(sentence.wanted[k]);
            places[number * projection_->panels() + sentence.wanted[k] / kPanel].push_back(k);
        }
        for (int i = 0; i < sentence.words; ++i) {
            const int first = sentence.bounds[2 * i], last = sentence.bounds[2 * i + 1];
            fail_if(first < 0 || first >= last || last > sentence.length,
                    "a word lies outside its sentence");
            const Sentence word{-1, last - first, sentence.tokens + first, nullptr};
            spans.push_back(start_source(held.emplace_back(), word, firsts[number] + first));
            rows.push_back({static_cast<int>(number), i});
        }
        if (keep && number % 2 == 0) {
            const Sentence kept{-1, sentence.length, sentence.tokens, nullptr};
            spans.push_back(start_source(slots_[config_.slots + number / 2], kept, firsts[number]));
        }
    }
    const int words = static_cast<int>(rows.size());
    reserve(std::max(total, words));
    const size_t dictionary =
        std::max<size_t>(config_.max_length + kPage, static_cast<size_t>(words) * kPanel);
    for (Buffer& scratch : scratch_)
        scratch.reserve(std::max(encoder_scratch(longest, shape_.dim), dictionary) * sizeof(float));
    pool_.run([&](PoolThread& thread) {
        const int rows_to_encode = fresh.empty() ? 0 : fresh.back().first + fresh.back().length;
        if (rows_to_encode)
            encode(thread, fresh, rows_to_encode, nullptr, 0, config_.encoder_layers);
        thread.parallel_for(static_cast<int>(known.size()), [&](int number) {
            if (known[number]) load_encoded(*known[number], firsts[number]);
        });
        write_cross(thread, spans, total);
    });
    const size_t d = config_.d_model;
    for (size_t number = 0; number < sentences.size(); ++number)
        for (int s = 0; s < sentences[number].length; ++s)
            std::copy_n(x_.as<float>() + (firsts[number] + s) * padded_width(d), d,
                        sentences[number].states + s * d);
    if (!words) return;
    clear_step_rows();
    for (Slot& slot : held) add_step_rows(slot, 1, &start);
    const std::vector<int32_t> none(words, -1);
    top_k_.begin(words, config_.vocabulary, 1, none.data(), pool_.size());
    pool_.run([&](PoolThread& thread) {
        decode(thread, {0, words}, nullptr);
        score_tokens(thread, sentences, rows, places);
    });
}

// Log-probabilities of the wanted tokens instead of the most probable ones.
void Engine::score_tokens(PoolThread& thread, const std::vector<WordSentence>& sentences,
                          const std::vector<WordRow>& rows,
                          const std::vector<std::vector<int>>& places) {
    const int count = static_cast<int>(rows.size()), panels = projection_->panels();
    thread.parallel_for(panels, [&](int panel) {
        float* logits = scratch_[thread.index].as<float>();
        projection_->panel(sublayer_input(), panel, panel + pool_.size(), 0, count, logits, kPanel);
        for (int row = 0; row < count; ++row) {
            float* found = logits + static_cast<size_t>(row) * kPanel;
            const WordSentence& sentence = sentences[rows[row].sentence];
            float* scores =
                sentence.scores + static_cast<size_t>(rows[row].word) * sentence.wanted_count;
            for (int k : places[static_cast<size_t>(rows[row].sentence) * panels + panel])
                scores[k] = found[sentence.wanted[k] % kPanel];
        }
        top_k_.add_panel(thread.index, 0, count, panel, logits);
    });
    thread.parallel_for(count, [&](int row) {
        const WordSentence& sentence = sentences[rows[row].sentence];
        float* scores =
            sentence.scores + static_cast<size_t>(rows[row].word) * sentence.wanted_count;
        const float log_sum = top_k_.log_normalizer(row);
        for (int k = 0; k < sentence.wanted_count; ++k) scores[k] -= log_sum;
    });
}

}  // namespace attentive

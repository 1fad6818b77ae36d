#include "layers/top_k.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "layers/linear.h"
#include "kernels/simd.h"
#include "layers/thread_pool.h"

namespace attentive {

namespace {
constexpr float kNever = -std::numeric_limits<float>::infinity();
}

void TopK::begin(int rows, int vocabulary, int candidates, const int32_t* forced, int threads) {
    rows_ = rows;
    vocabulary_ = vocabulary;
    const int panels = (vocabulary + kPanel - 1) / kPanel + 1;  // two parts may end in two
    padded_ = (panels + 15) / 16 * 16 + 16;  // more, as rows at powers of two share cache sets
    candidates_ = candidates;
    thread_count_ = threads;
    forced_ = forced;
    tops_.assign(static_cast<size_t>(rows) * padded_, kNever);
    sums_.assign(static_cast<size_t>(rows) * padded_, 0.0f);
    best_.assign(static_cast<size_t>(threads) * rows * candidates, Candidate{kNever, vocabulary});
    forced_places_.assign(forced, forced + rows);
    forced_logits_.assign(rows, kNever);
    parts_.assign(rows, {Part{0, nullptr, vocabulary}, Part{padded_, nullptr, 0}});
}

void TopK::restrict(int row, int first_panel, const int32_t* allowed, int count) {
    parts_[row][first_panel > 0] = {first_panel, allowed, count};
    if (forced_[row] < 0) return;
    if (first_panel == 0) forced_places_[row] = -1;
    const int32_t* found = std::lower_bound(allowed, allowed + count, forced_[row]);
    if (found < allowed + count && *found == forced_[row])
        forced_places_[row] = first_panel * kPanel + static_cast<int>(found - allowed);
}

void TopK::add_panel(int thread, int first_row, int last_row, int panel, float* logits) {
    const auto cell = [&](int row) { return static_cast<size_t>(row) * padded_ + panel; };
    float* values = logits;
    for (int row = first_row; row < last_row; ++row, values += kPanel) {
        const Part& allowed = parts_[row][panel >= parts_[row][1].first_panel];
        const int first = (panel - allowed.first_panel) * kPanel,
                  filled = std::min(kPanel, allowed.count - first);
        for (int i = filled; i < kPanel; ++i) values[i] = kNever;
        const float top = largest(max(max(load(values), load(values + kLanes)),
                                      max(load(values + 2 * kLanes), load(values + 3 * kLanes))));
        tops_[cell(row)] = top;
        const int forced = forced_places_[row];
        if (forced >= 0 && forced / kPanel == panel) forced_logits_[row] = values[forced % kPanel];

        Candidate* best = best_.data() + (static_cast<size_t>(thread) * rows_ + row) * candidates_;
        if (!(top >= best[candidates_ - 1].logit)) continue;
        for (int i = 0; i < filled; ++i) {
            const Candidate candidate{values[i], allowed.ids ? allowed.ids[first + i] : first + i};
            if (!candidate.before(best[candidates_ - 1])) continue;
            int place = candidates_ - 1;
            for (; place > 0 && candidate.before(best[place - 1]); --place)
                best[place] = best[place - 1];
            best[place] = candidate;
        }
    }
    for (int row = first_row; row < last_row; ++row, logits += kPanel) {
        Floats power[4];  // of rows that follow each other they overlap: the maxima are known
        const Floats top = fill(tops_[cell(row)]);
        for (int j = 0; j < 4; ++j) power[j] = exponential(load(logits + kLanes * j) - top);
        sums_[cell(row)] = sum((power[0] + power[1]) + (power[2] + power[3]));
    }
}

float TopK::log_normalizer(int row) const {
    const float* tops = tops_.data() + static_cast<size_t>(row) * padded_;
    const float* sums = sums_.data() + static_cast<size_t>(row) * padded_;
    Floats top = fill(kNever);
    for (int p = 0; p < padded_; p += kLanes) top = max(top, load(tops + p));
    const float highest = largest(top);
    Floats total = fill(0.0f);
    for (int p = 0; p < padded_; p += kLanes)
        total = fma(load(sums + p), exponential(load(tops + p) - fill(highest)), total);
    return highest + std::log(sum(total));
}

void TopK::finish(int row, int32_t* ids, float* scores, float* forced_score) const {
    const float log_sum = log_normalizer(row);
    *forced_score = forced_[row] >= 0 ? forced_logits_[row] - log_sum : 0.0f;
    int taken[kMaxThreads] = {};
    for (int i = 0; i < candidates_; ++i) {
        int from = -1;
        Candidate winner{kNever, vocabulary_ + 1};
        for (int thread = 0; thread < thread_count_; ++thread) {
            if (taken[thread] == candidates_) continue;
            const Candidate& next =
                best_[(static_cast<size_t>(thread) * rows_ + row) * candidates_ + taken[thread]];
            if (from < 0 || next.before(winner)) {
                from = thread;
                winner = next;
            }
        }
        ++taken[from];
        const int32_t* allowed = parts_[row][0].ids;
        const int32_t any = allowed ? allowed[0] : 0;  // logits of NaN are no candidates
        ids[i] = winner.id < vocabulary_ ? winner.id : any;
        scores[i] = winner.logit - log_sum;
    }
}

}  // namespace attentive

// Log-probabilities and the k best tokens of each row, computed panel by panel without storing all
// logits.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace attentive {

// Receives the logits of a step panel by panel, in any order and from several threads. Maximum and
// sum of exponentials are stored per panel and added in panel order at the end, so the results
// depend neither on the order nor on the threads.
class TopK {
  public:
    // Starts a step of rows x vocabulary logits. candidates: best tokens per row. forced[row]: a
    // token to score, or -1.
    void begin(int rows, int vocabulary, int candidates, const int32_t* forced, int threads);

    // Panels [first_panel, ...) of a row have only the logits of these `count` tokens, ascending. A
    // row has at most two such parts, the first one from panel 0, and no token is in both. A forced
    // token is scored among them.
    void restrict(int row, int first_panel, const int32_t* allowed, int count);

    // Adds the logits (rows, 64) of a panel of the rows [first, last); `thread` is the calling
    // thread. Overwrites the logits past the vocabulary or the allowed tokens.
    void add_panel(int thread, int first, int last, int panel, float* logits);

    int candidates() const { return candidates_; }
    // Best tokens of a row with log-probabilities, best first, ties by lower id; where a row has
    // fewer, because it is restricted or its logits are NaN, any token with -inf or NaN; and the
    // log-probability of the forced token (-inf for one that a restricted row does not have), or 0.
    void finish(int row, int32_t* ids, float* scores, float* forced_score) const;
    // log(sum(exp(logits))) of a row: log-probability = logit - log_normalizer.
    float log_normalizer(int row) const;

  private:
    struct Candidate {
        float logit;
        int32_t id;
        bool before(const Candidate& other) const {
            return logit > other.logit || (logit == other.logit && id < other.id);
        }
    };

    int rows_ = 0, vocabulary_ = 0, padded_ = 0, candidates_ = 0, thread_count_ = 0;
    const int32_t* forced_ = nullptr;
    struct Part {
        int first_panel;
        const int32_t* ids;  // null: all tokens
        int count;
    };
    std::vector<std::array<Part, 2>> parts_;  // (rows)
    std::vector<float> tops_, sums_;          // (rows, padded_)
    std::vector<Candidate> best_;             // (threads, rows, candidates), sorted
    std::vector<int> forced_places_;    // (rows), panel * 64 + place of the forced token, or -1
    std::vector<float> forced_logits_;  // (rows)
};

}  // namespace attentive

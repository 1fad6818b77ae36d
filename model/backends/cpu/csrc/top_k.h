// The output projection's end: log-probabilities and the best tokens of each row, without ever storing the logits.
#pragma once

#include <cstdint>
#include <vector>

namespace attentive {

// Gathers one step's logits panel by panel, in any order and from several threads, into results that depend on neither:
// a panel's maximum and sum of exponentials are kept apart and added in panel order at the end.
class Choice {
  public:
    // rows x vocabulary logits; `candidates` best tokens per row; forced[row] < 0 or a token whose log-probability is asked for.
    void begin(int rows, int vocabulary, int candidates, const int32_t* forced, int members);

    // Logits of 64 tokens of one row (those past the vocabulary are ignored), by thread `member`. logits may be changed.
    void take(int member, int row, int panel, float* logits);

    int candidates() const { return candidates_; }
    // Best tokens of a row with log-probabilities, best first, ties by lower id; and the forced token's (or 0).
    void finish(int row, int32_t* ids, float* scores, float* forced_score) const;
    // What is taken from a row's logits to make log-probabilities of them.
    float normalizer(int row) const;

  private:
    struct Candidate {
        float logit;
        int32_t id;
        bool before(const Candidate& other) const { return logit > other.logit || (logit == other.logit && id < other.id); }
    };

    int rows_ = 0, vocabulary_ = 0, panels_ = 0, padded_ = 0, candidates_ = 0, members_ = 0;
    const int32_t* forced_ = nullptr;
    std::vector<float> tops_, sums_;      // (rows, panels rounded up to 16)
    std::vector<Candidate> best_;         // (members, rows, candidates), sorted
    std::vector<float> forced_logits_;    // (rows)
};

}  // namespace attentive

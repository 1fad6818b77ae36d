// The Transformer of model/transformer.py on the CPU: encode sentences, then advance slots one token at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "attention.h"
#include "top_k.h"
#include "linear.h"
#include "paged_kv.h"
#include "row_ops.h"
#include "thread_pool.h"
#include "attention_capture.h"

namespace attentive {

struct Config {
    Precision precision;
    int vocabulary, source_vocabulary, d_model, heads, d_ff, encoder_layers, decoder_layers;
    bool pre_norm, tied, zero_start;
    Activation activation;
    int max_length, slots, threads;
    float epsilon, embedding_scale;
};

struct Norm {
    const float* gain;
    const float* bias;
};

struct FeedForward {
    const Linear* inner;
    const Linear* outer;
};

struct EncoderLayer {
    const Linear* qkv;
    const Linear* output;
    FeedForward feed_forward;
};

struct DecoderLayer {
    const Linear* self_qkv;
    const Linear* self_output;
    const Linear* cross_query;
    const Linear* cross_key_value;
    const Linear* cross_output;
    FeedForward feed_forward;
};

// One sentence of a prefill.
struct Sentence {
    int slot, length;
    const int32_t* tokens;
    const uint8_t* masked;  // null, or 1 for each head that is switched off: of the encoder's layers, of self- and of cross-attention
};

class Engine {
  public:
    explicit Engine(const Config& config);

    // Weights by name (see `resolve`): matrices (out, in) with an optional bias, and vectors. They are copied and packed.
    void set_linear(const std::string& name, const float* weight, const float* bias, int out, int in);
    void set_vector(const std::string& name, const float* values, int count);
    // Looks up every weight; throws std::invalid_argument naming the one that is missing or has the wrong shape.
    void resolve();

    // Encodes sentences and starts their slots. Slots that were in use are started anew.
    void prefill(const std::vector<Sentence>& sentences);
    // Advances each slot by its token. ids and scores are (rows, candidates), forced_scores (rows). A step of one row may be
    // watched: its attention weights are written at its position.
    void step(int rows, const int32_t* slots, const int32_t* tokens, int candidates, const int32_t* forced, int32_t* ids, float* scores,
              float* forced_scores, const Watch* watch = nullptr);
    // What decoding computes when it reads `inputs` (queries) after `source`, all rows in one pass, bit for bit: the outputs of
    // a step for each row, and everything that `watch` asks for. No slot changes.
    void look(const int32_t* source, const int32_t* inputs, const uint8_t* masked, int candidates, const int32_t* wanted, int32_t* ids,
              float* scores, float* wanted_scores, const Watch& watch);
    // What the model knows of a sentence word by word: `states` (encoder layers, length, d_model) after every encoder layer, and
    // `scores` (words, wanted), the log-probability that the decoder begins with a token when one word is all that it sees of
    // the sentence. A word is a run of tokens: `bounds` (words, 2) has its first and the one past its last. No slot changes.
    void read_words(const int32_t* source, int length, const int32_t* bounds, int words, int32_t start, const int32_t* wanted,
                    int wanted_count, float* states, float* scores);
    // Up to `steps` greedy steps in which each row reads the token it chose: ids and scores are (steps, rows). A row that chose
    // `end` takes no further part; its remaining ids are `end` with score 0.
    void burst(int rows, const int32_t* slots, const int32_t* tokens, int steps, int32_t end, int32_t* ids, float* scores);
    // Slot targets[i] continues from what slot origins[i] held before the call.
    void reorder(int count, const int32_t* targets, const int32_t* origins);
    void free(int count, const int32_t* slots);

    // Heads of the encoder's layers, of self- and of cross-attention.
    int all_heads() const { return (config_.encoder_layers + 2 * config_.decoder_layers) * config_.heads; }
    size_t weight_bytes() const;
    size_t cache_bytes() const { return pages_.bytes(); }
    int pages_used() const { return pages_.used(); }
    std::mutex& mutex() { return mutex_; }

  private:
    struct Source {
        int length = 0, references = 0;
        std::vector<int> pages;
    };
    struct Slot {
        int length = 0, source = -1;
        std::vector<int> pages;
        std::vector<uint8_t> masked;  // 1 for each head of self-, then of cross-attention that is switched off; empty where none is
    };
    struct StepRow {  // a row of the running step
        int token, position, source_length;
        size_t self_pages, cross_pages;  // where its page pointers start
        const uint8_t* masked;           // see Slot; null where it has none
    };
    struct Span {  // a sentence within the packed rows of a prefill
        int first, length, source;
        const int32_t* tokens;
        const uint8_t* masked;
    };

    const Linear* linear(const std::string& name, int out, int in) const;
    Norm norm(const std::string& name) const;
    const float* vector(const std::string& name, size_t count) const;

    void reserve(int rows);
    Rows rows(const float* values, int features) const;
    void feed(int row, const float* values, int features);
    void embed(int row, const Linear& table, int token, int position, const Norm& first);
    void apply(Member& member, const Linear& linear, const Rows& input, int rows, float* out);
    void residual(int row, const Norm& norm);
    void feed_forward(Member& member, const FeedForward& layer, int rows, const Norm& norm);
    Rows residual_rows() const { return rows(config_.pre_norm ? normed_.as<float>() : x_.as<float>(), config_.d_model); }

    void check_source(int length, const int32_t* tokens) const;
    void check_token(int32_t token) const;
    void encode(Member& member, const std::vector<Span>& spans, int rows, const Watch* watch, float* states = nullptr);
    void write_cross(Member& member, const std::vector<Span>& spans, int rows);
    void prefill_chunk(const Sentence* sentences, size_t count, const Watch* watch = nullptr);

    void open_step(int rows, const int32_t* slots, const int32_t* tokens);
    void advance(int rows, int candidates, const int32_t* forced, int32_t* ids, float* scores, float* forced_scores, const Watch* watch);
    void decode(Member& member, int rows, const Watch* watch);
    void mute(const uint8_t* masked, float* context) const;
    void write_self(int row, int layer);
    void attend_self(int row, int layer, int member, const Watch* watch);
    void attend_cross(int row, int layer, int member, const Watch* watch);
    void choose(Member& member, int rows, int32_t* ids, float* scores, float* forced_scores);

    void open_words(const std::vector<Slot>& words, int32_t start);
    void choose_wanted(Member& member, int rows, const std::vector<std::vector<int>>& places, const int32_t* wanted, int wanted_count,
                       float* scores);
    void open_rows(Slot& slot, const int32_t* inputs, int rows);
    void copy_keys(const Slot& slot, const Watch& watch) const;
    void copy_encoder_vectors(const Span& span, const Watch& watch) const;

    Slot& slot(int index);
    void clear(Slot& slot);
    void drop_source(int source);
    int new_source();

    const Config config_;
    const AttentionShape shape_;
    const PageLayout layout_;
    std::mutex mutex_;
    Team team_;

    std::unordered_map<std::string, std::unique_ptr<Linear>> linears_;
    std::unordered_map<std::string, std::vector<float>> vectors_;
    std::vector<EncoderLayer> encoder_;
    std::vector<DecoderLayer> decoder_;
    std::vector<Norm> encoder_norms_, decoder_norms_;  // one per sublayer, then the final one of a pre-norm model
    const Linear* embedding_ = nullptr;
    const Linear* source_embedding_ = nullptr;
    const Linear* projection_ = nullptr;
    const float* positions_ = nullptr;
    std::vector<float> zeros_;

    Pages pages_;
    std::vector<Slot> slots_;  // one more than the configuration has: the last one is for looks
    std::vector<Source> sources_;
    std::vector<int> free_sources_;

    Buffer x_, normed_, out_, context_, wide_, quantized_, scales_;  // one row each per row of the batch
    std::vector<Buffer> scratch_;                                   // one per member
    std::vector<StepRow> step_rows_;
    std::vector<const char*> step_pages_;
    Choice choice_;
};

}  // namespace attentive

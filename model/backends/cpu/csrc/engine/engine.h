// The Transformer of model/transformer.py on the CPU: encode sentences, then advance slots one
// token at a time.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include "layers/attention.h"
#include "layers/attention_capture.h"
#include "layers/linear.h"
#include "layers/paged_kv.h"
#include "layers/row_ops.h"
#include "layers/thread_pool.h"
#include "layers/top_k.h"

namespace attentive {

struct Config {
    Precision precision;
    int vocabulary, source_vocabulary, d_model, heads, d_ff, encoder_layers, decoder_layers;
    bool pre_norm, tied, zero_start, recurrent, embedding_norm;
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

// Where a tensor comes into being, for those that a capture follows; `capture` may be null.
struct Place {
    const AttentionCapture* capture;
    AttentionCapture::Kind side;
    int layer;
    void keep(int row, int tensor, const float* values, int count) const {
        if (capture)
            capture->keep(side, layer, row, static_cast<AttentionCapture::Tensor>(tensor), values,
                          count);
    }
};

struct EncoderLayer {
    const Linear* qkv;
    const Linear* output;
    FeedForward feed_forward;
};

struct DecoderLayer {
    const Linear* self_qkv;  // these two or `recurrence`
    const Linear* self_output;
    const Linear* recurrence;  // input, then forget gates of `SSRU` of model/layers.py
    const Linear* cross_query;
    const Linear* cross_key_value;
    const Linear* cross_output;
    FeedForward feed_forward;
};

// One sentence of a prefill. masked: null, or one byte for each head of encoder, self- and
// cross-attention, in this order; 1 masks the head (its output is set to 0).
struct Sentence {
    int slot, length;
    const int32_t* tokens;
    const uint8_t* masked;
};

// One sentence of `read_words`. Written are `states` (length, d_model), the output of the last
// encoder layer, and `scores` (words, wanted_count), the log-probability of each wanted token as
// the first target token when cross-attention is restricted to one word. A word is a range of
// tokens; `bounds` (words, 2) has its first token and the one after its last.
struct WordSentence {
    const int32_t* tokens;
    int length;
    const int32_t* bounds;
    int words;
    const int32_t* wanted;
    int wanted_count;
    float* states;
    float* scores;
};

inline void fail_if(bool wrong, const char* message) {
    if (wrong) throw std::invalid_argument(message);
}

// Runs a function when its scope ends, also by an exception.
template <typename Body>
struct OnExit {
    Body body;
    ~OnExit() { body(); }
};
template <typename Body>
OnExit(Body) -> OnExit<Body>;

class Engine {
  public:
    explicit Engine(const Config& config);

    // Copies and packs weights by name: matrices as in linear.h, and vectors. `resolve` has the
    // names.
    void set_linear(const std::string& name, const float* weight, const float* ranges,
                    const float* bias, int out, int in);
    void set_vector(const std::string& name, const float* values, int count);
    // Looks up every weight. Throws std::invalid_argument with the name of a weight that is missing
    // or has the wrong shape.
    void resolve();

    // Encodes sentences and starts a sequence in each slot. The earlier contents of the slots are
    // discarded.
    void prefill(const std::vector<Sentence>& sentences);
    // Keeps `tokens` (count), ascending, that many sentences may write; the lists are numbered from
    // 0.
    void add_common(const int32_t* tokens, int count);
    // Restricts the sentence of a slot to `own` (count) tokens, ascending, and to the common list
    // `common` (-1 for none), which has none of them. They have the whole probability, and further
    // candidates have the id of the first one and the score -inf. A forced token is scored among
    // them, with -inf where it is not one of them.
    void restrict(int slot, int common, const int32_t* own, int count);
    // Advances each slot by its token: ids and scores (rows, candidates), forced_scores (rows).
    // `capture`, allowed for one row, receives the attention weights of its position.
    void step(int rows, const int32_t* slots, const int32_t* tokens, int candidates,
              const int32_t* forced, int32_t* ids, float* scores, float* forced_scores,
              const AttentionCapture* capture = nullptr);
    // Advances each slot by several known tokens in one pass, bit for bit as in single steps.
    // tokens, forced and forced_scores have one entry per token, slot after slot; lengths has the
    // number of tokens of each slot.
    void forced_steps(int count, const int32_t* slots, const int32_t* lengths,
                      const int32_t* tokens, const int32_t* forced, float* forced_scores);
    // Teacher forcing: decodes `inputs` (queries) after `source`. Row t has the outputs of step t,
    // bit for bit, and `capture` receives the attention. `common` and `own` (count) restrict the
    // target as in `restrict`; -1 and 0 allow all tokens. No slot changes. A call runs the part of
    // the pass that `capture` says, so that other calls can come between: from the first encoder
    // layer on, and each part after the one before. A part of nothing ends a pass early.
    void forced_decode(const int32_t* source, const int32_t* inputs, const uint8_t* masked,
                       int common, const int32_t* own, int count, int candidates,
                       const int32_t* forced, int32_t* ids, float* scores, float* forced_scores,
                       const AttentionCapture& capture);
    // Reads sentences as one batch, see WordSentence. No slot changes. Those that `prefill` encoded
    // lately are not encoded again. With `keep` the first of each two sentences is the source of a
    // capture of the next call of `capture`.
    void read_words(const std::vector<WordSentence>& sentences, int32_t start, bool keep);
    // Decodes the inputs of each capture (queries) after its source as one batch, up to the depth
    // of the captures, which is the same for all; nothing is scored. No slot changes. Without
    // `sources` they are those that `read_words` kept.
    void capture(const std::vector<const AttentionCapture*>& captures, const int32_t* sources,
                 const int32_t* inputs);
    // Runs up to `steps` greedy steps; each row reads the token it selected before: ids and scores
    // (steps, rows). A row stops after it selected `end`; its remaining ids are `end` with score 0.
    // `forbidden` tokens are never selected.
    void multi_step(int rows, const int32_t* slots, const int32_t* tokens, int steps, int32_t end,
                    const std::vector<int32_t>& forbidden, int32_t* ids, float* scores);
    // Slot targets[i] continues from what slot origins[i] held before the call.
    void reorder(int count, const int32_t* targets, const int32_t* origins);
    void free(int count, const int32_t* slots);

    static constexpr int kCaptures = 16;  // most sentences of one call of `capture`
    static constexpr int kHeld = 4;       // most forced passes that have begun
    // Number of heads of encoder, self- and cross-attention in all layers.
    int all_heads() const {
        return (config_.encoder_layers + 2 * config_.decoder_layers) * config_.heads;
    }
    size_t cache_bytes() const { return pages_.bytes(); }
    int pages_used() const { return pages_.used(); }
    std::mutex& mutex() { return mutex_; }

  private:
    struct Restriction {
        std::vector<int32_t> allowed;
        Linear projection;  // of the allowed tokens
    };
    struct Source {
        int length = 0, references = 0;
        std::vector<int> pages;
        const Restriction* common = nullptr;
        std::shared_ptr<const Restriction> own;  // without these two: all tokens
    };
    struct Slot {
        int length = 0, source = -1;
        std::vector<int> pages;
        std::vector<float> state;  // (decoder layers, d_model) of a recurrence; without one, empty
        std::vector<uint8_t>
            masked;  // a byte for each head of self-, then cross-attention, or none
    };
    struct StepRow {  // a row of the running step
        int token, position, source_length;
        size_t self_pages, cross_pages;                    // index of its first page in step_pages_
        float* state;                                      // as in Slot
        const uint8_t* masked;                             // as in Slot; null if no head is masked
        std::array<const Restriction*, 2> restrictions{};  // common, own; both null: all tokens
        const AttentionCapture* capture = nullptr;         // receives the attention of the row
    };
    struct WordRow {  // a row of read_words
        int sentence, word;
    };
    struct RowGroup {  // rows with one projection; its panels are those from `first_panel` on
        int first_row, last_row, first_task, first_panel;
        const Linear* projection;
    };
    struct ForcedPass {  // what is kept between its parts: the rows of the encoder, and the target
        Slot slot;
        Buffer x, normed, quantized, scales;
    };
    struct Encoded {  // a sentence that was encoded without masked heads, and the encoder's output
        std::vector<int32_t> tokens;
        std::vector<float> x, normed;  // rows of the buffers of these names
    };
    struct Span {  // a sentence within the packed rows of a prefill
        int first, length, source;
        const int32_t* tokens;
        const uint8_t* masked;
    };

    Linear* linear(const std::string& name, int out, int in) const;
    Norm norm(const std::string& name) const;
    const float* vector(const std::string& name, size_t count) const;

    void reserve(int rows);
    Rows rows(const float* values) const;
    // That of the rows of a buffer, whatever their width: threads may be at different products.
    size_t stride(const float* buffer) const {
        return buffer == wide_.as<float>() ? wide_stride_ : padded_width(config_.d_model);
    }
    void quantize_input(int row, const float* values, int features);
    void embed(int row, const Linear& table, const float* positions, int token, int position,
               const std::vector<Norm>& norms, const Place& at);
    void apply(PoolThread& thread, const Linear& linear, const Rows& input, RowRange range,
               float* out);
    void add_norm(int row, const Norm& norm, const Place& at, AttentionCapture::Tensor output);
    void feed_forward(PoolThread& thread, const FeedForward& layer, RowRange range,
                      const Norm& norm, const Place& at);
    // Keeps the residual stream and the input of a layer's first sublayer.
    void keep_input(int row, const Place& at) const;
    Rows sublayer_input() const {
        return rows(config_.pre_norm ? normed_.as<float>() : x_.as<float>());
    }

    void check_source(int length, const int32_t* tokens) const;
    void check_token(int32_t token) const;
    Span start_source(Slot& slot, const Sentence& sentence, int first);
    void encode(PoolThread& thread, const std::vector<Span>& spans, int rows,
                const AttentionCapture* capture, int first_layer, int last_layer);
    void write_cross(PoolThread& thread, const std::vector<Span>& spans, int rows);
    void prefill_chunk(const Sentence* sentences, size_t count);
    void reserve_encoder(int rows, int longest);
    void keep_encoded(const Span& span);
    const Encoded* find_encoded(int length, const int32_t* tokens) const;
    void load_encoded(const Encoded& encoded, int first);
    void swap_rows(ForcedPass& pass);

    void prepare_step(int rows, const int32_t* slots, const int32_t* lengths,
                      const int32_t* tokens);
    void add_step_rows(Slot& slot, int count, const int32_t* tokens,
                       const AttentionCapture* capture = nullptr);
    void clear_step_rows();
    void run_step(int rows, int candidates, const int32_t* forced, int32_t* ids, float* scores,
                  float* forced_scores, const AttentionCapture* capture);
    void restrict(Source& source, int common, const int32_t* own, int count);
    Restriction restriction(const int32_t* tokens, int count, Arena* arena = nullptr);
    void group_rows(int rows);
    void decode(PoolThread& thread, RowRange range, const AttentionCapture* capture);
    void mask_heads(const uint8_t* masked, float* context) const;
    void write_self(int row, int layer);
    void self_attention(PoolThread& thread, RowRange range, const Norm& norm, const Place& at);
    void recurrence(PoolThread& thread, RowRange range, const Norm& norm, const Place& at);
    void attend(int row, int layer, int thread, bool cross);
    void select_candidates(PoolThread& thread, int rows, int32_t* ids, float* scores,
                           float* forced_scores);

    void score_tokens(PoolThread& thread, const std::vector<WordSentence>& sentences,
                      const std::vector<WordRow>& rows,
                      const std::vector<std::vector<int>>& places);
    void check_target(const AttentionCapture& capture, const int32_t* inputs) const;
    void copy_head(const std::vector<int>& pages, int layer, int head, int count, float* key,
                   float* value) const;
    void copy_keys(const Slot& slot, const AttentionCapture& capture) const;
    void copy_cross_values(const Slot& slot, const AttentionCapture& capture) const;
    void copy_encoder_vectors(const Span& span, const AttentionCapture& capture) const;

    Slot& slot(int index);
    void clear(Slot& slot);
    void release_source(int source);
    int new_source();

    const Config config_;
    const AttentionShape shape_;
    const PageLayout layout_;
    std::mutex mutex_;
    ThreadPool pool_;

    Arena arena_;  // of linears_ and common_
    std::unordered_map<std::string, std::unique_ptr<Linear>> linears_;
    std::unordered_map<std::string, std::vector<float>> vectors_;
    std::vector<EncoderLayer> encoder_;
    std::vector<DecoderLayer> decoder_;
    // One per sublayer, then the final one of a pre-norm model, then that of embeddings if any.
    std::vector<Norm> encoder_norms_, decoder_norms_;
    Linear* embedding_ = nullptr;
    const Linear* source_embedding_ = nullptr;
    Linear* projection_ = nullptr;
    const float *positions_ = nullptr, *decoder_positions_ = nullptr;
    // Of wide_ and quantized_: the widest row, and more, as powers of two share cache sets.
    const size_t wide_stride_;

    PagePool pages_;
    std::vector<Slot> slots_;  // config_.slots, and kCaptures more for capture
    std::array<ForcedPass, kHeld> passes_;
    std::deque<Encoded> encoded_;  // of the latest prefills, oldest first
    size_t encoded_tokens_ = 0;
    std::vector<Source> sources_;
    std::vector<int> free_sources_;

    Buffer x_, normed_, out_, context_, wide_, quantized_, scales_;  // rows of the batch
    std::vector<Buffer> scratch_;                                    // one per thread
    std::vector<StepRow> step_rows_;
    std::vector<int> first_rows_;  // of each slot of the step, then the number of rows
    std::vector<const char*> step_pages_;
    std::vector<RowGroup> row_groups_;
    int group_tasks_ = 0;
    std::deque<Restriction> common_;  // their addresses stay
    TopK top_k_;
};

}  // namespace attentive

// The C interface of the CPU backend; model/backends/cpu/bindings.py calls it through ctypes.
// Functions return 0, or -1 after an error, whose message attentive_error returns.
#include <exception>
#include <string>

#include "engine/engine.h"

using namespace attentive;

namespace {

thread_local std::string last_error;

template <typename Body>
int guarded(Body&& body) {
    try {
        body();
        return 0;
    } catch (const std::exception& error) {
        last_error = error.what();
        return -1;
    }
}

template <typename Body>
int locked(Engine* engine, Body&& body) {
    return guarded([&] {
        const std::lock_guard<std::mutex> lock(engine->mutex());
        const Timed timed(Work::Other);
        body();
    });
}

}  // namespace

extern "C" {

// integers: precision, vocabulary, source vocabulary, d_model, heads, d_ff, encoder layers, decoder
// layers, pre-norm, tied, zero start, recurrent, embedding norm, activation, max length, slots,
// threads. reals: epsilon, embedding scale.
Engine* attentive_create(const int32_t* integers, const float* reals) {
    Engine* engine = nullptr;
    guarded([&] {
        const int32_t* i = integers;
        engine =
            new Engine({static_cast<Precision>(i[0]), i[1], i[2], i[3], i[4], i[5], i[6], i[7],
                        i[8] != 0, i[9] != 0, i[10] != 0, i[11] != 0, i[12] != 0,
                        static_cast<Activation>(i[13]), i[14], i[15], i[16], reals[0], reals[1]});
    });
    return engine;
}

void attentive_destroy(Engine* engine) { delete engine; }

// The name of the instruction set this library was compiled for; model/backends/cpu/isa.py lists
// the names.
const char* attentive_isa() { return kIsa; }

const char* attentive_error() { return last_error.c_str(); }

int attentive_linear(Engine* engine, const char* name, const float* weight, const float* ranges,
                     const float* bias, int out, int in) {
    return locked(engine, [&] { engine->set_linear(name, weight, ranges, bias, out, in); });
}

int attentive_vector(Engine* engine, const char* name, const float* values, int count) {
    return locked(engine, [&] { engine->set_vector(name, values, count); });
}

int attentive_resolve(Engine* engine) {
    return locked(engine, [&] { engine->resolve(); });
}

// tokens: the sentences concatenated. masked: null or (count, heads of all layers), where 1 masks a
// head.
int attentive_prefill(Engine* engine, int count, const int32_t* slots, const int32_t* lengths,
                      const int32_t* tokens, const uint8_t* masked) {
    return locked(engine, [&] {
        std::vector<Sentence> sentences;
        for (int i = 0; i < count; ++i) {
            sentences.push_back(
                {slots[i], lengths[i], tokens,
                 masked ? masked + static_cast<size_t>(i) * engine->all_heads() : nullptr});
            tokens += lengths[i];
        }
        engine->prefill(sentences);
    });
}

int attentive_add_common(Engine* engine, const int32_t* tokens, int count) {
    return locked(engine, [&] { engine->add_common(tokens, count); });
}

int attentive_restrict(Engine* engine, int slot, int common, const int32_t* own, int count) {
    return locked(engine, [&] { engine->restrict(slot, common, own, count); });
}

int attentive_step(Engine* engine, int rows, const int32_t* slots, const int32_t* tokens,
                   int candidates, const int32_t* forced, int32_t* ids, float* scores,
                   float* forced_scores, const AttentionCapture* capture) {
    return locked(engine, [&] {
        engine->step(rows, slots, tokens, candidates, forced, ids, scores, forced_scores, capture);
    });
}

// lengths: the tokens of each slot; tokens, forced and forced_scores: those of all slots,
// concatenated.
int attentive_forced_steps(Engine* engine, int count, const int32_t* slots, const int32_t* lengths,
                           const int32_t* tokens, const int32_t* forced, float* forced_scores) {
    return locked(engine, [&] {
        engine->forced_steps(count, slots, lengths, tokens, forced, forced_scores);
    });
}

int attentive_forced_decode(Engine* engine, const int32_t* source, const int32_t* inputs,
                            const uint8_t* masked, int common, const int32_t* own, int count,
                            int candidates, const int32_t* forced, int32_t* ids, float* scores,
                            float* forced_scores, const AttentionCapture* capture) {
    return locked(engine, [&] {
        engine->forced_decode(source, inputs, masked, common, own, count, candidates, forced, ids,
                              scores, forced_scores, *capture);
    });
}

// sizes (count, 3): tokens, words and wanted tokens of each sentence; the other arrays: those of
// all sentences, concatenated.
int attentive_read_words(Engine* engine, int count, const int32_t* sizes, const int32_t* tokens,
                         const int32_t* bounds, int32_t start, const int32_t* wanted, int d_model,
                         float* states, float* scores, int keep) {
    return locked(engine, [&] {
        std::vector<WordSentence> sentences;
        for (int i = 0; i < count; ++i, sizes += 3) {
            sentences.push_back(
                {tokens, sizes[0], bounds, sizes[1], wanted, sizes[2], states, scores});
            tokens += sizes[0];
            bounds += 2 * sizes[1];
            wanted += sizes[2];
            states += static_cast<size_t>(sizes[0]) * d_model;
            scores += static_cast<size_t>(sizes[1]) * sizes[2];
        }
        engine->read_words(sentences, start, keep != 0);
    });
}

// sources, inputs: those of all captures, concatenated; without sources those that were kept.
int attentive_capture(Engine* engine, int count, const AttentionCapture* const* captures,
                      const int32_t* sources, const int32_t* inputs) {
    return locked(engine, [&] {
        engine->capture(std::vector<const AttentionCapture*>(captures, captures + count), sources,
                        inputs);
    });
}

int attentive_multi_step(Engine* engine, int rows, const int32_t* slots, const int32_t* tokens,
                         int steps, int32_t end, const int32_t* forbidden, int forbidden_count,
                         int32_t* ids, float* scores) {
    return locked(engine, [&] {
        engine->multi_step(rows, slots, tokens, steps, end,
                           std::vector<int32_t>(forbidden, forbidden + forbidden_count), ids,
                           scores);
    });
}

int attentive_reorder(Engine* engine, int count, const int32_t* targets, const int32_t* origins) {
    return locked(engine, [&] { engine->reorder(count, targets, origins); });
}

int attentive_free(Engine* engine, int count, const int32_t* slots) {
    return locked(engine, [&] { engine->free(count, slots); });
}

int64_t attentive_cache_bytes(Engine* engine) {
    return static_cast<int64_t>(engine->cache_bytes());
}

int attentive_pages_used(Engine* engine) { return engine->pages_used(); }

#if defined(ATTENTIVE_PROFILE)
// Adds the nanoseconds of each kind of Work, over all threads, since the last call.
void attentive_profile(int64_t* nanoseconds) {
    for (ThreadTimes& times : thread_times)
        for (size_t i = 0; i < times.nanoseconds.size(); ++i)
            nanoseconds[i] += std::exchange(times.nanoseconds[i], 0);
}
#endif

}  // extern "C"

// Engine, encoder: encodes sentences as one packed batch without padding, and writes
// cross-attention keys and values.
#include <algorithm>

#include "engine/engine.h"

namespace attentive {

namespace {
// Source tokens encoded together: bounds memory and keeps a layer's rows in the cache.
constexpr int kChunk = 512;
constexpr size_t kEncoded = 4096;  // tokens of the latest sentences whose encoder output is kept
}  // namespace

void Engine::prefill(const std::vector<Sentence>& sentences) {
    for (const Sentence& sentence : sentences) {
        slot(sentence.slot);
        check_source(sentence.length, sentence.tokens);
    }
    for (size_t first = 0; first < sentences.size();) {
        size_t last = first + 1;
        for (int tokens = sentences[first].length;
             last < sentences.size() && tokens + sentences[last].length <= kChunk; ++last) {
            tokens += sentences[last].length;
        }
        prefill_chunk(&sentences[first], last - first);
        first = last;
    }
}

void Engine::check_source(int length, const int32_t* tokens) const {
    fail_if(length < 1 || length > config_.max_length, "a source has a length outside the model's");
    for (int i = 0; i < length; ++i)
        fail_if(tokens[i] < 0 || tokens[i] >= config_.source_vocabulary,
                "a source token is outside the vocabulary");
}

// Begins the cross-attention of a slot: the pages for the keys and values of a sentence, whose rows
// begin at `first`.
Engine::Span Engine::start_source(Slot& slot, const Sentence& sentence, int first) {
    clear(slot);
    const int index = new_source();
    sources_[index].length = sentence.length;
    sources_[index].references = 1;
    slot.source = index;
    if (const uint8_t* masked = sentence.masked) {
        masked += config_.encoder_layers * config_.heads;
        slot.masked.assign(masked, masked + 2 * config_.decoder_layers * config_.heads);
    }
    for (int position = 0; position < sentence.length; position += kPage)
        sources_[index].pages.push_back(pages_.allocate());
    return {first, sentence.length, index, sentence.tokens, sentence.masked};
}

void Engine::reserve_encoder(int rows, int longest) {
    reserve(rows);
    for (Buffer& scratch : scratch_)
        scratch.reserve(encoder_scratch(longest, shape_.dim) * sizeof(float));
}

void Engine::prefill_chunk(const Sentence* sentences, size_t count) {
    std::vector<Span> spans;
    int total = 0, longest = 0;
    for (size_t i = 0; i < count; ++i) {
        spans.push_back(start_source(slots_[sentences[i].slot], sentences[i], total));
        total += sentences[i].length;
        longest = std::max(longest, sentences[i].length);
    }
    reserve_encoder(total, longest);
    pool_.run([&](PoolThread& thread) {
        encode(thread, spans, total, nullptr, 0, config_.encoder_layers);
        write_cross(thread, spans, total);
    });
    for (const Span& span : spans) keep_encoded(span);
}

// Keeps the encoder's output for a sentence: its words may be read soon.
void Engine::keep_encoded(const Span& span) {
    if (span.masked) return;
    const size_t stride = padded_width(config_.d_model), size = span.length * stride;
    const auto copy = [&](const Buffer& buffer) {
        const float* first = buffer.as<float>() + span.first * stride;
        return std::vector<float>(first, first + size);
    };
    encoded_.push_back({{span.tokens, span.tokens + span.length},
                        copy(x_),
                        config_.pre_norm ? copy(normed_) : std::vector<float>()});
    for (encoded_tokens_ += span.length; encoded_tokens_ > kEncoded; encoded_.pop_front())
        encoded_tokens_ -= encoded_.front().tokens.size();
}

const Engine::Encoded* Engine::find_encoded(int length, const int32_t* tokens) const {
    const auto found = std::find_if(encoded_.rbegin(), encoded_.rend(), [&](const Encoded& each) {
        return std::equal(each.tokens.begin(), each.tokens.end(), tokens, tokens + length);
    });
    return found == encoded_.rend() ? nullptr : &*found;
}

// Writes the encoder's output to the rows from `first` on, as `encode` leaves it.
void Engine::load_encoded(const Encoded& encoded, int first) {
    const size_t stride = padded_width(config_.d_model);
    std::copy(encoded.x.begin(), encoded.x.end(), x_.as<float>() + first * stride);
    std::copy(encoded.normed.begin(), encoded.normed.end(), normed_.as<float>() + first * stride);
    for (int row = first; row < first + static_cast<int>(encoded.tokens.size()); ++row)
        quantize_input(row, sublayer_input().values + row * stride, config_.d_model);
}

// Runs the layers [first_layer, last_layer), and leaves the output (total, padded d_model) in x_.
void Engine::encode(PoolThread& thread, const std::vector<Span>& spans, int total,
                    const AttentionCapture* capture, int first_layer, int last_layer) {
    const int d = config_.d_model, sentences = static_cast<int>(spans.size());
    thread.parallel_for(first_layer ? 0 : sentences, [&](int i) {
        for (int s = 0; s < spans[i].length; ++s)
            embed(spans[i].first + s, *source_embedding_, positions_, spans[i].tokens[s], s,
                  encoder_norms_, {capture, AttentionCapture::Encoder, 0});
    });
    for (int layer = first_layer; layer < last_layer; ++layer) {
        const Norm* norms = &encoder_norms_[2 * layer + config_.pre_norm];
        const Place at{capture, AttentionCapture::Encoder, layer};
        apply(thread, *encoder_[layer].qkv, sublayer_input(), {0, total}, wide_.as<float>());
        thread.parallel_for(sentences * config_.heads, [&](int task) {
            const Span& span = spans[task / config_.heads];
            const int head = task % config_.heads, column = head * shape_.dim;
            const float* query = wide_.as<float>() + span.first * wide_stride_ + column;
            float* context = context_.as<float>() + span.first * padded_width(d) + column;
            const Timed timed(Work::Attention);
            attend_sentence(shape_.dim, span.length, query, query + d, query + 2 * d, wide_stride_,
                            context, padded_width(d), scratch_[thread.index].as<float>(),
                            capture ? capture->encoder_map(layer, config_.heads, head) : nullptr);
            if (span.masked && span.masked[layer * config_.heads + head])
                for (int s = 0; s < span.length; ++s)
                    std::fill_n(context + s * padded_width(d), shape_.dim, 0.0f);
            if (capture && head == 0 && capture->captures(AttentionCapture::Encoder, layer))
                copy_encoder_vectors(span, *capture);
        });
        thread.parallel_for(total, [&](int row) {
            const float* context = context_.as<float>() + row * padded_width(d);
            quantize_input(row, context, d);
            keep_input(row, at);
            at.keep(row, AttentionCapture::SelfContext, context, d);
        });
        apply(thread, *encoder_[layer].output, rows(context_.as<float>()), {0, total},
              out_.as<float>());
        thread.parallel_for(
            total, [&](int row) { add_norm(row, norms[0], at, AttentionCapture::SelfOutput); });
        feed_forward(thread, encoder_[layer].feed_forward, {0, total}, norms[1], at);
    }
}

void Engine::write_cross(PoolThread& thread, const std::vector<Span>& spans, int total) {
    const int d = config_.d_model;
    for (int layer = 0; layer < config_.decoder_layers; ++layer) {
        apply(thread, *decoder_[layer].cross_key_value, sublayer_input(), {0, total},
              wide_.as<float>());
        thread.parallel_for(static_cast<int>(spans.size()), [&](int i) {
            const Timed timed(Work::Write);
            for (int s = 0; s < spans[i].length; ++s) {
                char* page = pages_.at(sources_[spans[i].source].pages[s / kPage]) +
                             layer * layout_.layer_bytes;
                const float* key = wide_.as<float>() + (spans[i].first + s) * wide_stride_;
                write_position(shape_, layout_, page, s % kPage, key, key + d);
            }
        });
    }
}

}  // namespace attentive

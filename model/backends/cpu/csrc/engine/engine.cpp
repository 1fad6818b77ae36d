#include "engine/engine.h"

#include <algorithm>
#include <cstring>

namespace attentive {

namespace {

std::string layer_name(const char* side, int layer, const char* part) {
    return std::string(side) + "." + std::to_string(layer) + "." + part;
}

}  // namespace

Engine::Engine(const Config& config)
    : config_(config),
      shape_{config.precision, config.heads, config.d_model / config.heads},
      layout_(config.precision, config.decoder_layers, config.heads, config.d_model / config.heads),
      pool_(config.threads),
      wide_stride_(std::max(padded_width(3 * config.d_model), padded_width(config.d_ff)) + kPanel),
      pages_(layout_.bytes),
      slots_(config.slots + kCaptures),
      scratch_(config.threads) {}

void Engine::set_linear(const std::string& name, const float* weight, const float* ranges,
                        const float* bias, int out, int in) {
    linears_[name] =
        std::make_unique<Linear>(config_.precision, weight, ranges, bias, out, in, arena_);
}

void Engine::set_vector(const std::string& name, const float* values, int count) {
    vectors_[name].assign(values, values + count);
}

Linear* Engine::linear(const std::string& name, int out, int in) const {
    const auto found = linears_.find(name);
    if (found == linears_.end()) throw std::invalid_argument("weight " + name + " is missing");
    if (found->second->out() != out || found->second->in() != in)
        throw std::invalid_argument("weight " + name + " has the wrong shape");
    return found->second.get();
}

const float* Engine::vector(const std::string& name, size_t count) const {
    const auto found = vectors_.find(name);
    if (found == vectors_.end()) throw std::invalid_argument("vector " + name + " is missing");
    if (found->second.size() != count)
        throw std::invalid_argument("vector " + name + " has the wrong length");
    return found->second.data();
}

Norm Engine::norm(const std::string& name) const {
    return {vector(name + ".weight", config_.d_model), vector(name + ".bias", config_.d_model)};
}

void Engine::resolve() {
    const int d = config_.d_model, inner = config_.d_ff;
    const auto feed_forward = [&](const char* side, int layer) {
        return FeedForward{linear(layer_name(side, layer, "inner"), inner, d),
                           linear(layer_name(side, layer, "outer"), d, inner)};
    };
    encoder_.clear();
    decoder_.clear();
    encoder_norms_.clear();
    decoder_norms_.clear();
    for (int i = 0; i < config_.encoder_layers; ++i) {
        encoder_.push_back({linear(layer_name("encoder", i, "qkv"), 3 * d, d),
                            linear(layer_name("encoder", i, "output"), d, d),
                            feed_forward("encoder", i)});
        for (const char* part : {"attention_norm", "feed_forward_norm"})
            encoder_norms_.push_back(norm(layer_name("encoder", i, part)));
    }
    for (int i = 0; i < config_.decoder_layers; ++i) {
        const bool own = !config_.recurrent;
        decoder_.push_back(
            {own ? linear(layer_name("decoder", i, "self_qkv"), 3 * d, d) : nullptr,
             own ? linear(layer_name("decoder", i, "self_output"), d, d) : nullptr,
             own ? nullptr : linear(layer_name("decoder", i, "recurrence"), 2 * d, d),
             linear(layer_name("decoder", i, "cross_query"), d, d),
             linear(layer_name("decoder", i, "cross_key_value"), 2 * d, d),
             linear(layer_name("decoder", i, "cross_output"), d, d), feed_forward("decoder", i)});
        for (const char* part : {"self_norm", "cross_norm", "feed_forward_norm"})
            decoder_norms_.push_back(norm(layer_name("decoder", i, part)));
    }
    if (config_.pre_norm) {
        encoder_norms_.push_back(norm("encoder_norm"));
        decoder_norms_.push_back(norm("decoder_norm"));
    }
    if (config_.embedding_norm) {
        encoder_norms_.push_back(norm("encoder_embedding_norm"));
        decoder_norms_.push_back(norm("decoder_embedding_norm"));
    }
    projection_ = linear("projection", config_.vocabulary, d);
    embedding_ = config_.tied ? projection_ : linear("embedding", config_.vocabulary, d);
    source_embedding_ =
        config_.tied ? projection_ : linear("source_embedding", config_.source_vocabulary, d);
    const size_t numbers = static_cast<size_t>(config_.max_length) * d;
    positions_ = vector("positions", numbers);
    decoder_positions_ =
        vectors_.count("decoder_positions") ? vector("decoder_positions", numbers) : positions_;
}

void Engine::reserve(int rows) {
    const size_t d = padded_width(config_.d_model), count = rows;
    for (Buffer* buffer : {&x_, &normed_, &out_, &context_})
        buffer->reserve(count * d * sizeof(float));
    wide_.reserve(count * wide_stride_ * sizeof(float));
    quantized_.reserve(count * wide_stride_ * sizeof(Quantized) + kDepthStep);
    scales_.reserve(count * sizeof(float));
}

Rows Engine::rows(const float* values) const {
    const bool int8 = config_.precision == Precision::Int8;
    return {values, quantized_.as<Quantized>(), scales_.as<float>(),
            int8 ? wide_stride_ : stride(values)};
}

// Quantises a float32 row as input of the next product. In float32 the product reads the row
// itself.
void Engine::quantize_input(int row, const float* values, int features) {
    if (config_.precision == Precision::Float32) return;
    const Timed timed(Work::Quantize);
    quantize_row(values, features, quantized_.as<Quantized>() + row * wide_stride_,
                 scales_.as<float>() + row);
}

void Engine::embed(int row, const Linear& table, const float* positions, int token, int position,
                   const std::vector<Norm>& norms, const Place& at) {
    const int d = config_.d_model;
    float* x = x_.as<float>() + row * padded_width(d);
    if (token < 0) {
        std::memset(x, 0, d * sizeof(float));
    } else {
        table.row(token, x);
        for (int i = 0; i < d; ++i) x[i] *= config_.embedding_scale;
    }
    at.keep(row, AttentionCapture::Embedding, x, d);
    add(x, positions + static_cast<size_t>(position) * d, d);
    if (config_.embedding_norm)
        layer_norm(x, norms.back().gain, norms.back().bias, config_.epsilon, d, x);
    if (config_.pre_norm) {
        float* normed = normed_.as<float>() + row * padded_width(d);
        layer_norm(x, norms[0].gain, norms[0].bias, config_.epsilon, d, normed);
        quantize_input(row, normed, d);
    } else {
        quantize_input(row, x, d);
    }
}

void Engine::apply(PoolThread& thread, const Linear& linear, const Rows& input, RowRange range,
                   float* out) {
    // Rows per task: enough to reuse the panel, few enough to balance the threads.
    constexpr int kRows = 128, kAtLeast = std::max(12, 2 * kMatrixRows);
    const int wanted = 4 * pool_.size(), panels = linear.panels(), rows = range.last - range.first;
    const int split =
        std::max((rows + kRows - 1) / kRows,
                 std::min((wanted + panels - 1) / panels, (rows + kAtLeast - 1) / kAtLeast));
    const int height = (rows + split - 1) / split, chunks = (rows + height - 1) / height;
    const size_t width = stride(out);
    const Timed timed(Work::Products);
    thread.parallel_for(panels * chunks, [&](int task) {
        const int panel = task / chunks, first = range.first + task % chunks * height;
        linear.panel(input, panel, panel + pool_.size(), first,
                     std::min(range.last, first + height), out + first * width + panel * kPanel,
                     width);
    });
}

// Adds the sublayer's output and normalises: in place (post-norm) or as input of the next sublayer
// (pre-norm).
void Engine::add_norm(int row, const Norm& norm, const Place& at, AttentionCapture::Tensor output) {
    const int d = config_.d_model;
    float* x = x_.as<float>() + row * padded_width(d);
    float* normed = config_.pre_norm ? normed_.as<float>() + row * padded_width(d) : x;
    const float* added = out_.as<float>() + row * padded_width(d);
    {
        const Timed timed(Work::Norms);
        add(x, added, d);
        layer_norm(x, norm.gain, norm.bias, config_.epsilon, d, normed);
    }
    quantize_input(row, normed, d);
    at.keep(row, output, added, d);
    at.keep(row, output + 1, normed, d);
}

void Engine::keep_input(int row, const Place& at) const {
    const int d = config_.d_model;
    at.keep(row, AttentionCapture::Stream, x_.as<float>() + row * padded_width(d), d);
    at.keep(row, AttentionCapture::Input, sublayer_input().values + row * padded_width(d), d);
}

void Engine::feed_forward(PoolThread& thread, const FeedForward& layer, RowRange range,
                          const Norm& norm, const Place& at) {
    const int inner = config_.d_ff;
    const bool fused =
        config_.precision == Precision::Int8 && config_.activation == Activation::Relu;
    apply(thread, *layer.inner, sublayer_input(), range, wide_.as<float>());
    thread.parallel_for(range, [&](int row) {
        float* values = wide_.as<float>() + row * wide_stride_;
        at.keep(row, AttentionCapture::Inner, values, inner);
        const Timed timed(Work::Quantize);
        if (fused) {
            relu_quantize_row(values, inner, quantized_.as<Quantized>() + row * wide_stride_,
                              scales_.as<float>() + row);
        } else {
            activate(config_.activation, values, inner);
            quantize_input(row, values, inner);
        }
    });
    Rows input = rows(wide_.as<float>());
    input.nonnegative = fused;
    apply(thread, *layer.outer, input, range, out_.as<float>());
    thread.parallel_for(range, [&](int row) { add_norm(row, norm, at, AttentionCapture::Outer); });
}

Engine::Slot& Engine::slot(int index) {
    if (index < 0 || index >= config_.slots)
        throw std::invalid_argument("slot " + std::to_string(index) + " does not exist");
    return slots_[index];
}

int Engine::new_source() {
    if (free_sources_.empty()) {
        free_sources_.push_back(static_cast<int>(sources_.size()));
        sources_.emplace_back();
    }
    const int source = free_sources_.back();
    free_sources_.pop_back();
    return source;
}

void Engine::release_source(int source) {
    if (source < 0 || --sources_[source].references > 0) return;
    for (int page : sources_[source].pages) pages_.release(page);
    sources_[source] = Source();
    free_sources_.push_back(source);
}

void Engine::clear(Slot& slot) {
    for (int page : slot.pages) pages_.release(page);
    release_source(slot.source);
    slot = Slot();
}

void Engine::free(int count, const int32_t* slots) {
    for (int i = 0; i < count; ++i) slot(slots[i]);
    for (int i = 0; i < count; ++i) clear(slots_[slots[i]]);
}

void Engine::reorder(int count, const int32_t* targets, const int32_t* origins) {
    std::vector<Slot> moved;
    moved.reserve(count);
    for (int i = 0; i < count; ++i) {
        slot(targets[i]);
        moved.push_back(slot(origins[i]));
    }
    for (const Slot& copy : moved) {
        for (int page : copy.pages) pages_.retain(page);
        if (copy.source >= 0) ++sources_[copy.source].references;
    }
    for (int i = 0; i < count; ++i) {
        clear(slots_[targets[i]]);
        slots_[targets[i]] = std::move(moved[i]);
    }
}

}  // namespace attentive

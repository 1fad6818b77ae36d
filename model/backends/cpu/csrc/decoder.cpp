// Engine, second half: one token for every row of a step, and the choice of candidates for the next one.
#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>

#include "engine.h"

namespace attentive {

namespace {
size_t width(int features) { return static_cast<size_t>((features + kPanel - 1) / kPanel) * kPanel; }
}  // namespace

void Engine::step(int count, const int32_t* slots, const int32_t* tokens, int candidates, const int32_t* forced, int32_t* ids,
                  float* scores, float* forced_scores, const Watch* watch) {
    open_step(count, slots, tokens);
    if (watch && (count != 1 || step_rows_[0].source_length != watch->source || step_rows_[0].position >= watch->queries)) {
        throw std::invalid_argument("a watched step has one row, within what was made ready for it");
    }
    advance(count, candidates, forced, ids, scores, forced_scores, watch);
    for (int i = 0; i < count; ++i) ++slots_[slots[i]].length;
}

// Runs the rows that were opened through the decoder and chooses their candidates.
void Engine::advance(int count, int candidates, const int32_t* forced, int32_t* ids, float* scores, float* forced_scores, const Watch* watch) {
    reserve(count);
    const size_t needed = std::max<size_t>(config_.max_length + kPage, static_cast<size_t>(count) * kPanel);
    for (Buffer& scratch : scratch_) scratch.reserve(needed * sizeof(float));
    choice_.begin(count, config_.vocabulary, candidates, forced, team_.size());
    team_.run(3 + (watch ? 13 : 12) * config_.decoder_layers, [&](Member& member) {
        decode(member, count, watch);
        choose(member, count, ids, scores, forced_scores);
    });
}

void Engine::burst(int count, const int32_t* slots, const int32_t* tokens, int steps, int32_t end, int32_t* ids, float* scores) {
    std::vector<int> live(count);
    std::iota(live.begin(), live.end(), 0);
    std::vector<int32_t> where(slots, slots + count), read(tokens, tokens + count), chosen(count);
    const std::vector<int32_t> none(count, -1);
    std::vector<float> found(count), unused(count);
    std::fill_n(ids, static_cast<size_t>(steps) * count, end);
    std::fill_n(scores, static_cast<size_t>(steps) * count, 0.0f);
    for (int at = 0; at < steps && !live.empty(); ++at, ids += count, scores += count) {
        const int rows = static_cast<int>(live.size());
        step(rows, where.data(), read.data(), 1, none.data(), chosen.data(), found.data(), unused.data());
        int kept = 0;
        for (int i = 0; i < rows; ++i) {
            ids[live[i]] = chosen[i];
            scores[live[i]] = found[i];
            if (chosen[i] == end) continue;
            live[kept] = live[i];
            where[kept] = where[i];
            read[kept++] = chosen[i];
        }
        live.resize(kept);
    }
}

// Checks the rows, gives each a page to write to, and collects where its keys and values lie.
void Engine::open_step(int count, const int32_t* slots, const int32_t* tokens) {
    std::vector<char> seen(config_.slots, 0);
    for (int i = 0; i < count; ++i) {
        const Slot& held = slot(slots[i]);
        if (held.source < 0) throw std::invalid_argument("slot " + std::to_string(slots[i]) + " holds no sentence");
        if (held.length >= config_.max_length) throw std::invalid_argument("slot " + std::to_string(slots[i]) + " is full");
        check_token(tokens[i]);
        if (seen[slots[i]]++) throw std::invalid_argument("slot " + std::to_string(slots[i]) + " is in the step twice");
    }
    step_rows_.clear();
    step_pages_.clear();
    for (int i = 0; i < count; ++i) {
        Slot& held = slots_[slots[i]];
        if (static_cast<int>(held.pages.size()) * kPage <= held.length) {
            held.pages.push_back(pages_.take());
        } else {
            held.pages.back() = pages_.writable(held.pages.back());
        }
        const Source& source = sources_[held.source];
        const int token = config_.zero_start && held.length == 0 ? -1 : tokens[i];
        const size_t first = step_pages_.size();
        step_rows_.push_back({token, held.length, source.length, first, first + held.pages.size(),
                              held.masked.empty() ? nullptr : held.masked.data()});
        for (int page : held.pages) step_pages_.push_back(pages_.at(page));
        for (int page : source.pages) step_pages_.push_back(pages_.at(page));
    }
}

void Engine::check_token(int32_t token) const {
    if (token < 0 || token >= config_.vocabulary) throw std::invalid_argument("a token is outside the vocabulary");
}

// Switches heads off: what they found is forgotten.
void Engine::mute(const uint8_t* masked, float* context) const {
    for (int head = 0; head < config_.heads; ++head) {
        if (masked[head]) std::fill_n(context + head * shape_.dim, shape_.dim, 0.0f);
    }
}

void Engine::write_self(int row, int layer) {
    const StepRow& current = step_rows_[row];
    const int d = config_.d_model;
    const float* key = wide_.as<float>() + row * width(3 * d) + d;
    char* page = const_cast<char*>(step_pages_[current.self_pages + current.position / kPage]);
    write_position(shape_, layout_, page + layer * layout_.layer_bytes, current.position % kPage, key, key + d);
}

void Engine::attend_self(int row, int layer, int member, const Watch* watch) {
    const StepRow& current = step_rows_[row];
    const int d = config_.d_model, dim = shape_.dim;
    const float* query = wide_.as<float>() + row * width(3 * d);
    float* context = context_.as<float>() + row * width(d);
    attend_pages(shape_, layout_, &step_pages_[current.self_pages], layer * layout_.layer_bytes, current.position + 1, query,
                 scratch_[member].as<float>(), context, watch ? watch->decoder_row(layer * config_.heads, current.position) : nullptr,
                 watch ? watch->decoder_map() : 0);
    if (current.masked) mute(current.masked + layer * config_.heads, context);
    if (watch && watch->wants(Watch::Decoder, layer)) std::copy_n(query + watch->head * dim, dim, watch->query + current.position * dim);
    feed(row, context, d);
}

void Engine::attend_cross(int row, int layer, int member, const Watch* watch) {
    const StepRow& current = step_rows_[row];
    const int d = config_.d_model, dim = shape_.dim;
    const float* query = wide_.as<float>() + row * width(d);
    float* context = context_.as<float>() + row * width(d);
    attend_pages(shape_, layout_, &step_pages_[current.cross_pages], layer * layout_.layer_bytes, current.source_length, query,
                 scratch_[member].as<float>(), context, watch ? watch->cross_row(layer * config_.heads, current.position) : nullptr,
                 watch ? watch->cross_map() : 0);
    if (current.masked) mute(current.masked + (config_.decoder_layers + layer) * config_.heads, context);
    if (watch && watch->wants(Watch::Cross, layer)) std::copy_n(query + watch->head * dim, dim, watch->query + current.position * dim);
    feed(row, context, d);
}

// Rows of one slot (a watched target) read each other's keys, so all are written before the first is read.
void Engine::decode(Member& member, int count, const Watch* watch) {
    const int d = config_.d_model;
    member.each(count, [&](int row) {
        embed(row, *embedding_, step_rows_[row].token, step_rows_[row].position, decoder_norms_[0]);
    });
    for (int index = 0; index < config_.decoder_layers; ++index) {
        const DecoderLayer& layer = decoder_[index];
        const Norm* norms = &decoder_norms_[3 * index + config_.pre_norm];
        apply(member, *layer.self_qkv, residual_rows(), count, wide_.as<float>());
        if (watch) member.each(count, [&](int row) { write_self(row, index); });
        member.each(count, [&](int row) {
            if (!watch) write_self(row, index);
            attend_self(row, index, member.index, watch);
        });
        apply(member, *layer.self_output, rows(context_.as<float>(), d), count, out_.as<float>());
        member.each(count, [&](int row) { residual(row, norms[0]); });
        apply(member, *layer.cross_query, residual_rows(), count, wide_.as<float>());
        member.each(count, [&](int row) { attend_cross(row, index, member.index, watch); });
        apply(member, *layer.cross_output, rows(context_.as<float>(), d), count, out_.as<float>());
        member.each(count, [&](int row) { residual(row, norms[1]); });
        feed_forward(member, layer.feed_forward, count, norms[2]);
    }
}

void Engine::choose(Member& member, int count, int32_t* ids, float* scores, float* forced_scores) {
    constexpr int kRows = 24;  // logits of this many rows stay in the first-level cache until they are looked at
    const Rows input = residual_rows();
    member.each(projection_->panels(), [&](int panel) {
        float* logits = scratch_[member.index].as<float>();
        for (int first = 0; first < count; first += kRows) {
            const int last = std::min(count, first + kRows);
            const int next = first ? projection_->panels() : panel + team_.size();  // ask for it once
            projection_->panel(input, panel, next, first, last, logits, kPanel);
            for (int row = first; row < last; ++row) choice_.take(member.index, row, panel, logits + (row - first) * kPanel);
        }
    });
    const int candidates = choice_.candidates();
    member.each(count, [&](int row) {
        choice_.finish(row, ids + static_cast<size_t>(row) * candidates, scores + static_cast<size_t>(row) * candidates, forced_scores + row);
    });
}

}  // namespace attentive

// Engine, decoder: one token for every row of a step, and the candidates for the next one. A row is
// one position of a slot.
#include <algorithm>
#include <numeric>
#include <string>

#include "engine/engine.h"

namespace attentive {

void Engine::step(int count, const int32_t* slots, const int32_t* tokens, int candidates,
                  const int32_t* forced, int32_t* ids, float* scores, float* forced_scores,
                  const AttentionCapture* capture) {
    prepare_step(count, slots, nullptr, tokens);
    fail_if(capture && (count != 1 || step_rows_[0].source_length != capture->source ||
                        step_rows_[0].position >= capture->queries),
            "a step with attention capture needs one row that fits its arrays");
    step_rows_[0].capture = capture;
    run_step(count, candidates, forced, ids, scores, forced_scores, capture);
    for (int i = 0; i < count; ++i) ++slots_[slots[i]].length;
}

void Engine::forced_steps(int count, const int32_t* slots, const int32_t* lengths,
                          const int32_t* tokens, const int32_t* forced, float* forced_scores) {
    constexpr int kRows = 512;  // in one pass: bounds memory and keeps a layer's rows in the cache
    for (int first = 0, last; first < count; first = last) {
        int rows = lengths[first];
        for (last = first + 1; last < count && rows + lengths[last] <= kRows; ++last)
            rows += lengths[last];
        prepare_step(last - first, slots + first, lengths + first, tokens);
        std::vector<int32_t> ids(rows);
        std::vector<float> scores(rows);
        run_step(rows, 1, forced, ids.data(), scores.data(), forced_scores, nullptr);
        for (int i = first; i < last; ++i) slots_[slots[i]].length += lengths[i];
        tokens += rows;
        forced += rows;
        forced_scores += rows;
    }
}

// Runs the prepared rows through the decoder and selects their candidates.
void Engine::run_step(int count, int candidates, const int32_t* forced, int32_t* ids, float* scores,
                      float* forced_scores, const AttentionCapture* capture) {
    reserve(count);
    const size_t needed =
        std::max<size_t>(config_.max_length + kPage, static_cast<size_t>(count) * kPanel);
    for (Buffer& scratch : scratch_) scratch.reserve(needed * sizeof(float));
    top_k_.begin(count, config_.vocabulary, candidates, forced, pool_.size());
    for (int row = 0; row < count; ++row) {
        int first_panel = 0;
        for (const Restriction* part : step_rows_[row].restrictions) {
            if (!part) continue;
            top_k_.restrict(row, first_panel, part->allowed.data(), part->projection.out());
            first_panel += part->projection.panels();
        }
    }
    group_rows(count);
    const bool scored = !capture || capture->scored;
    const int threads = pool_.size();
    const bool alone = kThreadRows && count >= threads * kThreadRows && !config_.recurrent &&
                       !capture && step_rows_.size() < first_rows_.size();  // one row a slot
    pool_.run([&](PoolThread& thread) {
        if (alone) {
            thread.parallel_alone(threads, [&](int part) {
                decode(thread, {count * part / threads, count * (part + 1) / threads}, nullptr);
            });
        } else {
            decode(thread, {0, count}, capture);
        }
        if (scored) select_candidates(thread, count, ids, scores, forced_scores);
    });
}

// Collects rows that follow each other and have the same common tokens, or the same own ones, for
// select_candidates.
void Engine::group_rows(int count) {
    row_groups_.clear();
    group_tasks_ = 0;
    for (const int part : {0, 1}) {
        const Linear* before = nullptr;
        for (int row = 0; row < count; ++row) {
            const auto& [common, own] = step_rows_[row].restrictions;
            const Restriction* restriction = part ? own : common;
            const Linear* projection = restriction         ? &restriction->projection
                                       : part == 0 && !own ? projection_
                                                           : nullptr;
            if (projection && projection == before) {
                row_groups_.back().last_row = row + 1;
            } else if (projection) {
                row_groups_.push_back({row, row + 1, group_tasks_,
                                       part && common ? common->projection.panels() : 0,
                                       projection});
                group_tasks_ += projection->panels();
            }
            before = projection;
        }
    }
}

Engine::Restriction Engine::restriction(const int32_t* tokens, int count, Arena* arena) {
    projection_->keep_rows();
    for (int i = 0; i < count; ++i) {
        check_token(tokens[i]);
        fail_if(i && tokens[i] <= tokens[i - 1], "allowed tokens must ascend");
    }
    return {std::vector<int32_t>(tokens, tokens + count),
            Linear(*projection_, tokens, count, arena)};
}

void Engine::add_common(const int32_t* tokens, int count) {
    fail_if(count < 1, "a common list needs at least one token");
    common_.push_back(restriction(tokens, count, &arena_));
}

void Engine::restrict(int index, int common, const int32_t* own, int count) {
    const Slot& held = slot(index);
    if (held.source < 0)
        throw std::invalid_argument("slot " + std::to_string(index) + " holds no sentence");
    restrict(sources_[held.source], common, own, count);
}

void Engine::restrict(Source& source, int common, const int32_t* own, int count) {
    if (common >= static_cast<int>(common_.size()))
        throw std::invalid_argument("there is no common list " + std::to_string(common));
    fail_if(common < 0 && count < 1, "a sentence needs at least one allowed token");
    const Restriction* shared = common < 0 ? nullptr : &common_[common];
    for (int i = 0; shared && i < count; ++i)
        fail_if(std::binary_search(shared->allowed.begin(), shared->allowed.end(), own[i]),
                "a token is allowed twice");
    source.own = count ? std::make_shared<const Restriction>(restriction(own, count)) : nullptr;
    source.common = shared;
}

void Engine::multi_step(int count, const int32_t* slots, const int32_t* tokens, int steps,
                        int32_t end, const std::vector<int32_t>& forbidden, int32_t* ids,
                        float* scores) {
    const int candidates = 1 + static_cast<int>(forbidden.size());
    std::vector<int> live(count);
    std::iota(live.begin(), live.end(), 0);
    std::vector<int32_t> where(slots, slots + count), read(tokens, tokens + count),
        chosen(count * candidates);
    const std::vector<int32_t> none(count, -1);
    std::vector<float> found(count * candidates), unused(count);
    std::fill_n(ids, static_cast<size_t>(steps) * count, end);
    std::fill_n(scores, static_cast<size_t>(steps) * count, 0.0f);
    for (int at = 0; at < steps && !live.empty(); ++at, ids += count, scores += count) {
        const int rows = static_cast<int>(live.size());
        step(rows, where.data(), read.data(), candidates, none.data(), chosen.data(), found.data(),
             unused.data());
        int kept = 0;
        for (int i = 0; i < rows; ++i) {
            int best = i * candidates;
            const int last =
                best + candidates - 1;  // of a row of NaN every candidate may be forbidden
            while (best < last &&
                   std::find(forbidden.begin(), forbidden.end(), chosen[best]) != forbidden.end())
                ++best;
            ids[live[i]] = chosen[best];
            scores[live[i]] = found[best];
            if (chosen[best] == end) continue;
            live[kept] = live[i];
            where[kept] = where[i];
            read[kept++] = chosen[best];
        }
        live.resize(kept);
    }
}

// Checks the rows, allocates the pages they write to, and collects the addresses of their pages.
// lengths: null for one token each.
void Engine::prepare_step(int count, const int32_t* slots, const int32_t* lengths,
                          const int32_t* tokens) {
    std::vector<char> seen(config_.slots, 0);
    const int32_t* token = tokens;
    for (int i = 0; i < count; ++i) {
        const Slot& held = slot(slots[i]);
        const int length = lengths ? lengths[i] : 1;
        if (held.source < 0)
            throw std::invalid_argument("slot " + std::to_string(slots[i]) + " holds no sentence");
        if (length < 1 || held.length + length > config_.max_length)
            throw std::invalid_argument("slot " + std::to_string(slots[i]) + " is full");
        for (int j = 0; j < length; ++j) check_token(*token++);
        if (seen[slots[i]]++)
            throw std::invalid_argument("slot " + std::to_string(slots[i]) +
                                        " is in the step twice");
    }
    clear_step_rows();
    for (int i = 0; i < count; ++i) {
        const int length = lengths ? lengths[i] : 1;
        add_step_rows(slots_[slots[i]], length, tokens);
        tokens += length;
    }
}

void Engine::clear_step_rows() {
    step_rows_.clear();
    step_pages_.clear();
    first_rows_.assign(1, 0);
}

// Adds one row for each of the next `count` positions of a slot. All rows read the slot's pages,
// each up to its own position.
void Engine::add_step_rows(Slot& held, int count, const int32_t* tokens,
                           const AttentionCapture* capture) {
    if (config_.recurrent) {
        if (held.length == 0)
            held.state.assign(static_cast<size_t>(config_.decoder_layers) * config_.d_model, 0.0f);
    } else {
        if (held.length % kPage) held.pages.back() = pages_.writable(held.pages.back());
        while (static_cast<int>(held.pages.size()) * kPage < held.length + count)
            held.pages.push_back(pages_.allocate());
    }
    const Source& source = sources_[held.source];
    const size_t first = step_pages_.size();
    for (int i = 0; i < count; ++i) {
        const int position = held.length + i,
                  token = config_.zero_start && position == 0 ? -1 : tokens[i];
        step_rows_.push_back({token,
                              position,
                              source.length,
                              first,
                              first + held.pages.size(),
                              held.state.data(),
                              held.masked.empty() ? nullptr : held.masked.data(),
                              {source.common, source.own.get()},
                              capture});
    }
    first_rows_.push_back(static_cast<int>(step_rows_.size()));
    for (int page : held.pages) step_pages_.push_back(pages_.at(page));
    for (int page : source.pages) step_pages_.push_back(pages_.at(page));
}

void Engine::check_token(int32_t token) const {
    fail_if(token < 0 || token >= config_.vocabulary, "a token is outside the vocabulary");
}

// Sets the output of masked heads to 0.
void Engine::mask_heads(const uint8_t* masked, float* context) const {
    for (int head = 0; head < config_.heads; ++head)
        if (masked[head]) std::fill_n(context + head * shape_.dim, shape_.dim, 0.0f);
}

void Engine::write_self(int row, int layer) {
    const Timed timed(Work::Write);
    const StepRow& current = step_rows_[row];
    const int d = config_.d_model;
    const float* key = wide_.as<float>() + row * wide_stride_ + d;
    char* page = const_cast<char*>(step_pages_[current.self_pages + current.position / kPage]);
    write_position(shape_, layout_, page + layer * layout_.layer_bytes, current.position % kPage,
                   key, key + d);
}

// Self-attention of one row, or its cross-attention.
void Engine::attend(int row, int layer, int thread, bool cross) {
    const Timed timed(Work::Attention);
    const StepRow& current = step_rows_[row];
    const AttentionCapture* capture = current.capture;
    const int d = config_.d_model, dim = shape_.dim, heads = config_.heads;
    const float* query = wide_.as<float>() + row * wide_stride_;
    float* context = context_.as<float>() + row * padded_width(d);
    float* maps = !capture ? nullptr
                  : cross  ? capture->cross_row(layer, heads, current.position)
                           : capture->decoder_row(layer, heads, current.position);
    const size_t map = !capture ? 0 : cross ? capture->cross_map() : capture->decoder_map();
    attend_pages(shape_, layout_, &step_pages_[cross ? current.cross_pages : current.self_pages],
                 layer * layout_.layer_bytes, cross ? current.source_length : current.position + 1,
                 query, scratch_[thread].as<float>(), context, maps, map);
    if (current.masked)
        mask_heads(current.masked + (cross * config_.decoder_layers + layer) * heads, context);
    if (capture &&
        capture->captures(cross ? AttentionCapture::Cross : AttentionCapture::Decoder, layer))
        std::copy_n(query + capture->head * dim, dim, capture->query + current.position * dim);
    quantize_input(row, context, d);
}

void Engine::self_attention(PoolThread& thread, RowRange range, const Norm& norm, const Place& at) {
    const DecoderLayer& layer = decoder_[at.layer];
    apply(thread, *layer.self_qkv, sublayer_input(), range, wide_.as<float>());
    const bool several = step_rows_.size() >= first_rows_.size();  // rows of one slot share keys
    if (several) thread.parallel_for(range, [&](int row) { write_self(row, at.layer); });
    thread.parallel_for(range, [&](int row) {
        if (!several) write_self(row, at.layer);
        attend(row, at.layer, thread.index, false);
        keep_input(row, at);
        at.keep(row, AttentionCapture::SelfContext,
                context_.as<float>() + row * padded_width(config_.d_model), config_.d_model);
    });
    apply(thread, *layer.self_output, rows(context_.as<float>()), range, out_.as<float>());
    thread.parallel_for(range,
                        [&](int row) { add_norm(row, norm, at, AttentionCapture::SelfOutput); });
}

// The rows of one slot are in order: each continues from the state of the row before.
void Engine::recurrence(PoolThread& thread, RowRange range, const Norm& norm, const Place& at) {
    const int d = config_.d_model, index = at.layer;
    apply(thread, *decoder_[index].recurrence, sublayer_input(), range, wide_.as<float>());
    thread.parallel_for(static_cast<int>(first_rows_.size()) - 1, [&](int slot) {
        for (int row = first_rows_[slot]; row < first_rows_[slot + 1]; ++row) {
            const float* input = wide_.as<float>() + row * wide_stride_;
            advance_state(input, input + d, d,
                          step_rows_[row].state + static_cast<size_t>(index) * d,
                          out_.as<float>() + row * padded_width(d));
            if (const AttentionCapture* capture = step_rows_[row].capture)
                capture->forget_gates[index * capture->queries + step_rows_[row].position] =
                    mean_sigmoid(input + d, d);
            keep_input(row, at);
            add_norm(row, norm, at, AttentionCapture::SelfOutput);
        }
    });
}

void Engine::decode(PoolThread& thread, RowRange range, const AttentionCapture* capture) {
    const int d = config_.d_model;
    thread.parallel_for(range, [&](int row) {
        const StepRow& current = step_rows_[row];
        embed(row, *embedding_, decoder_positions_, current.token, current.position, decoder_norms_,
              {capture, AttentionCapture::Decoder, 0});
    });
    const int depth = capture ? capture->depth : config_.decoder_layers;
    for (int index = 0; index < depth; ++index) {
        const DecoderLayer& layer = decoder_[index];
        const Norm* norms = &decoder_norms_[3 * index + config_.pre_norm];
        const Place at{capture, AttentionCapture::Decoder, index};
        if (config_.recurrent)
            recurrence(thread, range, norms[0], at);
        else
            self_attention(thread, range, norms[0], at);
        apply(thread, *layer.cross_query, sublayer_input(), range, wide_.as<float>());
        thread.parallel_for(range, [&](int row) {
            attend(row, index, thread.index, true);
            at.keep(row, AttentionCapture::CrossContext,
                    context_.as<float>() + row * padded_width(d), d);
        });
        if (index + 1 == depth && capture && !capture->scored) return;
        apply(thread, *layer.cross_output, rows(context_.as<float>()), range, out_.as<float>());
        thread.parallel_for(
            range, [&](int row) { add_norm(row, norms[1], at, AttentionCapture::CrossOutput); });
        feed_forward(thread, layer.feed_forward, range, norms[2], at);
    }
}

void Engine::select_candidates(PoolThread& thread, int count, int32_t* ids, float* scores,
                               float* forced_scores) {
    constexpr int kRows =
        std::max(24, 2 * kMatrixRows);  // the logits of this many rows fit into the L1 cache
    const Rows input = sublayer_input();
    const auto project = [&](int panel, const RowGroup& group) {
        const Linear& projection = *group.projection;
        const Timed timed(Work::Products);
        float* logits = scratch_[thread.index].as<float>();
        for (int first = group.first_row; first < group.last_row; first += kRows) {
            const int last = std::min(group.last_row, first + kRows);
            const int next = first > group.first_row ? projection.panels()
                                                     : panel + pool_.size();  // prefetch once
            projection.panel(input, panel, next, first, last, logits, kPanel);
            const Timed within(Work::TopK);
            top_k_.add_panel(thread.index, first, last, group.first_panel + panel, logits);
        }
    };
    thread.parallel_for(group_tasks_, [&](int task) {
        const auto after =
            std::upper_bound(row_groups_.begin(), row_groups_.end(), task,
                             [](int at, const RowGroup& group) { return at < group.first_task; });
        project(task - (after - 1)->first_task, *(after - 1));
    });
    const int candidates = top_k_.candidates();
    thread.parallel_for(count, [&](int row) {
        const Timed timed(Work::TopK);
        top_k_.finish(row, ids + static_cast<size_t>(row) * candidates,
                      scores + static_cast<size_t>(row) * candidates, forced_scores + row);
    });
}

}  // namespace attentive

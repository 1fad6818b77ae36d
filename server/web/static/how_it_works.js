// The panel "How it works": the model drawn from its config, positions, the mask, and one head with its numbers.
"use strict";
const HowItWorks = (() => {
  const { el, svg, percent } = Views;

  /** Shows the panel. `model` is an entry of GET /model, `result` the attention of the current sentence; `vectors(kind, layer, head)` fetches vectors. */
  function show(host, model, result, vectors) {
    const c = model.config, S = result.source.pieces.length, T = result.target.pieces.length;
    const drawing = el("div", { class: "drawing card" }), wave = el("div"), curve = el("div", { class: "drawing" }), mask = el("div"), head = el("div");
    host.replaceChildren(
      el("h2", {}, "The model"), el("p", { class: "note" }, `Drawn from its own configuration, with the shapes of this sentence: ${S} source pieces, ${T} target pieces, end of sentence included.`), drawing,
      el("h2", {}, "Positions"), el("p", {}, POSITIONS[c.positions]), el("div", { class: "split even" }, el("div", { class: "card" }, wave), el("div", { class: "card" }, curve)),
      el("h2", {}, "The mask"), el("p", {}, `While it writes, the decoder may look at what is already there, never ahead: the softmax gets −∞ above the diagonal${c.window ? `, and beyond ${c.window} places` : ""}.`), el("div", { class: "card narrow" }, mask),
      el("h2", {}, "One head, step by step"), el("p", {}, "Attention(Q, K, V) = softmax(QKᵀ / √dₖ) V, with the numbers of this sentence."), head);
    drawing.append(architecture(c, S, T));
    positions(wave, curve, c, Math.max(S, T, 24));
    const read = result.decoder_input.pieces;
    const seen = (q, k) => k <= q && (!c.window || q - k <= c.window);
    Views.heat(mask, { rows: T, columns: T, data: Float32Array.from({ length: T * T }, (_, i) => (seen(Math.floor(i / T), i % T) ? 1 : 0)), queries: result.target.pieces, keys: read },
      { label: "Mask of the decoder", format: (x) => (x ? "may look" : "masked, −∞"), verb: "→" });
    oneHead(head, c, result, vectors);
  }
  const POSITIONS = {
    sinusoidal: "Every position gets a vector of sines and cosines of different wavelengths. The product of two of them depends on their distance only, so the model can compute how far apart two words are.",
    sinusoidal_half: "Every position gets a vector: the first half sines, the second half cosines of different wavelengths. The product of two of them depends on their distance only.",
    learned: "This model learned a vector for every position; they are weights, not a formula.",
    rotary: "Queries and keys are rotated by an angle that grows with the position: their product depends on the distance only.",
    alibi: "No position vectors: every head subtracts a penalty from its scores that grows with the distance, each with a slope of its own.",
  };

  // -- architecture -------------------------------------------------------------------------------------------------
  function architecture(c, S, T) {
    const W = 250, gap = 70, left = 20, right = left + W + gap;
    const pre = c.norm === "pre";
    const encoder = [["e", "Embedding" + (c.scale_embeddings ? ` × √${c.d_model}` : ""), `${c.source_vocab_size || c.vocab_size} pieces → (${S}, ${c.d_model})`], ["e", `+ ${c.positions} positions`, `(${S}, ${c.d_model})`],
      ["a", `Self-attention, ${c.heads} heads`, `weights (${c.heads}, ${S}, ${S}), dₖ = ${c.head_dim}`], ["n", pre ? "Add" : "Add & Norm", `(${S}, ${c.d_model})`], ["f", `Feed-forward, ${c.activation}`, `${c.d_model} → ${c.d_ff} → ${c.d_model}`], ["n", pre ? "Add" : "Add & Norm", `(${S}, ${c.d_model})`]];
    const decoder = [["e", "Embedding" + (c.scale_embeddings ? ` × √${c.d_model}` : ""), `start + written → (${T}, ${c.d_model})`], ["e", `+ ${c.positions} positions`, `(${T}, ${c.d_model})`],
      ["a", `Masked self-attention, ${c.heads} heads`, `weights (${c.heads}, ${T}, ${T})`], ["n", pre ? "Add" : "Add & Norm", `(${T}, ${c.d_model})`], ["a", `Cross-attention, ${c.heads} heads`, `weights (${c.heads}, ${T}, ${S})`], ["n", pre ? "Add" : "Add & Norm", `(${T}, ${c.d_model})`],
      ["f", `Feed-forward, ${c.activation}`, `${c.d_model} → ${c.d_ff} → ${c.d_model}`], ["n", pre ? "Add" : "Add & Norm", `(${T}, ${c.d_model})`], ["e", "Linear & softmax" + (c.tied_embeddings ? " (tied)" : ""), `(${T}, ${c.vocab_size})`]];
    const H = 48, height = decoder.length * H + 50;
    const drawing = svg("svg", { width: right + W + 90, height, viewBox: `0 0 ${right + W + 90} ${height}`, role: "img", "aria-label": `Encoder with ${c.encoder_layers} layers and decoder with ${c.decoder_layers} layers` });
    const y = (i) => height - 28 - (i + 1) * H;
    const stack = (blocks, x, from, to, layers) => {
      drawing.append(svg("rect", { x: x - 9, y: y(to) - 7, width: W + 18, height: (to - from + 1) * H + 6, rx: 14, class: "flow", "stroke-dasharray": "5 4" }),
        svg("text", { x: x + W + 16, y: y((from + to) / 2) + 22 }, `× ${layers}`));
      blocks.forEach(([kind, name, shape], i) => {
        if (i) drawing.append(svg("path", { class: "flow", d: `M${x + W / 2} ${y(i - 1)}V${y(i) + 36}` }));
        drawing.append(svg("rect", { x, y: y(i), width: W, height: 36, rx: 9, class: "box " + kind }), svg("text", { x: x + 12, y: y(i) + 15 }, name), svg("text", { x: x + 12, y: y(i) + 30, class: "soft" }, shape));
      });
    };
    stack(encoder, left, 2, 5, c.encoder_layers);
    stack(decoder, right, 2, 7, c.decoder_layers);
    const from = y(5), to = y(4) + 18;
    drawing.append(svg("path", { class: "flow", d: `M${left + W / 2} ${from}V${from - 22}H${right - 38}V${to}H${right}` }), svg("text", { x: left + W / 2 + 8, y: from - 28, class: "soft" }, `memory (${S}, ${c.d_model})`),
      svg("text", { x: left, y: height - 8 }, "Source"), svg("text", { x: right, y: height - 8 }, "Translation, shifted right"));
    return drawing;
  }

  // -- positions ----------------------------------------------------------------------------------------------------
  function sinusoids(n, d, half) {
    const data = new Float32Array(n * d);
    for (let p = 0; p < n; p++) for (let i = 0; i < d / 2; i++) {
      const angle = p / 10000 ** (half && d > 2 ? i / (d / 2 - 1) : (2 * i) / d);
      data[p * d + (half ? i : 2 * i)] = Math.sin(angle);
      data[p * d + (half ? d / 2 + i : 2 * i + 1)] = Math.cos(angle);
    }
    return data;
  }
  function positions(wave, curve, c, n) {
    if (c.positions === "alibi") {
      const slopes = Array.from({ length: c.heads }, (_, h) => 2 ** ((-8 * (h + 1)) / c.heads));
      wave.append(el("p", { class: "note" }, "slopes by head: " + slopes.map((s) => s.toFixed(3)).join(", ")));
      return chart(curve, slopes.map((slope) => Array.from({ length: n }, (_, k) => -slope * k)), "penalty by distance");
    }
    if (!c.positions.startsWith("sinusoidal")) {
      wave.append(el("p", { class: "note" }, "Nothing to draw without the weights."));
      return curve.append(el("p", { class: "note" }, `At most ${c.max_length} positions.`));
    }
    const d = c.d_model, all = sinusoids(n, d, c.positions === "sinusoidal_half"), shown = Math.min(d, 64), stride = d / shown;
    const data = new Float32Array(n * shown);
    for (let p = 0; p < n; p++) for (let i = 0; i < shown; i++) data[p * shown + i] = (all[p * d + Math.floor(i * stride)] + 1) / 2;
    Views.heat(wave, { rows: n, columns: shown, data, queries: Array.from({ length: n }, (_, p) => String(p)), keys: Array.from({ length: shown }, (_, i) => String(Math.floor(i * stride))) },
      { top: 1, label: "Positional encodings", format: (x) => (2 * x - 1).toFixed(2), verb: "dimension" });
    const middle = Math.floor(n / 2), dots = [];
    for (let p = 0; p < n; p++) {
      let sum = 0;
      for (let i = 0; i < d; i++) sum += all[p * d + i] * all[middle * d + i];
      dots.push(sum);
    }
    chart(curve, [dots], `dot product with position ${middle}, by position`);
  }
  function chart(host, series, title) {
    const W = 480, H = 240, low = Math.min(0, ...series.flat()), high = Math.max(...series.flat()), n = series[0].length;
    const x = (i) => 44 + (i * (W - 56)) / (n - 1), y = (v) => 12 + ((high - v) * (H - 44)) / (high - low || 1);
    const drawing = svg("svg", { viewBox: `0 0 ${W} ${H}`, width: "100%", role: "img", "aria-label": title });
    for (const v of [low, (low + high) / 2, high]) drawing.append(svg("line", { x1: 44, x2: W - 12, y1: y(v), y2: y(v), class: "edge" }), svg("text", { x: 4, y: y(v) + 4, class: "soft" }, v.toFixed(v > 9 ? 0 : 1)));
    series.forEach((values) => drawing.append(svg("path", { class: "edge win", d: "M" + values.map((v, i) => `${x(i).toFixed(1)} ${y(v).toFixed(1)}`).join("L") })));
    drawing.append(svg("text", { x: 44, y: H - 8, class: "soft" }, title));
    host.replaceChildren(drawing);
  }

  // -- one head -----------------------------------------------------------------------------------------------------
  function oneHead(host, c, result, vectors) {
    const state = { kind: "cross", layer: Views.best(result).layer, head: Views.best(result).head || 0, query: Math.min(1, result.target.pieces.length - 1) };
    const panel = el("div");
    async function draw() {
      const [layers, heads] = result.maps[state.kind].shape;
      state.layer = Math.min(state.layer, layers - 1);
      const [queries, keys] = { cross: [result.target.pieces, result.source.pieces], encoder: [result.source.pieces, result.source.pieces], decoder: [result.target.pieces, result.decoder_input.pieces] }[state.kind];
      state.query = Math.min(state.query, queries.length - 1);
      const change = (name) => (value) => { state[name] = value; return draw(); };
      const range = (n, word) => Array.from({ length: n }, (_, i) => [i, `${word} ${i}`]);
      host.replaceChildren(el("div", { class: "controls" }, Views.segmented("Attention of the head", [["cross", "Cross"], ["encoder", "Encoder"], ["decoder", "Decoder"]], state.kind, change("kind")),
        Views.select("Layer of the head", range(layers, "layer"), state.layer, change("layer")), Views.select("Head", range(heads, "head"), state.head, change("head")),
        el("label", { class: "note" }, "query ", Views.select("Query", queries.map((q, i) => [i, `${i} ${q}`]), state.query, change("query")))), panel);
      try {
        const { kind, layer, head } = state, found = await vectors(kind, layer, head);
        if (kind === state.kind && layer === state.layer && head === state.head) numbers(panel, c, found.vectors, state, queries, keys);
      } catch (error) {
        panel.replaceChildren(el("p", { class: "error" }, error.message));
      }
    }
    draw();
  }
  function numbers(host, c, { query, key, value }, state, queries, keys) {
    const q = query[state.query], dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0), D = q.length;
    const allowed = (k) => state.kind !== "decoder" || k <= state.query;
    const raw = key.map((k) => dot(q, k)), scaled = raw.map((x, k) => (allowed(k) ? x / Math.sqrt(D) : -Infinity)), top = Math.max(...scaled);
    const powers = scaled.map((x) => Math.exp(x - top)), sum = powers.reduce((a, b) => a + b, 0), weights = powers.map((x) => x / sum);
    const output = q.map((_, i) => weights.reduce((s, w, k) => s + w * value[k][i], 0));
    const format = (x) => (x === -Infinity ? "−∞" : x.toFixed(3));
    const order = [...keys.keys()];
    const plain = c.positions !== "alibi" && !(c.window && state.kind !== "cross");
    host.replaceChildren(el("div", { class: "card" }, el("p", {}, "1. The query of ", el("b", {}, queries[state.query]), ` (q, ${D} numbers) meets the key of every place (k). 2. Each product is divided by √${D} = ${Math.sqrt(D).toFixed(2)}. 3. The softmax turns them into weights. 4. The values (v), weighted, are the head's output.`),
      el("div", { class: "strip" }, el("span", { class: "note" }, "q"), strip([q])),
      el("div", { class: "wide" }, el("table", { class: "numbers" }, el("thead", {}, el("tr", {}, ...["key", "q · k", `÷ √${D}`, "softmax", "", "v (first numbers)"].map((t) => el("th", { scope: "col" }, t)))),
        el("tbody", {}, ...order.map((k) => {
          const bar = el("i");
          bar.style.width = 100 * weights[k] + "%";
          return el("tr", { class: weights[k] === Math.max(...weights) ? "on" : "" }, el("td", {}, keys[k]), el("td", { class: "n" }, format(raw[k])), el("td", { class: "n" }, format(scaled[k])), el("td", { class: "n" }, weights[k].toFixed(4)),
            el("td", {}, percent(weights[k])), el("td", { class: "n note" }, value[k].slice(0, 4).map((x) => x.toFixed(2)).join("  ") + " …"));
        })))),
      el("div", { class: "strip" }, el("span", { class: "note" }, "keys, one row per place"), strip(key), el("span", { class: "note" }, "values"), strip(value), el("span", { class: "note" }, `output = Σ weight · v: ${output.slice(0, 6).map((x) => x.toFixed(3)).join("  ")} …`), strip([output])),
      plain ? "" : el("p", { class: "note" }, "This model also adds a bias by distance to the scores, which is not in this table.")));
  }
  /** Draws vectors as rows of a strip, coloured from the lowest to the highest number. */
  function strip(rows) {
    const low = Math.min(...rows.flat()), high = Math.max(...rows.flat());
    const canvas = Views.paint({ rows: rows.length, columns: rows[0].length, data: Float32Array.from(rows.flat(), (x) => ((x - low) / (high - low || 1)) ** 2) }, 1);
    canvas.style.cssText = `width:100%;height:${Math.max(16, Math.min(160, 10 * rows.length))}px;image-rendering:pixelated;border-radius:6px`;
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", `${rows.length} vectors of ${rows[0].length} numbers between ${low.toFixed(2)} and ${high.toFixed(2)}`);
    return canvas;
  }
  return { show };
})();

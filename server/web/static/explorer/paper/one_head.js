// One head step by step: query, keys, products, softmax and values of the sentence.
import { decimal, el, percent, segmented, select } from "../../common/dom.js";
import { parts, say } from "../../common/sentences.js";
import { best, kinds } from "../maps/maps.js";
import { worth } from "../maps/worth.js";
import { strip, table } from "./drawings.js";
import { dot, softmax } from "./numbers.js";

/** Draws a head. `vectors(kind, layer, head)` fetches its vectors. `chosen` is [kind, layer,
 * head, query], null for the cross-attention head that aligns best; `choose([...])` is called for another. */
export function oneHead(host, result, vectors, chosen, choose) {
  const state = {
    kind: "cross",
    layer: best(result).layer,
    head: best(result).head || 0,
    query: Math.min(1, result.target.pieces.length - 1),
  };
  if (result.maps[chosen?.[0]]) [state.kind, state.layer, state.head, state.query] = chosen;
  const panel = el("div");
  async function draw() {
    const [layers, heads] = result.maps[state.kind].shape;
    state.layer = Math.min(state.layer, layers - 1);
    state.head = Math.min(state.head, heads - 1);
    const [queries, keys] = {
      cross: [result.target.pieces, result.source.pieces],
      encoder: [result.source.pieces, result.source.pieces],
      decoder: [result.target.pieces, result.decoder_input.pieces],
    }[state.kind];
    state.query = Math.min(state.query, queries.length - 1);
    const change = (name) => (value) => {
      state[name] = value;
      choose([state.kind, state.layer, state.head, state.query]);
      return draw();
    };
    const range = (n, word) => Array.from({ length: n }, (_, i) => [i, say(`${word} {0}`, i)]);
    host.replaceChildren(
      el(
        "div",
        { class: "controls" },
        segmented(say("Attention of the head"), kinds(result), state.kind, change("kind")),
        select(say("Layer of the head"), range(layers, "layer"), state.layer, change("layer")),
        select(say("Head"), range(heads, "head"), state.head, change("head")),
        el(
          "label",
          { class: "note" },
          say("query") + " ",
          select(
            say("Query"),
            queries.map((q, i) => [i, `${i} ${q}`]),
            state.query,
            change("query"),
          ),
        ),
      ),
      el("p", { class: "note" }, worth(result, state.kind, state.layer, state.head)),
      panel,
    );
    try {
      const { kind, layer, head } = state,
        found = await vectors(kind, layer, head);
      if (kind === state.kind && layer === state.layer && head === state.head)
        numbers(panel, found.vectors, state, queries, keys);
    } catch (error) {
      panel.replaceChildren(el("p", { class: "error" }, error.message));
    }
  }
  draw();
}
function numbers(host, { query, key, value }, state, queries, keys) {
  const q = query[state.query],
    D = q.length;
  const allowed = (k) => state.kind !== "decoder" || k <= state.query;
  const raw = key.map((k) => dot(q, k)),
    scaled = raw.map((x, k) => (allowed(k) ? x / Math.sqrt(D) : -Infinity)),
    weights = softmax(scaled);
  const output = q.map((_, i) => weights.reduce((s, w, k) => s + w * value[k][i], 0));
  const format = (x) => (x === -Infinity ? "−∞" : decimal(x, 3));
  const products = key.map((row) => row.map((x, i) => x * q[i]));
  const largest = Math.max(...[q, ...key].flat().map(Math.abs)),
    most = Math.max(...products.flat().map(Math.abs));
  const readout = el(
    "div",
    { class: "readout", "aria-live": "polite" },
    say("Point at a dimension to read its numbers. Blue is positive, orange negative."),
  );
  const point = (k, i) => {
    const numbers = [q[i], key[k][i], products[k][i], raw[k]].map(format);
    readout.textContent = say("Dimension {0} of {1}: q {2} × k {3} = {4} of {5}", i, keys[k], ...numbers);
  };
  host.replaceChildren(
    el(
      "div",
      { class: "card" },
      el(
        "p",
        {},
        ...parts(
          "1. The query of {0} (q, {1} numbers) meets the key of every place (k). 2. Each product is divided by √{1} = {2}. 3. The softmax turns them into weights. 4. The values (v), weighted, are the head's output.",
          el("b", {}, queries[state.query]),
          D,
          decimal(Math.sqrt(D), 2),
        ),
      ),
      el(
        "div",
        { class: "strip" },
        el("span", { class: "note" }, say("q of {0}, dimension by dimension", queries[state.query])),
        strip([q], {
          top: largest,
          read: (i) => (readout.textContent = say("Dimension {0}: {1}", i, `q ${format(q[i])}`)),
        }),
      ),
      readout,
      table(
        say("One head"),
        [say("key"), say("k, dimension by dimension"), "q × k", "q · k", `÷ √${D}`, say("softmax"), say("weight")],
        key.map((_, k) =>
          el(
            "tr",
            { class: weights[k] === Math.max(...weights) ? "on" : "" },
            el("td", {}, keys[k]),
            el("td", {}, strip([key[k]], { top: largest, read: (i) => point(k, i) })),
            el("td", {}, strip([products[k]], { top: most, read: (i) => point(k, i) })),
            el("td", { class: "n" }, format(raw[k])),
            el("td", { class: "n" }, format(scaled[k])),
            el("td", { class: "n" }, decimal(weights[k], 4)),
            el("td", { class: "n" }, percent(weights[k])),
          ),
        ),
      ),
      el(
        "div",
        { class: "strip" },
        el("span", { class: "note" }, say("values, one row per place")),
        strip(value),
        el(
          "span",
          { class: "note" },
          `${say("output = Σ weight · v")}: ${output
            .slice(0, 6)
            .map((x) => decimal(x, 3))
            .join("  ")} …`,
        ),
        strip([output]),
      ),
    ),
  );
}

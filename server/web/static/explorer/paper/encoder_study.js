// Chapters about the layers of the encoder, with the numbers of GET /encoder: what the order of the words changes, what
// the residual carries, which units of the feed-forward networks fire.
import { el, percent, segmented, select } from "../../common/dom.js";
import { table } from "./table.js";

const SHOWN = 40;
const mean = (numbers) => numbers.reduce((a, b) => a + b, 0) / (numbers.length || 1);
const number = (text) => el("td", { class: "n" }, text);
function bar(share) {
  const fill = el("i");
  fill.style.width = `${(100 * Math.min(1, Math.max(0, share))).toFixed(1)}%`;
  return el("td", {}, el("span", { class: "share", "aria-hidden": "true" }, fill));
}

/** Draws what the order of the words changes, with positions and without. `example` can be chosen in place of the sentence:
 * `text` is its text, null for none, and `study()` fetches its study. `chosen` has {positions, example}; `changed()` is called after a choice. */
export function order(host, study, example, chosen, changed) {
  const state = { study },
    view = el("div", { "aria-live": "polite" });
  const choose = async () => {
    try {
      if (chosen.example) state.other ??= await example.study();
      state.study = chosen.example ? state.other : study;
      draw();
    } catch (error) {
      view.replaceChildren(el("p", { class: "error" }, error.message));
    }
  };
  function draw() {
    const { source, order } = state.study,
      moved = chosen.positions ? order.moved : order.moved_without_positions;
    const worst = Math.max(...moved),
      part = ([start, end]) =>
        (start === 0 || /\s/.test(source.text[start - 1]) ? " " : "") + source.text.slice(start, end);
    const text = (places) =>
      places
        .map((i) => (source.offsets[i][0] < source.offsets[i][1] ? part(source.offsets[i]) : ""))
        .join("")
        .replace(/\s+/g, " ")
        .trim();
    const rows = source.pieces
      .slice(0, SHOWN)
      .map((piece, i) =>
        el(
          "tr",
          {},
          el("td", {}, piece),
          number(String(i)),
          number(String(order.pieces.indexOf(i))),
          number(share(moved[i])),
          bar(moved[i]),
        ),
      );
    view.replaceChildren(
      el(
        "p",
        {},
        "“",
        el("b", {}, source.text),
        "” and “",
        el("b", {}, text(order.pieces)),
        "”: ",
        chosen.positions
          ? `with positions the encoder's outputs change by up to ${share(worst)} of their length.`
          : `without positions each piece has the same output in both, to ${share(worst)}: rounding. The encoder reads a bag of words.`,
      ),
      table(
        "The order of the words",
        ["piece", "place", "place in the other order", "its output changes by", ""],
        rows,
      ),
      source.pieces.length > SHOWN
        ? el("p", { class: "note" }, `The first ${SHOWN} of ${source.pieces.length} pieces.`)
        : "",
    );
  }
  const controls = el(
    "div",
    { class: "controls" },
    segmented(
      "Positions",
      [
        [true, "positions on"],
        [false, "positions off"],
      ],
      chosen.positions,
      (on) => {
        chosen.positions = on;
        changed();
        draw();
      },
    ),
  );
  if (example.text)
    controls.append(
      segmented(
        "Sentence",
        [
          [false, "this sentence"],
          [true, example.text],
        ],
        chosen.example,
        (other) => {
          chosen.example = other;
          changed();
          return choose();
        },
      ),
    );
  else chosen.example = false;
  host.replaceChildren(
    el(
      "p",
      {},
      "Attention has no order of its own: a head compares words, wherever they stand. Only positions tell “Cat eats fish” from “Fish eats cat”. Here the encoder reads the words in two orders.",
    ),
    controls,
    view,
  );
  choose();
}
const share = (x) => (x >= 0.0005 ? percent(x) : `${(100 * x).toExponential(0)} %`);

/** Returns whether the layers, not the embeddings, have the positions. */
const inLayers = (c) => ["rotary", "alibi"].includes(c.positions);

/** Draws how well the place of a word can be read from its vector, after each layer. `c` is the configuration of the model. */
export function positionFit(host, { position_fit: fit, layers }, c) {
  if (!fit)
    return host.replaceChildren(
      el(
        "p",
        { class: "note" },
        "This needs the sample sentences of the server, which it has for English, German, French and Spanish.",
      ),
    );
  const names = ["embedding", ...layers.map((_, i) => `layer ${i}`)],
    last = fit.with_positions.length - 1;
  const text = (x) => (x < 0 ? "none" : x.toFixed(2));
  host.replaceChildren(
    el(
      "p",
      {},
      `${inLayers(c) ? "This model adds no positions to the embeddings: every layer gets the distances between the words." : "Positions are added to the embeddings, not written beside them, and no layer gets them again."} A linear regression reads the place of a piece from its vector; R² says how well, on sentences that it has not seen (1: exactly, 0: not at all). After the last layer it is ${text(fit.with_positions[last])}${inLayers(c) ? "." : ": what is left of the place came through every layer."}`,
    ),
    table(
      "How long a position is remembered",
      ["after", "R² of the place", "", "positions off", ""],
      names.map((name, i) =>
        el(
          "tr",
          {},
          el("td", {}, name),
          number(text(fit.with_positions[i])),
          bar(fit.with_positions[i]),
          number(text(fit.without_positions[i])),
          bar(fit.without_positions[i]),
        ),
      ),
    ),
    el(
      "p",
      { class: "note" },
      `Over ${fit.sentences} sample sentences. Without positions something remains, because some words usually stand at the end.`,
    ),
  );
}

/** Draws what the residual carries and what each sublayer adds, for the piece `chosen` or on average. `choose(piece)` is
 * called for another, with null for all. */
export function residual(host, { source, layers }, norm, chosen, choose) {
  const view = el("div"),
    first = chosen < source.pieces.length ? (chosen ?? -1) : -1;
  const show = (at) => {
    const of = (numbers) => (at < 0 ? mean(numbers) : numbers[at]);
    const rows = layers.flatMap((layer, i) =>
      [
        ["self-attention", layer.carried_past_attention, layer.attention],
        ["feed-forward", layer.carried_past_feed_forward, layer.feed_forward],
      ].map(([name, carried, added]) => {
        const [kept, more] = [of(carried), of(added)];
        return el(
          "tr",
          {},
          el("td", {}, `layer ${i}, ${name}`),
          number(kept.toFixed(1)),
          number(more.toFixed(1)),
          number(percent(more / (kept + more || 1))),
          bar(more / (kept + more || 1)),
        );
      }),
    );
    view.replaceChildren(
      table("Residual connections", ["sublayer", "carried past it", "added by it", "share of what is added", ""], rows),
    );
  };
  const ratio = mean(
    layers.flatMap((layer) => [
      mean(layer.attention) / mean(layer.carried_past_attention),
      mean(layer.feed_forward) / mean(layer.carried_past_feed_forward),
    ]),
  );
  host.replaceChildren(
    el(
      "p",
      {},
      `Every sublayer adds to what it was given: ${norm === "pre" ? "x + Sublayer(LayerNorm(x))" : "LayerNorm(x + Sublayer(x))"}. So a word keeps what it was, and gradients reach the first layer. LayerNorm scales each word by itself: no word depends on others in its batch. In this model a sublayer's output is on average ${ratio.toFixed(1)} times as long as the vector that it is added to${ratio > 3 ? ": the layers rewrite more than they keep" : ""}.`,
    ),
    el(
      "div",
      { class: "controls" },
      el(
        "label",
        { class: "note" },
        "Lengths of the vectors of ",
        select(
          "Piece",
          [[-1, "all pieces, mean"], ...source.pieces.map((piece, i) => [i, `${i} ${piece}`])],
          first,
          (at) => {
            choose(at < 0 ? null : at);
            show(at);
          },
        ),
      ),
    ),
    view,
  );
  show(first);
}

/** Draws which units of the feed-forward networks fire. `c` is the configuration of the model. */
export function units(host, { source, layers }, c) {
  const piece = (i) => source.pieces[i].replace("▁", "") || "▁";
  const rows = layers.map((layer, i) => {
    const most = layer.active.indexOf(Math.max(...layer.active)),
      least = layer.active.indexOf(Math.min(...layer.active));
    return el(
      "tr",
      {},
      el("td", {}, `layer ${i}`),
      number(percent(mean(layer.active))),
      el("td", {}, `${piece(least)} ${percent(layer.active[least])} – ${piece(most)} ${percent(layer.active[most])}`),
      el(
        "td",
        {},
        ...layer.units.map(({ unit, pieces }) =>
          el(
            "div",
            {},
            el("b", {}, `${unit} `),
            pieces.map(([at, value]) => `${piece(at)} ${value.toFixed(1)}`).join(" · "),
          ),
        ),
      ),
    );
  });
  host.replaceChildren(
    el(
      "p",
      {},
      `After attention has mixed the words, a network treats each by itself: ${c.d_model} → ${c.d_ff} → ${c.d_model} numbers, with ${c.activation} between. ${c.activation === "relu" ? "max(0, x) switches a unit off where its input is negative, so each word uses its own share of the units." : "A unit counts as active where its output is above 0."}`,
    ),
    table(
      "Feed-forward networks",
      ["layer", "active units", "from – to", "units with the largest outputs, and the pieces on which they fire most"],
      rows,
    ),
  );
}

// The panel "How it works": chapters about the model, each with the numbers of this model and this sentence.
import { el } from "../common/dom.js";
import { architecture } from "./architecture.js";
import { heat } from "./heat.js";
import { oneHead } from "./one_head.js";
import { positions } from "./positions.js";
import { scale } from "./scale.js";
import { severalHeads } from "./several_heads.js";
import { shift } from "./shift.js";

/** Shows the panel. `model` is an entry of GET /model, `result` the attention of the current sentence; `vectors(kind, layer, head)` fetches vectors. */
export function howItWorks(host, model, result, vectors) {
  const c = model.config, S = result.source.pieces.length, T = result.target.pieces.length;
  const drawing = el("div", { class: "drawing card" }), wave = el("div"), curve = el("div", { class: "drawing" }), mask = el("div"), head = el("div"), turned = el("div", { class: "card" }), scaled = el("div"), several = el("div");
  const sinusoidal = c.positions.startsWith("sinusoidal"), places = Math.max(S, T, 24);
  host.replaceChildren(
    el("h2", {}, "The model"), el("p", { class: "note" }, `Drawn from its own configuration, with the shapes of this sentence: ${S} source pieces, ${T} target pieces, end of sentence included.`), drawing,
    el("h2", {}, "Positions"), el("p", {}, POSITIONS[c.positions]), el("div", { class: "split even" }, el("div", { class: "card" }, wave), el("div", { class: "card" }, curve)),
    ...(sinusoidal ? [el("h3", {}, "Shifting a position"), turned] : []),
    ...(c.recurrence === "ssru" ? [el("h2", {}, "The recurrence"), el("p", {}, result.absent.decoder)] : [el("h2", {}, "The mask"), el("p", {}, `While it writes, the decoder may look at what is already there, never ahead: the softmax gets −∞ above the diagonal${c.window ? `, and beyond ${c.window} places` : ""}.`), el("div", { class: "card narrow" }, mask)]),
    el("h2", {}, "Why several heads"), several,
    el("h2", {}, "Why the products are divided"), scaled,
    el("h2", {}, "One head, step by step"), el("p", {}, "Attention(Q, K, V) = softmax(QKᵀ / √dₖ) V, with the numbers of this sentence."), head);
  drawing.append(architecture(c, S, T));
  positions(wave, curve, c, places);
  if (sinusoidal) shift(turned, c, places);
  severalHeads(several, result);
  scale(scaled, result, vectors).catch((error) => scaled.replaceChildren(el("p", { class: "error" }, error.message)));
  const read = result.decoder_input.pieces;
  const seen = (q, k) => k <= q && (!c.window || q - k <= c.window);
  heat(mask, { rows: T, columns: T, data: Float32Array.from({ length: T * T }, (_, i) => (seen(Math.floor(i / T), i % T) ? 1 : 0)), queries: result.target.pieces, keys: read },
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

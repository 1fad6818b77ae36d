// The panel "How it works": chapters about the model, each with the numbers of this model and this sentence.
import { el } from "../../common/dom.js";
import { say } from "../../common/sentences.js";
import { heat } from "../maps/heat.js";
import { architecture } from "./architecture.js";
import { cost } from "./cost.js";
import { order, sublayers } from "./encoder_study.js";
import { figures } from "./figures.js";
import { oneHead } from "./one_head.js";
import { positions } from "./positions.js";
import { scale } from "./scale.js";
import { severalHeads } from "./several_heads.js";
import { shift } from "./shift.js";

/** Shows the panel. `model` is an entry of GET /model, `result` the attention of the current sentence; `vectors(kind, layer, head)` fetches
 * vectors, `study()` the answer of GET /encoder for the sentence. `chosen` is `state.works`, which the controls of the chapters update before they
 * call `changed()`. */
export function howItWorks(host, model, result, { vectors, study, chosen, changed }) {
  const choose = (name) => (value) => {
    chosen[name] = value;
    changed();
  };
  const c = model.config,
    S = result.source.pieces.length,
    T = result.target.pieces.length;
  const drawing = el("div", { class: "drawing card", tabindex: "0", role: "region", "aria-label": say("The model") }),
    wave = el("div"),
    curve = el("div", { class: "drawing" }),
    mask = el("div"),
    added = el("div"),
    turned = el("div", { class: "card" });
  const [head, scaled, several, ordered, costs, paper] = ["head", "scale", "several", "order", "cost", "figures"].map(
    (name) => el("div", { id: `works-${name}` }),
  );
  const sinusoidal = c.positions.startsWith("sinusoidal"),
    places = Math.max(S, T, 24);
  const contents = el("nav", { class: "row", "aria-label": say("Chapters") });
  host.replaceChildren(
    contents,
    el("h2", {}, say("The model")),
    el(
      "p",
      { class: "note" },
      say(
        "Drawn from its own configuration, with the shapes of this sentence: {0} source pieces, {1} target pieces, end of sentence included.",
        S,
        T,
      ),
    ),
    drawing,
    el("h2", {}, say("One head, step by step")),
    el("p", {}, say("Attention(Q, K, V) = softmax(QKᵀ / √dₖ) V, with the numbers of this sentence.")),
    head,
    el("h2", {}, say("Why the products are divided")),
    scaled,
    el("h2", {}, say("Why several heads")),
    several,
    ...(c.recurrence === "ssru"
      ? [el("h2", {}, say("The recurrence")), el("p", {}, say(result.absent.decoder))]
      : [
          el("h2", {}, say("The mask")),
          el(
            "p",
            {},
            say(
              "While it writes, the decoder may look at what is already there, never ahead: the softmax gets −∞ above the diagonal.",
            ),
          ),
          el("div", { class: "card narrow" }, mask),
        ]),
    el("h2", {}, say("Residual connections and feed-forward networks")),
    el(
      "p",
      {},
      say(
        "Every sublayer adds to what it was given: {0}. So a word keeps what it was, and gradients reach the first layer. LayerNorm scales each word by itself: no word depends on others in its batch. After attention has mixed the words, a network treats each by itself: {1} → {2} → {1} numbers, with {3} between.",
        c.norm === "pre" ? "x + Sublayer(LayerNorm(x))" : "LayerNorm(x + Sublayer(x))",
        c.d_model,
        c.d_ff,
        c.activation,
      ),
    ),
    added,
    el("h2", {}, say("Without positions, order is lost")),
    ordered,
    el("h2", {}, say("Positions")),
    el("p", {}, say(POSITIONS[c.positions] || "")),
    el("div", { class: "split even" }, el("div", { class: "card" }, wave), el("div", { class: "card" }, curve)),
    ...(sinusoidal ? [el("h3", {}, say("Shifting a position")), turned] : []),
    el("h2", {}, say("What attention costs")),
    costs,
    el("h2", {}, say("Figures 3 to 5 of the paper, by this model")),
    paper,
  );
  contents.append(
    ...[...host.querySelectorAll("h2")].map((chapter) =>
      el(
        "button",
        { type: "button", class: "quiet", onclick: () => chapter.scrollIntoView({ block: "start" }) },
        chapter.textContent,
      ),
    ),
  );
  drawing.append(architecture(c, S, T));
  positions(wave, curve, c, places);
  if (sinusoidal) shift(turned, c, places, chosen.distance, choose("distance"));
  severalHeads(several, result, chosen.word, choose("word"));
  cost(costs, c, S);
  const failed = (host) => (error) => host.replaceChildren(el("p", { class: "error" }, error.message));
  scale(scaled, result, vectors).catch(failed(scaled));
  study()
    .then((answer) => {
      sublayers(added, answer);
      order(ordered, answer, chosen.positions, choose("positions"));
    })
    .catch(failed(ordered));
  appendix(paper, model, chosen.figures, choose("figures"));
  const read = result.decoder_input.pieces;
  const seen = (q, k) => k <= q;
  heat(
    mask,
    {
      rows: T,
      columns: T,
      data: Float32Array.from({ length: T * T }, (_, i) => (seen(Math.floor(i / T), i % T) ? 1 : 0)),
      queries: result.target.pieces,
      keys: read,
    },
    { label: say("Mask of the decoder"), format: (x) => (x ? say("may look") : say("masked, −∞")), verb: "→" },
  );
  oneHead(head, c, result, vectors, chosen.one, choose("one"));
}
/** Offers the figures of the paper, which cost translations of two long sentences, and draws them if they are `wanted`. */
function appendix(host, model, wanted, choose) {
  if (model.source !== "en")
    return host.replaceChildren(
      el(
        "p",
        { class: "note" },
        say("The sentences of these figures are English: choose English as the source language."),
      ),
    );
  const button = el(
    "button",
    {
      type: "button",
      class: "quiet",
      onclick: () => {
        choose(true);
        return draw();
      },
    },
    say("Draw the figures"),
  );
  async function draw() {
    button.disabled = true;
    try {
      await figures(host, { source: model.source, target: model.target });
    } catch (error) {
      host.replaceChildren(el("p", { class: "error" }, error.message), button);
      button.disabled = false;
    }
  }
  host.replaceChildren(
    el(
      "p",
      {},
      say(
        "The paper's appendix shows three things that heads of its encoder had learned. Here are the same sentences with the heads of this model, each with the command that draws it.",
      ),
    ),
    button,
  );
  if (wanted) draw();
}
const POSITIONS = {
  sinusoidal:
    "Every position gets a vector of sines and cosines of different wavelengths. The product of two of them depends on their distance only, so the model can compute how far apart two words are.",
  sinusoidal_half:
    "Every position gets a vector: the first half sines, the second half cosines of different wavelengths. The product of two of them depends on their distance only.",
  learned: "This model learned a vector for every position; they are weights, not a formula.",
};

// The panel "How it works": chapters about the model, each with the numbers of this model and this sentence.
import { el } from "../../common/dom.js";
import { say } from "../../common/sentences.js";
import { present } from "../present.js";
import { appendix } from "./appendix.js";
import { architecture } from "./architecture.js";
import { compared } from "./compared.js";
import { cost } from "./cost.js";
import { order, sublayers } from "./encoder_study.js";
import { mask } from "./mask.js";
import { oneHead } from "./one_head.js";
import { positions } from "./positions.js";
import { scale } from "./scale.js";
import { severalHeads } from "./several_heads.js";
import { shift } from "./shift.js";
import { training } from "./training.js";

/** Shows the panel. `model` is an entry of GET /model, `result` the attention of the current sentence; `vectors(kind, layer, head)` fetches
 * vectors, `study()` the answer of GET /encoder for the sentence; `english` are the models for English. `chosen` is `state.works`, which the controls of the chapters update before they
 * call `changed()`. */
export function howItWorks(host, model, result, { vectors, study, english, chosen, changed }) {
  const choose = (name) => (value) => {
    chosen[name] = value;
    changed();
  };
  const c = model.config,
    S = result.source.pieces.length,
    T = result.target.pieces.length,
    places = Math.max(S, T, 24);
  const failed = (host) => (error) => host.replaceChildren(el("p", { class: "error" }, error.message));
  const studied = study();
  const drawing = el("div", { class: "drawing card", tabindex: "0", role: "region", "aria-label": say("The model") });
  drawing.append(architecture(c, S, T));
  const shapes = say(
    "Drawn from its own configuration, with the shapes of this sentence: {0} source pieces, {1} target pieces, end of sentence included.",
    S,
    T,
  );
  const chapters = [
    chapter("model", say("The model"), [el("p", { class: "note" }, shapes)], (body) => body.append(drawing)),
    chapter(
      "head",
      say("One head, step by step"),
      [el("p", {}, say("Attention(Q, K, V) = softmax(QKᵀ / √dₖ) V, with the numbers of this sentence."))],
      (body) => oneHead(body, result, vectors, chosen.one, choose("one")),
    ),
    chapter("scale", say("Why the products are divided"), [], (body) =>
      scale(body, result, vectors).catch(failed(body)),
    ),
    chapter("several", say("Why several heads"), [], (body) => severalHeads(body, result, chosen.word, choose("word"))),
    c.recurrence === "ssru"
      ? chapter("mask", say("The recurrence"), [el("p", {}, say(result.absent.decoder))])
      : chapter("mask", say("The mask"), [], (body) => mask(body, result, vectors, chosen.mask, choose("mask"))),
    chapter("added", say("Residual connections and feed-forward networks"), [el("p", {}, aboutLayers(c))], (body) =>
      studied.then((answer) => sublayers(body, answer, model)).catch(failed(body)),
    ),
    chapter("order", say("Without positions, order is lost"), [], (body) =>
      studied.then((answer) => order(body, answer, chosen.positions, choose("positions"))).catch(failed(body)),
    ),
    chapter("positions", say("Positions"), [], (body) => positions(body, c, places, chosen.scheme, choose("scheme"))),
    chapter("shift", say("Shifting a position"), [], (body) =>
      shift(body, c, places, chosen.distance, choose("distance")),
    ),
    chapter("compared", say("Recurrence, convolution and self-attention"), [], (body) => compared(body, c.d_model, S)),
    chapter("cost", say("What attention costs"), [], (body) => cost(body, S)),
    chapter("training", say("How it was trained"), [], (body) => training(body, c)),
    chapter("figures", say("Figures 3 to 5 of the paper"), [], (body) =>
      appendix(body, english, chosen.figures, choose("figures")),
    ),
  ];
  const contents = chapters.map((section) =>
    el(
      "button",
      { type: "button", class: "quiet", onclick: () => section.scrollIntoView({ block: "start" }) },
      section.firstChild.textContent,
    ),
  );
  contents.push(el("button", { type: "button", onclick: () => present(1) }, say("As slides")));
  host.replaceChildren(el("nav", { class: "row", "aria-label": say("Chapters") }, ...contents), ...chapters);
}
/** Returns a chapter: its title, what is said first, and what `draw` draws. */
function chapter(name, title, first, draw = () => {}) {
  const body = el("div", { id: `works-${name}` });
  draw(body);
  return el("section", { class: "slide" }, el("h2", {}, title), ...first, body);
}
const aboutLayers = (c) =>
  say(
    "Every sublayer adds to what it was given: {0}. So a word keeps what it was, and gradients reach the first layer. LayerNorm scales each word by itself: no word depends on others in its batch. After attention has mixed the words, a network treats each by itself: {1} → {2} → {1} numbers, with {3} between.",
    c.norm === "pre" ? "x + Sublayer(LayerNorm(x))" : "LayerNorm(x + Sublayer(x))",
    c.d_model,
    c.d_ff,
    c.activation,
  );

// The lesson: its chapters for a sentence, and what the page opens with, the drawing of a model and the way to the chapters.
import { el } from "../common/dom.js";
import { say } from "../common/sentences.js";
import { ask, query } from "../common/server.js";
import { architecture } from "./paper/architecture.js";
import { howItWorks } from "./paper/how_it_works.js";
import { present } from "./present.js";
import { modelOf, served } from "./results.js";
import { $, direction, guard, remember, state } from "./state.js";
import { tab } from "./tabs.js";

const LAYERS = 6; // of encoder and decoder, as in the paper

const show = (then) => guard(() => tab("works", true).then(then));
/** Shows the chapters from their beginning. */
export const lesson = show(() => $("inside").scrollIntoView());
/** Draws the model that translated a sentence, with the way to the chapters. */
export async function opening(item, found) {
  const { name, config } = await modelOf(item);
  const title = say("The model that wrote this translation"),
    drawing = el("div", { class: "drawing", tabindex: "0", role: "region", "aria-label": title });
  drawing.append(architecture(config, found.source.pieces.length, found.target.pieces.length));
  const small = config.recurrence === "ssru" || Math.min(config.encoder_layers, config.decoder_layers) < LAYERS;
  $("opening").replaceChildren(
    el(
      "div",
      {},
      el("h2", {}, title),
      el(
        "p",
        {},
        say(
          "{0}, drawn with the shapes of this sentence. Read it from below: on the left the encoder reads the source, on the right the decoder writes the translation, piece by piece.",
          name,
        ),
      ),
      el(
        "p",
        { class: "row" },
        el("button", { type: "button", class: "primary", onclick: lesson }, say("How it works")),
        el("button", { type: "button", onclick: show(() => present(1)) }, say("As slides")),
      ),
      small
        ? el(
            "p",
            { class: "note" },
            say(
              "For teaching, a model of the paper's size and with more training shows more: OPUS-MT has 6 + 6 layers and 8 heads. This loads one:",
            ),
            " ",
            el("code", {}, "attentive serve --models Helsinki-NLP/opus-mt-en-de"),
          )
        : null,
    ),
    drawing,
  );
}
/** Draws the chapters for a sentence into the panel "How it works". */
export async function works(host, item, found) {
  const vectors = (kind, layer, head) =>
    served(item, (which) =>
      ask("/attention?" + query({ ...which, kind, layer, head, vectors: `${kind}.${layer}.${head}`, format: "json" })),
    );
  const study = async () => {
    const answer = await ask("/encoder?" + query({ q: item.read, ...direction(item) }));
    return { ...answer, source: { ...answer.source, text: item.sentence.source } };
  };
  const model = await modelOf(item);
  if (item === state.items[state.current])
    howItWorks(host, model, found, {
      vectors,
      study,
      english: english(model),
      chosen: state.works,
      changed: () => remember(),
    });
}
/** Returns a direction from English for each model that has one, [{name, source, target}]; that of `model` is the first. */
function english(model) {
  const targets = Object.entries(state.languages.find(({ code }) => code === "en")?.models ?? {}),
    all = targets.map(([target, name]) => ({ name, source: "en", target }));
  return [...(model.source === "en" ? [model] : []), ...all].filter(
    ({ name }, i, list) => list.findIndex((other) => other.name === name) === i,
  );
}

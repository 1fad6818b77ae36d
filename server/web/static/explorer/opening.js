// Below the film: the drawing of the model, and the way to the chapters and the slides, whose modules are loaded when they are wanted.
import { el, textButton, told } from "../common/dom.js";
import { say } from "../common/sentences.js";
import { architecture } from "./paper/architecture.js";
import { modelOf } from "./results.js";
import { $, guard, state } from "./state.js";
import { tab } from "./tabs.js";

const LAYERS = 6; // of encoder and decoder, as in the paper

/** Shows slide `number`, see present.js. */
export const slides = async (number) => (await import("./present.js")).present(number);
const lab = () => tab("works", true);
/** Shows the chapters from their beginning. */
export const toLesson = guard(() => lab().then(() => $("inside").scrollIntoView()));
/** Draws the model that translated a sentence, with the way to the chapters. */
export async function opening(item, found) {
  const { name, config } = await modelOf(item);
  if (item !== state.items[state.current]) return;
  const title = say("The model that wrote this translation"),
    drawing = el("div.drawing", { tabindex: "0", role: "region", "aria-label": title });
  drawing.append(architecture(config, found.source.pieces.length, found.target.pieces.length));
  const small = config.recurrence === "ssru" || Math.min(config.encoder_layers, config.decoder_layers) < LAYERS;
  $("opening").replaceChildren(
    el(
      "div",
      el("h2", title),
      told(
        "{0}, drawn with the shapes of this sentence. Read it from below: on the left the encoder reads the source, on the right the decoder writes the translation, piece by piece.",
        name,
      ),
      el(
        "p.row",
        textButton(say("How it works"), toLesson, "primary"),
        textButton(
          say("As slides"),
          guard(() => lab().then(() => slides(1))),
        ),
      ),
      small
        ? el(
            "p.note",
            say(
              "For teaching, a model of the paper's size and with more training shows more: OPUS-MT has 6 + 6 layers and 8 heads. This loads one:",
            ),
            " ",
            el("code", "attentive serve --models Helsinki-NLP/opus-mt-en-de"),
          )
        : null,
    ),
    drawing,
  );
}

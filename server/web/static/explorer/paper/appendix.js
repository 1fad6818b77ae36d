// Offers the figures of the paper for each model of the server that reads English. They cost translations of two long sentences.
import { el, noted, paragraph, select, textButton, told } from "../../common/dom.js";
import { say } from "../../common/sentences.js";
import { figures } from "./figures.js";

const TEACHER = "Helsinki-NLP/opus-mt-en-de"; // as large as the paper's base model

/** Draws the figures at once if they are `wanted`. `models` is [{name, source, target}]; the first is chosen. `choose(true)` is called when
 * they are drawn. `getter()` returns the function that gets a model by its name, or null, see lesson.js. */
export function appendix(host, models, wanted, choose, getter) {
  const view = el("div.figures"),
    teaching = el("div.row");
  const failed = (error) => view.replaceChildren(paragraph(error.message, "error"));
  let [model] = models;
  /** Offers to draw with the teaching model, which is got where this is allowed. */
  async function teach() {
    const served = (list) => list.find(({ name }) => TEACHER.endsWith(name)),
      get = served(models) ? () => models : await getter();
    if (!get)
      return teaching.replaceChildren(
        noted(
          "Heads like those of the paper need a model of its size with more training. Whoever runs this server adds one with",
        ),
        el("code", `attentive pull ${TEACHER}`),
      );
    const label = served(models) ? say("Draw them with {0}", TEACHER) : say("Get {0}, and draw them with it", TEACHER);
    const own = textButton(label, async () => {
      const bar = el("progress", { "aria-label": TEACHER });
      own.disabled = true;
      teaching.append(bar);
      try {
        model = served(await get(TEACHER, bar)) ?? model;
        await onclick();
      } catch (error) {
        failed(error);
      }
      own.disabled = false;
      bar.remove();
    });
    return teaching.replaceChildren(own);
  }
  async function draw() {
    button.disabled = true;
    await figures(view, model).catch(failed);
    button.disabled = false;
  }
  const onclick = () => {
    choose(true);
    return draw();
  };
  const button = textButton(say("Draw the figures"), onclick),
    names = models.map((each) => [each, each.name]);
  const another = (each) => {
    model = each;
    return draw();
  };
  const controls = [button, ...(models.length > 1 ? [select(say("Model of the figures"), names, model, another)] : [])];
  host.replaceChildren(
    told(
      "The paper's appendix shows three things that heads of its encoder had learned. Here are the same sentences with the heads of a model of this server, each with the command that draws it.",
    ),
    ...(models.length
      ? [el("div.controls", ...controls, teaching), view]
      : [noted("The sentences of these figures are English; no model of this server reads English.")]),
  );
  if (wanted && models.length) draw();
  if (models.length) teach().catch(failed);
}

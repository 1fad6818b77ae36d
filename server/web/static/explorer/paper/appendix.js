// Offers the figures of the paper for each model of the server that reads English. They cost translations of two long sentences.
import { el, select } from "../../common/dom.js";
import { say } from "../../common/sentences.js";
import { figures } from "./figures.js";

/** Draws the figures at once if they are `wanted`. `models` is [{name, source, target}]; the first is chosen. `choose(true)` is called when
 * they are drawn. */
export function appendix(host, models, wanted, choose) {
  const view = el("div", { class: "figures" });
  let [model] = models;
  async function draw() {
    button.disabled = true;
    try {
      await figures(view, model);
    } catch (error) {
      view.replaceChildren(el("p", { class: "error" }, error.message));
    }
    button.disabled = false;
  }
  const onclick = () => {
    choose(true);
    return draw();
  };
  const button = el("button", { type: "button", onclick }, say("Draw the figures")),
    names = models.map((each) => [each, each.name]);
  const another = (each) => {
    model = each;
    return draw();
  };
  const controls = [button, ...(models.length > 1 ? [select(say("Model of the figures"), names, model, another)] : [])];
  host.replaceChildren(
    el(
      "p",
      {},
      say(
        "The paper's appendix shows three things that heads of its encoder had learned. Here are the same sentences with the heads of a model of this server, each with the command that draws it.",
      ),
    ),
    ...(models.length
      ? [el("div", { class: "controls" }, ...controls), view]
      : [
          el(
            "p",
            { class: "note" },
            say("The sentences of these figures are English; no model of this server reads English."),
          ),
        ]),
  );
  if (wanted && models.length) draw();
}

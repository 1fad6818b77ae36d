// The panel "How it works": chapters about the model, each with the numbers of this model and this sentence.
import { el, paragraph, textButton } from "../../common/dom.js";
import { say } from "../../common/sentences.js";
import { present } from "../present.js";
import { appendix } from "./appendix.js";
import { compared, times } from "./compared.js";
import { order } from "./encoder_study.js";
import { path } from "./path.js";
import { criteria, positions } from "./positions.js";
import { shift } from "./shift.js";
import { adam, dropout, losses, smoothing, warmUp } from "./training.js";

const MOST_PLACES = 64; // of GET /positions

/** Shows the panel. `model` is an entry of GET /model, `result` the attention of the current sentence; `tensors(parameters)` fetches
 * tensors, `study()` the answer of GET /encoder for the sentence, `places(n)` that of GET /positions; `english` are the models for English, `getter()` gets others. `chosen` is `state.works`, which the controls of the chapters update before they
 * call `changed()`. */
export function howItWorks(host, model, result, { tensors, study, places, english, getter, chosen, changed }) {
  const choose = (name) => (value) => {
    chosen[name] = value;
    changed();
  };
  const c = model.config,
    S = result.source.pieces.length,
    T = result.target.pieces.length,
    n = Math.max(S, T, 24);
  const failed = (host) => (error) => host.replaceChildren(paragraph(error.message, "error"));
  const of = (answer, draw) => (body) => answer.then((found) => draw(body, found)).catch(failed(body)),
    placed = places(Math.min(MOST_PLACES, n));
  const followed = path(result, model, tensors, chosen.path, choose("path")),
    stations = followed.stations.map(([name, title, draw]) => chapter(name, title, draw));
  stations.forEach((station) => station.classList.add("station"));
  const chapters = [
    chapter(
      "order",
      say("Without positions, order is lost"),
      of(study(), (body, answer) => order(body, answer, chosen.positions, choose("positions"))),
    ),
    chapter("positions", say("Positions"), of(placed, criteria)),
    chapter(
      "schemes",
      say("How places are told"),
      of(placed, (body, answer) => positions(body, c, answer, chosen.scheme, choose("scheme"))),
    ),
    chapter("shift", say("Shifting a position"), (body) => shift(body, c, n, chosen.distance, choose("distance"))),
    chapter("compared", say("Recurrence, convolution and self-attention"), (body) => compared(body, c.d_model, S)),
    chapter("times", say("Measured times"), times),
    chapter("training", say("How it was trained"), losses),
    chapter("warmup", say("Warm-up"), (body) => warmUp(body, c.d_model)),
    chapter("adam", say("Adam's moments"), adam),
    chapter("smoothing", say("Label smoothing"), (body) => smoothing(body, c.vocab_size)),
    chapter("dropout", say("Dropout"), dropout),
    chapter("figures", say("Figures 3 to 5 of the paper"), (body) =>
      appendix(body, english, chosen.figures, choose("figures"), getter),
    ),
  ];
  const contents = chapters.map((section) => textButton(section.firstChild.textContent, () => reach(section), "quiet"));
  followed.controls.append(textButton(say("As slides"), () => present(1)));
  host.replaceChildren(
    el("div", followed.controls, el("div.path", ...stations.map(withNext))),
    el("h2.lab", say("Chapters")),
    el("nav.row", { "aria-label": say("Chapters") }, ...contents),
    ...chapters,
  );
  return followed.draw();
}
const reach = (section) => section.scrollIntoView({ block: "start" });
/** Adds the way to the next station. */
function withNext(station, i, stations) {
  const next = stations[i + 1];
  if (next) station.append(textButton(`${say("Next")}: ${next.firstChild.textContent} ↓`, () => reach(next), "next"));
  return station;
}
/** Returns a chapter: its title and what `draw` draws. */
function chapter(name, title, draw) {
  const body = el("div", { id: `works-${name}` });
  draw(body);
  return el("section.slide", el("h2", title), body);
}

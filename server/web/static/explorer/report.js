// A report: the attention panel of one result that is embedded in the file.
import { chance, decimal, el, noted, paragraph } from "../common/dom.js";
import { say } from "../common/sentences.js";
import { unpack } from "./maps/maps.js";
import { panel, start } from "./maps/panel.js";

const result = unpack(JSON.parse(document.getElementById("look").textContent));
const total = result.target.scores.reduce((a, b) => a + b, 0);
const chips = (side, scores) =>
  el(
    "div.chips",
    ...side.pieces.map((piece, i) => el("span.chip", piece, scores ? el("small", chance(scores[i])) : "")),
  );
const views = el("div");
document
  .getElementById("report")
  .append(
    paragraph(
      `Attentive · ${result.model} · ${result.language.source} → ${result.language.target}` +
        (result.sentences > 1 ? " · " + say("sentence {0} of {1}", result.sentence + 1, result.sentences) : ""),
      "note",
    ),
    el("h1.big", { dir: "auto" }, result.source.text),
    el("p.big", { dir: "auto" }, result.target.text),
    noted("log-probability {0}, {1} per piece", decimal(total, 2), decimal(total / result.target.scores.length, 2)),
    chips(result.source),
    chips(result.target, result.target.scores),
    el("h2", say("Attention")),
    views,
  );
panel(views, result, start());

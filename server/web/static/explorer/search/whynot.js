// "Why not ...?": two translations of one sentence side by side.
import { chance, decimal, el, noted, paragraph } from "../../common/dom.js";
import { parts, say } from "../../common/sentences.js";
import { heat } from "../maps/heat.js";
import { best, pick } from "../maps/maps.js";
import { bars } from "./decoding.js";
import { common } from "./diff.js";
import { ALIKE, instead, times, total, written } from "./scores.js";

/** Returns the pieces of a translation; those that are not at the places `kept` differ. */
const chips = (result, kept) =>
  el(
    "div.chips",
    ...result.target.pieces.map((piece, i) => {
      const chip = el(
        "span",
        {
          class: "chip" + (kept.includes(i) ? "" : " differs"),
          title: result.target.candidates[i].map(([p, s]) => `${p} ${chance(s)}`).join("\n"),
        },
        piece,
        el("small", chance(result.target.scores[i])),
      );
      chip.style.background = `color-mix(in srgb, var(--heat1) ${Math.round(40 * Math.exp(result.target.scores[i]))}%, var(--card))`;
      return chip;
    }),
  );
/** Returns which pieces of a translation are not on the shortlist, as a note; null if all are. */
const added = ({ pieces, outside }) =>
  outside.length
    ? noted(
        "Not on the model's shortlist for this sentence, and added to be scored: {0}. Probabilities here are those among the shortlist and these pieces.",
        outside.map((place) => pieces[place]).join(", "),
      )
    : null;
/** Draws the mean of the heads of a layer of cross-attention. */
export const crossMap = (host, result, { layer } = best(result)) =>
  heat(host, pick(result, "cross", layer, "mean", "word", false), { label: say("Cross-attention") });
/** Shows two translations of one sentence side by side: that of the model and that of the user. */
export function compare(host, own, asked) {
  const difference = total(asked) - total(own);
  const at = asked.target.pieces.findIndex((piece, i) => piece !== own.target.pieces[i]);
  const maps = [el("div"), el("div")];
  const same = common(own.target.pieces, asked.target.pieces),
    numbers = instead(asked, own);
  const verdict =
    at < 0
      ? say("This is the translation of the model.")
      : Math.abs(difference) < ALIKE
        ? say("The model finds both equally likely {0}.", numbers)
        : difference > 0
          ? say(
              "The model finds yours {0} likelier {1}: a wider beam might have found it.",
              times(-difference),
              numbers,
            )
          : say("The model finds yours {0} less likely {1}.", times(difference), numbers);
  const turn =
    at < 0
      ? null
      : el(
          "p",
          ...parts(
            "They part at piece {0}, after “{1}”: the model wrote {2} ({3}), you ask for {4} ({5}).",
            at + 1,
            own.target.pieces.slice(0, at).join("").replaceAll("▁", " ").trim(),
            el("b", own.target.pieces[at]),
            chance(own.target.scores[at]),
            el("b", asked.target.pieces[at]),
            chance(asked.target.scores[at]),
          ),
        );
  host.replaceChildren(
    paragraph(verdict, "big " + (at < 0 ? "" : difference > 0 ? "up" : "down")),
    turn || "",
    added(asked.target) || "",
    el(
      "div.split.even",
      ...[
        [say("The model's"), own, 0],
        [say("Yours"), asked, 1],
      ].map(([name, result, side]) =>
        el(
          "div.card",
          el(
            "h3",
            name,
            el(
              "span.note",
              say(
                "log-probability {0}, {1} per piece",
                written(result),
                decimal(total(result) / result.target.scores.length, 2),
              ),
            ),
          ),
          chips(
            result,
            same.map((pair) => pair[side]),
          ),
          at >= 0
            ? el(
                "details",
                { open: true },
                el("summary", say("What could have come at piece {0}", at + 1)),
                bars(result.target.candidates[at], [result.target.pieces[at]]),
              )
            : "",
          maps[side],
        ),
      ),
    ),
  );
  [own, asked].forEach((result, i) => crossMap(maps[i], result));
}

// The versions of a sentence in the film: as it was served, another end after a runner-up, another hypothesis of the beam,
// or without some heads. Each says what it cost.
import { decimal, el, paragraph, segmented, textButton } from "../../common/dom.js";
import { say } from "../../common/sentences.js";
import { attentionOfVersion } from "../results.js";
import { diff } from "../search/diff.js";
import { ALIKE, instead, times, total, written } from "../search/scores.js";
import { $, guard, remember, showError, state } from "../state.js";
import { highlight } from "../text.js";
import { film, stop } from "./film.js";

/** The sentence of the film: its item, its attention as it was served, and `lab(text)`, which compares a text in the
 * laboratory. */
let shown = null;

/** Shows the film of a sentence in the version that `state.version` names (null: as it was served). */
export async function showFilm(item, served, lab) {
  shown = { item, served, lab };
  const { version } = state,
    found = version ? await decoded(item, version) : served;
  if (item !== state.items[state.current] || version !== state.version) return;
  const screen = el("div"),
    note = el("div.cost", { role: "status" });
  $("film").replaceChildren(screen, beams(item), note);
  film(screen, item, found, {
    from: version ? firstDifference(served, found) : 0,
    choose: guard((fork) => change({ fork })),
    point: (side, index) => (version ? null : highlight(item, side, index)),
  });
  if (version) note.append(...cost(version, served, found));
  $("without")?.replaceChildren(...(version?.off ? diff(served.target.text, found.target.text) : []));
}
async function decoded(item, version) {
  $("film").classList.add("busy");
  try {
    return await attentionOfVersion(item, version);
  } catch (error) {
    if (version === state.version) {
      state.version = null;
      remember(true);
    }
    throw error;
  } finally {
    $("film").classList.remove("busy");
  }
}
/** Shows another version: {fork}, {hypothesis, beam}, {off}, or null for the translation as it was served. */
export async function change(version) {
  showError(null);
  stop();
  Object.assign(state, { version, film: null, fresh: true });
  remember();
  $("film").scrollIntoView({ block: "nearest" });
  await showFilm(shown.item, shown.served, shown.lab);
}
/** Returns the choice of the hypotheses of the beam, if there is one. */
function beams(item) {
  const width = item.route.beam_size,
    beam = state.version?.beam || width;
  if (beam < 2) return el("div.beams");
  const choices = Array.from({ length: beam }, (_, i) => [i, i ? `${i + 1}.` : say("Best")]);
  const value = state.version ? (state.version.hypothesis ?? -1) : 0;
  return el(
    "div.row.note.beams",
    say("Found by a beam of {0}:", beam),
    segmented(
      say("Hypothesis of the beam"),
      choices,
      value,
      guard((hypothesis) => change(hypothesis || beam !== width ? { hypothesis, beam } : null)),
    ),
  );
}
/** Returns the number of words at the beginning that both versions share, or 0 for equal ones. */
function firstDifference(served, found) {
  const [a, b] = [served, found].map(({ target }) =>
    target.words.filter((word) => word.start < word.end).map((word) => word.text),
  );
  return Math.max(
    0,
    b.findIndex((word, i) => word !== a[i]),
  );
}
function cost(version, served, found) {
  const same = found.target.text === served.target.text,
    what = version.off
      ? say(version.off.includes(",") ? "Without these heads it writes" : "Without this head it writes")
      : version.fork
        ? say("From there it writes")
        : say("Hypothesis {0} of the beam", version.hypothesis + 1);
  const text = el(
    "span.diff",
    { dir: "auto", lang: found.language.target },
    ...diff(served.target.text, found.target.text),
  );
  return [
    el("p", el("span.note", what, same ? ` (${say("the same")}): ` : ": "), text),
    paragraph(price(version, served, found, same)),
    el(
      "div.row",
      textButton(
        say("Back to the translation"),
        guard(() => change(null)),
      ),
      same || version.off ? "" : textButton(say("Compare piece by piece"), () => shown.lab(found.target.text), "quiet"),
    ),
  ];
}
function price({ off }, served, found, same) {
  const difference = total(found) - total(served),
    numbers = instead(found, served);
  if (off && same)
    return Math.abs(difference) < ALIKE
      ? say("It is as sure of it as with all heads {0}.", numbers)
      : difference < 0
        ? say("It is {0} less sure of it {1}.", times(difference), numbers)
        : say("It is {0} more sure of it {1}.", times(-difference), numbers);
  if (off)
    return say("Its log-probability is {0}; the translation with all heads had {1}.", written(found), written(served));
  if (difference < 0)
    return say(
      "This costs {0}: the model finds it {1} less likely than its translation {2}.",
      decimal(-difference, 2),
      times(difference),
      numbers,
    );
  return same
    ? say("It is the translation that was served.")
    : say(
        "The model finds it {0} likelier than its translation {1}: a wider beam might have found it.",
        times(-difference),
        numbers,
      );
}

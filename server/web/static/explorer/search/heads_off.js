// "Switch heads off": translates the sentence again without some heads and shows the difference.
import { decimal, el, segmented, textButton, told } from "../../common/dom.js";
import { parts, say } from "../../common/sentences.js";
import { ask, query } from "../../common/server.js";
import { commandDialog } from "../dialog.js";
import { thumbnails } from "../maps/heads.js";
import { best, kinds, unpack } from "../maps/maps.js";
import { start } from "../maps/panel.js";
import { served, WANTED } from "../results.js";
import { direction, guard, masked, pair, remember, showError, state } from "../state.js";
import { pictureButton } from "../tabs.js";
import { diff } from "./diff.js";
import { total } from "./scores.js";
import { crossMap } from "./whynot.js";

/** Draws the panel. `found` is the attention of the sentence `item` with all heads. */
export function headsOff(host, item, found) {
  const kind = found.maps[state.maskKind] ? state.maskKind : "cross",
    grid = el("div"),
    panel = el("div");
  const key = (layer, head) => `${kind}.${layer}.${head}`;
  const count = el("b");
  const showCount = () => {
    count.textContent = state.masked.size === 1 ? say("1 head off") : say("{0} heads off", state.masked.size);
    remember();
    dispatchEvent(new Event("maskedchange"));
  };
  const all = (off) => {
    const [layers, per] = found.maps[kind].shape;
    for (let layer = 0; layer < layers; layer++)
      for (let head = 0; head < per; head++) state.masked[off ? "add" : "delete"](key(layer, head));
    headsOff(host, item, found);
  };
  const translateAgain = guard(async () => {
    showError(null);
    const masked_heads = masked(),
      text = { q: item.sentence.source, ...direction(item), beam_size: item.route.beam_size };
    const [unmasked, other, score, without] = await Promise.all([
      ask("/translate", { body: text }),
      ask("/translate", { body: { ...text, masked_heads } }),
      ask("/score", { body: pair(item, found.target.text, { masked_heads }) }),
      served(item, (which) => ask("/attention?" + query({ ...which, ...WANTED, masked_heads, figures: null }))).then(
        unpack,
      ),
    ]);
    const before = total(found),
      change = score.scores.score - before;
    const maps = [el("div"), el("div")];
    panel.replaceChildren(
      el(
        "div.card",
        el("h3", say("With {0}", count.textContent)),
        el("p.big.diff", ...diff(unmasked.translatedText, other.translatedText)),
        el(
          "p",
          ...parts(
            "The translation from before now has log-probability {0} instead of {1}: {2}.",
            el("b", decimal(score.scores.score, 2)),
            decimal(before, 2),
            el("b", { class: change < 0 ? "down" : "up" }, (change >= 0 ? "+" : "") + decimal(change, 2)),
          ),
        ),
        el(
          "div.row",
          textButton(say("JSON & curl"), () => commandDialog("POST", "/translate", { ...text, masked_heads }), "quiet"),
          pictureButton(item, found, { ...start(), layer: best(found).layer }),
        ),
      ),
      el(
        "div.split.even",
        ...[say("All heads"), say("With {0}", count.textContent)].map((title, i) =>
          el("div.card", el("h3", title, el("span.note", say("cross-attention, mean of heads"))), maps[i]),
        ),
      ),
    );
    [found, without].forEach((result, i) => crossMap(maps[i], result, best(found)));
  });
  host.replaceChildren(
    told("Choose heads to switch off: their output becomes zero. Then translate again and compare the translations."),
    el(
      "div.controls",
      segmented(say("Heads of"), kinds(found), kind, (value) => {
        state.maskKind = value;
        headsOff(host, item, found);
      }),
      textButton(say("All of these off"), () => all(true)),
      textButton(say("All on"), () => {
        state.masked.clear();
        headsOff(host, item, found);
      }),
      count,
      el("span.grow"),
      el("button.primary", { type: "button", id: "again", onclick: translateAgain }, say("Translate again")),
    ),
    panel,
    grid,
  );
  thumbnails(grid, found, kind, {
    state: (layer, head) => ({ pressed: state.masked.has(key(layer, head)) }),
    choose: (layer, head, button) => {
      const id = key(layer, head),
        off = !state.masked.has(id);
      state.masked[off ? "add" : "delete"](id);
      button.setAttribute("aria-pressed", off);
      showCount();
    },
  });
  showCount();
}

// The tabs below the translation. Each draws one panel for the current sentence.
import { el, noted, paragraph, select, textButton, told } from "../common/dom.js";
import { say } from "../common/sentences.js";
import { ask, query } from "../common/server.js";
import { commandDialog } from "./dialog.js";
import { change } from "./film/versions.js";
import { best, unpack } from "./maps/maps.js";
import { panel, start } from "./maps/panel.js";
import { attentionOf, WANTED } from "./results.js";
import { $, address, direction, guard, pair, remember, showError, state, TABS } from "./state.js";
import { highlight } from "./text.js";

/** Shows a tab for the current sentence. The content of the others is freed; they draw it again. */
export async function tab(wanted, focus) {
  showError(null);
  state.tab = wanted;
  for (const each of TABS) {
    $("tab-" + each).setAttribute("aria-selected", each === wanted);
    $("tab-" + each).tabIndex = each === wanted ? 0 : -1;
    $("panel-" + each).hidden = each !== wanted;
    if (each !== wanted) $("panel-" + each).replaceChildren();
  }
  const strip = $("tab-" + wanted).parentElement;
  strip.scrollLeft = $("tab-" + wanted).offsetLeft - strip.offsetLeft - 24; // a phone has room for three of the five tabs
  if (focus) $("tab-" + wanted).focus();
  remember();
  const item = state.items[state.current],
    host = $("panel-" + wanted);
  if (!item) return;
  const found = await attentionOf(item);
  if (item !== state.items[state.current] || wanted !== state.tab) return;
  await { attention, decoding: search, whynot, heads, works }[wanted](host, item, found);
}
/** Removes the content of all panels. */
export const emptyPanels = () => TABS.forEach((each) => $("panel-" + each).replaceChildren());

function attention(host, item, found) {
  const onPoint = ({ kind, level }, queryAt, keyAt) => {
    if (kind !== "alignment" && (kind !== "cross" || level !== "word")) return;
    if (queryAt !== null) highlight(item, "target", queryAt, false);
    else if (keyAt !== null) highlight(item, "source", keyAt, false);
    else highlight(item, undefined, undefined, false);
  };
  const json = (asked) =>
    textButton(say("JSON & curl"), () => commandDialog("GET", "/attention?" + query(address(item, asked))), "quiet");
  const tools = (shown) => {
    const { kind, level, layer, head, view } = shown,
      map = view === "map",
      rollout = head === "rollout";
    const asked =
      kind === "alignment"
        ? { alignment: found.alignment.method, kind: "cross", level: "word", head: "mean" }
        : {
            kind,
            level,
            layer: map ? layer : null,
            rollout: rollout || null,
            head: map && !rollout ? head : null,
            figures: view === "figures" || null,
          };
    return [json(asked), pictureButton(item, found, shown)];
  };
  item.word ??= state.word;
  state.word = null;
  panel(host, found, state.panel, { onPoint, changed: () => remember(), tools, link: state.link });
  if (item.word !== null && found.target.words[item.word]) highlight(item, "target", item.word);
}
/** Returns the button of the dialog for pictures, whose module is loaded when it is wanted. */
export const pictureButton = (...what) =>
  textButton(
    say("Download"),
    guard(async () => (await import("./picture.js")).openPicture(...what)),
    "quiet",
  );
async function search(host, item) {
  const beam = state.beam || Math.max(2, item.route.beam_size);
  const body = { q: item.sentence.source, ...direction(item), beam_size: beam },
    view = el("div");
  host.replaceChildren(
    el(
      "div.controls",
      el(
        "label.note",
        say("Beam width") + " ",
        select(
          say("Beam width of the trace"),
          [1, 2, 3, 4, 6, 8].map((n) => [n, String(n)]),
          beam,
          guard((n) => {
            state.beam = n;
            return tab("decoding");
          }),
        ),
      ),
      el("span.grow"),
      textButton(say("JSON & curl"), () => commandDialog("POST", "/trace", body), "quiet"),
    ),
    view,
  );
  if (item.trace?.beam !== beam) item.trace = { beam, found: await ask("/trace", { body }) };
  const { decoding } = await import("./search/decoding.js");
  decoding(
    view,
    item.trace.found,
    guard((hypothesis) => change({ hypothesis, beam })),
  );
  if (beam !== item.route.beam_size)
    view.prepend(
      noted(
        "The translation above was made with beam width {0}; this search has {1} and may find another.",
        item.route.beam_size,
        beam,
      ),
    );
}
function whynot(host, item, found) {
  const field = el(
    "textarea",
    {
      id: "asked",
      rows: "2",
      "aria-label": say("Your translation"),
      maxlength: "2000",
      dir: "auto",
      onkeydown: (event) => {
        if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
        event.preventDefault();
        show();
      },
    },
    item.asked || found.target.text,
  );
  const view = el("div");
  const show = guard(async () => {
    item.asked = field.value.trim();
    if (!item.asked) return;
    showError(null);
    remember();
    const { compare } = await import("./search/whynot.js");
    compare(view, found, unpack(await ask("/attention?" + query(pair(item, item.asked, WANTED)))));
  });
  const form = el(
    "form.row",
    {
      onsubmit: (event) => {
        event.preventDefault();
        show();
      },
    },
    el("button.primary", say("Compare")),
    textButton(say("JSON & curl"), () => commandDialog("POST", "/score", pair(item, field.value)), "quiet"),
    pictureButton(item, found, { ...start(), layer: best(found).layer }, (work) => work(pair(item, field.value))),
  );
  host.replaceChildren(
    told("Write the translation that you expected. The model computes the probability of each of its pieces."),
    paragraph(el("span.note", found.source.text)),
    field,
    el("p"),
    form,
    view,
  );
  if (item.asked) show();
}
async function heads(host, item, found) {
  const { headsOff } = await import("./search/heads_off.js"); // only this tab needs it
  if (item === state.items[state.current]) headsOff(host, item, found);
}
const works = async (...sentence) => (await import("./lesson.js")).works(...sentence);

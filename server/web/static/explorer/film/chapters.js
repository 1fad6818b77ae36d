// Three chapters below the film: who looked at whom, what it almost said, and what happens without a head.
import { el, paragraph, percent, textButton } from "../../common/dom.js";
import { say } from "../../common/sentences.js";
import { paint } from "../maps/colour.js";
import { role, usualRole } from "../maps/heads.js";
import { pick } from "../maps/maps.js";
import { alive, legend, worth } from "../maps/worth.js";
import { $, masked, remember, state } from "../state.js";
import { stage } from "./stage.js";
import { chanceOf, steps, weights } from "./steps.js";

const DOUBTS = 3;
let showBroken = () => {};
addEventListener("maskedchange", () => showBroken());

/** Draws the chapters of a sentence. `choose(prefix)` decodes again from a runner-up, `without(heads)` without some heads,
 * `open(tab)` shows a tab of the laboratory. */
export function chapters(item, found, { choose, without, open }) {
  $("chapters").replaceChildren(
    who(item, found, open),
    almost(item, found, choose, open),
    broken(found, without, open),
  );
}
function chapter(title, caption, body, more, open) {
  const [label, tab] = more;
  return el(
    "section.card.chapter",
    el("h2", title),
    caption,
    body,
    textButton(label, () => open(tab), "quiet more"),
  );
}
const heads = (found, kind = "cross") =>
  found.figures[kind].flatMap((row, layer) => row.map((figures, head) => ({ layer, head, figures })));
const called = ({ layer, head }) => say("layer {0}, head {1}", layer, head);

function who(item, found, open) {
  const picture = el("div.stage.small"),
    caption = el("p.caption", { "aria-live": "polite" }),
    choices = el("div.heads", { role: "group", "aria-label": say("Heads") });
  const options = [null, ...heads(found)];
  const buttons = options.map((option) => head(found, option, () => show(option) ?? remember()));
  function show(option) {
    state.who = option && [option.layer, option.head];
    buttons.forEach((button, i) => button.setAttribute("aria-pressed", options[i] === option));
    const script = steps(found, weights(found, option));
    const view = stage(picture, script, { ...item.route, onFocus: (at) => view.draw(Infinity, at) });
    view.draw(Infinity, null);
    const usual = option && usualRole(found, "cross", option.layer, option.head);
    caption.textContent =
      looked(script, option) +
      (usual ? ` ${say("Over {0} sentences: {1}.", found.roles.sentences, usual)}` : "") +
      (option ? ` ${worth(found, "cross", option.layer, option.head)}` : "");
  }
  choices.append(...buttons);
  const wanted =
    options.find((option) => option && state.who && option.layer === state.who[0] && option.head === state.who[1]) ||
    null;
  requestAnimationFrame(() => picture.isConnected && show(wanted));
  return chapter(
    say("Who looked at whom"),
    caption,
    el("div", choices, el("div.scroll", { tabindex: "0", role: "region", "aria-label": say("Ribbons") }, picture)),
    [say("Every layer and head"), "attention"],
    open,
  );
}
function looked({ sources, targets }, option) {
  const [target, [source, weight]] = targets
    .flatMap((word) => word.looks.map((look) => [word, look]))
    .filter(([word, [place]]) => [word, sources[place]].every(({ text }) => /[\p{L}\p{N}]/u.test(text)))
    .sort((a, b) => b[1][1] - a[1][1])[0] || [null, []];
  const strongest = target
    ? say("“{0}” looked hardest, at “{1}” ({2}).", target.text, sources[source].text, percent(weight))
    : "";
  if (!option) return `${say("The thicker a ribbon, the more a word looked there.")} ${strongest}`;
  if (!target || ["end", "start"].includes(option.figures.role))
    return `${say("The head {0} rests, it looks mostly at: {1}.", called(option), role(option.figures))} ${strongest}`;
  return `${say("One head alone, {0}.", called(option))} ${strongest}`;
}
/** Returns a button with the small map of a head (null: of the layer that aligns words). */
function head(found, option, choose) {
  const button = el("button.head", { type: "button", "aria-pressed": "false", onclick: choose });
  if (!option) button.append(say("All"));
  else button.append(paint(pick(found, "cross", option.layer, option.head, "word", false)));
  button.setAttribute(
    "aria-label",
    option
      ? `${called(option)}, ${say("looks mostly at")}: ${role(option.figures)}`
      : say("All heads of the layer that aligns words"),
  );
  button.classList.toggle("alive", Boolean(option) && alive(found, "cross", option.layer, option.head));
  button.title = `${button.getAttribute("aria-label")}. ${option ? worth(found, "cross", option.layer, option.head) : ""}`;
  return button;
}
function almost(item, found, choose, open) {
  const words = steps(found).targets.map((word) => ({ ...word, chance: chanceOf(found, word) }));
  const doubts = words
    .filter(({ text, runnersUp }) => runnersUp[0]?.prefix && /[\p{L}\p{N}]/u.test(text))
    .sort((a, b) => b.runnersUp[0].chance - a.runnersUp[0].chance)
    .slice(0, DOUBTS);
  const [first] = doubts;
  const caption = first
    ? say(
        "At “{0}” it hesitated most: “{1}” had {2}. Choose one, and it goes on from there.",
        first.text,
        first.runnersUp[0].text,
        percent(first.runnersUp[0].chance),
      )
    : say("It never hesitated.");
  const bar = (text, chance, prefix) => {
    const share = el("i");
    share.style.width = `${Math.max(1, 100 * chance)}%`;
    return el(
      "li",
      prefix ? textButton(text, () => choose(prefix)) : el("b", text),
      el("span.track", share),
      el("span.n", percent(chance)),
    );
  };
  return chapter(
    say("What it almost said"),
    paragraph(caption, "caption"),
    el(
      "div",
      ...doubts.map((word) =>
        el(
          "ul.doubts",
          { lang: item.route.target },
          bar(word.text, word.chance),
          ...word.runnersUp.filter(({ prefix }) => prefix).map(({ text, chance, prefix }) => bar(text, chance, prefix)),
        ),
      ),
    ),
    [say("The whole search"), "decoding"],
    open,
  );
}
function broken(found, without, open) {
  const choices = el("div.heads", { role: "group", "aria-label": say("Heads to switch off") });
  const id = ({ layer, head }) => `cross.${layer}.${head}`;
  for (const option of heads(found)) {
    const button = head(found, option, () => {
      state.masked[state.masked.has(id(option)) ? "delete" : "add"](id(option));
      show();
      without(masked());
    });
    button.dataset.head = id(option);
    choices.append(button);
  }
  const caption = el("p.caption");
  const all = textButton(say("Mend all"), () => {
    state.masked.clear();
    show();
    without("");
  });
  function show() {
    for (const button of choices.children) button.setAttribute("aria-pressed", state.masked.has(button.dataset.head));
    const off = state.masked.size;
    all.hidden = !off;
    caption.textContent = off
      ? say(
          off === 1
            ? "1 head is off. The film shows what the model writes without it."
            : "{0} heads are off. The film shows what the model writes without them.",
          off,
        )
      : say(
          "Each square is a head that looks from the translation to the source. Break some, and watch what the model still writes.",
        ) + ` ${legend(found)}`;
  }
  show();
  showBroken = show;
  return chapter(
    say("Break a head and watch"),
    caption,
    el("div", choices, all, el("p.diff", { id: "without", dir: "auto" })),
    [say("Heads of the encoder and decoder too"), "heads"],
    open,
  );
}

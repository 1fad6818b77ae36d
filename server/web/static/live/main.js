// Live translation: sends the words so far, shows what will not change any more, and why the next word waits.
import { $, el, observe, onText, svg } from "../common/dom.js";
import { say } from "../common/sentences.js";
import { ask, repeating } from "../common/server.js";
import { wordSpans } from "../common/words.js";
import { beginLanguage } from "../explorer/language.js";
import { languageName } from "../translator/messages.js";

const EXAMPLE = "My brother is working in the city because he has found a new job. He likes it very much.";
const SPEED = 420; // milliseconds for a word, as in calm speech
const PAUSE = 1500; // after the end of a sentence, so that nothing is expected to follow
const units = (text, characters) => [...text].slice(0, characters).join("").length;

/** The text up to `base` is translated by `done`; `prefix` is given out for `sent`, the words after it; `answer` is the last one. */
const fresh = () => ({ base: 0, done: [], prefix: [], sent: "", answer: null });
let live = fresh(),
  busy = false,
  ended = false,
  timer = 0,
  typing = 0,
  languages = [];

/** Translates the words of the field that were not sent yet, one request after the other. */
async function translate() {
  if (busy) return;
  busy = true;
  try {
    if (!languages.length) await load();
    while (await advance());
    failed(null);
  } catch (error) {
    failed(error);
  } finally {
    busy = false;
  }
}
const again = repeating(translate);
function failed(error) {
  $("error").textContent = error ? (error.sentence?.() ?? error.message) : "";
  $("error").hidden = !error;
  again(error);
}

/** Sends the words that are new. Returns whether there was something to send. */
async function advance() {
  const text = $("text").value,
    now = live;
  if (!text.startsWith(now.done.map(([source]) => source).join(""))) live = fresh();
  if (!text.slice(live.base).startsWith(live.sent)) Object.assign(live, { prefix: [], sent: "" });
  const rest = text.slice(live.base),
    q = ended ? rest : rest.replace(/\S+$/, "");
  if ($("text").composing || !q.trim() || (q === live.sent && !ended)) {
    if (!rest.trim() && !live.done.length) show();
    return false;
  }
  const from = live,
    body = {
      q,
      source: $("from").value,
      target: $("to").value,
      prefix: live.prefix,
      wait: Number($("wait").value),
      final: ended,
    };
  const answer = await ask("/live", { body });
  if (live !== from) return true; // the languages have changed
  if (answer.complete) {
    const end = units(q, answer.consumed);
    live.done.push([q.slice(0, end), answer.target.text]);
    Object.assign(live, { base: live.base + end, prefix: [], sent: "" });
  } else Object.assign(live, { prefix: answer.prefix, sent: q });
  live.answer = answer;
  show();
  return true;
}

function show() {
  const { answer } = live,
    open = answer && !answer.complete;
  const kept = open ? units(answer.target.text, answer.kept) : 0;
  $("output").replaceChildren(
    live.done.map(([, target]) => target).join(" "),
    live.done.length && open ? " " : "",
    ...(open ? [answer.target.text.slice(0, kept), el("span.pending", answer.target.text.slice(kept))] : []),
  );
  $("decision").hidden = !answer;
  if (answer) draw(answer);
}

/** Draws a line from each word of the translation to the source word that it comes from, and says why the next one waits. */
function draw({ source, target, words, aligned, kept, complete }) {
  const spoken = words.source.flatMap((word, i) =>
      word.start < word.end && /[\p{L}\p{N}]/u.test(word.text) ? [i] : [],
    ),
    late = new Set(complete ? [] : spoken.slice(-Number($("wait").value)));
  const next = complete ? -1 : words.target.findIndex((word) => word.start < word.end && word.end > kept);
  const sources = wordSpans($("source"), source.text, { text: source.text, words: words.source }, (node, _, i) => {
    node.classList.toggle("late", late.has(i));
    node.classList.toggle("holds", next >= 0 && aligned[next] === i);
  });
  const targets = wordSpans($("target"), target.text, { text: target.text, words: words.target }, (node, word, i) => {
    node.classList.toggle("pending", !complete && word.end > kept);
    node.classList.toggle("holds", i === next);
  });
  const lines = () => {
    $("decision").querySelector("svg")?.remove();
    const frame = $("decision").getBoundingClientRect();
    const paths = [...targets].flatMap(([i, node]) => {
      const from = sources.get(aligned[i])?.getBoundingClientRect(),
        to = node.getBoundingClientRect();
      if (!from) return [];
      const [x, y] = [from.left + from.width / 2 - frame.left, from.bottom - frame.top],
        [u, v] = [to.left + to.width / 2 - frame.left, to.top - frame.top];
      const d = `M${x} ${y}C${x} ${(y + v) / 2} ${u} ${(y + v) / 2} ${u} ${v}`;
      return [svg("path", { d, class: i === next ? "holds" : "" })];
    });
    $("decision").append(svg("svg", { "aria-hidden": "true" }, ...paths));
  };
  lines();
  observe($("decision"), lines);
  $("reason").textContent = complete
    ? say("The sentence has ended: all of its translation is out.")
    : next < 0
      ? say("All that could be translated is out.")
      : aligned[next] !== null && late.has(aligned[next])
        ? say(
            "“{0}” waits: it comes from “{1}”, one of the last words.",
            words.target[next].text,
            words.source[aligned[next]].text,
          )
        : say("“{0}” waits for the end of the sentence.", words.target[next].text);
}

/** Types the example word by word, or stops typing. */
function play() {
  clearInterval(typing);
  $("play").textContent = say(typing ? "Type an example" : "Stop");
  if (typing) return void (typing = 0);
  const words = EXAMPLE.split(" ");
  $("from").value = "en";
  restart();
  $("text").value = "";
  typing = setInterval(() => {
    $("text").value += `${words.shift()} `;
    typed();
    if (!words.length) play();
  }, SPEED);
}

function typed() {
  ended = false;
  clearTimeout(timer);
  timer = setTimeout(() => {
    ended = /[.!?…]\s*$/.test($("text").value);
    if (ended) translate();
  }, PAUSE);
  translate();
}
/** Begins again, as after another choice of languages, whose targets are those of the source. */
function restart() {
  const { targets } = languages.find(({ code }) => code === $("from").value),
    chosen = $("to").value,
    shown = languages.filter(({ code }) => targets.includes(code) && code !== $("from").value);
  $("to").replaceChildren(
    ...shown.map(({ code }) => el("option", { value: code, selected: code === chosen }, languageName(code))),
  );
  live = fresh();
  show();
  typed();
}

async function load() {
  await beginLanguage();
  languages = await ask("/languages");
  const sources = languages.filter(({ code, targets }) => targets.some((target) => target !== code));
  $("from").replaceChildren(
    ...sources.map(({ code }) => el("option", { value: code, selected: code === "en" }, languageName(code))),
  );
  $("play").disabled = !sources.some(({ code }) => code === "en"); // the example is English
  restart();
}
for (const id of ["from", "to", "wait"]) $(id).addEventListener("change", restart);
$("play").addEventListener("click", play);
onText($("text"), (event) => {
  if (typing && event.isTrusted) play();
  if (event.isComposing) clearTimeout(timer);
  else typed();
});
$("translate").addEventListener("submit", (event) => event.preventDefault());
translate();

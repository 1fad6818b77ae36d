// The film of a sentence: its translation appears word by word, with what each word looked at and what else was likely.
import { el, percent } from "../../common/dom.js";
import { say } from "../../common/sentences.js";
import { remember, state } from "../state.js";
import { player, still } from "./player.js";
import { HOLD, stage } from "./stage.js";
import { chanceOf, steps } from "./steps.js";

const SHOWN = 0.02;
const UPPER = "0px 0px -25% 0px"; // the part of the window in which the first text must be
let current = null;

/** Shows the film of `found`. `from` is the word that it begins with. `choose(prefix)` is called with a runner-up, `point`
 * with the word under the pointer: (side, index) as in `found`, or nothing. */
export function film(host, item, found, { from = 0, choose, point = () => {} }) {
  stop();
  const script = steps(found),
    picture = el("div.stage"),
    runners = el("div.runners", { role: "group", "aria-label": say("What it almost wrote") });
  const play = el("button.primary.play", { type: "button" }),
    readout = el("p.readout", { "aria-live": "polite" });
  const slider = el("input", {
    type: "range",
    id: "scrubber",
    min: "0",
    step: "any",
    "aria-label": say("Position in the film"),
  });
  host.replaceChildren(el("div.screen", picture, runners), el("div.row.scrub", play, slider), readout);
  const focus = (at) => {
    view.draw(reel.position, at);
    point(...(at ? [at[0], script[at[0] + "s"][at[1]].index] : []));
  };
  const view = stage(picture, script, { ...item.route, onFocus: focus, onPick: (word) => dragged || hold(word) });
  const reel = player(script.targets, view.end, { show, changed });
  let at = -1,
    dragged = false;
  slider.max = view.end;

  // It waits with its first frame until it is seen.
  const eye = new IntersectionObserver((seen) => seen.at(-1).isIntersecting && current.play(), {
    rootMargin: UPPER,
  });
  picture.addEventListener("pointerdown", () => (dragged = false));
  picture.addEventListener("pointermove", (event) => {
    if (event.buttons !== 1 || (Math.abs(event.movementX) < 1 && !dragged)) return;
    dragged = true;
    const box = picture.getBoundingClientRect();
    reel.seek(((event.clientX - box.left) / box.width) * view.end);
    readout.textContent = "";
  });
  function show(position) {
    view.draw(position, null);
    slider.value = position;
    const word = Math.min(script.targets.length, Math.ceil(position)) - 1,
      inside = position - word;
    const ended = position >= view.end - 1e-6;
    if (word !== at || ended !== (runners.hidden && word >= 0)) offer(word, ended);
    runners.style.opacity = reel.playing ? Math.max(0, Math.min(1, (inside - 0.3) / 0.2, (1 - inside) / 0.12)) : 1;
  }
  /** Shows the runners-up of a word below it. */
  function offer(word, ended) {
    at = word;
    runners.hidden = word < 0 || ended;
    slider.setAttribute(
      "aria-valuetext",
      word < 0
        ? say("start")
        : ended
          ? say("end")
          : say("word {0} of {1}: {2}", word + 1, script.targets.length, script.targets[word].text),
    );
    if (runners.hidden) return;
    const { runnersUp } = script.targets[word];
    runners.replaceChildren(
      ...runnersUp.map(({ text, chance, prefix }) => {
        const node = el(
          "button",
          {
            type: "button",
            disabled: !prefix,
            title: prefix ? say("Decode again from here") : "",
            onclick: () => choose(prefix),
          },
          text,
          el("small", percent(chance)),
        );
        node.classList.toggle("unlikely", chance < SHOWN);
        return node;
      }),
    );
    const box = view.nodes.target[word].getBoundingClientRect(),
      frame = picture.getBoundingClientRect();
    runners.style.top = `${box.bottom - frame.top + 4}px`;
    runners.style.left = `${Math.max(0, Math.min(box.left - frame.left - 8, frame.width - runners.offsetWidth))}px`;
  }
  function changed(playing) {
    play.textContent = playing ? say("Pause") : reel.position >= view.end ? say("Play again") : say("Play");
    play.setAttribute("aria-pressed", playing);
    readout.textContent = playing ? "" : described();
    if (!playing && reel.position >= view.end) keep(null);
  }
  /** Says in words what is seen. */
  function described() {
    if (at < 0) return "";
    if (reel.position >= view.end) return say("Choose a word to see what it looked at and what else was likely.");
    const word = script.targets[at],
      looks = [...word.looks].sort((a, b) => b[1] - a[1]).slice(0, 3);
    const seen = looks.map(([place, weight]) => `“${script.sources[place].text}” (${percent(weight)})`).join(", ");
    const others = word.runnersUp
      .filter(({ chance }) => chance >= SHOWN)
      .map(({ text, chance }) => `“${text}” (${percent(chance)})`)
      .join(", ");
    return [
      say(
        "“{0}” had a probability of {1} and looked at {2}.",
        word.text,
        percent(chanceOf(found, word)),
        seen || say("no word in particular"),
      ),
      others ? say("It was almost {0}.", others) : say("Nothing else was likely."),
    ].join(" ");
  }
  function hold(word) {
    reel.seek(Math.max(0, Math.min(word, script.targets.length - 1)) + HOLD);
    readout.textContent = described();
    play.textContent = say("Play");
    keep(word);
  }
  const keep = (word) => {
    state.film = word;
    remember(true);
  };
  play.onclick = () =>
    eye.disconnect() ?? (reel.playing ? (reel.pause(), hold(Math.max(0, at))) : (keep(null), reel.play()));
  slider.addEventListener("input", () => {
    reel.seek(Number(slider.value));
    readout.textContent = "";
  });
  slider.addEventListener("change", () => (Number(slider.value) >= view.end ? finish() : hold(Math.max(0, at))));
  slider.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    if (at + by >= script.targets.length) finish();
    else hold(reel.position >= view.end ? at : at + by);
  });
  function finish() {
    reel.seek(view.end);
    changed(false);
  }
  current = {
    stop: () => {
      eye.disconnect();
      reel.pause();
    },
    /** Marks a word of `found` in the picture. */
    point: (side, index) =>
      reel.playing ||
      view.draw(reel.position, side ? [side, script[side + "s"].findIndex((word) => word.index === index)] : null),
    play: () => {
      eye.disconnect();
      reel.seek(from);
      reel.play();
    },
  };
  changed(false);
  if (state.film !== null && state.film < script.targets.length) hold(state.film);
  else if (state.fresh && !still()) {
    reel.seek(from);
    eye.observe(picture.querySelector(".source"));
  } else finish();
  state.fresh = false;
}
export const stop = () => current?.stop();
/** Marks a word in the film that is shown. */
export const pointInFilm = (side, index) => current?.point(side, index);

// Figures 3 to 5 of "Attention Is All You Need" for the loaded model. Each is the picture of one GET /attention.
import { el, paragraph, percent } from "../../common/dom.js";
import { say } from "../../common/sentences.js";
import { ask, query, withKey } from "../../common/server.js";
import { pick, unpack } from "../maps/maps.js";

const LAW =
  "The Law will never be perfect, but its application should be just - this is what we are missing, in my opinion.";
const MAKING =
  "It is in this spirit that a majority of American governments have passed new laws since 2009 making the registration or voting process more difficult.";
const MOST_HEADS = 8,
  SHARP = 0.3;

/** Draws the three figures for a direction {source, target} of a model; `source` is English. */
export async function figures(host, { source, target }) {
  const direction = { source, target };
  const read = async (q) =>
    unpack(await ask("/attention?" + query({ q, ...direction, kind: "encoder", numbers: "uint16", format: "json" })));
  const making = await read(MAKING),
    law = await read(LAW);
  const drawn = [longDistance(making), anaphora(law), structure(law)].map(({ number, title, chosen, ...more }) => {
    const found = more.share < SHARP ? `${more.found} ${say("So no head of this model does it.")}` : more.found;
    const path =
      "/attention?" +
      query({
        q: number === 3 ? MAKING : LAW,
        ...direction,
        kind: "encoder",
        level: "word",
        special: 0,
        view: "lines",
        ...chosen,
        format: "svg",
      });
    const picture = el("img.figure", { alt: `${title} ${found}` });
    show(picture, path + `&theme=${document.documentElement.dataset.theme === "dark" ? "dark" : "light"}`);
    return el(
      "div.card",
      el("h3", say("Figure {0}: {1}", number, title)),
      paragraph(found),
      picture,
      el("pre", { tabindex: "0" }, `curl '${new URL(`.${path}`, location.href)}' -o figure${number}.svg`),
    );
  });
  host.replaceChildren(...drawn);
}
async function show(picture, path) {
  const answer = await fetch(`.${path}`, { headers: withKey({}) });
  if (!answer.ok) return;
  picture.src = URL.createObjectURL(await answer.blob());
  picture.onload = () => URL.revokeObjectURL(picture.src);
}
/** Returns the weight of every head from a word to each of others: [{layer, head, word, weight}], largest first. */
function heads(result, from, to) {
  const [layers, count] = result.maps.encoder.shape,
    found = [];
  for (let layer = 0; layer < layers; layer++)
    for (let head = 0; head < count; head++) {
      const map = pick(result, "encoder", layer, head, "word", false),
        row = map.queries.indexOf(from) * map.columns;
      for (const word of to) found.push({ layer, head, word, weight: map.data[row + map.keys.indexOf(word)] });
    }
  return found.sort((a, b) => b.weight - a.weight);
}
const place = ({ layer, head, word, weight }) =>
  say("head {0} of layer {1} ({2} to “{3}”)", head, layer, percent(weight), word);

function longDistance(result) {
  const [best] = heads(result, "making", ["difficult", "more"]),
    count = Math.min(MOST_HEADS, result.maps.encoder.shape[1]);
  return {
    number: 3,
    title: say("a long-distance dependency"),
    share: best.weight,
    chosen: { layer: best.layer, head: [...Array(count).keys()].join(","), query: "making" },
    found: say(
      "In the paper several heads look from “making” to “more difficult”, which complete the phrase. Here the largest of these weights is that of {0}; the picture shows all heads of its layer.",
      place(best),
    ),
  };
}
function anaphora(result) {
  const all = heads(result, "its", ["Law", "application"]),
    [best] = all,
    second = all.find(({ layer, head }) => layer === best.layer && head !== best.head);
  return {
    number: 4,
    title: say("what “its” refers to"),
    share: best.weight,
    chosen: {
      layer: best.layer,
      head: [best, ...(second ? [second] : [])].map(({ head }) => head).join(","),
      query: "its",
    },
    found: say(
      "In the paper two heads look from “its” sharply to “Law” and “application”. Here the largest of these weights in one layer: {0}.",
      [best, second].filter(Boolean).map(place).join("; "),
    ),
  };
}
/** Chooses the two heads of one layer whose weights differ most. */
function structure(result) {
  const [layers, count] = result.maps.encoder.shape;
  let best = { layer: 0, pair: [0], distance: -1 };
  for (let layer = 0; layer < layers; layer++) {
    const maps = Array.from({ length: count }, (_, head) => pick(result, "encoder", layer, head, "word", false));
    maps.forEach((a, i) =>
      maps.slice(0, i).forEach((b, j) => {
        const distance = a.data.reduce((sum, weight, k) => sum + Math.abs(weight - b.data[k]), 0) / (2 * a.rows);
        if (distance > best.distance) best = { layer, pair: [j, i], distance };
      }),
    );
  }
  return {
    number: 5,
    title: say("the structure of the sentence"),
    share: best.distance,
    chosen: { layer: best.layer, head: best.pair.join(",") },
    found: say(
      "In the paper two heads of one layer follow different structures. Here the two that differ most are heads {0} of layer {1}: on average they place {2} of the weight differently.",
      best.pair.join(" + "),
      best.layer,
      percent(Math.max(0, best.distance)),
    ),
  };
}

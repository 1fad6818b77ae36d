// All heads of a model: thumbnails of their maps, and their statistics.
import { decimal, el, noted, observe, paragraph, percent, table, textButton } from "../../common/dom.js";
import { say } from "../../common/sentences.js";
import { paint } from "./colour.js";
import { heat } from "./heat.js";
import { pick } from "./maps.js";
import { alive, legend, rise, worth } from "./worth.js";

const ROLES = {
  end: "end of sentence",
  start: "first token",
  previous: "previous token",
  before_previous: "the token before the previous",
  next: "next token",
  same: "same token",
  rare: "the rarest piece",
  delimiter: "punctuation",
  diagonal: "the same place in the sentence",
  mixed: "nothing in particular",
  broad: "many words at once",
};
/** Returns the role of a head in words. */
export const role = (figures) => say(ROLES[figures.role] || figures.role);
/** Returns the role of a head over the sentences of the import, with its share; nothing if the model has none. */
export function usualRole(result, kind, layer, head) {
  const usual = result.roles?.heads[kind]?.[layer]?.[head];
  return usual && role(usual) + (usual.role === "mixed" ? "" : ` (${percent(usual.share)})`);
}

/** Draws layers x heads as thumbnails. `choose(layer, head)` is called on a click; `state(layer, head)` returns
 * {current, pressed}. */
export function thumbnails(host, result, kind, { choose, state = () => ({}), level = "piece", special = true }) {
  const [layers, heads] = result.maps[kind].shape;
  const grid = el("div.model"),
    jobs = [];
  grid.style.setProperty("--heads", heads);
  for (let layer = 0; layer < layers; layer++) {
    const row = el(
      "div.layer",
      { role: "group", "aria-label": say("layer {0}", layer) },
      el("span", say("layer {0}", layer)),
    );
    for (let head = 0; head < heads; head++) {
      const figures = result.figures?.[kind]?.[layer]?.[head],
        { current, pressed } = state(layer, head);
      const picture = el("canvas", { "aria-hidden": "true" }),
        name = say("head {0}", head) + (figures ? " · " + role(figures) : "");
      const button = el(
        "button",
        {
          type: "button",
          class: alive(result, kind, layer, head) ? "thumb alive" : "thumb",
          onclick: () => choose(layer, head, button),
          title: [
            figures &&
              say("entropy {0} bits, diagonality {1}", decimal(figures.entropy, 2), decimal(figures.diagonality, 2)),
            worth(result, kind, layer, head),
          ]
            .filter(Boolean)
            .join(". "),
        },
        picture,
        el("small", name),
      );
      button.setAttribute("aria-label", `${say(kind)}, ${say("layer {0}", layer)}, ${name}`);
      if (current) button.setAttribute("aria-current", "true");
      if (pressed !== undefined) button.setAttribute("aria-pressed", pressed);
      jobs.push(() => paint(pick(result, kind, layer, head, level, special), 1, picture));
      row.append(button);
    }
    grid.append(row);
  }
  host.replaceChildren(paragraph(legend(result), "note"), grid);
  const draw = () => jobs.forEach((job) => job());
  draw();
  observe(host, draw);
}

/** Shows entropy and diagonality of every head as maps, and with the roles as a table. */
export function figures(body, result, kind, choose) {
  const bits = el("div"),
    diagonal = el("div");
  body.append(
    noted(
      "Entropy says how widely a head looks (0 bits: one token). Diagonality is 1 for a head that follows the order of the sentence, 0 for one that looks everywhere alike.",
    ),
    el(
      "div.split.even",
      el("div.card", el("h3", say("Entropy in bits")), bits),
      el("div.card", el("h3", say("Diagonality")), diagonal),
    ),
    numbers(result, kind, choose),
  );
  byHead(bits, result, kind, "entropy");
  byHead(diagonal, result, kind, "diagonality");
}
function numbers(result, kind, choose) {
  const { roles } = result,
    costs = roles?.losses;
  const rows = result.figures[kind].flatMap((row, layer) =>
    row.map((f, head) =>
      el(
        "tr",
        el(
          "td",
          textButton(say("layer {0}, head {1}", layer, head), () => choose(layer, head), "quiet"),
        ),
        el("td", role(f) + (f.role_share ? ` (${say("{0} of queries", percent(f.role_share))})` : "")),
        ...(roles ? [el("td", usualRole(result, kind, layer, head) || "")] : []),
        ...[
          ...(costs ? [decimal(rise(result, kind, layer, head) ?? 0, 3)] : []),
          decimal(f.entropy, 2),
          percent(f.spread),
          decimal(f.diagonality, 2),
        ].map((n) => el("td.n", n)),
      ),
    ),
  );
  const names = [
    say("head"),
    say("looks mostly at"),
    ...(roles ? [say("over {0} sentences", roles.sentences)] : []),
    ...(costs ? [say("costs when off (nats)")] : []),
    say("entropy (bits)"),
    say("of the largest"),
    say("diagonality"),
  ];
  return table(say("Numbers"), names, rows);
}
/** Draws one number per head as a heat map of layers x heads. */
function byHead(host, result, kind, name) {
  const values = result.figures[kind].map((row) => row.map((f) => f[name])),
    number = (x) => decimal(x, 2);
  heat(
    host,
    {
      rows: values.length,
      columns: values[0].length,
      data: Float32Array.from(values.flat()),
      queries: values.map((_, i) => say("layer {0}", i)),
      keys: values[0].map((_, i) => say("head {0}", i)),
    },
    { label: say(name), format: number, scale: number, verb: "·", top: Math.max(...values.flat()) || 1 },
  );
}

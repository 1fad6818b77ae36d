// One word followed through the model that translated it: every number is one of GET /attention/tensors, from the engine that served.
import { decimal, el, noted, paragraph, percent, select, table, textButton } from "../../common/dom.js";
import { say } from "../../common/sentences.js";
import { tensorDialog } from "../dialog.js";
import { pick } from "../maps/maps.js";
import { worth, worthOfLayers } from "../maps/worth.js";
import { slider, strip } from "./drawings.js";
import { bits, mean, softmax } from "./numbers.js";

const SHOWN = 3,
  MOST = 160, // rows and columns of the drawing of a layer
  NUMBERS = 150_000; // of an answer
const length = (x) => decimal(Math.hypot(...x), 2);
const number = (x) => (x === -Infinity ? "−∞" : decimal(x, 3));
const values = (answer, name) => answer.tensors[name].values;
const vector = (answer, name) => {
  const [row] = values(answer, name);
  return Array.isArray(row) ? row : values(answer, name);
};
const isWord = ({ text, start, end }) => start < end && /[\p{L}\p{N}]/u.test(text);

const same = (a, b) => a.text.toLowerCase() === b.text.toLowerCase();

/** Returns what is followed first: the longest word of the source, of those that it has twice if there are any, its translation, the head of the encoder that looks hardest from it at
 * another word, and the last layer of the decoder, as [piece, piece, layer, head, layer]. */
function first(result) {
  const { source, target, alignment, maps } = result,
    words = source.words.filter(isWord),
    twice = words.filter((word) => words.some((other) => other !== word && same(other, word) && word.text.length > 3)),
    [word] = [...(twice.length ? twice : words)].sort((a, b) => b.text.length - a.text.length || a.start - b.start),
    link = alignment.links.find(([s]) => s === source.words.indexOf(word)),
    [piece] = word?.pieces ?? [0],
    [layers, heads, , n] = maps.encoder.shape;
  const others = words.filter((other) => other !== word).flatMap(({ pieces }) => pieces),
    weight = (at) => Math.max(0, ...others.map((k) => maps.encoder.data[(at * n + piece) * n + k])),
    [head] = [...Array(layers * heads).keys()].sort((a, b) => weight(b) - weight(a));
  return [
    piece,
    target.words[link?.[1] ?? 0].pieces[0],
    Math.floor(head / heads),
    head % heads,
    maps.cross.shape[0] - 1,
  ];
}

/** Returns the stations, [[name, title, text, draw(host)]], of which each draws itself again when `redraw()` is called. `read(parameters)` asks
 * for tensors; `chosen` is as in `first`, or null; `choose(chosen)` is called for other pieces, layers and heads. */
export function path(result, model, read, chosen, choose) {
  const c = model.config,
    layers = { encoder: c.encoder_layers, decoder: c.decoder_layers },
    { source, target, decoder_input: input } = result,
    at = chosen ?? first(result),
    limits = [source.pieces.length, target.pieces.length, layers.encoder, c.heads, layers.decoder];
  limits.forEach((n, i) => (at[i] = Math.min(at[i], n - 1)));
  const recurrent = c.recurrence === "ssru",
    hosts = new Map();
  let asked = 0;

  // -- drawing --
  const facts = (answer, name) => () => tensorDialog(name, answer.tensors[name], answer.path);
  /** Returns a line: what a tensor is, its numbers in colours, and the number under the pointer. */
  function line(label, answer, name, row = vector(answer, name), { formula } = answer.tensors[name]) {
    const ends = () => `${number(Math.min(...row))} … ${number(Math.max(...row))}`,
      readout = el("span.note.n", ends()),
      picture = strip([row], { read: (i) => (readout.textContent = `[${i}] ${number(row[i])}`) });
    picture.addEventListener("pointerleave", () => (readout.textContent = ends()));
    const open = facts(answer, name);
    picture.addEventListener("click", open);
    return el(
      "div.tensor",
      el("button.quiet", { type: "button", onclick: open }, label, " ", el("code", formula)),
      picture,
      readout,
    );
  }
  /** Returns a number that opens the tensor to which it belongs. */
  const named = (answer, name, text) => textButton(text, facts(answer, name), "quiet figure");
  /** Returns the table of a head, which has a name: each key, its product, the mask, its weight and its value. */
  function looks(title, answer, sub, keys, seen = () => true) {
    const [scores] = values(answer, `${sub}.scores`),
      [weights] = values(answer, `${sub}.weights`),
      [keyRows, valueRows] = ["key", "value"].map((name) => values(answer, `${sub}.${name}`)),
      largest = Math.max(...weights),
      parts = valueRows.map((row, k) => row.map((x) => x * weights[k])),
      tops = [keyRows, parts].map((rows) => Math.max(...rows.flat().map(Math.abs))),
      masked = keys.some((_, k) => !seen(k));
    const heads = [
      ["key", say("key")],
      ["scores", `q · k / √${c.head_dim}`],
      ...(masked ? [["scores", say("+ the mask")]] : []),
      ["weights", say("softmax: weight")],
      ["value", say("weight · value")],
    ].map(([name, text]) => named(answer, `${sub}.${name}`, text));
    const bar = (share) => {
      const fill = el("i");
      fill.style.width = `${(100 * share) / largest}%`;
      return el("span.track", fill);
    };
    const rows = keys.map((key, k) =>
      el(
        "tr",
        { class: weights[k] === largest ? "on" : "" },
        el("td", key, strip([keyRows[k]], { top: tops[0] })),
        el("td.n", { onclick: facts(answer, `${sub}.scores`) }, number(scores[k])),
        ...(masked ? [el("td.n", seen(k) ? "0" : "−∞")] : []),
        el(
          "td.n",
          { onclick: facts(answer, `${sub}.weights`) },
          weights[k] ? percent(weights[k]) : "0\u00a0%",
          bar(weights[k]),
        ),
        el("td", strip([parts[k]], { top: tops[1] })),
      ),
    );
    return [table(title, heads, rows), line(say("Σ weight · value"), answer, `${sub}.head`)];
  }
  const strongest = (weights, keys) =>
    [...weights.entries()]
      .sort((a, b) => b[1] - a[1])
      .slice(0, SHOWN)
      .map(([k, weight]) => `${keys[k]} ${percent(weight)}`)
      .join(" · ");
  const reads = () => (at[2] ? { formula: say("layer {0}", at[2] - 1) } : undefined);
  const residual = (answer, sub) => line("+", answer, `${sub}.residual`);
  const active = (answer) => vector(answer, "feed_forward.active").filter((x) => x).length;
  const network = (answer) => [
    line(say("units"), answer, "feed_forward.inner"),
    line(say("active"), answer, "feed_forward.active"),
    line(say("adds"), answer, "feed_forward.output"),
    line("LayerNorm", answer, "feed_forward.norm"),
  ];

  // -- stations: [name, title, draw(encoder, decoder, cross) -> [text, ...nodes]] --
  const word = () => source.pieces[at[0]],
    written = () => target.pieces[at[1]];
  const stations = [
    [
      "pieces",
      say("Text, pieces, numbers"),
      (e) => [
        say(
          "A model reads no letters. The text is cut into pieces of a vocabulary of {0}; each is the number of a row of the embedding.",
          c.vocab_size,
        ),
        el(
          "div.chips",
          { lang: result.language.source },
          ...source.pieces.map((piece, i) =>
            el("span", { class: i === at[0] ? "chip at" : "chip" }, piece, el("small", String(e.source_ids[i]))),
          ),
        ),
      ],
    ],
    [
      "batch",
      say("A batch with its padding"),
      () => {
        const others = [...document.querySelectorAll("#examples button")]
            .map((button) => button.textContent.split(" "))
            .slice(1, 3),
          rows = [source.pieces, ...others],
          widest = Math.max(...rows.map((row) => row.length));
        return [
          say(
            "A drawing, not the memory of this server. Where all sentences of a batch have one length, the shorter ones are filled with <pad>, and −∞ in the mask keeps every word from looking there.",
          ),
          el(
            "div.batch.wide",
            { tabindex: "0", role: "region", "aria-label": say("A batch with its padding") },
            ...rows.map((row) =>
              el(
                "div",
                ...Array.from({ length: widest }, (_, i) =>
                  el("span", { class: i < row.length ? "" : "pad" }, row[i] ?? "<pad>"),
                ),
              ),
            ),
          ),
        ];
      },
    ],
    [
      "embedding",
      say("Embedding and position"),
      (e, _d, _all, _last, [below]) => [
        say(
          "Row {0} of the embedding, times √{1}, and the vector of place {2} are added. The sum is all that the first layer knows of “{3}”.",
          e.source_ids[at[0]],
          c.d_model,
          at[0],
          word(),
        ),
        line(say("row"), below, "embedding"),
        line(
          say("place"),
          below,
          "stream",
          vector(below, "stream").map((x, i) => x - vector(below, "embedding")[i]),
          {
            formula: "stream - embedding",
          },
        ),
        line(say("sum"), below, "stream"),
      ],
    ],
    [
      "vectors",
      say("Query, key and value"),
      (e) => [
        say(
          "Three matrices make three vectors of {0} numbers of one word, in each head. As in a library: the query is what you look for, the key is the title on a shelf, the value is the book behind it.",
          c.head_dim,
        ),
        line("x", e, "input", undefined, reads()),
        line("q", e, "self.query"),
        line("k", e, "self.key", values(e, "self.key")[at[0]]),
        line("v", e, "self.value", values(e, "self.value")[at[0]]),
      ],
    ],
    [
      "head",
      say("What does this word look at, and why?"),
      (e) => {
        const [weights] = values(e, "self.weights"),
          [most] = source.words
            .filter(isWord)
            .flatMap(({ pieces }) => pieces)
            .sort((a, b) => weights[b] - weights[a]),
          raw = softmax(values(e, "self.scores")[0].map((x) => x * Math.sqrt(c.head_dim)));
        return [
          say(
            "Of the words, “{0}” looks most at “{1}” ({2}): the product of its query with that key is the largest. The softmax makes weights of the products, whose sum is 100 %; the values, each times its weight, are what the head returns.",
            word(),
            source.pieces[most],
            percent(weights[most]),
          ),
          ...looks(say("What does this word look at, and why?"), e, "self", source.pieces),
          noted(
            "Divided by √{0}: products of {0} numbers of variance 1 have variance {0}. Without it the largest weight would be {1}, and the gradient of a softmax that chooses one word is almost 0.",
            c.head_dim,
            percent(Math.max(...raw)),
          ),
          noted(
            "Additive attention (Bahdanau et al. 2015) asks a small network for each pair: vᵀ tanh(W₁ q + W₂ k). A product costs {0} multiplications a pair, and one product of matrices does all pairs.",
            c.head_dim,
          ),
        ];
      },
    ],
    [
      "heads",
      say("What does a head do?"),
      (e) => {
        const text = source.words.find(({ pieces }) => pieces.includes(at[0])),
          twins = source.words.filter((other) => isWord(other) && text && same(other, text)),
          asked = twins.length > 1 ? twins.map(({ pieces }) => pieces[0]) : [at[0]],
          maps = [...Array(c.heads).keys(), "mean"].map((head) => pick(result, "encoder", at[2], head, "piece", true)),
          row = (map, q) => [...map.data.subarray(q * map.columns, (q + 1) * map.columns)];
        return [
          say(
            "Each of {0} heads has matrices of its own and looks elsewhere. What they return is put side by side and multiplied by W_O. One head could only return one mixture, like the mean.",
            c.heads,
          ),
          table(
            say("Several heads"),
            [say("head"), ...asked.map((q) => say("“{0}” at place {1} looks at", source.pieces[q], q)), say("bits")],
            maps.map((map, i) =>
              el(
                "tr",
                { class: i === at[3] ? "on" : "" },
                el(
                  "td",
                  { title: i < c.heads ? worth(result, "encoder", at[2], i) : "" },
                  i < c.heads ? say("head {0}", i) : say("mean of heads"),
                ),
                ...asked.map((q) => el("td", strongest(row(map, q), source.pieces))),
                el("td.n", decimal(mean(asked.map((q) => bits(row(map, q)))), 2)),
              ),
            ),
          ),
          line(say("side by side"), e, "self.context"),
          line("· W_O", e, "self.output"),
        ];
      },
    ],
    [
      "residual",
      say("Residual connection"),
      (e) => [
        say(
          "What the heads found is added to what the word was: lengths {0} + {1} give {2}. So nothing is lost, and gradients reach the first layer.",
          ...["stream", "self.output", "self.residual"].map((name) => length(vector(e, name))),
        ),
        line("x", e, "stream", undefined, reads()),
        line(say("adds"), e, "self.output"),
        residual(e, "self"),
      ],
    ],
    [
      "norm",
      "LayerNorm",
      (e, _, all) => {
        const rows = all ? values(all, "self.residual") : values(e, "self.residual"),
          column = rows.map(([x]) => x),
          shown = rows.slice(0, MOST).map((row) => row.slice(0, MOST)),
          row = el("i.row"),
          picture = el("div.layer", strip(shown), row, el("i.column"));
        row.style.top = `${(100 * (all ? at[0] : 0)) / shown.length}%`;
        row.style.height = `${100 / shown.length}%`;
        return [
          say(
            "The numbers of one word (a row) minus their mean, divided by the root of their variance, times γ, plus β. Batch norm takes mean and variance of a column instead, over all words of a batch: a word would depend on its neighbours.",
          ),
          picture,
          el(
            "p",
            say("This row:"),
            " ",
            named(e, "self.mean", say("mean {0}", number(values(e, "self.mean")[0]))),
            named(e, "self.variance", say("variance {0}", number(values(e, "self.variance")[0]))),
            " ",
            say(
              "The first column, as batch norm would: mean {0}, variance {1}.",
              number(mean(column)),
              number(mean(column.map((x) => (x - mean(column)) ** 2))),
            ),
          ),
          line("γ", e, "self.gamma"),
          line("β", e, "self.beta"),
          line("LayerNorm", e, "self.norm"),
        ];
      },
    ],
    [
      "network",
      say("What does the feed-forward network do?"),
      (e) => [
        say(
          "Attention has mixed the words; this treats each by itself. {0} units each answer to a pattern in the word's numbers: {1} of them are active for “{2}”, all others are 0. The active ones add what belongs to their pattern.",
          c.d_ff,
          active(e),
          word(),
        ),
        ...network(e),
      ],
    ],
    [
      "layers",
      say("{0} layers", layers.encoder),
      (_e, _d, _all, _last, every) => [
        say(
          "The same again, with other weights. Each line is “{0}” after a layer; the last one is the memory that the decoder reads.",
          word(),
        ),
        ...every.map((answer, layer) => line(say("layer {0}", layer), answer, "feed_forward.norm")),
        paragraph(worthOfLayers(model, "encoder"), "note"),
      ],
    ],
    [
      "mask",
      recurrent ? say("The recurrence") : say("What is masked?"),
      (_e, d) => {
        if (recurrent) return [say(result.absent.decoder), line("", d.cross, "self.output")];
        const [scores] = values(d.decoder, "self.scores"),
          ahead = softmax(scores).reduce((sum, w, k) => sum + (k > at[1] ? w : 0), 0);
        return [
          say(
            "The decoder reads what is written so far. All products are computed, so that a whole sentence is trained in one pass; then −∞ is added to those with later words, and the softmax makes 0 of them. Without the mask {0} of this head's weight would go to words that “{1}” must not know yet.",
            percent(ahead),
            written(),
          ),
          ...looks(say("What is masked?"), d.decoder, "self", input.pieces, (k) => k <= at[1]),
          residual(d.decoder, "self"),
          line("LayerNorm", d.decoder, "self.norm"),
        ];
      },
    ],
    [
      "cross",
      say("The decoder looks at the source"),
      (_e, d) => [
        say(
          "The query comes from the translation, keys and values from the memory: computed once for a sentence and used for every word. Before it writes “{0}”, this head looks at:",
          written(),
        ),
        ...looks(say("The decoder looks at the source"), d.cross, "cross", source.pieces),
        residual(d.cross, "cross"),
        line("LayerNorm", d.cross, "cross.norm"),
      ],
    ],
    [
      "decoder",
      say("A network, and {0} such layers", layers.decoder),
      (_e, d) => [
        say(
          "As in the encoder: {0} of {1} units are active. Each decoder layer has these three parts.",
          active(d.cross),
          c.d_ff,
        ),
        ...network(d.cross),
      ],
    ],
    ["logits", say("Why this word and not that?"), (_e, _d, _all, last) => logits(last)],
  ];
  function logits(last) {
    const [scores] = values(last, "logits"),
      [normalizer] = values(last, "normalizer"),
      names = last.candidates[0],
      list = el("ul.doubts"),
      set = { heat: 10, top: names.length };
    function draw() {
      const exact = set.heat === 10 && set.top === names.length,
        order = [...scores.keys()]
          .filter((i) => names[i] !== null)
          .sort((a, b) => scores[b] - scores[a])
          .slice(0, set.top),
        shares = exact
          ? order.map((i) => Math.exp(scores[i] - normalizer))
          : softmax(order.map((i) => (10 * scores[i]) / set.heat)),
        rest = 1 - shares.reduce((a, b) => a + b, 0);
      const item = (text, share, score) => {
        const fill = el("i");
        fill.style.width = `${100 * share}%`;
        return el("li", el("b", text), el("span.track", fill), el("span.n", percent(share)), score);
      };
      list.replaceChildren(
        ...order.map((i, k) => item(names[i], shares[k], named(last, "logits", number(scores[i])))),
        ...(exact ? [item(say("all others"), Math.max(0, rest), "")] : []),
      );
    }
    const knob = (label, name, limits, shown = String) =>
        slider(label, limits, (x) => {
          set[name] = x;
          draw();
          output[name].textContent = shown(x);
        }),
      output = { heat: el("output"), top: el("output") };
    const knobs = [
      [knob(say("Temperature"), "heat", { min: 1, max: 30, value: 10 }, (x) => decimal(x / 10, 1)), output.heat],
      [knob(say("top-k"), "top", { min: 1, max: names.length, value: names.length }), output.top],
    ];
    return [
      say(
        "The last numbers meet the row of every piece that this step allowed: a product for each, the logit. exp(logit) by the sum over all is the probability. “{0}” was written, and is what the decoder reads next.",
        written(),
      ),
      line(say("last layer"), last, "feed_forward.norm"),
      el("div.controls", ...knobs.flat()),
      list,
      noted(
        "The server translates at temperature 1 and with a beam: it keeps several beginnings and takes the likeliest whole. At other settings only the pieces shown are compared.",
      ),
    ];
  }

  // -- what is followed --
  async function draw() {
    const mine = ++asked,
      [word, piece, layer, head, deep] = at,
      of = (part, names) => read({ part, layer: deep, head, position: piece, names });
    const encoder = { part: "encoder", layer, head };
    const [e, decoder, cross, all, last, every] = await Promise.all([
      read({ ...encoder, position: word }),
      recurrent ? null : of("decoder"),
      of("cross"),
      source.pieces.length * c.d_model < NUMBERS ? read({ ...encoder, names: "self.residual" }) : null,
      read({ part: "cross", layer: layers.decoder - 1, position: piece, names: "feed_forward.norm,logits,normalizer" }),
      Promise.all(
        [...Array(layers.encoder).keys()].map((l) =>
          read({
            part: "encoder",
            layer: l,
            position: word,
            names: l ? "feed_forward.norm" : "embedding,stream,feed_forward.norm",
          }),
        ),
      ),
    ]);
    if (mine !== asked) return;
    for (const [name, , tell] of stations) {
      const [text, ...nodes] = tell(e, { decoder, cross }, all, last, every);
      hosts.get(name)?.replaceChildren(paragraph(text), ...nodes);
    }
  }
  const change = (i) => (value) => {
    at[i] = value;
    choose([...at]);
    return draw().catch(failed);
  };
  const failed = (error) => hosts.get("pieces").replaceChildren(paragraph(error.message, "error"));
  const places = (pieces) => pieces.map((piece, i) => [i, `${i} ${piece}`]),
    range = (n, text) => Array.from({ length: n }, (_, i) => [i, say(text, i)]);
  const controls = el(
    "div.controls.follow",
    ...[
      [say("Follow"), places(source.pieces), 0],
      [say("to"), places(target.pieces), 1],
      [say("encoder"), range(layers.encoder, "layer {0}"), 2],
      [say("head"), range(c.heads, "head {0}"), 3],
      [say("decoder"), range(layers.decoder, "layer {0}"), 4],
    ].map(([label, options, i]) => el("label.note", `${label} `, select(label, options, at[i], change(i)))),
  );
  return {
    controls,
    stations: stations.map(([name, title]) => [name, title, (host) => hosts.set(name, host)]),
    draw: () => draw().catch(failed),
  };
}

// A drawing of the model with the shapes of its tensors.
import { svg } from "../../common/dom.js";
import { say } from "../../common/sentences.js";

/** Returns the drawing. `c` is the configuration of the model, `S` and `T` the lengths of source and translation. */
export function architecture(c, S, T) {
  const W = 285,
    gap = 70,
    left = 20,
    right = left + W + gap;
  const pre = c.norm === "pre";
  const encoder = [
    [
      "e",
      say("Embedding") + (c.scale_embeddings ? ` × √${c.d_model}` : ""),
      `${say("{0} pieces", c.source_vocab_size || c.vocab_size)} → (${S}, ${c.d_model})`,
    ],
    ["e", `+ ${say("Positions")} (${c.positions})`, `(${S}, ${c.d_model})`],
    ["a", say("Self-attention, {0} heads", c.heads), say("weights") + ` (${c.heads}, ${S}, ${S}), dₖ = ${c.head_dim}`],
    ["n", say(pre ? "Add" : "Add & Norm"), `(${S}, ${c.d_model})`],
    ["f", say("Feed-forward, {0}", c.activation), `${c.d_model} → ${c.d_ff} → ${c.d_model}`],
    ["n", say(pre ? "Add" : "Add & Norm"), `(${S}, ${c.d_model})`],
  ];
  const decoder = [
    [
      "e",
      say("Embedding") + (c.scale_embeddings ? ` × √${c.d_model}` : ""),
      say("start + written") + ` → (${T}, ${c.d_model})`,
    ],
    ["e", `+ ${say("Positions")} (${c.positions})`, `(${T}, ${c.d_model})`],
    c.recurrence === "ssru"
      ? ["f", say("Recurrence (SSRU)"), say("one state of {0}", c.d_model)]
      : ["a", say("Masked self-attention, {0} heads", c.heads), say("weights") + ` (${c.heads}, ${T}, ${T})`],
    ["n", say(pre ? "Add" : "Add & Norm"), `(${T}, ${c.d_model})`],
    ["a", say("Cross-attention, {0} heads", c.heads), say("weights") + ` (${c.heads}, ${T}, ${S})`],
    ["n", say(pre ? "Add" : "Add & Norm"), `(${T}, ${c.d_model})`],
    ["f", say("Feed-forward, {0}", c.activation), `${c.d_model} → ${c.d_ff} → ${c.d_model}`],
    ["n", say(pre ? "Add" : "Add & Norm"), `(${T}, ${c.d_model})`],
    ["e", say(c.tied_embeddings ? "Linear & softmax (tied)" : "Linear & softmax"), `(${T}, ${c.vocab_size})`],
  ];
  const H = 48,
    height = decoder.length * H + 50;
  const drawing = svg("svg", {
    width: right + W + 90,
    height,
    viewBox: `0 0 ${right + W + 90} ${height}`,
    role: "img",
    "aria-label": say("Encoder with {0} layers and decoder with {1} layers", c.encoder_layers, c.decoder_layers),
  });
  const y = (i) => height - 28 - (i + 1) * H;
  const stack = (blocks, x, from, to, layers) => {
    drawing.append(
      svg("rect", {
        x: x - 9,
        y: y(to) - 7,
        width: W + 18,
        height: (to - from + 1) * H + 6,
        rx: 14,
        class: "flow",
        "stroke-dasharray": "5 4",
      }),
      svg("text", { x: x + W + 16, y: y((from + to) / 2) + 22 }, `× ${layers}`),
    );
    blocks.forEach(([kind, name, shape], i) => {
      if (i) drawing.append(svg("path", { class: "flow", d: `M${x + W / 2} ${y(i - 1)}V${y(i) + 36}` }));
      drawing.append(
        svg("rect", { x, y: y(i), width: W, height: 36, rx: 9, class: "box " + kind }),
        svg("text", { x: x + 12, y: y(i) + 15 }, name),
        svg("text", { x: x + 12, y: y(i) + 30, class: "soft" }, shape),
      );
    });
  };
  stack(encoder, left, 2, 5, c.encoder_layers);
  stack(decoder, right, 2, 7, c.decoder_layers);
  const from = y(5),
    to = y(4) + 18;
  drawing.append(
    svg("path", { class: "flow", d: `M${left + W / 2} ${from}V${from - 22}H${right - 38}V${to}H${right}` }),
    svg("text", { x: left + W / 2 + 8, y: from - 28, class: "soft" }, `${say("memory")} (${S}, ${c.d_model})`),
    svg("text", { x: left, y: height - 8 }, say("Source")),
    svg("text", { x: right, y: height - 8 }, say("Translation, shifted right")),
  );
  return drawing;
}

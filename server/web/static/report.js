// A report: the attention panel of one look that lies in the file itself.
"use strict";
(() => {
  const { el, chance } = Views;
  const look = Views.unpack(JSON.parse(document.getElementById("look").textContent));
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const theme = () => {
    document.documentElement.dataset.theme = dark.matches ? "dark" : "light";
    Views.repaint();
  };
  dark.addEventListener("change", theme);
  document.documentElement.dataset.theme = dark.matches ? "dark" : "light";
  const total = look.target.scores.reduce((a, b) => a + b, 0);
  const chips = (side, scores) => el("div", { class: "chips" }, ...side.pieces.map((piece, i) => el("span", { class: "chip" }, piece, scores ? el("small", {}, chance(scores[i])) : "")));
  const panel = el("div");
  document.getElementById("report").append(
    el("p", { class: "note" }, `Attentive · ${look.model} · ${look.language.source} → ${look.language.target}` + (look.sentences > 1 ? ` · sentence ${look.sentence + 1} of ${look.sentences}` : "")),
    el("h2", {}, look.source.text), el("p", { class: "big" }, look.target.text),
    el("p", { class: "note" }, `Log-probability ${total.toFixed(2)}, ${(total / look.target.scores.length).toFixed(2)} per piece.`),
    chips(look.source), chips(look.target, look.target.scores), panel);
  Views.panel(panel, look, Views.start());
})();

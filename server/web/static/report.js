// A report: the attention panel of one result that is embedded in the file.
"use strict";
(() => {
  const { el, chance } = Views;
  const result = Views.unpack(JSON.parse(document.getElementById("look").textContent));
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const theme = () => {
    document.documentElement.dataset.theme = dark.matches ? "dark" : "light";
    Views.repaint();
  };
  dark.addEventListener("change", theme);
  document.documentElement.dataset.theme = dark.matches ? "dark" : "light";
  const total = result.target.scores.reduce((a, b) => a + b, 0);
  const chips = (side, scores) => el("div", { class: "chips" }, ...side.pieces.map((piece, i) => el("span", { class: "chip" }, piece, scores ? el("small", {}, chance(scores[i])) : "")));
  const panel = el("div");
  document.getElementById("report").append(
    el("p", { class: "note" }, `Attentive · ${result.model} · ${result.language.source} → ${result.language.target}` + (result.sentences > 1 ? ` · sentence ${result.sentence + 1} of ${result.sentences}` : "")),
    el("h2", {}, result.source.text), el("p", { class: "big" }, result.target.text),
    el("p", { class: "note" }, `Log-probability ${total.toFixed(2)}, ${(total / result.target.scores.length).toFixed(2)} per piece.`),
    chips(result.source), chips(result.target, result.target.scores), panel);
  Views.panel(panel, result, Views.start());
})();

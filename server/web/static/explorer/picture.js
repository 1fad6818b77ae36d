// The dialog that downloads a picture of a sentence: one of the views, with its title, colours and resolution.
import { download, query } from "../common/server.js";
import { served } from "./results.js";
import { $, guard, masked } from "./state.js";

const HEADS = 8; // the most that a picture of lines shows

/** Opens the dialog. `found` is the attention of the sentence `item` and `panel` the state of the panel; `request` calls a function with
 * the parameters that name the sentence. */
export function openPicture(item, found, panel, request = (work) => served(item, work)) {
  const form = $("picture-form"),
    { view, format, theme, dpi } = form.elements;
  view.value = panel.kind === "alignment" ? "alignment" : panel.view === "map" ? "map" : "grid";
  theme.value = document.documentElement.dataset.theme;
  form.onchange = () => (dpi.disabled = format.value !== "png");
  form.onchange();
  form.onsubmit = guard((event) => {
    event.preventDefault();
    $("picture").close();
    const fields = { ...chosen(item, found, panel, view.value), ...Object.fromEntries(new FormData(form)) };
    return request((which) => download("/attention?" + query({ ...which, ...fields }), `attention.${format.value}`));
  });
  $("picture-close").onclick = () => $("picture").close();
  $("picture").showModal();
}
/** Returns the parameters of a view: what the panel shows, without the heads that are switched off. */
function chosen(item, found, panel, view) {
  const { kind, layer, head, level, special } = panel,
    one = typeof head === "number",
    masked_heads = masked();
  if (view === "alignment" || view === "card") {
    const word = found.target.words[item.word],
      map = one && kind === "cross" && panel.view === "map";
    return { masked_heads, query: word?.start < word?.end ? item.word : null, ...(map && { layer, head }) };
  }
  const rollout = head === "rollout",
    shown = found.maps[kind === "alignment" ? "cross" : kind],
    several = [...Array(Math.min(HEADS, shown.shape[1])).keys()].join(",");
  return {
    masked_heads,
    kind: kind === "alignment" ? "cross" : kind,
    level,
    special: special ? null : 0,
    rollout: rollout || null,
    layer: view === "grid" ? null : layer,
    head: view === "grid" || rollout ? null : view === "map" || one ? head : several,
  };
}

// The picture of a translation for sharing.
import { el } from "../common/dom.js";
import { download, query } from "../common/server.js";
import { served } from "./results.js";
import { address, guard, state } from "./state.js";

/** Returns the link to the card of a sentence, with the word pointed at last, the head of the map that is shown, and
 * without the heads that are switched off. */
export function shareLink(item, found, view) {
  const path = (which = address(item)) => {
    const one = view.kind === "cross" && view.view === "map" && typeof view.head === "number";
    const word = found.target.words[item.word]?.start < found.target.words[item.word]?.end ? item.word : null;
    const off = [...state.masked].sort().join(",");
    const theme = document.documentElement.dataset.theme === "dark" ? "dark" : null;
    return (
      "/attention?" +
      query({
        ...which,
        format: "png",
        view: "card",
        query: word,
        masked_heads: off || null,
        theme,
        ...(one ? { layer: view.layer, head: view.head } : {}),
      })
    );
  };
  return el(
    "a",
    {
      href: path(),
      class: "note",
      title: "A picture of 1200 x 630 pixels",
      onclick: (event) => {
        event.preventDefault();
        guard(served)(item, (which) => download(path(which), "attentive.png"));
      },
    },
    "Share card",
  );
}

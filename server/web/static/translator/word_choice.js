// Other words for one of the translation. The model writes the sentence again from another piece on.
import { el, percent } from "../common/dom.js";
import { runnersUp } from "../explorer/film/steps.js";
import { offer as list, shown, take } from "./result.js";
import { address, look, markedWord, split } from "./word_pairs.js";

const MOST = 4;
const written = (item, prefix) => look({ ...address(item), prefix });

/** Offers the sentences with other words for the marked one. What the model wrote must be what is
 * shown: else its pieces are not those of the text. */
export async function offer(took) {
  const { item, word } = markedWord() ?? {};
  if (!item?.found || item.found.target.text !== item.target) return;
  const others = runnersUp(item.found, item.found.target.words[word], MOST)
      .filter(({ prefix }) => prefix)
      .map(async ({ prefix, chance }) => ({ prefix, chance, found: await written(item, prefix) })),
    { target } = item;
  const texts = new Map((await Promise.all(others)).reverse().map((other) => [other.found.target.text, other]));
  texts.delete(target);
  if (shown.chosen !== item || item.target !== target) return;
  list(
    item,
    [...texts]
      .reverse()
      .map(([text, { prefix, chance, found }]) => [
        text,
        () => put(item, prefix, found, took),
        el("small.note", ` ${percent(chance)}`),
      ]),
  );
}
/** Writes the words of a link: each is the number of a sentence and the pieces that it begins with. */
export async function fork(forks, took) {
  const { items } = shown;
  for (const [number, ...prefix] of forks.map((text) => text.split(" "))) {
    const found = items[number] && (await written(items[number], prefix));
    if (found && shown.items === items) put(items[number], prefix, found, took);
  }
}
function put(item, prefix, found, took) {
  take(item, found.target.text, took, prefix);
  split(item, found);
}

// The language of the explorer: that of the reader, or the one chosen on either page.
import { useSentences } from "../common/sentences.js";
import { ask } from "../common/server.js";
import { keep, kept } from "../translator/memory.js";
import { interfaceLanguage, speak } from "../translator/messages.js";

const CODES = ["en", "de", "fr", "es"]; // of the columns of sentences.json
const NAMES = ["aria-label", "title", "placeholder"];

/** Loads the sentences of the language, and writes those of the page itself, which the server has sent in `lang`. */
export async function beginLanguage() {
  const choice = document.getElementById("interface"),
    sent = CODES.indexOf(document.documentElement.lang);
  speak(kept("interface", CODES[sent]));
  choice.value = interfaceLanguage();
  choice.onchange = () => {
    keep("interface", choice.value);
    location.reload();
  };
  const wanted = CODES.indexOf(choice.value);
  if (!sent && !wanted) return;
  const rows = await ask("/static/explorer/sentences.json").catch((error) => {
    document.documentElement.lang = CODES[sent]; // for the next try
    throw error;
  });
  useSentences(new Map(rows.map((row) => [row[0], row[wanted]])));
  const words = new Map(rows.map((row) => [row[sent], row[wanted]])),
    texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode())
    texts.currentNode.data = texts.currentNode.data.replace(/\S(.*\S)?/s, (text) => words.get(text) ?? text);
  for (const name of NAMES)
    for (const node of document.querySelectorAll(`[${name}]`))
      node.setAttribute(name, words.get(node.getAttribute(name)) ?? node.getAttribute(name));
}

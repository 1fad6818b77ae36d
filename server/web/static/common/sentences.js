// Sentences of the explorer and of reports. The code has the English ones, which are the keys of those in other languages.
let spoken = new Map();

/** Sets the sentences of the page by their English ones. */
export const useSentences = (sentences) => (spoken = sentences);
/** Returns a sentence in the language of the page as a list of its parts, with the values in the places of {0}, {1}. */
export const parts = (english, ...values) =>
  (spoken.get(english) || english).split(/\{(\d)\}/).map((part, i) => (i % 2 ? values[part] : part));
/** Returns a sentence in the language of the page, with the values in the places of {0}, {1}. */
export const say = (english, ...values) => parts(english, ...values).join("");

// Log-probabilities of translations, and how they are compared in words.
import { decimal } from "../../common/dom.js";
import { say } from "../../common/sentences.js";

/** Log-probabilities that differ by less count as equal. */
export const ALIKE = 0.05;
/** Returns the log-probability of a translation. */
export const total = (result) => result.target.scores.reduce((a, b) => a + b, 0);
/** Returns the log-probability of a translation as text. */
export const written = (result) => decimal(total(result), 2);
/** Returns the log-probabilities of two translations as a part of a sentence. */
export const instead = (result, other) =>
  `(${say("log-probability {0} instead of {1}", written(result), written(other))})`;
/** Returns a negative difference of log-probabilities as a ratio, such as "36 times". */
export function times(difference) {
  const ratio = Math.exp(-difference);
  return ratio < 1e6
    ? say("{0} times", ratio < 10 ? decimal(ratio, 1) : Math.round(ratio).toLocaleString(document.documentElement.lang))
    : say(
        "{0} times",
        `10${[...String(Math.round(-difference / Math.LN10))].map((digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]).join("")}`,
      );
}

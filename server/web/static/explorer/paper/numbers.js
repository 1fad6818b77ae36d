// What several chapters compute.

/** Returns the product of two vectors. */
export const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);
export const mean = (numbers) => numbers.reduce((a, b) => a + b, 0) / numbers.length;
/** Returns the positive numbers with sum 1 that have the ratios of the exponentials; -Infinity becomes 0. */
export function softmax(numbers) {
  const top = Math.max(...numbers),
    powers = numbers.map((x) => Math.exp(x - top)),
    sum = powers.reduce((a, b) => a + b, 0);
  return powers.map((power) => power / sum);
}
/** Returns the entropy of weights, in bits. */
export const bits = (weights) => weights.reduce((sum, w) => sum - (w > 0 ? w * Math.log2(w) : 0), 0);
/** Returns the angle per position of each pair of a sine and a cosine of `d` numbers. In the paper's order they alternate;
 * in that of Marian (`half`) the sines come first, with slightly different angles. */
export const angles = (d, half = false) =>
  Array.from({ length: d / 2 }, (_, i) => 1 / 10000 ** (half && d > 2 ? i / (d / 2 - 1) : (2 * i) / d));

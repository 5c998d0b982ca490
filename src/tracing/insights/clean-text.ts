// Cleans texts of a model before they are stored (pure). A trace may have dictated them.

/** Control characters, and those that reorder or hide text. Joiners stay: languages and emoji need them. */
const HIDDEN = /[\p{Cc}\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\u{e0000}-\u{e007f}]+/gu

/** One line without hidden characters, cut at `max`. */
export function cleanLine(text: string, max: number): string {
  const line = text
    .slice(0, max * 4)
    .toWellFormed()
    .replace(/\s+/g, ' ')
    .replace(HIDDEN, '')
    .trim()
  return line.length > max
    ? `${line
        .slice(0, max - 1)
        .toWellFormed()
        .trimEnd()}…`
    : line
}

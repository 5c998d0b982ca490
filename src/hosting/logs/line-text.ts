// The text of a line, as stores and readers take it (pure).

export const MAX_LINE_BYTES = 16 * 1024
const CUT_SUFFIX = ' … (cut)'

/** Replaces control characters and marks of writing direction, which could forge what a terminal or a page shows. */
export const sanitizeText = (text: string): string =>
  text
    .toWellFormed()
    // biome-ignore lint/suspicious/noControlCharactersInRegex: replacing control characters is the purpose
    .replace(/[\0-\x08\x0b-\x1f]/g, character => String.fromCharCode(0x2400 + character.charCodeAt(0)))
    .replace(/\x7f/g, '␡')
    .replace(/[\x80-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g, '�')

export function sanitizeMessage(message: string): string {
  const sanitized = sanitizeText(message)
  const bytes = Buffer.from(sanitized)
  if (bytes.byteLength <= MAX_LINE_BYTES) return sanitized
  const head = bytes.subarray(0, MAX_LINE_BYTES - Buffer.byteLength(CUT_SUFFIX))
  // `stream` drops a character that the cut splits.
  return new TextDecoder().decode(head, { stream: true }) + CUT_SUFFIX
}

// Finds names of members in a JSON text without building its values. For texts that `findJsonFault()` of json-check.ts
// has accepted.

const [QUOTE, BACKSLASH, COLON, OPEN_OBJECT, CLOSE_OBJECT] = [0x22, 0x5c, 0x3a, 0x7b, 0x7d]
const SPACE = /[ \n\r\t]*/y

/**
 * The first name that an object has twice, also where one of the two is written with escapes. Parsers differ in which
 * of the two values they keep. `too_many`: the text has more than `max` names, and the memory for them is bounded.
 */
export function findRepeatedName(text: string, max: number): { name: string } | 'too_many' | null {
  const open: Set<string>[] = []
  let count = 0
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === OPEN_OBJECT) open.push(new Set())
    else if (code === CLOSE_OBJECT) open.pop()
    if (code !== QUOTE) continue
    const { end, isEscaped } = endOfText(text, at)
    SPACE.lastIndex = end
    SPACE.test(text)
    if (text.charCodeAt(SPACE.lastIndex) === COLON) {
      if (++count > max) return 'too_many'
      const written = text.slice(at, end)
      // The name keeps its quotes: numbers as texts have hashes that a sender can make collide.
      const name = isEscaped ? JSON.stringify(JSON.parse(written)) : written
      const names = open.at(-1)!
      if (names.has(name)) return { name: JSON.parse(name) }
      names.add(name)
    }
    at = end - 1
  }
  return null
}

/** `end` is after the closing quote of the text that begins at `from`. */
function endOfText(text: string, from: number): { end: number; isEscaped: boolean } {
  let isEscaped = false
  for (let at = from + 1; ; at++) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) return { end: at + 1, isEscaped }
    if (code !== BACKSLASH) continue
    isEscaped = true
    at++
  }
}

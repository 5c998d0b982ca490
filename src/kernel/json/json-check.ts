// Checks that a text is JSON, without building what it describes: 64 MiB of `[],` would become a gigabyte of arrays.

export type JsonFault = { type: 'json_invalid' | 'too_deep' | 'too_many_values'; msg: string }
/** `seen` is how many values and names of members a text has, as far as it was read. */
export type JsonCheck = { fault: JsonFault | null; seen: number }

const [QUOTE, BACKSLASH, COMMA, COLON] = [0x22, 0x5c, 0x2c, 0x3a]
const [OPEN_OBJECT, CLOSE_OBJECT, OPEN_ARRAY, CLOSE_ARRAY] = [0x7b, 0x7d, 0x5b, 0x5d]
const [ZERO, NINE, DOT, UPPER_E, LOWER_E] = [0x30, 0x39, 0x2e, 0x45, 0x65]
const SCALAR = /true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?/y
const ESCAPED = new Uint8Array(128)
for (const character of '"\\/bfnrt') ESCAPED[character.charCodeAt(0)] = 1
const [LOWER_U, HEX_LENGTH] = [0x75, 4]
/** All but the quote, the backslash and control characters. A loop is faster for a few of them. */
const PLAIN = /[ !#-[\]-\uffff]*/y
const SHORT = 32
const TOO_MANY_VALUES = 'has more values than one request may have; send less in one request'
/** The end of an invalid token. */
const NONE = -1

/** Returns null if the text is JSON by RFC 8259, nested no deeper than `maxDepth`. */
export const findJsonFault = (text: string, maxDepth: number): JsonFault | null => checkJson(text, { maxDepth }).fault

/** Stops at the first fault. Names of members count as values, because a parser builds a string for each. */
export function checkJson(
  text: string,
  { maxDepth, maxValues = Number.POSITIVE_INFINITY }: { maxDepth: number; maxValues?: number },
): JsonCheck {
  /** The sign that closes what is open, for each level. */
  const closers = new Uint8Array(maxDepth + 1)
  let closer = 0
  let depth = 0
  let seen = 0
  let at = skipSpace(text, 0)
  for (;;) {
    const start = at
    if (++seen > maxValues) return { seen, fault: { type: 'too_many_values', msg: TOO_MANY_VALUES } }
    const code = codeAt(text, at)
    if (code === OPEN_OBJECT || code === OPEN_ARRAY) {
      depth++
      if (depth > maxDepth)
        return { seen, fault: { type: 'too_deep', msg: `is nested deeper than ${maxDepth} levels` } }
      closers[depth] = closer = code === OPEN_OBJECT ? CLOSE_OBJECT : CLOSE_ARRAY
      at = skipSpace(text, at + 1)
      if (codeAt(text, at) !== closer) {
        if (closer === CLOSE_ARRAY) continue
        seen++
        at = endOfName(text, at)
        if (at === NONE) return { seen, fault: invalidAt(start) }
        continue
      }
      closer = closers[--depth]!
      at++
    } else {
      at = code === QUOTE ? endOfText(text, at) : endOfScalar(text, at)
      if (at === NONE) return { seen, fault: invalidAt(start) }
    }
    at = skipSpace(text, at)
    while (depth > 0 && codeAt(text, at) === closer) {
      closer = closers[--depth]!
      at = skipSpace(text, at + 1)
    }
    if (depth === 0) return { seen, fault: at === text.length ? null : invalidAt(at) }
    if (codeAt(text, at) !== COMMA) return { seen, fault: invalidAt(at) }
    at = skipSpace(text, at + 1)
    if (closer === CLOSE_ARRAY) continue
    const name = at
    seen++
    at = endOfName(text, name)
    if (at === NONE) return { seen, fault: invalidAt(name) }
  }
}

const invalidAt = (at: number): JsonFault => ({ type: 'json_invalid', msg: `is not valid JSON at character ${at + 1}` })

/** 0 after the end. There, `charCodeAt` gives NaN, and V8 makes slower code of a loop that has seen it. */
function codeAt(text: string, at: number): number {
  return at < text.length ? text.charCodeAt(at) : 0
}

function skipSpace(text: string, from: number): number {
  let at = from
  let code = codeAt(text, at)
  if (code > 0x20) return at
  while (code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09) code = codeAt(text, ++at)
  return at
}

function endOf(pattern: RegExp, text: string, from: number): number {
  pattern.lastIndex = from
  return pattern.test(text) ? pattern.lastIndex : NONE
}

/** Includes the colon and the space after it. */
function endOfName(text: string, from: number): number {
  const end = codeAt(text, from) === QUOTE ? endOfText(text, from) : NONE
  if (end === NONE) return NONE
  const colon = skipSpace(text, end)
  return codeAt(text, colon) === COLON ? skipSpace(text, colon + 1) : NONE
}

/** A text may be full of escapes, so no pattern looks at them: its call costs more than a hundred characters. */
function endOfText(text: string, from: number): number {
  let at = from + 1
  for (let next = at + SHORT; ; ) {
    if (at >= next) {
      at = endOf(PLAIN, text, at)
      next = at + SHORT
    }
    const code = codeAt(text, at)
    // After the end, the code is 0.
    if (code < 0x20) return NONE
    at++
    if (code === QUOTE) return at
    if (code !== BACKSLASH) continue
    at = endOfEscape(text, at)
    if (at === NONE) return NONE
    next = at + SHORT
  }
}

/** `from` is after the backslash. */
function endOfEscape(text: string, from: number): number {
  const code = codeAt(text, from)
  if (code !== LOWER_U) return ESCAPED[code] === 1 ? from + 1 : NONE
  const end = from + 1 + HEX_LENGTH
  for (let at = from + 1; at < end; at++) if (!isHexDigit(codeAt(text, at))) return NONE
  return end
}

function isHexDigit(code: number): boolean {
  if (code >= ZERO && code <= NINE) return true
  // Upper and lower case differ in this bit alone.
  const lower = code | 0x20
  return lower >= 0x61 && lower <= 0x66
}

/** Most scalars are whole numbers, for which the pattern takes three times as long. */
function endOfScalar(text: string, from: number): number {
  let at = from
  let code = codeAt(text, at)
  if (!(code > ZERO && code <= NINE)) return endOf(SCALAR, text, from)
  while (code >= ZERO && code <= NINE) code = codeAt(text, ++at)
  return code === DOT || code === UPPER_E || code === LOWER_E ? endOf(SCALAR, text, from) : at
}

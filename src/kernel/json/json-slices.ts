// The members and items of a JSON text as texts, so that numbers in them keep all their digits. For texts that
// JSON.parse, or `findJsonFault()` of json-check.ts, has accepted.

/** The last value of a repeated name counts, as in `JSON.parse`. Stops after `max` members. */
export function sliceObject(text: string, max = Number.POSITIVE_INFINITY): Map<string, string> {
  const members = new Map<string, string>()
  for (const [start, end] of findParts(text, '{', max)) {
    const { name, value } = readMember(text.slice(start, end))
    members.set(name, value)
  }
  return members
}

function readMember(member: string): { name: string; nameEnd: number; value: string; valueStart: number } {
  const nameEnd = endOfText(member, 0)
  const valueStart = skipSpace(member, skipSpace(member, nameEnd) + 1)
  return { name: JSON.parse(member.slice(0, nameEnd)), nameEnd, value: member.slice(valueStart), valueStart }
}

/** Stops after `max` items. */
export const sliceArray = (text: string, max = Number.POSITIVE_INFINITY): string[] =>
  findParts(text, '[', max).map(([start, end]) => text.slice(start, end))

type Member = [name: string, value: string]
/** The same text, but for the first `max` members that `change` changes. A text of another value stays as it is. */
export const changeMembers = (
  text: string,
  change: (...member: Member) => Member,
  max = Number.POSITIVE_INFINITY,
): string =>
  changeParts(text, '{', max, member => {
    const { name, nameEnd, value, valueStart } = readMember(member)
    const [newName, newValue] = change(name, value)
    const nameText = newName === name ? member.slice(0, nameEnd) : JSON.stringify(newName)
    return nameText + member.slice(nameEnd, valueStart) + newValue
  })

/** The same of items. */
export const changeItems = (text: string, change: (item: string) => string): string =>
  changeParts(text, '[', Number.POSITIVE_INFINITY, change)

function changeParts(text: string, open: string, max: number, change: (part: string) => string): string {
  let [changed, copied] = ['', 0]
  for (const [start, end] of findParts(text, open, max)) {
    changed += text.slice(copied, start) + change(text.slice(start, end))
    copied = end
  }
  return changed + text.slice(copied)
}

/** The bounds of each member or item, without the space around it. */
function findParts(text: string, open: string, max: number): [start: number, end: number][] {
  const parts: [number, number][] = []
  let at = skipSpace(text, 0)
  if (text[at] !== open) return parts
  at = skipSpace(text, at + 1)
  while (parts.length < max && text[at] !== ']' && text[at] !== '}') {
    const start = at
    let end = at
    // A member is a name, a colon and a value.
    while (!/[,\]}]/.test(text[at]!)) {
      if (text[at] === ':') at += 1
      else end = at = endOfValue(text, at)
      at = skipSpace(text, at)
    }
    parts.push([start, end])
    if (text[at] === ',') at = skipSpace(text, at + 1)
  }
  return parts
}

function skipSpace(text: string, from: number): number {
  let at = from
  while (isSpace(text.charCodeAt(at))) at++
  return at
}
const isSpace = (code: number): boolean => code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09

function endOfValue(text: string, from: number): number {
  if (text[from] === '"') return endOfText(text, from)
  if (text[from] === '{' || text[from] === '[') return endOfContainer(text, from)
  SCALAR_END.lastIndex = from
  return SCALAR_END.exec(text)?.index ?? text.length
}
const SCALAR_END = /[\s,:\]}]/g
const [QUOTE, BACKSLASH, OPEN, CLOSE] = [0x22, 0x5c, 0x7b, 0x7d]
const SHORT = 8

/** A loop over codes is six times as fast as a pattern where a text is all structure. */
function endOfContainer(text: string, from: number): number {
  let depth = 0
  let at = from
  do {
    const code = text.charCodeAt(at)
    if (code === QUOTE) at = endOfText(text, at)
    else {
      // Square brackets differ from curly ones in this bit alone.
      const kind = code | 0x20
      if (kind === OPEN) depth++
      else if (kind === CLOSE) depth--
      at++
    }
  } while (depth > 0)
  return at
}

/**
 * After the quote that ends the text which begins at `from`. A search is faster than a loop, except where escaped
 * quotes are close to each other.
 */
function endOfText(text: string, from: number): number {
  let plain = 0
  for (let at = from + 1; ; ) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) return at + 1
    if (code === BACKSLASH) at += 2
    else {
      at++
      plain++
    }
    if (plain < SHORT) continue
    plain = 0
    const quote = text.indexOf('"', at)
    at = quote - (countBackslashes(text, at, quote) % 2)
  }
}
function countBackslashes(text: string, from: number, to: number): number {
  let at = to
  while (at > from && text.charCodeAt(at - 1) === BACKSLASH) at--
  return to - at
}

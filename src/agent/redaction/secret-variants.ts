// The forms in which a secret value is looked for in lines: as it is, and as programs commonly encode it. Pure.
import { stripControlCharacters } from './last-lines.ts'
import { LONGEST_PATTERN, type Pattern } from './pattern-matcher.ts'

/** Shorter values are in too many words to be told from them. */
export const MIN_MASKED_LENGTH = 6
/** Ordinary words that are no secret, though people store them as one. */
const ORDINARY_WORDS = new Set(
  (
    'localhost 127.0.0.1 0.0.0.0 default production development staging testing preview enabled disabled undefined ' +
    'warning verbose notice console postgres postgresql sqlite mariadb mongodb'
  ).split(' '),
)
/** However a run is wrapped, 15 characters of it hold one whole tile. */
const TILE_LENGTH = 8
/**
 * Characters of all encodings, and of all quoted forms, of a deployment; those of its longest values are left out
 * first.
 */
const MAX_PATTERN_CHARACTERS = 256 * 1024

export function derivePatterns(values: Iterable<string>): Pattern[] {
  const known = [...new Set([...values].flatMap(splitSecret))].filter(isMaskable)
  const shortFirst = known.toSorted((one, other) => one.length - other.length)
  const raw = known.flatMap(value => [value, value.trim()].flatMap(textPatterns))
  const quoted = shortFirst.map(value => uniquePatterns(quotedForms(value).flatMap(textPatterns)))
  const encoded = shortFirst.map(value =>
    uniquePatterns([
      ...percentEncodedForms(value).flatMap(textPatterns),
      ...hexPatterns(value),
      ...base64Patterns(value),
    ]),
  )
  return uniquePatterns([...raw, ...withinBudget(quoted), ...withinBudget(encoded)])
}

function withinBudget(patternsOfValues: Pattern[][]): Pattern[] {
  let left = MAX_PATTERN_CHARACTERS
  return patternsOfValues
    .filter(patterns => {
      left -= totalLength(patterns)
      return left >= 0
    })
    .flat()
}

/** White space alone is no secret either, and is in most lines. */
const isMaskable = (value: string) =>
  value.trim().length >= MIN_MASKED_LENGTH && !ORDINARY_WORDS.has(value.toLowerCase())

/** A value of several lines is written as them, and in one where it is escaped. */
function splitSecret(value: string): string[] {
  const lines = value.split(/\r\n|\r|\n/)
  const address = passwordIn(value)
  return [value, ...(lines.length > 1 ? lines.map(line => line.trim()) : []), ...(address ? [address] : [])]
}

/** That of an address: it is as secret alone. */
function passwordIn(value: string): string | null {
  const { password } = URL.parse(value) ?? {}
  if (!password) return null
  try {
    return decodeURIComponent(password)
  } catch {
    return password
  }
}

function quotedForms(value: string): string[] {
  const json = JSON.stringify(value).slice(1, -1)
  const unescaped = json.replaceAll('\\"', '"')
  return [
    json,
    unescaped,
    JSON.stringify(json).slice(1, -1),
    json.replaceAll('/', '\\/'),
    escapeNonAscii(json),
    // As shells quote it.
    value.replaceAll("'", `'\\''`),
    value.replaceAll("'", `'"'"'`),
    value.replace(/["$`\\]/g, '\\$&'),
  ]
}

const escapeNonAscii = (text: string) =>
  text.replace(/[\u0080-\uffff]/g, one => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`)

function percentEncodedForms(value: string): string[] {
  const text = value.toWellFormed()
  const component = encodeURIComponent(text)
  const form = new URLSearchParams({ '': text }).toString().slice(1)
  const strict = component.replace(/[!'()*]/g, one => `%${one.charCodeAt(0).toString(16).toUpperCase()}`)
  const all = [
    component,
    form,
    strict,
    encodeURI(text),
    component.replaceAll('%2F', '/'),
    strict.replaceAll('%20', '+'),
  ]
  const lower = (one: string) => one.replace(/%[0-9A-F]{2}/g, part => part.toLowerCase())
  return all.flatMap(one => [one, lower(one)])
}

/** A cut line ends with a beginning of it; that of an address, which is no secret, does not count. */
function textPatterns(text: string): Pattern[] {
  // What a line does not hold, because it was taken out of it.
  const shown = stripControlCharacters(text).slice(0, LONGEST_PATTERN)
  if (shown.length < MIN_MASKED_LENGTH) return []
  const scheme = /^[a-z][a-z0-9+.-]{0,20}(:|%3A)/i.exec(shown)?.[0].length ?? 0
  return [{ text: shown, partialFrom: scheme + MIN_MASKED_LENGTH }]
}

const hexPatterns = (value: string): Pattern[] => {
  const lower = Buffer.from(value).toString('hex')
  return [lower, lower.toUpperCase()].flatMap(one => tilePatterns(one, 2 * TILE_LENGTH))
}

/** Whatever stands before the value moves it by no, one or two bytes; what depends on its neighbours is left out. */
function base64Patterns(value: string): Pattern[] {
  const bytes = Buffer.from(value)
  return [0, 1, 2].flatMap(shift => {
    const all = Buffer.concat([Buffer.alloc(shift), bytes]).toString('base64')
    const own = all.slice(Math.ceil((8 * shift) / 6), Math.floor((8 * (shift + bytes.length)) / 6))
    return [own, own.replaceAll('+', '-').replaceAll('/', '_')].flatMap(one => tilePatterns(one, TILE_LENGTH))
  })
}

/** Each of them gives the run away that it is part of, however that is wrapped. */
function tilePatterns(text: string, size: number): Pattern[] {
  if (text.length <= size) return [{ text, inRun: true }]
  const whole = Array.from({ length: Math.floor(text.length / size) }, (_, i) => text.slice(i * size, (i + 1) * size))
  return whole.map(tile => ({ text: tile, inRun: true }))
}

const totalLength = (patterns: Pattern[]) => patterns.reduce((sum, { text }) => sum + text.length, 0)
function uniquePatterns(patterns: Pattern[]): Pattern[] {
  return [...new Map(patterns.map(one => [`${one.inRun ? 'run' : 'text'} ${one.text}`, one])).values()]
}

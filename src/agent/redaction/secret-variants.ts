// Derives the patterns of a secret: the value as it is, and as programs commonly encode it. Pure.
import { stripControlCharacters } from '../system/last-lines.ts'
import { LONGEST_PATTERN, type Pattern } from './pattern-matcher.ts'

/** Shorter values occur in too many ordinary words. */
const MIN_MASKED_LENGTH = 6
/** Ordinary words that people store as secrets. */
const ORDINARY_WORDS = new Set(
  (
    'localhost 127.0.0.1 0.0.0.0 default production development staging testing preview enabled disabled undefined ' +
    'warning verbose notice console postgres postgresql sqlite mariadb mongodb'
  ).split(' '),
)
/** Any 15 characters of encoded text contain one whole tile, for every way of wrapping. */
const TILE_LENGTH = 8
/** Limits the encoded and the quoted forms of a deployment. Those of its longest values are left out first. */
const MAX_PATTERN_CHARACTERS = 256 * 1024

export function derivePatterns(values: Iterable<string>): Pattern[] {
  const secrets = [...new Set([...values].flatMap(splitSecret))].filter(isMaskable)
  const shortFirst = secrets.toSorted((a, b) => a.length - b.length)
  const raw = secrets.flatMap(value => [value, value.trim()].flatMap(textPatterns))
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
  let budget = MAX_PATTERN_CHARACTERS
  return patternsOfValues
    .filter(patterns => {
      budget -= totalLength(patterns)
      return budget >= 0
    })
    .flat()
}

const isMaskable = (value: string) =>
  value.trim().length >= MIN_MASKED_LENGTH && !ORDINARY_WORDS.has(value.toLowerCase())

/** A multi-line value is printed line by line, or as one line where line ends are escaped. */
function splitSecret(value: string): string[] {
  const lines = value.split(/\r\n|\r|\n/)
  const password = passwordIn(value)
  return [value, ...(lines.length > 1 ? lines.map(line => line.trim()) : []), ...(password ? [password] : [])]
}

/** The password of a URL is a secret of its own. */
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
    value.replaceAll("'", `'\\''`),
    value.replaceAll("'", `'"'"'`),
    value.replace(/["$`\\]/g, '\\$&'),
  ]
}

const escapeNonAscii = (text: string) =>
  text.replace(/[\u0080-\uffff]/g, character => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`)

function percentEncodedForms(value: string): string[] {
  const text = value.toWellFormed()
  const component = encodeURIComponent(text)
  const form = new URLSearchParams({ '': text }).toString().slice(1)
  const strict = component.replace(/[!'()*]/g, character => `%${character.charCodeAt(0).toString(16).toUpperCase()}`)
  const forms = [
    component,
    form,
    strict,
    encodeURI(text),
    component.replaceAll('%2F', '/'),
    strict.replaceAll('%20', '+'),
  ]
  const lowerCaseHex = (encoded: string) => encoded.replace(/%[0-9A-F]{2}/g, part => part.toLowerCase())
  return forms.flatMap(encoded => [encoded, lowerCaseHex(encoded)])
}

/** A cut line may end with a prefix of the value. The scheme of a URL alone is no secret. */
function textPatterns(text: string): Pattern[] {
  const stripped = stripControlCharacters(text).slice(0, LONGEST_PATTERN)
  if (stripped.length < MIN_MASKED_LENGTH) return []
  const scheme = /^[a-z][a-z0-9+.-]{0,20}(:|%3A)/i.exec(stripped)?.[0].length ?? 0
  return [{ text: stripped, partialFrom: scheme + MIN_MASKED_LENGTH }]
}

const hexPatterns = (value: string): Pattern[] => {
  const lower = Buffer.from(value).toString('hex')
  return [lower, lower.toUpperCase()].flatMap(hex => tilePatterns(hex, 2 * TILE_LENGTH))
}

/** The text before the value shifts it by 0 to 2 bytes. Characters that depend on its neighbours are left out. */
function base64Patterns(value: string): Pattern[] {
  const bytes = Buffer.from(value)
  return [0, 1, 2].flatMap(shift => {
    const encoded = Buffer.concat([Buffer.alloc(shift), bytes]).toString('base64')
    const own = encoded.slice(Math.ceil((8 * shift) / 6), Math.floor((8 * (shift + bytes.length)) / 6))
    return [own, own.replaceAll('+', '-').replaceAll('/', '_')].flatMap(base64 => tilePatterns(base64, TILE_LENGTH))
  })
}

/** Each tile identifies the run that it is part of, for every way of wrapping. */
function tilePatterns(text: string, size: number): Pattern[] {
  if (text.length <= size) return [{ text, inRun: true }]
  const tiles = Array.from({ length: Math.floor(text.length / size) }, (_, i) => text.slice(i * size, (i + 1) * size))
  return tiles.map(tile => ({ text: tile, inRun: true }))
}

const totalLength = (patterns: Pattern[]) => patterns.reduce((sum, { text }) => sum + text.length, 0)
function uniquePatterns(patterns: Pattern[]): Pattern[] {
  return [...new Map(patterns.map(pattern => [`${pattern.inRun ? 'run' : 'text'} ${pattern.text}`, pattern])).values()]
}

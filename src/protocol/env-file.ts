// Reads and writes the text of a .env file, for the command line and for pages. Pure.

const QUOTES = ["'", '"', '`']

/**
 * The last value of each name, as `parseEnv` of Node.js reads it, which browsers do not have. Unlike it, an empty value
 * never takes the line below.
 */
export const parseEnvFile = (text: string): Record<string, string> => readEnvFile(text).values

/** The numbers of the lines that are skipped although they are neither blank nor a comment, the first line being 1. */
export const listUnreadLines = (text: string): number[] => readEnvFile(text).unread

function readEnvFile(text: string): { values: Record<string, string>; unread: number[] } {
  const values = new Map<string, string>()
  const unread: number[] = []
  let number = 1
  const content = text.replaceAll('\r', '')
  const lineEnd = (from: number) => {
    const end = content.indexOf('\n', from)
    return end === -1 ? content.length : end
  }
  for (let at = 0; at < content.length; ) {
    const end = lineEnd(at)
    const offset = content.slice(at, end).indexOf('=')
    const equals = at + offset
    const line = content.slice(at, end).trimStart()
    if (line === '' || line.startsWith('#') || offset === -1) {
      if (line !== '' && !line.startsWith('#')) unread.push(number)
      number++
      at = end + 1
      continue
    }
    const name = content
      .slice(at, equals)
      .trim()
      .replace(/^export /, '')
      .trimStart()
    const start = equals + 1 + /^[ \t]*/.exec(content.slice(equals + 1, end))![0].length
    const quote = content[start]!
    const closing = start < end && QUOTES.includes(quote) ? content.indexOf(quote, start + 1) : -1
    const value =
      closing === -1 ? unquotedValue(content.slice(start, end)) : quotedValue(quote, content.slice(start + 1, closing))
    if (name) values.set(name, value)
    else unread.push(number)
    number += closing === -1 ? 1 : content.slice(start, closing).split('\n').length
    at = (closing === -1 ? end : lineEnd(closing + 1)) + 1
  }
  return { values: Object.fromEntries(values), unread }
}

const quotedValue = (quote: string, text: string) => (quote === '"' ? text.replaceAll('\\n', '\n') : text)

/** One with a quote that is not closed is the whole line. */
const unquotedValue = (line: string) =>
  QUOTES.some(quote => line.startsWith(quote)) ? line.trimEnd() : line.replace(/#.*/, '').trim()

const MARKS = ['', ...QUOTES]

/** One line, or undefined if a file cannot have the value, such as one with all three quotes. */
export function writeVariable(name: string, value: string): string | undefined {
  return MARKS.map(mark => `${name}=${mark}${value}${mark}`).find(line => {
    // A quote that is not closed would reach into the lines after it.
    const parsed = parseEnvFile([line, ...MARKS.map((mark, i) => `${i}=${mark}x${mark}`)].join('\n'))
    return parsed[name] === value && MARKS.every((_, i) => parsed[i] === 'x')
  })
}

const MAX_NAMED = 5

/** The fault of a text, or undefined. It has the numbers of lines, not their text, which may be secret. */
export function describeUnreadLines(text: string): string | undefined {
  const lines = listUnreadLines(text)
  if (lines.length === 0) return undefined
  if (lines.length === 1) return `Line ${lines[0]} is not NAME=value. Correct it, or begin it with #.`
  const more = lines.length > MAX_NAMED ? ` and ${lines.length - MAX_NAMED} more` : ''
  return `Lines ${lines.slice(0, MAX_NAMED).join(', ')}${more} are not NAME=value. Correct them, or begin them with #.`
}

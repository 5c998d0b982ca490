// Reads and writes the text of a .env file, for the command line and for pages. Pure.

const QUOTES = ["'", '"', '`']

/**
 * The last value of each name, as `parseEnv` of Node.js reads it, which browsers do not have. Unlike it, an empty value
 * never takes the line below.
 */
export function parseEnvFile(text: string): Record<string, string> {
  const values = new Map<string, string>()
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
    at = (closing === -1 ? end : lineEnd(closing + 1)) + 1
  }
  return Object.fromEntries(values)
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

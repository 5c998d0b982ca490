// Reads and writes `.env` files, as Node and the command line read them (pure).

export function parseEnvFile(content: string): Map<string, string> {
  const values = new Map<string, string>()
  let rest = content.replaceAll('\r', '')
  const takeLine = (from = 0) => {
    const end = rest.indexOf('\n', from)
    const line = end === -1 ? rest : rest.slice(0, end)
    rest = end === -1 ? '' : rest.slice(end + 1)
    return line
  }
  for (rest = trim(rest); rest !== ''; ) {
    if (rest[0] === '\n' || rest[0] === '#') {
      takeLine()
      continue
    }
    const lineEnd = rest.indexOf('\n')
    const equals = (lineEnd === -1 ? rest : rest.slice(0, lineEnd)).indexOf('=')
    if (equals === -1) {
      takeLine()
      rest = trim(rest)
      continue
    }
    const key = trim(rest.slice(0, equals))
    rest = rest.slice(equals + 1)
    if (rest === '' || rest[0] === '\n') {
      values.set(key, '')
      continue
    }
    rest = trim(rest)
    if (key === '') continue
    const name = trim(key.replace(/^export /, ''))
    values.set(name, takeValue())
    rest = trim(rest)
  }
  // A line that begins with an equals sign names nothing.
  values.delete('')
  return values

  function takeValue(): string {
    const [quote] = rest
    if (quote === '"' || quote === "'" || quote === '`') {
      const close = rest.indexOf(quote, 1)
      if (close !== -1) {
        const quoted = rest.slice(1, close)
        takeLine(close)
        return quote === '"' ? quoted.replaceAll('\\n', '\n') : quoted
      }
      return takeLine()
    }
    return trim(takeLine().split('#', 1)[0]!)
  }
}

const BLANKS = ' \t\n'
function trim(text: string): string {
  let [start, end] = [0, text.length]
  while (start < end && BLANKS.includes(text[start]!)) start++
  while (end > start && BLANKS.includes(text[end - 1]!)) end--
  return text.slice(start, end)
}

const QUOTES = ['', "'", '"', '`']

/** Undefined if a file cannot have the value, such as one with all three quotes. */
export function writeVariable(name: string, value: string): string | undefined {
  return QUOTES.map(quote => `${name}=${quote}${value}${quote}`).find(line => {
    // A quote that is not closed would reach into the lines after it.
    const parsed = parseEnvFile([line, ...QUOTES.map((quote, i) => `${i}=${quote}x${quote}`)].join('\n'))
    return parsed.get(name) === value && QUOTES.every((_, i) => parsed.get(String(i)) === 'x')
  })
}

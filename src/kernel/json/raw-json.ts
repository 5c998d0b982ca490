// JSON texts within a reply, sent as they are: parsed and written again, large numbers would lose digits.

/** While a reply is written, each of its texts stands as the token, which nothing else in it can contain. */
let writing: { token?: string; texts: string[] } | undefined

class RawJson {
  readonly #text: string
  constructor(text: string) {
    this.#text = text
  }
  toJSON(): string {
    if (!writing) throw new Error('A raw JSON text is written by writeJson() only.')
    writing.texts.push(this.#text)
    writing.token ??= crypto.randomUUID()
    return writing.token
  }
}

/** Stands in a reply for the value that `text` describes. */
export const rawJson = <Value>(text: string): Value => new RawJson(text) as unknown as Value

/** `JSON.stringify`, with raw texts. */
export function writeJson(value: unknown): string {
  const texts: string[] = []
  writing = { texts }
  try {
    const json = JSON.stringify(value)
    if (writing.token === undefined) return json
    const [first, ...parts] = json.split(`"${writing.token}"`)
    return first + parts.map((part, i) => texts[i] + part).join('')
  } finally {
    writing = undefined
  }
}

// JSON texts within a reply, sent as they are: parsed and written again, large numbers would lose digits.

/** While a reply is written, its texts stand as tokens, which nothing else in it can contain. */
let writing: { token: string | undefined; texts: string[] } | undefined

class RawJson {
  readonly #text: string
  constructor(text: string) {
    this.#text = text
  }
  toJSON(): string {
    if (!writing) throw new Error('A raw JSON text is written by writeJson() only.')
    writing.token ??= crypto.randomUUID()
    return `${writing.token} ${writing.texts.push(this.#text) - 1}`
  }
}

/** Stands in a reply for the value that `text` describes. */
export const rawJson = <Value>(text: string): Value => new RawJson(text) as unknown as Value

/** `JSON.stringify`, with raw texts. */
export function writeJson(value: unknown): string {
  writing = { token: undefined, texts: [] }
  try {
    const json = JSON.stringify(value)
    const { token, texts } = writing
    if (token === undefined) return json
    const [first, ...rest] = json.split(`"${token} `)
    return first + rest.map(part => part.replace(/^(\d+)"/, (_, number) => texts[Number(number)]!)).join('')
  } finally {
    writing = undefined
  }
}

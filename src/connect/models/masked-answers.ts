// Masks secrets in answers: a server may repeat the key that it was called with, also in a good answer.

export const SECRET_MASK = '********'
/** Shorter forms occur in ordinary answers. */
const MIN_LENGTH = 6

/** The secret as it is, and as servers commonly write it. */
function formsOf(secret: string): string[] {
  const json = JSON.stringify(secret).slice(1, -1)
  const bytes = Buffer.from(secret)
  const hex = bytes.toString('hex')
  const component = encodeURIComponent(secret.toWellFormed())
  return [secret, json, json.replaceAll('/', '\\/'), component, hex, hex.toUpperCase(), ...base64Forms(bytes)]
}

/** A text before the secret shifts it by 0 to 2 bytes. Characters that depend on its neighbours are left out. */
function base64Forms(bytes: Buffer): string[] {
  return [0, 1, 2].flatMap(shift => {
    const encoded = Buffer.concat([Buffer.alloc(shift), bytes]).toString('base64')
    const own = encoded.slice(Math.ceil((8 * shift) / 6), Math.floor((8 * (shift + bytes.length)) / 6))
    return [own, own.replaceAll('+', '-').replaceAll('/', '_')]
  })
}

/** The longest first, so that one that begins with another is masked as a whole. */
const listForms = (secrets: string[]): string[] =>
  [...new Set(secrets.flatMap(formsOf))].filter(form => form.length >= MIN_LENGTH).sort((a, b) => b.length - a.length)

export const maskSecrets = (text: string, secrets: string[]): string =>
  listForms(secrets).reduce((masked, form) => masked.replaceAll(form, SECRET_MASK), text)

/** Bytes that could be the beginning of a secret are held back until the next ones, or the end, tell. */
export type SecretFilter = { push(chunk: Uint8Array): Uint8Array; end(): Uint8Array }

export function createSecretFilter(secrets: string[]): SecretFilter {
  const forms = listForms(secrets).map(form => Buffer.from(form))
  const borders = forms.map(bordersOf)
  let held = Buffer.alloc(0)

  return {
    push(chunk) {
      if (forms.length === 0) return chunk
      const data = Buffer.concat([held, chunk])
      const next = forms.map(form => data.indexOf(form))
      const shown: Uint8Array[] = []
      let at = 0
      for (;;) {
        for (const [i, form] of forms.entries()) if (next[i]! >= 0 && next[i]! < at) next[i] = data.indexOf(form, at)
        const first = Math.min(...next.filter(start => start >= 0))
        if (first === Number.POSITIVE_INFINITY) break
        shown.push(data.subarray(at, first), Buffer.from(SECRET_MASK))
        at = first + forms[next.indexOf(first)]!.length
      }
      const rest = data.subarray(at)
      const kept = Math.max(...forms.map((form, i) => endingLength(rest, form, borders[i]!)))
      held = Buffer.from(rest.subarray(rest.length - kept))
      return Buffer.concat([...shown, rest.subarray(0, rest.length - kept)])
    },
    end: () => held,
  }
}

/** Lists for each place the longest proper prefix of the form that ends there (Knuth, Morris, Pratt). */
function bordersOf(form: Buffer): Int32Array {
  const borders = new Int32Array(form.length)
  for (let at = 1, length = 0; at < form.length; at++) {
    while (length > 0 && form[at] !== form[length]) length = borders[length - 1]!
    if (form[at] === form[length]) length++
    borders[at] = length
  }
  return borders
}

/** The length of the longest beginning of the form, which is not in the data as a whole, that the data ends with. */
function endingLength(data: Buffer, form: Buffer, borders: Int32Array): number {
  let length = 0
  for (let at = Math.max(0, data.length - form.length + 1); at < data.length; at++) {
    while (length > 0 && data[at] !== form[length]) length = borders[length - 1]!
    if (data[at] === form[length]) length++
  }
  return length
}

// Inputs and outputs in one line (pure).

const MAX = 240

/** The text of an object that has just one, else its JSON. */
export function previewOf(value: unknown): string {
  if (value === null || value === undefined) return ''
  if (typeof value !== 'object') return String(value).slice(0, MAX)
  const texts = Object.values(value).filter(one => typeof one === 'string')
  const [only] = texts
  const text = texts.length === 1 && only !== undefined ? only : JSON.stringify(value)
  return text.slice(0, MAX)
}

export function splitsOf(metadata: object | undefined): string[] {
  const { dataset_split: splits } = (metadata ?? {}) as { dataset_split?: unknown }
  return Array.isArray(splits) ? splits.map(String) : typeof splits === 'string' ? [splits] : []
}

/** Undefined if the text is no JSON object. */
export function readObject(text: string): object | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : undefined
  } catch {
    return undefined
  }
}

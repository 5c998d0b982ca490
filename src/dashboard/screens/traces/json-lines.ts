// JSON as lines of colored parts (pure).

export type Token = { text: string; kind: 'key' | 'text' | 'number' | 'word' | 'mark' }

const PARTS = /("(?:[^"\\]|\\.)*")(\s*:)?|(-?\d[\d.eE+-]*)|(true|false|null)|([^"\d\-tfn]+|.)/g

export function toTokens(line: string): Token[] {
  const tokens: Token[] = []
  for (const [whole, text, colon, number, word] of line.matchAll(PARTS)) {
    if (text !== undefined) {
      tokens.push({ text, kind: colon === undefined ? 'text' : 'key' })
      if (colon !== undefined) tokens.push({ text: colon, kind: 'mark' })
    } else tokens.push({ text: whole, kind: number !== undefined ? 'number' : word !== undefined ? 'word' : 'mark' })
  }
  return tokens
}

export const toJson = (value: unknown): string => JSON.stringify(value, null, 2) ?? 'null'

const BLOCK_LINES = 200

/** Lines in blocks, which are laid out when they come into view. */
export function toLineBlocks(text: string): string[][] {
  const lines = text.split('\n')
  const blocks: string[][] = []
  for (let at = 0; at < lines.length; at += BLOCK_LINES) blocks.push(lines.slice(at, at + BLOCK_LINES))
  return blocks
}

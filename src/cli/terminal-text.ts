// Text of servers and folders, made safe for a terminal: without control sequences other than colors and styles.

/** Control characters, and those that reorder the text after them. */
const UNSAFE = /[\p{Cc}\u2028-\u202e\u2066-\u2069]/gu
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const SEQUENCE_OR_UNSAFE = /\x1b\[([\d;]{0,40})m|[\p{Cc}\u2028-\u202e\u2066-\u2069]/gu
const STYLE = /^(?:0?[0-479]|2[1-479]|[349][0-7]|[34]9|10[0-7]|)$/

/** Colors and styles, without those that hide or animate text. */
export function areStyles([first, ...rest]: string[]): boolean {
  if (first === undefined) return true
  if (first !== '38' && first !== '48') return STYLE.test(first) && areStyles(rest)
  const values = rest[0] === '5' ? 1 : rest[0] === '2' ? 3 : undefined
  return values !== undefined && rest.length > values && areStyles(rest.slice(values + 1))
}

const replaceUnsafe = (character: string) => (/[\n\t]/.test(character) ? character : '�')

export const printable = (text: string): string => text.replace(UNSAFE, replaceUnsafe)

export const oneLine = (text: string): string => text.replace(UNSAFE, '�')

export const printableWithStyles = (text: string): string =>
  text.replace(SEQUENCE_OR_UNSAFE, (found: string, parameters?: string) => {
    if (parameters === undefined) return replaceUnsafe(found)
    return areStyles(parameters.split(';')) ? found : printable(found)
  })

/** JSON itself escapes only some of these characters, and terminals act on the others too. */
export const toJson = (value: unknown, indent?: number): string =>
  JSON.stringify(value, undefined, indent).replace(UNSAFE, character =>
    character === '\n' ? '\n' : `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )

// Finds where a text stops being JSON. JSON.parse reports it for some texts only, and in words of the engine.

const SPACE = /[ \t\n\r]*/y
/** Every character from the space on, except for the quote and the backslash; and escapes. */
const STRING = /"(?:[ !#-[\]-\uffff]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y
const SCALAR = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?|true|false|null/y

/** The offset of the first token that cannot stand there. For a text that ends too early, its length. */
function findJsonError(text: string): number {
  const closers: string[] = []
  let at = 0
  const skip = (pattern: RegExp): boolean => {
    pattern.lastIndex = at
    if (!pattern.test(text)) return false
    at = pattern.lastIndex
    return true
  }
  const skipCharacter = (character: string | undefined): boolean => {
    if (text[at] !== character) return false
    at++
    return true
  }
  let expected: 'value' | 'first item' | 'first name' | 'name' | 'colon' | 'end of value' = 'value'
  for (;;) {
    skip(SPACE)
    switch (expected) {
      case 'first item':
      case 'first name': {
        const isEmpty = skipCharacter(closers.at(-1))
        if (isEmpty) closers.pop()
        expected = isEmpty ? 'end of value' : expected === 'first item' ? 'value' : 'name'
        break
      }
      case 'value':
        if (skipCharacter('{')) {
          closers.push('}')
          expected = 'first name'
        } else if (skipCharacter('[')) {
          closers.push(']')
          expected = 'first item'
        } else if (skip(STRING) || skip(SCALAR)) expected = 'end of value'
        else return at
        break
      case 'name':
        if (!skip(STRING)) return at
        expected = 'colon'
        break
      case 'colon':
        if (!skipCharacter(':')) return at
        expected = 'value'
        break
      case 'end of value':
        if (closers.length === 0) return at
        if (skipCharacter(',')) expected = closers.at(-1) === '}' ? 'name' : 'value'
        else if (skipCharacter(closers.at(-1))) closers.pop()
        else return at
        break
    }
  }
}

export function describeJsonError(text: string): string {
  const offset = findJsonError(text)
  const lines = text.slice(0, offset).split('\n')
  const end = offset === text.length ? ', where it ends too early' : ''
  return `is not valid JSON at line ${lines.length}, column ${lines.at(-1)!.length + 1}${end}`
}

// Variables in the texts of a compose file: `$NAME`, `${NAME}`, and the forms with a default or a message. Pure.

export type Variables = Readonly<Record<string, string | undefined>>
/** `missing`: variables without a value and without a default, with the message of the file. */
type Interpolated = { text: string; missing: string[] }

const NAME = /^[A-Za-z_]\w*/

export function interpolate(text: string, variables: Variables): Interpolated {
  const missing: string[] = []
  let done = ''
  for (let at = 0; at < text.length; ) {
    const dollar = text.indexOf('$', at)
    if (dollar < 0) return { text: done + text.slice(at), missing }
    done += text.slice(at, dollar)
    const rest = text.slice(dollar + 1, dollar + 1 + MAX_NAME)
    if (rest.startsWith('$')) {
      done += '$'
      at = dollar + 2
      continue
    }
    const bare = NAME.exec(rest)?.[0]
    const end = rest.startsWith('{') ? closingBrace(text, dollar + 2) : -1
    if (bare === undefined && end < 0) {
      done += '$'
      at = dollar + 1
      continue
    }
    const found = bare === undefined ? expand(text.slice(dollar + 2, end), variables) : lookUp(bare, variables)
    done += found.text
    missing.push(...found.missing)
    at = bare === undefined ? end + 1 : dollar + 1 + bare.length
  }
  return { text: done, missing }
}
/** A variable with a longer name is none. */
const MAX_NAME = 256

/** -1 if there is none. A default may have variables of its own. */
function closingBrace(text: string, from: number): number {
  for (let at = from, depth = 1; at < text.length; at++) {
    if (text[at] === '{') depth++
    if (text[at] === '}' && --depth === 0) return at
  }
  return -1
}

function lookUp(name: string, variables: Variables): Interpolated {
  const value = variables[name]
  return value === undefined ? { text: '', missing: [name] } : { text: value, missing: [] }
}

function expand(inside: string, variables: Variables): Interpolated {
  const name = NAME.exec(inside)?.[0] ?? ''
  const [, colon = '', operator, word = ''] = /^(:?)([-+?])([\s\S]*)$/.exec(inside.slice(name.length)) ?? []
  const value = variables[name]
  const isSet = value !== undefined && !(colon === ':' && value === '')
  if (operator === '+') return isSet ? interpolate(word, variables) : { text: '', missing: [] }
  if (isSet) return { text: value, missing: [] }
  if (operator === '-') return interpolate(word, variables)
  return { text: '', missing: [operator === '?' && word !== '' ? `${name} (${word})` : name || inside] }
}

/** All texts of a value, and its merge keys (`<<`), which are objects by now. */
export function resolveTexts(
  value: unknown,
  variables: Variables,
  onMissing: (path: (string | number)[], name: string) => void,
  path: (string | number)[] = [],
): unknown {
  if (typeof value === 'string') {
    const { text, missing } = interpolate(value, variables)
    for (const name of missing) onMissing(path, name)
    return text
  }
  if (Array.isArray(value)) return value.map((item, i) => resolveTexts(item, variables, onMissing, [...path, i]))
  if (typeof value !== 'object' || value === null) return value
  const { '<<': merged, ...own } = value as Record<string, unknown>
  const members = Object.assign({}, ...[merged].flat().reverse().map(Object), own)
  return Object.fromEntries(
    Object.entries(members).map(([name, member]) => [
      name,
      resolveTexts(member, variables, onMissing, [...path, name]),
    ]),
  )
}

// Writes plain data as YAML (pure). Text that could be read as something else is a JSON string, which is YAML too.

const PLAIN = /^[A-Za-z][A-Za-z0-9_./-]*$/
const RESERVED = /^(true|false|null|yes|no|on|off|y|n)$/i
/** Characters that JSON leaves as they are, and YAML allows in escapes only. */
const UNPRINTABLE = /[\u007f-\u009f\u2028\u2029\ufeff\ufffe\uffff]/g
const escapeCharacter = (character: string) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`

const toScalar = (value: unknown): string =>
  typeof value === 'string' && PLAIN.test(value) && !RESERVED.test(value)
    ? value
    : JSON.stringify(value).replace(UNPRINTABLE, escapeCharacter)

const isFilled = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && Object.keys(value).length > 0

/** The lines of a value: the items of a list, or the members of an object. Members that are undefined are left out. */
export function toYaml(value: object, indent = ''): string {
  const isList = Array.isArray(value)
  return Object.entries(value)
    .filter(([, member]) => member !== undefined)
    .map(([name, member]) => {
      const start = indent + (isList ? '-' : `${toScalar(name)}:`)
      if (!isFilled(member)) return `${start} ${toScalar(member)}\n`
      const lines = toYaml(member, `${indent}  `)
      // The first member of an object stands beside the hyphen of its item.
      return isList ? `${start} ${lines.slice(indent.length + 2)}` : `${start}\n${lines}`
    })
    .join('')
}

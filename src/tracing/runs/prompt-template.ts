// Templates of prompts, Mustache or f-strings (pure). A value is never read as a template. The package `mustache`
// bounds neither depth nor output (three nested lists of 300 items took 20 seconds), and renders inherited members.

type Section = { section: string; isInverted: boolean; parts: Part[] }
type Part = string | { variable: string } | Section

/** Its message says what is wrong at which character. */
export class TemplateError extends Error {}

const VARIABLE = /^[\w$-]+(?:\.[\w$-]+)*$/

type Syntax = {
  /** Returns the reason to refuse a name. */
  checkName: (name: string, character: number) => string | null
  maxDepth: number
  /** Braces that are no tag are text. */
  isLenient?: boolean
}
const STRICT: Syntax = {
  checkName: (name, character) =>
    name === '.' || VARIABLE.test(name) ? null : `has a tag at character ${character} that is no name`,
  maxDepth: 9,
}

export const parseTemplate = (text: string, format: 'mustache' | 'f-string'): Part[] =>
  format === 'mustache' ? parseMustache(text) : parseFString(text)

export function parseMustache(text: string, { checkName, maxDepth, isLenient }: Syntax = STRICT): Part[] {
  const open: { name: string; parts: Part[] }[] = [{ name: '', parts: [] }]
  const parts = () => open.at(-1)!.parts
  let at = 0
  for (let start = text.indexOf('{{'); start >= 0; ) {
    const braces = text.startsWith('{{{', start) ? 3 : 2
    const end = text.indexOf('}}', start)
    const isEnded = end >= 0 && (braces === 2 || text[end + 2] === '}')
    const content = text.slice(start + braces, end)
    if (isLenient && end < 0) break
    if (isLenient && (!isEnded || /[{}]/.test(content))) {
      start = text.indexOf('{{', start + 1)
      continue
    }
    const character = start + 1
    if (!isEnded) throw new TemplateError(`has a tag at character ${character} that does not end`)
    if (start > at) parts().push(text.slice(at, start))
    at = end + braces
    start = text.indexOf('{{', at)
    const tag = content.trim()
    const sigil = braces === 3 ? '' : (/^[#^/!&>=]/.exec(tag)?.[0] ?? '')
    const name = tag.slice(sigil.length).trim()
    if (sigil === '!') continue
    if (sigil === '>' || sigil === '=')
      throw new TemplateError(`has a tag {{${sigil}…}} at character ${character}, which is not supported`)
    const fault = checkName(name, character)
    if (fault) throw new TemplateError(fault)
    if (sigil === '#' || sigil === '^') {
      const section: Section = { section: name, isInverted: sigil === '^', parts: [] }
      parts().push(section)
      if (open.length > maxDepth) throw new TemplateError(`nests sections deeper than ${maxDepth}`)
      open.push({ name, parts: section.parts })
    } else if (sigil === '/') {
      if (open.length === 1 || open.pop()!.name !== name)
        throw new TemplateError(`ends the section ${name} at character ${character}, which is not open`)
    } else parts().push({ variable: name })
  }
  if (at < text.length) parts().push(text.slice(at))
  if (open.length > 1) throw new TemplateError(`does not end the section ${open.at(-1)!.name}`)
  return open[0]!.parts
}

const F_TOKEN = /\{\{|\}\}|\{([^{}]*)\}|[{}]|[^{}]+/g

function parseFString(text: string): Part[] {
  return [...text.matchAll(F_TOKEN)].map(({ 0: token, 1: name, index }): Part => {
    if (token === '{{' || token === '}}') return token[0]!
    if (name !== undefined) {
      if (VARIABLE.test(name.trim())) return { variable: name.trim() }
      throw new TemplateError(`has braces at character ${index + 1} that hold no name. Double them to mean braces`)
    }
    if (token === '{' || token === '}')
      throw new TemplateError(`has a single brace at character ${index + 1}. Double it to mean a brace`)
    return token
  })
}

/** `required` are outside of sections. Names within a section may be those of its items. */
export function listVariables(parts: Part[]): { required: string[]; sections: string[] } {
  const required = new Set<string>()
  const sections = new Set<string>()
  for (const part of parts) {
    if (typeof part === 'string') continue
    if ('variable' in part) required.add(part.variable)
    else sections.add(part.section)
  }
  return { required: [...required], sections: [...sections] }
}

const MAX_RENDERED = 1_000_000
const MAX_STEPS = 100_000

type Read = (name: string) => unknown
type Output = {
  /** The items that a section is repeated for. */
  listItems: (value: unknown) => unknown[]
  write: (name: string, value: unknown) => string
}
const listItems = (value: unknown) => (Array.isArray(value) ? value : value ? [value] : [])

/** The reader returns undefined for an unknown name. Nested sections multiply: output over the limits is cut. */
export function renderTemplate(template: Part[], readOuter: Read, output: Partial<Output> = {}): string {
  const { listItems: itemsOf, write }: Output = { listItems, write: (_, value) => toText(value), ...output }
  let [rendered, steps] = ['', 0]
  const isFull = () => steps > MAX_STEPS || rendered.length > MAX_RENDERED
  function render(parts: Part[], read: Read): void {
    for (const part of parts) {
      steps++
      if (isFull()) return
      if (typeof part === 'string') rendered += part
      else if ('variable' in part) rendered += write(part.variable, read(part.variable))
      else renderSection(part, read)
    }
  }
  function renderSection({ section, isInverted, parts }: Section, read: Read): void {
    const items = itemsOf(read(section))
    if (isInverted) {
      if (items.length === 0) render(parts, read)
      return
    }
    for (const item of items) {
      steps++
      if (isFull()) return
      render(parts, readWithin(item, read))
    }
  }
  render(template, readOuter)
  return rendered.slice(0, MAX_RENDERED)
}

const readWithin =
  (item: unknown, read: Read): Read =>
  name => {
    if (name === '.') return item
    const own = readPath(item, name)
    return own === undefined ? read(name) : own
  }

/** `messages.0.content`, or with brackets. */
export const readPath = (value: unknown, path: string): unknown =>
  readMember(value, path.split(/[.[\]]+/).filter(Boolean))

/** Own members only: a name such as `constructor` finds nothing. */
export function readMember(value: unknown, path: string[]): unknown {
  let found = value
  for (const name of path) {
    if (typeof found !== 'object' || found === null || !Object.hasOwn(found, name)) return undefined
    found = (found as Record<string, unknown>)[name]
  }
  return found
}

export const toText = (value: unknown): string =>
  value == null ? '' : typeof value === 'string' ? value : JSON.stringify(value)

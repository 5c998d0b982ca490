// Templates of prompts, mustache or f-strings (pure). What a variable brings in is never read as a template.
import type { TemplateFormat } from './evaluators.schema.ts'

type Section = { section: string; isInverted: boolean; parts: Part[] }
type Part = string | { variable: string } | Section

/** Its message says what is wrong at which character. */
export class TemplateError extends Error {}

const MAX_DEPTH = 10
const VARIABLE = /^[\w$-]+(?:\.[\w$-]+)*$/

export const parseTemplate = (text: string, format: TemplateFormat): Part[] =>
  format === 'mustache' ? parseMustache(text) : parseFString(text)

function parseMustache(text: string): Part[] {
  const open: { name: string; parts: Part[] }[] = [{ name: '', parts: [] }]
  const parts = () => open.at(-1)!.parts
  let at = 0
  for (let start = text.indexOf('{{'); start >= 0; start = text.indexOf('{{', at)) {
    if (start > at) parts().push(text.slice(at, start))
    const isTriple = text.startsWith('{{{', start)
    const end = text.indexOf(isTriple ? '}}}' : '}}', start)
    if (end < 0) throw new TemplateError(`has a tag at character ${start + 1} that does not end`)
    const tag = text.slice(start + (isTriple ? 3 : 2), end).trim()
    at = end + (isTriple ? 3 : 2)
    const sigil = isTriple ? '' : (/^[#^/!&>=]/.exec(tag)?.[0] ?? '')
    const name = tag.slice(sigil.length).trim()
    if (sigil === '!') continue
    if (sigil === '>' || sigil === '=')
      throw new TemplateError(`has a tag {{${sigil}…}} at character ${start + 1}, which is not supported`)
    if (name !== '.' && !VARIABLE.test(name))
      throw new TemplateError(`has a tag at character ${start + 1} that is no name`)
    if (sigil === '#' || sigil === '^') {
      const section: Section = { section: name, isInverted: sigil === '^', parts: [] }
      parts().push(section)
      open.push({ name, parts: section.parts })
      if (open.length > MAX_DEPTH) throw new TemplateError(`nests sections deeper than ${MAX_DEPTH - 1}`)
    } else if (sigil === '/') {
      if (open.length === 1 || open.pop()!.name !== name)
        throw new TemplateError(`ends the section ${name} at character ${start + 1}, which is not open`)
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

/**
 * The reader returns undefined for what is not there. Sections within sections repeat each other: what exceeds the
 * limits is left out.
 */
export function renderTemplate(template: Part[], readOuter: (name: string) => unknown): string {
  let [rendered, steps] = ['', 0]
  const isFull = () => steps > MAX_STEPS || rendered.length > MAX_RENDERED
  function render(parts: Part[], read: (name: string) => unknown): void {
    for (const part of parts) {
      steps++
      if (isFull()) return
      if (typeof part === 'string') rendered += part
      else if ('variable' in part) rendered += toText(read(part.variable))
      else renderSection(part, read)
    }
  }
  function renderSection({ section, isInverted, parts }: Section, read: (name: string) => unknown): void {
    const value = read(section)
    const isEmpty = !value || (Array.isArray(value) && value.length === 0)
    if (isInverted) {
      if (isEmpty) render(parts, read)
      return
    }
    if (isEmpty) return
    for (const item of Array.isArray(value) ? value : [value]) {
      steps++
      if (isFull()) return
      render(parts, readWithin(item, read))
    }
  }
  render(template, readOuter)
  return rendered.slice(0, MAX_RENDERED)
}

const readWithin = (item: unknown, read: (name: string) => unknown) => (name: string) => {
  if (name === '.') return item
  const own = readPath(item, name)
  return own === undefined ? read(name) : own
}

/** `messages.0.content`, or with brackets. */
export function readPath(value: unknown, path: string): unknown {
  let found = value
  for (const name of path.split(/[.[\]]+/).filter(Boolean)) {
    if (typeof found !== 'object' || found === null || !Object.hasOwn(found, name)) return undefined
    found = (found as Record<string, unknown>)[name]
  }
  return found
}

const toText = (value: unknown): string =>
  value == null ? '' : typeof value === 'string' ? value : JSON.stringify(value)

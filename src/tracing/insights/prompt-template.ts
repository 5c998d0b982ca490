// The template of a summary prompt (pure): variables and sections of Mustache. What it shows of a trace is data, so
// each value stands between tags that the trace's author cannot guess.

const TAG = /\{\{\{?([^{}]*)\}\}\}?/g
const SIGNS = ['#', '^', '/', '!', '&']
const VARIABLES = /^(?:run\.(?:inputs|outputs)(?:\.[^.\s]+)*|run\.error|run\.feedback(?:\..+)?|all_thread_messages)$/
const KNOWN = 'use run.inputs, run.outputs, run.error, run.feedback or all_thread_messages'
const MAX_VALUE = 12_000
const MAX_PROMPT = 24_000
const MAX_WORDS = 32_000
const MAX_DEPTH = 32

/** Values of any depth, as they came as JSON. */
export type TemplateValues = {
  run: { inputs: unknown; outputs: unknown; error: string | null; feedback: Record<string, unknown> }
  all_thread_messages: unknown
}

type Tag = { at: number; end: number; sign: string; name: string }

function readTags(template: string): Tag[] {
  return [...template.matchAll(TAG)].map(({ 0: text, 1: inside, index }) => {
    const content = inside!.trim()
    const sign = SIGNS.find(one => content.startsWith(one)) ?? ''
    const name = content.slice(sign.length).trim()
    // Values are never escaped, so it makes no difference that a tag asks for it.
    return { at: index, end: index + text.length, sign: sign === '&' ? '' : sign, name }
  })
}

/** What is wrong with a template, for the person who wrote it. Null if nothing is. */
export function findTemplateFault(template: string): string | null {
  const open: string[] = []
  for (const { sign, name } of readTags(template)) {
    if (sign === '!') continue
    if (!VARIABLES.test(name)) return `has the unknown variable \`${name.slice(0, 60)}\`; ${KNOWN}`
    if (sign === '/' && open.pop() !== name) return `ends the section \`${name}\`, which is not open there`
    if (sign === '#' || sign === '^') open.push(name)
  }
  return open.length > 0 ? `does not end the section \`${open.at(-1)}\`` : null
}

export const usesThread = (template: string): boolean => template.includes('all_thread_messages')

/** For a model. `boundary` is a text that the author of the trace cannot know. */
export const renderPrompt = (template: string, values: TemplateValues, boundary: string): string =>
  cutMiddle(
    fillTemplate(template, values, (name, value) => {
      const inside = cutMiddle(toText(value).replaceAll(boundary, ''), MAX_VALUE)
      return `<data-${boundary} name="${name}">\n${inside}\n</data-${boundary}>`
    }),
    MAX_PROMPT,
  )

/** Only what people and models wrote, without the names of members, to count its words. */
export const renderWords = (template: string, values: TemplateValues): string =>
  fillTemplate(template, values, (_, value) => collectTexts(value).join(' ').slice(0, MAX_WORDS))

function fillTemplate(
  template: string,
  values: TemplateValues,
  show: (name: string, value: unknown) => string,
): string {
  // A template may name a value a thousand times, and to write a long one takes time.
  const written = new Map<string, string>()
  const write = (name: string): string => {
    if (!written.has(name)) written.set(name, show(name, lookUp(values, name)))
    return written.get(name)!
  }
  let filled = ''
  let at = 0
  const isShown: boolean[] = []
  for (const { at: start, end, sign, name } of readTags(template)) {
    if (!isShown.includes(false)) filled += template.slice(at, start)
    at = end
    if (sign === '#' || sign === '^') isShown.push(isTruthy(lookUp(values, name)) === (sign === '#'))
    else if (sign === '/') isShown.pop()
    else if (sign === '' && !isShown.includes(false)) filled += write(name)
  }
  return filled + template.slice(at)
}

/** Own members only: a name such as `constructor` finds nothing. Keys of feedback may have dots. */
function lookUp(values: TemplateValues, name: string): unknown {
  const feedback = /^run\.feedback\.(.+)$/.exec(name)?.[1]
  const path = feedback ? ['run', 'feedback', feedback] : name.split('.')
  let value: unknown = values
  for (const member of path) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, member)) return undefined
    value = (value as Record<string, unknown>)[member]
  }
  return value
}

const isTruthy = (value: unknown): boolean =>
  Boolean(value) && !(typeof value === 'object' && Object.keys(value as object).length === 0)

const toText = (value: unknown): string =>
  value === undefined || value === null ? '' : typeof value === 'string' ? value : JSON.stringify(value)

function collectTexts(value: unknown, depth = 0): string[] {
  if (typeof value === 'string') return [value]
  if (typeof value !== 'object' || value === null || depth > MAX_DEPTH) return []
  return Object.values(value).flatMap(inner => collectTexts(inner, depth + 1))
}

/** The beginning says what was asked, and the end how it ended. */
export function cutMiddle(text: string, max: number): string {
  if (text.length <= max) return text
  const head = Math.floor((max * 2) / 3)
  const tail = max - head
  return `${text.slice(0, head)}\n[… ${text.length - max} characters left out …]\n${text.slice(-tail)}`.toWellFormed()
}

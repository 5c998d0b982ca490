// The template of a summary prompt (pure): variables and sections of Mustache. What it shows of a trace is data, so
// each value stands between tags that its author cannot guess.

const TAG = /\{\{\{?([^{}]*)\}\}\}?/g
const SIGNS = ['#', '^', '/', '!', '&']
const VARIABLES = /^(?:run\.(?:inputs|outputs|error|feedback)(?:\.[^\s.]+)*|all_thread_messages)$/
const KNOWN = 'use run.inputs, run.outputs, run.error, run.feedback or all_thread_messages'
const MAX_VALUE = 12_000
const MAX_PROMPT = 24_000

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

/** `boundary` is a text that the author of the trace cannot know. */
export function renderPrompt(template: string, values: TemplateValues, boundary: string): string {
  let prompt = ''
  let at = 0
  const isShown: boolean[] = []
  for (const { at: start, end, sign, name } of readTags(template)) {
    if (!isShown.includes(false)) prompt += template.slice(at, start)
    at = end
    if (sign === '#' || sign === '^') isShown.push(isTruthy(lookUp(values, name)) === (sign === '#'))
    else if (sign === '/') isShown.pop()
    else if (sign === '' && !isShown.includes(false)) prompt += showValue(name, lookUp(values, name), boundary)
  }
  return cutMiddle(prompt + template.slice(at), MAX_PROMPT)
}

/** Own members only: a name such as `constructor` finds nothing. */
function lookUp(values: TemplateValues, name: string): unknown {
  let value: unknown = values
  for (const member of name.split('.')) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, member)) return undefined
    value = (value as Record<string, unknown>)[member]
  }
  return value
}

const isTruthy = (value: unknown): boolean =>
  Boolean(value) && !(typeof value === 'object' && Object.keys(value as object).length === 0)

function showValue(name: string, value: unknown, boundary: string): string {
  const text = value === undefined || value === null ? '' : typeof value === 'string' ? value : JSON.stringify(value)
  const inside = cutMiddle(text.replaceAll(boundary, ''), MAX_VALUE)
  return `<data-${boundary} name="${name}">\n${inside}\n</data-${boundary}>`
}

/** The beginning says what was asked, and the end how it ended. */
export function cutMiddle(text: string, max: number): string {
  if (text.length <= max) return text
  const head = Math.floor((max * 2) / 3)
  const tail = max - head
  return `${text.slice(0, head)}\n[… ${text.length - max} characters left out …]\n${text.slice(-tail)}`.toWellFormed()
}

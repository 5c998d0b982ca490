// The template of a summary prompt (pure): sections of Mustache are conditions here, and names are absolute. A value of
// a trace is data, so it stands between tags that the author of the trace cannot guess.
import { parseMustache, readMember, renderTemplate, TemplateError, toText } from '../runs/prompt-template.ts'

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

const parse = (template: string) =>
  parseMustache(template, {
    checkName: name => (VARIABLES.test(name) ? null : `has the unknown variable \`${name.slice(0, 60)}\`; ${KNOWN}`),
    maxDepth: Number.POSITIVE_INFINITY,
    isLenient: true,
  })

/** Describes the fault of a template to its author. */
export function findTemplateFault(template: string): string | null {
  try {
    parse(template)
    return null
  } catch (error) {
    if (error instanceof TemplateError) return error.message
    throw error
  }
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

/** Renders the texts that people and models wrote, without the names of members, to count their words. */
export const renderWords = (template: string, values: TemplateValues): string =>
  fillTemplate(template, values, (_, value) => collectTexts(value).join(' ').slice(0, MAX_WORDS))

function fillTemplate(
  template: string,
  values: TemplateValues,
  show: (name: string, value: unknown) => string,
): string {
  // A template may name a value a thousand times, and to write a long one takes time.
  const written = new Map<string, string>()
  const write = (name: string, value: unknown): string => {
    if (!written.has(name)) written.set(name, show(name, value))
    return written.get(name)!
  }
  return renderTemplate(parse(template), name => lookUp(values, name), {
    listItems: value => (isTruthy(value) ? [undefined] : []),
    write,
  })
}

/** Keys of feedback may have dots. */
function lookUp(values: TemplateValues, name: string): unknown {
  const feedback = /^run\.feedback\.(.+)$/.exec(name)?.[1]
  return readMember(values, feedback ? ['run', 'feedback', feedback] : name.split('.'))
}

const isTruthy = (value: unknown): boolean =>
  Boolean(value) && !(typeof value === 'object' && Object.keys(value as object).length === 0)

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

// Values of the variables of an evaluator's prompt, from a run (pure).
import { type parseTemplate, readPath, renderTemplate } from '../runs/prompt-template.ts'

/** JSON texts of the run, as the trace store has them. */
export type JudgedRun = {
  name: string
  run_type: string
  session_id: string
  error: string | null
  inputs: string | null
  outputs: string | null
  metadata: string | null
  /** The reference of the example, where the run is one of an experiment. */
  reference: string | null
}

const MEMBERS = {
  input: 'inputs',
  inputs: 'inputs',
  output: 'outputs',
  outputs: 'outputs',
  reference: 'reference',
  reference_output: 'reference',
  reference_outputs: 'reference',
  referenceOutput: 'reference',
  referenceOutputs: 'reference',
  metadata: 'metadata',
  error: 'error',
  name: 'name',
  run_type: 'run_type',
} as const satisfies Record<string, keyof JudgedRun>
/** The first names, in the order in which a client writes them. */
export const MEMBER_NAMES = ['input', 'output', 'reference', 'metadata', 'error', 'name', 'run_type']

const MAX_VALUE_LENGTH = 100_000

type Mapping = Record<string, string>
const splitPath = (path: string): [string, string] => {
  const [, head, rest] = /^([^.[]*)\.?(.*)$/s.exec(path)!
  return [head!, rest!]
}

export const isRunPath = (path: string): boolean => Object.hasOwn(MEMBERS, splitPath(path)[0])

/** The place of a variable in the run, or undefined if it has none. */
export function pathOf(variable: string, mapping: Mapping): string | undefined {
  if (Object.hasOwn(mapping, variable)) return mapping[variable]
  const [head, rest] = splitPath(variable)
  if (Object.hasOwn(mapping, head)) return rest ? `${mapping[head]}.${rest}` : mapping[head]
  return isRunPath(variable) ? variable : undefined
}

export function createReader(run: JudgedRun, mapping: Mapping): (variable: string) => unknown {
  const parsed = new Map<string, unknown>()
  const readMember = (member: keyof JudgedRun): unknown => {
    if (!parsed.has(member)) {
      const text = run[member]
      const isText = member === 'name' || member === 'run_type' || member === 'error'
      parsed.set(member, isText ? text : text && JSON.parse(text))
    }
    return parsed.get(member)
  }
  const readVariable = (variable: string): unknown => {
    const path = pathOf(variable, mapping)
    if (path === undefined) return undefined
    const [head, rest] = splitPath(path)
    return cutLongText(readPath(readMember(MEMBERS[head as keyof typeof MEMBERS]), rest))
  }
  // A template may name a variable a thousand times, and to measure a long one takes time.
  const known = new Map<string, unknown>()
  return variable => {
    if (!known.has(variable)) known.set(variable, readVariable(variable))
    return known.get(variable)
  }
}

/** A prompt that exceeds the limit of a model fails as a whole, and costs. */
function cutLongText(value: unknown): unknown {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? '')
  if (text.length <= MAX_VALUE_LENGTH) return value
  const half = MAX_VALUE_LENGTH / 2
  return `${text.slice(0, half)}\n[${text.length - MAX_VALUE_LENGTH} characters are left out]\n${text.slice(-half)}`
}

/** `error` is null for most runs, and says something by that. */
export const listMissing = (variables: string[], mapping: Mapping, read: (variable: string) => unknown): string[] =>
  variables.filter(variable => read(variable) == null && splitPath(pathOf(variable, mapping) ?? '')[0] !== 'error')

export const renderForRun = (parts: ReturnType<typeof parseTemplate>, read: (variable: string) => unknown): string =>
  renderTemplate(parts, read).toWellFormed()

// Validates values by a JSON Schema in bounded time: comparisons count towards a budget, and keywords whose cost the
// author of a schema could choose freely (`pattern`, `format`, `uniqueItems`) are not checked.
import {
  isObject,
  KEYWORDS,
  type Mismatch,
  type Path,
  type Run,
  Subschema,
  SubschemaMap,
} from './json-schema-keywords.ts'

/** The limit of all examples of a request. */
const MAX_STEPS = 1_000_000
const MAX_DEPTH = 500

/** A schema may refer to itself, or repeat its parts without end. */
export class TooManySteps extends Error {}

class Validation implements Run {
  #schema: unknown
  #budget: { steps: number }
  #depth = 0
  constructor(schema: unknown, budget = newBudget()) {
    this.#schema = schema
    this.#budget = budget
  }

  spend(steps: number): void {
    this.#budget.steps -= steps
    if (this.#budget.steps < 0) throw new TooManySteps()
  }

  find(schema: unknown, value: unknown, path: Path): Mismatch | undefined {
    this.spend(1)
    if (schema === false) return { path, msg: 'is not allowed' }
    if (!isObject(schema)) return undefined
    if (++this.#depth > MAX_DEPTH) throw new TooManySteps()
    for (const [name, rule] of Object.entries(schema)) {
      this.spend(1)
      const mismatch = findKeyword(name)?.check(rule as never, { value, path, node: schema }, this)
      if (mismatch) {
        this.#depth--
        return mismatch
      }
    }
    this.#depth--
    return undefined
  }

  matches(schema: unknown, value: unknown): boolean {
    return this.find(schema, value, []) === undefined
  }

  resolve(reference: string): unknown {
    return resolvePointer(this.#schema, reference)
  }
}

export const newBudget = () => ({ steps: MAX_STEPS })

/** Returns the first fault of the value, or undefined. */
export const findMismatch = (schema: unknown, value: unknown, budget = newBudget()): Mismatch | undefined =>
  new Validation(schema, budget).find(schema, value, [])

const findKeyword = (name: string) => (Object.hasOwn(KEYWORDS, name) ? KEYWORDS[name] : undefined)

function resolvePointer(schema: unknown, reference: string): unknown {
  if (!/^#(\/|$)/.test(reference)) return undefined
  let at = schema
  for (const part of reference.split('/').slice(1)) {
    const name = decodePart(part).replaceAll('~1', '/').replaceAll('~0', '~')
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, name)) return undefined
    at = (at as Record<string, unknown>)[name]
  }
  return at
}

function decodePart(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

const SUBSCHEMA_LISTS = ['allOf', 'anyOf', 'oneOf', 'prefixItems', 'items']

export function findSchemaFaults(schema: Record<string, unknown>): Mismatch[] {
  const faults: Mismatch[] = []
  const seen = new Set<unknown>()
  const visit = (node: unknown, path: Path): void => {
    if (!isObject(node) || seen.has(node)) return
    seen.add(node)
    for (const [name, rule] of Object.entries(node)) {
      const shape = findKeyword(name)?.shape
      if (shape) visitRule(name, rule, [...path, name], shape.safeParse(rule).success)
    }
  }
  const visitRule = (name: string, rule: unknown, path: Path, isSound: boolean): void => {
    if (!isSound) faults.push({ path, msg: 'is not a value of this keyword' })
    else if (name === '$ref') visitTarget(resolvePointer(schema, rule as string), path)
    else if (Array.isArray(rule)) {
      if (SUBSCHEMA_LISTS.includes(name)) for (const [i, one] of rule.entries()) visit(one, [...path, i])
    } else if (KEYWORDS[name]!.shape === SubschemaMap)
      for (const [key, one] of Object.entries(rule as object)) visitTarget(one, [...path, key])
    else if (isObject(rule)) visit(rule, path)
  }
  const visitTarget = (target: unknown, path: Path): void => {
    if (Subschema.safeParse(target).success) visit(target, path)
    else faults.push({ path, msg: 'is not a schema, or a reference to one such as `#/$defs/name`' })
  }
  visit(schema, [])
  return faults
}

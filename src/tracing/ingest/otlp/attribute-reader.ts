// Reads attributes by their names. Attributes that were not read become metadata.
import { ValueBudget } from '../../../kernel/limits/value-budget.ts'
import type { Attributes, Value } from './spans.ts'

type Path = string[]
const MAX_PATH_LENGTH = 12
const MAX_DEPTH = 64

export const isObject = (value: Value | undefined): value is { [name: string]: Value } =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** The budget of the request whose spans are converted now. Conversion is synchronous, so there is one at a time. */
let budget: ValueBudget | undefined

export function withTextBudget<T>(values: ValueBudget, convert: () => T): T {
  budget = values
  try {
    return convert()
  } finally {
    budget = undefined
  }
}

/** The value that a text holds as JSON; else the text itself, also where it is too deep or has too many values. */
export function parseIfJson(value: Value): Value {
  if (typeof value !== 'string' || !/^\s*[[{]/.test(value)) return value
  const fault = (budget ?? new ValueBudget()).checkBeforeParse(value, MAX_DEPTH)
  return fault ? value : (JSON.parse(value) as Value)
}

export class AttributeReader {
  #attributes: Attributes
  #read = new Set<string>()

  constructor(attributes: Attributes) {
    this.#attributes = attributes
  }

  /** The first of these attributes that has a value. The others count as read, too. */
  value(...names: string[]): Value | undefined {
    let found: Value | undefined
    for (const name of names) {
      const value = this.#attributes.get(name)
      if (value === undefined) continue
      this.#read.add(name)
      if (value !== null && value !== '') found ??= value
    }
    return found
  }

  text(...names: string[]): string | undefined {
    const value = this.value(...names)
    return value === undefined || typeof value === 'object' ? undefined : String(value)
  }

  number(...names: string[]): number | undefined {
    const text = this.text(...names)
    const number = Number(text ?? Number.NaN)
    return Number.isFinite(number) ? number : undefined
  }

  isTrue(name: string): boolean {
    const value = this.value(name)
    return value === true || value === 'true'
  }

  /** Returns the names of attributes without the prefix, and their values. */
  startingWith(prefix: string): [rest: string, value: Value][] {
    const found: [string, Value][] = []
    for (const [name, value] of this.#attributes) {
      if (!name.startsWith(prefix) || name.length === prefix.length) continue
      this.#read.add(name)
      found.push([name.slice(prefix.length), value])
    }
    return found
  }

  /** The list whose items are attributes of their own: `prefix.0.role`, `prefix.0.content`, `prefix.1.role`. */
  list(prefix: string): Value[] {
    const entries = this.startingWith(`${prefix}.`).filter(([rest]) => /^\d+(\.|$)/.test(rest))
    const tree = nest(entries.map(([rest, value]) => [rest.split('.', MAX_PATH_LENGTH), value]))
    return Array.isArray(tree) ? tree : []
  }

  left(): { [name: string]: Value } {
    return Object.fromEntries([...this.#attributes].filter(([name]) => !this.#read.has(name)))
  }
}

/** Values by path. Where all names are numbers, they are the positions of a list, and gaps close. */
function nest(entries: [Path, Value][]): Value {
  const leaf = entries.find(([path]) => path.length === 0)
  if (leaf) return leaf[1]
  const groups = Map.groupBy(entries, ([[name]]) => name!)
  const nested = [...groups].map(([name, group]): [string, Value] => [
    name,
    nest(group.map(([[, ...path], value]) => [path, value])),
  ])
  if (nested.some(([name]) => !/^\d+$/.test(name))) return Object.fromEntries(nested)
  return nested.toSorted(([a], [b]) => Number(a) - Number(b)).map(([, value]) => value)
}

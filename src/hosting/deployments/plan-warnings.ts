// Describes in words what a plan takes away. `resource_spec`, `secrets` and `secret_references` are replaced as a
// whole. Pure.
import { hasDatabase, type Part, partsOf, type ResourceSpec } from '../../protocol/resources.schema.ts'
import type { Plan } from './schema.ts'

const PART_NAMES: Record<Part, string> = {
  queue: 'queue workers',
  orchestrator: 'orchestrator',
  executor: 'executor',
  redis: 'Redis',
}

export const describeLosses = (changes: Plan['changes']): string[] =>
  changes.flatMap(({ path, before, after }) => {
    if (path === 'source_config.resource_spec')
      return describeSpecLosses((before ?? {}) as ResourceSpec, (after ?? {}) as ResourceSpec)
    if (path === 'secrets') return describeRemoved('secret', before as string[], after as string[])
    if (path === 'secret_references') return describeRemoved('secret reference', namesOf(before), namesOf(after))
    return []
  })

function describeSpecLosses(before: ResourceSpec, after: ResourceSpec): string[] {
  const losses: string[] = []
  const losesDatabase = hasDatabase(before) && !hasDatabase(after)
  if (losesDatabase)
    losses.push(
      'Detaches the database: `DATABASE_URI` is no longer set. Its data are kept until the deployment is deleted.',
    )
  const lostParts = partsOf(before).filter(part => !partsOf(after).includes(part))
  if (lostParts.length > 0) losses.push(`Removes ${joinWords(lostParts.map(part => PART_NAMES[part]))}.`)
  const removedWhole = [...(losesDatabase ? ['db'] : []), ...lostParts].map(part => `${part}_`)
  const dropped = (Object.keys(before) as (keyof ResourceSpec)[])
    .filter(name => before[name] != null && after[name] == null)
    .filter(name => !removedWhole.some(prefix => name.startsWith(prefix)))
  const isDefaulted = (name: keyof ResourceSpec) => typeof before[name] === 'number'
  const defaulted = dropped.filter(isDefaulted)
  const removed = dropped.filter(name => !isDefaulted(name))
  if (defaulted.length === 1) losses.push(`${inCode(defaulted)} returns to its default.`)
  if (defaulted.length > 1) losses.push(`${inCode(defaulted)} return to their defaults.`)
  if (removed.length > 0) losses.push(`Removes ${inCode(removed)}.`)
  return losses
}

function describeRemoved(what: string, before: string[], after: string[]): string[] {
  const removed = before.filter(name => !after.includes(name))
  return removed.length > 0 ? [`Removes ${what}${removed.length > 1 ? 's' : ''} ${joinWords(removed)}.`] : []
}

const namesOf = (named: unknown): string[] => ((named ?? []) as { name: string }[]).map(({ name }) => name)
const inCode = (names: string[]): string => joinWords(names.map(name => `\`${name}\``))
const joinWords = (words: string[]): string =>
  words.length < 2 ? words.join() : `${words.slice(0, -1).join(', ')} and ${words.at(-1)}`

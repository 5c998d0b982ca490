// Describes in words what a plan takes away, and what it leaves to the next revision. `secrets` and `secret_references`
// are replaced as a whole. Pure.
import { describeIgnored, listIgnored } from '../../protocol/engine-features.ts'
import type { ListenerPolicy } from '../../protocol/listener-policy.ts'
import { hasDatabase, type Part, partsOf, type ResourceSpec } from '../../protocol/resources.schema.ts'
import type { Plan } from './schema.ts'

const PART_NAMES: Record<Part, string> = {
  queue: 'queue workers',
  orchestrator: 'orchestrator',
  executor: 'executor',
  redis: 'Redis',
}

export const describeLosses = (
  changes: Plan['changes'],
  resourcesBefore: ResourceSpec,
  resourcesAfter: ResourceSpec,
): string[] => [
  ...describeSpecLosses(resourcesBefore, resourcesAfter),
  ...changes.flatMap(({ path, before, after }) => {
    if (path === 'secrets') return describeRemoved('secret', before as string[], after as string[])
    if (path === 'secret_references') return describeRemoved('secret reference', namesOf(before), namesOf(after))
    return []
  }),
]

/** Disks that a list of volumes leaves out. */
export function describeKeptDisks(sent: ResourceSpec['volumes'], next: ResourceSpec['volumes']): string[] {
  const kept = sent ? namesOf(next).filter(name => !namesOf(sent).includes(name)) : []
  if (kept.length === 0) return []
  return [
    `Keeps the disk${kept.length > 1 ? 's' : ''} ${inCode(kept)}: only \`?clear=resource_spec.volumes\` removes it.`,
  ]
}

type Configured = { resource_spec?: unknown }
/** `policy` is the text of what the agent of the listener has told; null if it has told nothing. */
export function describeIgnoredMembers({ resource_spec }: Configured, policy: string | null): string[] {
  const declared: Partial<ListenerPolicy> = policy === null ? {} : JSON.parse(policy)
  const ignored = listIgnored((resource_spec ?? {}) as ResourceSpec, declared)
  return ignored.length > 0 ? [describeIgnored(ignored, declared.engine ?? 'present')] : []
}

/** Members that a revision copies when it is created. */
export const describeDeferred = (paths: string[]): string[] =>
  paths.length === 0
    ? []
    : [
        `${inCode(paths.map(path => path.replace('source_config.', '')))} ` +
          `${paths.length > 1 ? 'take' : 'takes'} effect with the next revision.`,
      ]

function describeSpecLosses(before: ResourceSpec, after: ResourceSpec): string[] {
  const losses: string[] = []
  const losesDatabase = hasDatabase(before) && !hasDatabase(after)
  if (losesDatabase)
    losses.push(
      'Detaches the database: `DATABASE_URI` is no longer set. Its data are kept until the deployment is deleted.',
    )
  const lostParts = partsOf(before).filter(part => !partsOf(after).includes(part))
  const stopped = lostParts.filter(part => part !== 'redis')
  if (stopped.length > 0) losses.push(`Removes ${joinWords(stopped.map(part => PART_NAMES[part]))}.`)
  if (lostParts.includes('redis'))
    losses.push(
      'Detaches Redis: `REDIS_URI` is no longer set, and it stops once the new revision serves. Among processes its ' +
        'data are kept until the deployment is deleted; containers and Kubernetes keep none.',
    )
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
  const lostDisks = disksOf(before).filter(name => !disksOf(after).includes(name))
  if (lostDisks.length > 0) losses.push(`Detaches the disks ${inCode(lostDisks)}. Their files are kept.`)
  return losses
}

const disksOf = ({ volumes }: ResourceSpec): string[] =>
  (volumes ?? []).filter(volume => volume.persistentVolumeClaim != null).map(({ name }) => name)

function describeRemoved(what: string, before: string[], after: string[]): string[] {
  const removed = before.filter(name => !after.includes(name))
  return removed.length > 0 ? [`Removes ${what}${removed.length > 1 ? 's' : ''} ${joinWords(removed)}.`] : []
}

const namesOf = (named: unknown): string[] => ((named ?? []) as { name: string }[]).map(({ name }) => name)
const inCode = (names: string[]): string => joinWords(names.map(name => `\`${name}\``))
const joinWords = (words: string[]): string =>
  words.length < 2 ? words.join() : `${words.slice(0, -1).join(', ')} and ${words.at(-1)}`

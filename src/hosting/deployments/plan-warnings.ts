// Describes in words what a plan takes away, and what it leaves to the next revision. `secrets` and `secret_references`
// are replaced as a whole. Pure.
import type { BuildPlan } from '../../protocol/build-plan.schema.ts'
import { findExclusiveDisk } from '../../protocol/disks.ts'
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
  const spec = (resource_spec ?? {}) as ResourceSpec
  const ignored = listIgnored(spec, declared)
  return [
    ...(ignored.length > 0 ? [describeIgnored(ignored, declared.engine ?? 'present')] : []),
    ...describeScaling(spec, declared),
    ...(isWithoutProcesses(policy) ? describeUnknown(LATER_MEMBERS.filter(name => spec[name] != null)) : []),
  ]
}

/** Members that act only beside others, and copies that stay for lack of one. */
function describeScaling(spec: ResourceSpec, { features, max_copies }: Partial<ListenerPolicy>): string[] {
  const { min_scale, max_scale, scale_metric, scale_target, scale_path, idle_seconds, frozen_seconds } = spec
  const [least, canSleep] = [Math.max(1, min_scale ?? 1), features?.includes('sleep')]
  const moves = max_scale != null && max_scale > least
  const tuned = [scale_metric != null && 'scale_metric', scale_target != null && 'scale_target'].filter(Boolean)
  const warnings: string[] = []
  if (moves && scale_metric === 'fixed')
    warnings.push(`Keeps ${least === 1 ? 'one copy' : `${least} copies`}, because \`scale_metric\` is \`fixed\`.`)
  const isOver = Object.values(spec.process_scaling ?? {}).some(one => one.max_scale > (max_copies ?? 1_000))
  if (isOver || (moves && max_copies != null && max_scale > max_copies))
    warnings.push(`At most ${max_copies} copies run, because the agent of the listener allows no more.`)
  if (features?.includes('autoscaling') && !moves && tuned.length > 0 && scale_metric !== 'fixed') {
    const have = tuned.length > 1 ? 'have' : 'has'
    warnings.push(`${inCode(tuned as string[])} ${have} no effect while \`max_scale\` is not set above \`min_scale\`.`)
  }
  if (scale_path != null && scale_metric !== 'queue')
    warnings.push('`scale_path` has no effect without the `scale_metric` `queue`.')
  const moving = spec.process_scaling ?? {}
  const fixed = Object.keys(spec.process_scale ?? {}).filter(name => Object.hasOwn(moving, name))
  if (fixed.length > 0)
    warnings.push(`\`process_scale\` has no effect on ${inCode(fixed)}, which \`process_scaling\` moves.`)
  if (canSleep && min_scale === 0 && idle_seconds == null)
    warnings.push('One copy keeps running while `min_scale` is 0 and `idle_seconds` is not set.')
  if (canSleep && min_scale !== 0 && idle_seconds != null)
    warnings.push('`idle_seconds` has no effect while `min_scale` is not 0.')
  if (canSleep && idle_seconds == null && frozen_seconds != null)
    warnings.push('`frozen_seconds` has no effect without `idle_seconds`.')
  return warnings
}

const LATER_MEMBERS = ['process_scale', 'process_scaling', 'process_resources', 'attached_database'] as const
/** An agent of a release that told no features. */
const isWithoutProcesses = (policy: string | null): boolean =>
  policy !== null && (JSON.parse(policy) as Partial<ListenerPolicy>).features == null
const describeUnknown = (names: string[]): string[] =>
  names.length === 0
    ? []
    : [`The agent of the listener is of an earlier release and ignores ${inCode(names)}. Update it.`]

/** Processes of the source beside `web`, which earlier agents do not start. */
export function describeIgnoredProcesses(build: BuildPlan | undefined, policy: string | null): string[] {
  const names = build?.processes?.map(({ name }) => name) ?? []
  const isKnown = policy === null || (JSON.parse(policy) as Partial<ListenerPolicy>).features?.includes('processes')
  if (names.length === 0 || isKnown) return []
  return [
    `The agent of the listener is of an earlier release: it starts no processes beside \`web\`. ` +
      `Update it to start ${inCode(names)}.`,
  ]
}

/** Parts that were stored before the engine of the listener ran them. Kubernetes ran them before. */
export function describeDormantParts(
  before: Part[] | null | undefined,
  after: Part[] | null | undefined,
  policy: string | null,
): string[] {
  const { engine }: Partial<ListenerPolicy> = policy === null ? {} : JSON.parse(policy)
  if (engine === 'kubernetes') return []
  const started = (before ?? []).filter(part => !after?.includes(part))
  return [
    ...(started.length > 0 ? [`Starts the ${joinWords(started.map(part => PART_NAMES[part]))}.`] : []),
    ...(after ?? []).map(
      part =>
        `\`${part}_*\` has no effect yet: it was stored before this engine ran it. Write one of these members again ` +
        `to start the ${PART_NAMES[part]}.`,
    ),
  ]
}

/** The new revision starts only once the one before has ended. */
export function describeReplacement({ resource_spec }: Configured, policy: string | null): string[] {
  const { engine }: Partial<ListenerPolicy> = policy === null ? {} : JSON.parse(policy)
  const disk = findExclusiveDisk((resource_spec ?? {}) as ResourceSpec, engine)
  if (!disk) return []
  return [
    `The new revision replaces the present one instead of starting beside it, because one copy at a time uses the ` +
      `disk \`${disk.name}\`: requests fail in between.`,
  ]
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
    losses.push(`Removes the database with its data: \`DATABASE_URI\` is no longer set. ${WHEN_REMOVED}`)
  const lostParts = partsOf(before).filter(part => !partsOf(after).includes(part))
  const stopped = lostParts.filter(part => part !== 'redis')
  if (stopped.length > 0) losses.push(`Removes ${joinWords(stopped.map(part => PART_NAMES[part]))}.`)
  if (lostParts.includes('redis'))
    losses.push(`Removes Redis with its data: \`REDIS_URI\` is no longer set. ${WHEN_REMOVED}`)
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
  if (lostDisks.length > 0)
    losses.push(
      `Removes the disk${lostDisks.length > 1 ? 's' : ''} ${inCode(lostDisks)} with all files. ${WHEN_REMOVED}`,
    )
  return losses
}

/** Claims of a cluster that the agent has not made are only detached. */
const WHEN_REMOVED =
  'They are gone once a revision without it serves. Where the engine takes snapshots, a last one is kept for 7 days.'

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

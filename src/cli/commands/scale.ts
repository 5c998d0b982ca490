// `slipway scale`: sets the number of copies of processes, or in which way it moves.

import { listProcesses } from '../../client/process-copies.ts'
import { planAndApply } from '../change.ts'
import type { Declaration } from '../declaration.ts'
import { usageError } from '../failure.ts'
import { type FollowFlags, repeatOptions, withFollow } from '../flags.ts'
import { parseTimeout } from '../follow.ts'
import { type Deployment, findRevision, type Session } from '../session.ts'
import { readDeployment } from '../variables.ts'

export const declaration: Declaration = {
  arguments: '[deployment] <process=copies...>',
  summary: 'set the copies of processes, such as web=3 worker=2 or web=1-8 worker=1-4',
  options: command =>
    withFollow(command)
      .option('--by <metric>', 'what moves the copies: concurrency, requests, cpu, memory, queue, or fixed')
      .option('--target <amount>', 'what one copy should carry')
      .option('--path <path>', 'with --by queue: where web tells the number of waiting tasks')
      .option('--idle <seconds>', 'with web=0-N: it sleeps after so long without a request')
      .option('--frozen <seconds>', 'it first sleeps frozen for so long'),
}

type Flags = FollowFlags & { by?: string; target?: string; path?: string; idle?: string; frozen?: string }
/** Named by members of `resource_spec`, not by the source. */
const PARTS = ['queue', 'orchestrator', 'executor']
/** Their values are checked by the API, which names all faults at once. */
const LOAD_FLAGS = { by: 'scale_metric', target: 'scale_target', path: 'scale_path' } as const
const SLEEP_FLAGS = { idle: 'idle_seconds', frozen: 'frozen_seconds' } as const
const SETTINGS = { ...LOAD_FLAGS, ...SLEEP_FLAGS }

export async function run(
  session: Session,
  flags: Flags,
  [first, ...more]: [string | undefined, ...string[]],
): Promise<void> {
  const { client, signal } = session
  // Without a name, the first of several is a process.
  const [name, words] = first?.includes('=') ? [undefined, [first, ...more]] : [first, more]
  const { web, ...others } = parseScales(words)
  const moving = Object.entries(others).flatMap(([name, { least, most }]) => (least !== most ? [name] : []))
  if (moving.length > 0) refuseUnclear(flags, moving, web)
  const { deployment, etag } = await readDeployment(session, name)
  await noteUnknown(session, deployment, Object.keys(others))
  const resource_spec = {
    ...(web !== undefined && { min_scale: web.least, max_scale: web.most }),
    ...(Object.keys(others).length > 0 &&
      scaleOthers(others, deployment.source_config.resource_spec ?? {}, settingsOf(flags, LOAD_FLAGS))),
    ...(moving.length === 0 && settingsOf(flags, LOAD_FLAGS)),
    ...settingsOf(flags, SLEEP_FLAGS),
  }
  const patch = { params: { deployment_id: deployment.id }, body: { source_config: { resource_spec } }, signal }
  const plan = await client.plan('PATCH /v2/deployments/{deployment_id}', patch)
  // `If-Match`, because the copies of other processes are sent as they were read.
  const apply = (digest: string) =>
    client.call('PATCH /v2/deployments/{deployment_id}', {
      ...patch,
      headers: { 'Plan-Digest': digest, 'If-Match': etag },
    })
  const next = `slipway scale ${deployment.name} ${words.join(' ')}${repeatOptions(flags, Object.keys(SETTINGS))} --yes`
  const options = { ...flags, timeoutMs: parseTimeout(flags.timeout), next, isExpected: true }
  await planAndApply(session, deployment, { plan, apply }, options)
}

type Scale = { least: number; most: number }

function parseScales(words: string[]): Record<string, Scale> {
  const scales: Record<string, Scale> = {}
  for (const word of words) {
    const [, name, least, most = least] = /^([a-z][a-z0-9-]*)=(\d{1,4})(?:-(\d{1,4}))?$/.exec(word) ?? []
    if (name === undefined)
      throw usageError(`\`${word}\` is not a process and its copies.`, 'slipway scale shop web=3 worker=2')
    scales[name] = { least: Number(least), most: Number(most) }
  }
  return scales
}

/** A number for a later source is no fault, and a mistyped name would have no effect. */
async function noteUnknown(session: Session, deployment: Deployment, names: string[]): Promise<void> {
  if (names.length === 0) return
  const { build_plan } = await findRevision(session, deployment)
  if (!build_plan) return
  const known = listProcesses(build_plan, deployment.source_config.resource_spec).map(({ name }) => name)
  const unknown = names.filter(name => !known.includes(name) && !PARTS.includes(name))
  if (unknown.length > 0)
    session.out.note(
      `The latest revision of ${deployment.name} has no process ${unknown.join(', ')}, only ${known.join(', ')}. ` +
        'The copies take effect once a revision has it.',
    )
}

/** The flags are about one process. */
function refuseUnclear(flags: Flags, moving: string[], web: Scale | undefined): void {
  const given = Object.keys(SETTINGS).filter(flag => flags[flag as keyof typeof SETTINGS] !== undefined)
  const ofWeb = given.find(flag => flag in SLEEP_FLAGS)
  if (ofWeb) throw usageError(`\`--${ofWeb}\` is for \`web\` alone.`, 'slipway scale shop web=0-4 --idle 300')
  if (given.length > 0 && (moving.length > 1 || (web && web.least < web.most)))
    throw usageError(
      `\`--${given[0]}\` is for one process, and more than one moves here. Scale them one after the other.`,
      `slipway scale shop ${moving[0]}=1-4 --by queue`,
    )
}

function settingsOf(flags: Flags, members: Partial<typeof SETTINGS>): Record<string, string | number> {
  return Object.fromEntries(
    Object.entries(members).flatMap(([flag, member]) => {
      const value = flags[flag as keyof typeof SETTINGS]
      if (value === undefined) return []
      return [[member, flag === 'by' || flag === 'path' ? value : parseNumber(value, flag)]]
    }),
  )
}

function parseNumber(text: string, flag: string): number {
  if (/^\d{1,9}(\.\d{1,6})?$/.test(text)) return Number(text)
  throw usageError(`\`--${flag} ${text}\` is not a number.`, `slipway scale shop web=0-4 --${flag} 60`)
}

type Resources = {
  process_scale?: Record<string, number> | null | undefined
  process_scaling?: Record<string, object> | null | undefined
}

/** A process has a fixed number or moves. Each member is sent whole, so the others in it are sent as they were read. */
function scaleOthers(scales: Record<string, Scale>, before: Resources, settings: Record<string, unknown>) {
  const kept = <Value>(all: Record<string, Value> | null | undefined) =>
    Object.entries(all ?? {}).filter(([name]) => !Object.hasOwn(scales, name))
  const entries = Object.entries(scales)
  const fixed = entries.flatMap(([name, { least, most }]) => (least === most ? [[name, least] as const] : []))
  const moving = entries.flatMap(([name, { least, most }]) => {
    const present = Object(before.process_scaling?.[name])
    // Another metric has another target.
    const isSame = settings.scale_metric === undefined || settings.scale_metric === present.scale_metric
    const range = { min_scale: least, max_scale: most }
    return least !== most
      ? [[name, { scale_metric: 'cpu', ...(isSame && present), ...range, ...settings }] as const]
      : []
  })
  const process_scale = Object.fromEntries([...kept(before.process_scale), ...fixed])
  const process_scaling = Object.fromEntries([...kept(before.process_scaling), ...moving])
  return {
    ...((before.process_scale || fixed.length > 0) && { process_scale }),
    ...((before.process_scaling || moving.length > 0) && { process_scaling }),
  }
}

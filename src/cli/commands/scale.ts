// `slipway scale`: sets the number of copies of processes.

import { planAndApply } from '../change.ts'
import type { Declaration } from '../declaration.ts'
import { usageError } from '../failure.ts'
import { type FollowFlags, repeatOptions, withFollow } from '../flags.ts'
import { parseTimeout } from '../follow.ts'
import type { Session } from '../session.ts'
import { readDeployment } from '../variables.ts'

export const declaration: Declaration = {
  arguments: '[deployment] <process=copies...>',
  summary: 'set the copies of processes, such as web=3 worker=2 or web=1-8',
  options: command =>
    withFollow(command)
      .option('--by <metric>', 'what moves the copies of web: concurrency, requests, cpu, memory, or fixed')
      .option('--target <amount>', 'what one copy of web should carry')
      .option('--idle <seconds>', 'with web=0-N: it sleeps after so long without a request')
      .option('--frozen <seconds>', 'it first sleeps frozen for so long'),
}

type Flags = FollowFlags & { by?: string; target?: string; idle?: string; frozen?: string }
/** Their values are checked by the API, which names all faults at once. */
const SETTINGS = { by: 'scale_metric', target: 'scale_target', idle: 'idle_seconds', frozen: 'frozen_seconds' } as const

export async function run(
  session: Session,
  flags: Flags,
  [first, ...more]: [string | undefined, ...string[]],
): Promise<void> {
  const { client, signal } = session
  // Without a name, the first of several is a process.
  const [name, words] = first?.includes('=') ? [undefined, [first, ...more]] : [first, more]
  const { web, ...others } = parseScales(words)
  const settings = Object.entries(SETTINGS).flatMap(([flag, member]) => {
    const value = flags[flag as keyof typeof SETTINGS]
    return value === undefined ? [] : [[member, flag === 'by' ? value : Number(value)]]
  })
  const { deployment, etag } = await readDeployment(session, name)
  const scales = deployment.source_config.resource_spec?.process_scale ?? {}
  const resource_spec = {
    ...(web !== undefined && { min_scale: web.least, max_scale: web.most }),
    ...(Object.keys(others).length > 0 && { process_scale: { ...scales, ...fixed(others) } }),
    ...Object.fromEntries(settings),
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

const fixed = (scales: Record<string, Scale>): Record<string, number> =>
  Object.fromEntries(
    Object.entries(scales).map(([name, { least, most }]) => {
      if (least !== most)
        throw usageError(
          `The copies of \`${name}\` do not move: only those of \`web\` do.`,
          `slipway scale shop ${name}=2`,
        )
      return [name, least]
    }),
  )

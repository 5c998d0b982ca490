// `slipway scale`: sets the number of copies of processes.

import { planAndApply } from '../change.ts'
import type { Declaration } from '../declaration.ts'
import { usageError } from '../failure.ts'
import { type FollowFlags, withFollow } from '../flags.ts'
import { parseTimeout } from '../follow.ts'
import type { Session } from '../session.ts'
import { readDeployment } from '../variables.ts'

export const declaration: Declaration = {
  arguments: '[deployment] <process=copies...>',
  summary: 'set the copies of processes, such as web=3 worker=2',
  options: withFollow,
}

export async function run(
  session: Session,
  flags: FollowFlags,
  [first, ...more]: [string | undefined, ...string[]],
): Promise<void> {
  const { client, signal } = session
  // Without a name, the first of several is a process.
  const [name, words] = first?.includes('=') ? [undefined, [first, ...more]] : [first, more]
  const { web, ...others } = parseScales(words)
  const { deployment, etag } = await readDeployment(session, name)
  const scales = deployment.source_config.resource_spec?.process_scale ?? {}
  const resource_spec = {
    ...(web !== undefined && { min_scale: web, max_scale: web }),
    ...(Object.keys(others).length > 0 && { process_scale: { ...scales, ...others } }),
  }
  const patch = { params: { deployment_id: deployment.id }, body: { source_config: { resource_spec } }, signal }
  const plan = await client.plan('PATCH /v2/deployments/{deployment_id}', patch)
  // `If-Match`, because the copies of other processes are sent as they were read.
  const apply = (digest: string) =>
    client.call('PATCH /v2/deployments/{deployment_id}', {
      ...patch,
      headers: { 'Plan-Digest': digest, 'If-Match': etag },
    })
  const next = `slipway scale ${deployment.name} ${words.join(' ')} --yes`
  const options = { ...flags, timeoutMs: parseTimeout(flags.timeout), next, isExpected: true }
  await planAndApply(session, deployment, { plan, apply }, options)
}

function parseScales(words: string[]): Record<string, number> {
  const scales: Record<string, number> = {}
  for (const word of words) {
    const [, name, copies] = /^([a-z][a-z0-9-]*)=(\d{1,4})$/.exec(word) ?? []
    if (name === undefined)
      throw usageError(`\`${word}\` is not a process and its copies.`, 'slipway scale shop web=3 worker=2')
    scales[name] = Number(copies)
  }
  return scales
}

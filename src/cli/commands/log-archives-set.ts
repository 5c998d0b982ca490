// `slipway log-archives set`: whether lines are archived, and for how long: of the workspace, or of one deployment.
import type { Declaration } from '../declaration.ts'
import { usageError } from '../failure.ts'
import { findDeployment, type Session } from '../session.ts'

export const declaration: Declaration = {
  arguments: '[deployment]',
  summary: 'set whether lines are archived, for a deployment or the workspace',
  options: command =>
    command
      .option('--on', 'archive lines')
      .option('--off', 'archive no lines from now on')
      .option('--inherit', 'as the workspace has it, the days too')
      .option('--days <days>', 'how many days a new archive is kept. Default: as it is'),
}

type Flags = { on?: true; off?: true; inherit?: true; days?: string }

const EXAMPLE = 'slipway log-archives set --on --days 30'

export async function run(session: Session, flags: Flags, [name]: [string?]): Promise<void> {
  const { client, out, signal } = session
  const { on, off, inherit } = flags
  if ([on, off, inherit].filter(Boolean).length > 1) throw usageError('Give one of --on, --off and --inherit.', EXAMPLE)
  const enabled = on ? true : off ? false : undefined
  const days = parseDays(flags.days)
  const isChange = enabled !== undefined || days !== undefined || inherit
  if (name === undefined) {
    if (inherit) throw usageError('--inherit is for a deployment. Name one.', EXAMPLE)
    const kept = await client.call('GET /v2/log-archive-settings', { signal })
    const body = { enabled: enabled ?? kept.enabled, retention_days: days ?? kept.retention_days }
    const settings = isChange ? await client.call('PUT /v2/log-archive-settings', { body, signal }) : kept
    out.emit({ settings }, () => `The workspace: ${describe(settings)}`)
    return
  }
  if (inherit && days !== undefined) throw usageError('--inherit and --days exclude each other.', EXAMPLE)
  const deployment = await findDeployment(session, name)
  const params = { deployment_id: deployment.id }
  const kept = await client.call('GET /v2/deployments/{deployment_id}/log-archive-settings', { params, signal })
  const body = inherit
    ? { enabled: null, retention_days: null }
    : { enabled: enabled ?? kept.enabled, retention_days: days ?? kept.retention_days }
  const settings = isChange
    ? await client.call('PUT /v2/deployments/{deployment_id}/log-archive-settings', { params, body, signal })
    : kept
  const source = settings.enabled === null && settings.retention_days === null ? ', as the workspace has it' : ''
  out.emit({ name: deployment.name, settings }, () => `${deployment.name}${source}: ${describe(settings.effective)}`)
}

const describe = ({ enabled, retention_days }: { enabled: boolean; retention_days: number }): string =>
  enabled ? `lines are archived, and each archive is kept for ${retention_days} days.` : 'no lines are archived.'

function parseDays(text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  if (!/^\d{1,4}$/.test(text)) throw usageError(`--days ${text} is not a whole number.`, EXAMPLE)
  return Number(text)
}

// `slipway status`: what serves and what is on its way, now or at a moment.
import type { Reply } from '../../client/client.ts'
import { describeProcessHealth, listProcesses } from '../../client/process-copies.ts'
import type { Declaration } from '../declaration.ts'
import { age } from '../output.ts'
import { describeStep } from '../rollout-lines.ts'
import { type Deployment, findDeployment, findRevision, type Session } from '../session.ts'
import { parseTime } from '../times.ts'

export const declaration: Declaration = {
  arguments: '[deployment]',
  summary: 'show what serves and what is on its way, now or at a moment',
  options: command => command.option('--at <time>', 'how it was then, such as 2h, 2026-11-22 or 2026-11-22T14:02:00Z'),
}

export const run = (session: Session, { at }: { at?: string }, [name]: [string?]): Promise<void> =>
  at === undefined ? showStatus(session, name) : showPastStatus(session, name, at)

async function showStatus(session: Session, name: string | undefined): Promise<void> {
  const { client, out, signal } = session
  const deployment = await findDeployment(session, name)
  const [revision, { resources: obstacles }] = await Promise.all([
    findRevision(session, deployment),
    client.call('GET /v2/deployments/{deployment_id}/explain', { params: { deployment_id: deployment.id }, signal }),
  ])
  const { id, status, serving, health, url, local_url, hold, rollout_progress } = deployment
  const processes = listProcesses(revision.build_plan, deployment.source_config.resource_spec, health)
  const latest = { id: revision.id, number: revision.number, status: revision.status, created_at: revision.created_at }
  out.emit(
    {
      id,
      name: deployment.name,
      status,
      serving,
      health,
      url,
      local_url,
      hold,
      rollout_progress,
      latest_revision: latest,
      processes,
      obstacles,
    },
    () =>
      [
        `${out.paint('bold', deployment.name)}  ${status}, serving: ${serving}`,
        `Health    ${describeHealth(health)}`,
        `URL       ${url ?? '–'}${local_url ? `, or ${local_url}` : ''}`,
        `Revision  ${revision.number} ${revision.status}, ${age(revision.created_at)}`,
        `Processes ${describeProcesses(processes, health)}`,
        ...(rollout_progress ? [`Rollout   ${describeStep(rollout_progress)}`] : []),
        ...(hold ? [`Hold      since ${hold.since}. Release it with: slipway release ${deployment.name}`] : []),
        ...obstacles.map(({ code, detail }) => `Why not   ${code}: ${detail}`),
      ].join('\n'),
  )
}

const describeProcesses = (processes: { name: string; copies: number }[], health: Deployment['health']): string =>
  processes.map(({ name, copies }) => `${name} ${copies}${describeProcessHealth(name, health)}`).join(', ')

function describeHealth(health: Deployment['health']): string {
  if (!health) return 'unknown'
  const { state, since, reason } = health
  // Lines of the log follow, which the reasons below have.
  const [first = ''] = (reason ?? '').split('\n')
  const sentence = first.replace(/ Its last lines:$/, '')
  return `${state}, for ${age(since).replace(' ago', '')}${sentence ? `: ${sentence}` : ''}`
}

async function showPastStatus(session: Session, name: string | undefined, given: string): Promise<void> {
  const { client, out, signal } = session
  const at = parseTime(given, '--at')
  const deployment = await findDeployment(session, name)
  const params = { deployment_id: deployment.id }
  const moment = await client.call('GET /v2/deployments/{deployment_id}/state', { params, query: { at }, signal })
  out.emit(moment, () => describeMoment(moment, out.paint('bold', moment.name)))
}

type Moment = Reply<'GET /v2/deployments/{deployment_id}/state'>
type RevisionThen = NonNullable<Moment['past']>['latest']

const nameRevision = (revision: RevisionThen): string =>
  revision ? `${revision.number} ${revision.status ?? 'in an unknown state'}, since ${revision.since}` : '–'

function describeMoment({ at, created_at, past, present, changes }: Moment, name: string): string {
  if (!past) return `${name} did not exist at ${at}. It was created at ${created_at}.`
  const { status, latest, served, in_flight, waiting, hold, healthy, unknown } = past
  const isOther = served?.id !== present.served?.id
  return [
    `${name} at ${at}  ${status ?? 'status unknown'}`,
    `Served    ${nameRevision(served)}${served && healthy === false ? ', unhealthy' : ''}`,
    `Wanted    ${nameRevision(latest)}`,
    ...(in_flight ? [`Flying    ${nameRevision(in_flight)}`] : []),
    ...(waiting ? [`Waiting   ${nameRevision(waiting)}`] : []),
    ...(hold ? [`Hold      since ${hold.since}`] : []),
    ...(isOther ? [`Now       ${nameRevision(present.served)} serves`] : []),
    ...changes.map(({ path, before, after }) => `Changed   ${path}: ${show(before)} → ${show(after)}`),
    ...(unknown.length > 0 ? [`Unknown   ${unknown.join(', ')}: the journal no longer has these events.`] : []),
  ].join('\n')
}

const show = (value: unknown): string => (value === null ? 'not set' : JSON.stringify(value))

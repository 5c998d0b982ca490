// Commands that read: list, templates, status, explain, revisions, open.
import type { Item, Reply } from '../../client/client.ts'
import { openInBrowser } from '../browser.ts'
import { CommandFailure, EXIT, usageError } from '../failure.ts'
import { age } from '../output.ts'
import { type Deployment, findDeployment, findRevision, parseLimit, type Session, takeItems } from '../session.ts'
import { parseTime } from '../times.ts'

type Template = Item<'GET /v2/templates'>
export type ListOptions = { name?: string; status?: string; tag?: string[]; limit?: string }
const TERMINAL_LIMIT = '100'
const WIDE = 100

export async function listDeployments(session: Session, options: ListOptions): Promise<void> {
  const { client, out, signal } = session
  const { limit, page } = parseLimit(options.limit ?? (out.isMachine ? '999999' : TERMINAL_LIMIT))
  const tags = await Promise.all((options.tag ?? []).map(tag => findTagValue(session, tag)))
  const query = {
    limit: page,
    ...(options.name && { name_contains: options.name }),
    ...(options.status && { status: options.status.toUpperCase().split(',') as 'READY'[] }),
    ...(tags.length > 0 && { tag_value_ids: tags }),
  }
  const [found, hasMore] = await takeItems(client.list('GET /v2/deployments', { query, signal }), limit)
  const columns = {
    name: (one: Deployment) => one.name,
    status: (one: Deployment) => one.status,
    serving: (one: Deployment) => one.serving,
    updated: (one: Deployment) => age(one.updated_at),
    ...(out.width >= WIDE && { source: (one: Deployment) => one.source }),
    url: (one: Deployment) => one.url,
  }
  const isFiltered = Object.keys(query).length > 1
  out.table(found, columns, isFiltered ? 'No deployment matches.' : 'No deployments yet. Create one: slipway deploy')
  if (hasMore) out.note('There are more. Narrow the list, or show more with --limit.')
}

/** The id of the value of `key=value`. */
async function findTagValue({ client, signal }: Session, tag: string): Promise<string> {
  const [key, value] = splitOnce(tag, '=')
  if (!key || !value) throw usageError(`--tag ${tag} is not of the form key=value.`)
  for await (const { id } of client.list('GET /v2/tag-keys', { query: { name: key }, signal })) {
    const values = { params: { tag_key_id: id }, query: { name: value }, signal }
    for await (const one of client.list('GET /v2/tag-keys/{tag_key_id}/values', values)) return one.id
  }
  throw new CommandFailure(
    EXIT.failed,
    'tag_not_found',
    `This workspace has no tag ${tag}.`,
    'slipway api GET /v2/tag-keys',
  )
}

function splitOnce(text: string, separator: string): [string, string | undefined] {
  const at = text.indexOf(separator)
  return at < 0 ? [text, undefined] : [text.slice(0, at), text.slice(at + 1)]
}

export async function showStatus(session: Session, name: string | undefined): Promise<void> {
  const { client, out, signal } = session
  const deployment = await findDeployment(session, name)
  const [revision, { resources: obstacles }] = await Promise.all([
    findRevision(session, deployment),
    client.call('GET /v2/deployments/{deployment_id}/explain', { params: { deployment_id: deployment.id }, signal }),
  ])
  const { id, status, serving, url, hold } = deployment
  const latest = { id: revision.id, number: revision.number, status: revision.status, created_at: revision.created_at }
  out.emit({ id, name: deployment.name, status, serving, url, hold, latest_revision: latest, obstacles }, () =>
    [
      `${out.paint('bold', deployment.name)}  ${status}, serving: ${serving}`,
      `URL       ${url ?? '–'}`,
      `Revision  ${revision.number} ${revision.status}, ${age(revision.created_at)}`,
      ...(hold ? [`Hold      since ${hold.since}. Release it with: slipway release ${deployment.name}`] : []),
      ...obstacles.map(({ code, detail }) => `Why not   ${code}: ${detail}`),
    ].join('\n'),
  )
}

/** What was wanted, served and true, and what differs now. */
export async function showPastStatus(session: Session, name: string | undefined, given: string): Promise<void> {
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

export async function explain(session: Session, name: string | undefined): Promise<void> {
  const { client, out, signal } = session
  const deployment = await findDeployment(session, name)
  const params = { deployment_id: deployment.id }
  const { serving, resources } = await client.call('GET /v2/deployments/{deployment_id}/explain', { params, signal })
  out.emit({ name: deployment.name, serving, reasons: resources }, () =>
    resources.length === 0
      ? `${deployment.name} serves its latest revision.`
      : resources
          .flatMap(({ code, detail, remedies }, i) => [
            `${i + 1}. ${out.paint('bold', code)}  ${detail}`,
            ...remedies.flatMap(({ action }) => {
              const next = REMEDY_COMMANDS[action]?.(deployment)
              return next ? [`   ${out.paint('dim', next)}`] : []
            }),
          ])
          .join('\n'),
  )
}

type Remedy = Reply<'GET /v2/deployments/{deployment_id}/explain'>['resources'][number]['remedies'][number]
/** The others are done elsewhere, such as at the git host. */
const REMEDY_COMMANDS: Partial<Record<Remedy['action'], (deployment: Deployment) => string>> = {
  redeploy: ({ id }) => `slipway api POST /v2/deployments/${id}/revisions`,
  interrupt: ({ name }) => `slipway interrupt ${name}`,
  release_hold: ({ name }) => `slipway release ${name}`,
  view_logs: ({ name }) => `slipway logs ${name}`,
  edit_environment: ({ name }) => `slipway env list ${name}`,
  upload_source: ({ name }) => `slipway deploy --name ${name}`,
}

export async function listRevisions(session: Session, name: string | undefined, given: string): Promise<void> {
  const { client, out, signal } = session
  const { limit, page } = parseLimit(given)
  const deployment = await findDeployment(session, name)
  const revisions = client.list('GET /v2/deployments/{deployment_id}/revisions', {
    params: { deployment_id: deployment.id },
    query: { limit: page },
    signal,
  })
  const [resources, hasMore] = await takeItems(revisions, limit)
  const columns = {
    number: (one: (typeof resources)[number]) => one.number,
    status: (one: (typeof resources)[number]) =>
      one.status + (one.id === deployment.active_revision_id ? ' ← serves' : ''),
    created: (one: (typeof resources)[number]) => age(one.created_at),
    by: (one: (typeof resources)[number]) => one.actor.name ?? one.actor.kind,
    commit: (one: (typeof resources)[number]) => one.commit?.sha.slice(0, 8),
    reasons: (one: (typeof resources)[number]) => one.reasons.join(', '),
  }
  out.table(resources, columns, `${deployment.name} has no revisions.`)
  if (hasMore) out.note('There are more. Show them with --limit.')
}

export async function openUrl(session: Session, name: string | undefined): Promise<void> {
  const { out } = session
  const { name: found, url } = await findDeployment(session, name)
  if (!url) {
    const message = `${found} has no URL yet.`
    throw new CommandFailure(EXIT.failed, 'no_url', message, `slipway explain ${found}`)
  }
  out.emit({ name: found, url }, () => url)
  if (out.isInteractive) openInBrowser(url)
}

export async function listTemplates({ client, out, signal }: Session): Promise<void> {
  const templates: Template[] = []
  for await (const template of client.list('GET /v2/templates', { query: { limit: 100 }, signal }))
    templates.push(template)
  const columns = { id: (one: Template) => one.name, description: (one: Template) => one.description }
  out.table(templates, columns, 'There are no templates.')
}

// Commands that read: list, status, explain, revisions, open.
import { openInBrowser } from '../browser.ts'
import { CommandFailure, EXIT } from '../failure.ts'
import { age } from '../output.ts'
import { type Deployment, findDeployment, findRevision, type Session } from '../session.ts'

export async function listDeployments({ client, out, signal }: Session, options: { status?: string }): Promise<void> {
  const query = { limit: 100, ...(options.status !== undefined && { status: [options.status as 'READY'] }) }
  const all: Deployment[] = []
  for await (const deployment of client.list('GET /v2/deployments', { query, signal })) all.push(deployment)
  const columns = {
    name: (one: Deployment) => one.name,
    status: (one: Deployment) => one.status,
    serving: (one: Deployment) => one.serving,
    source: (one: Deployment) => one.source,
    updated: (one: Deployment) => age(one.updated_at),
    url: (one: Deployment) => one.url,
  }
  out.table(all, columns, 'No deployments yet. Create the first one with: slipway deploy')
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

export async function explain(session: Session, name: string | undefined): Promise<void> {
  const { client, out, signal } = session
  const deployment = await findDeployment(session, name)
  const params = { deployment_id: deployment.id }
  const { serving, resources } = await client.call('GET /v2/deployments/{deployment_id}/explain', { params, signal })
  out.emit({ name: deployment.name, serving, reasons: resources }, () =>
    resources.length === 0
      ? `${deployment.name} serves its latest revision.`
      : resources.map(({ code, detail }, i) => `${i + 1}. ${out.paint('bold', code)}  ${detail}`).join('\n'),
  )
}

export async function listRevisions(session: Session, name: string | undefined, limit: string): Promise<void> {
  const { client, out, signal } = session
  const deployment = await findDeployment(session, name)
  const { resources } = await client.call('GET /v2/deployments/{deployment_id}/revisions', {
    params: { deployment_id: deployment.id },
    query: { limit: Number(limit) },
    signal,
  })
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

// A repository at a git host: its refs move, and its deliveries are signed.
import { finishPendingWork } from '../../src/host/pending-work.ts'
import { sweepDeliveries } from '../../src/hosting/pushes/sweep.ts'
import { type App, foreignServers, getServices, send, type Tenant, withClockAhead } from './app.ts'
import { makeFakeFetch, type Site } from './fake-fetch.ts'
import { onFileEnd } from './file-state.ts'
import { GITEA_URL, newIntegration } from './integrations.ts'

const WEBHOOK_SECRET = 'hush-webhook'
const ZERO_SHA = '0'.repeat(40)
let commitCount = 0
export const newSha = (): string => (++commitCount).toString(16).padStart(8, '0').repeat(5)

export async function signBody(body: string, secret = WEBHOOK_SECRET): Promise<string> {
  const hmac = { name: 'HMAC', hash: 'SHA-256' }
  const key = await crypto.subtle.importKey('raw', new TextEncoder().encode(secret), hmac, false, ['sign'])
  return Buffer.from(await crypto.subtle.sign('HMAC', key, new TextEncoder().encode(body))).toString('hex')
}

export type Delivery = { event: string; payload: object; id?: string; secret?: string }
export async function deliver(
  integration_id: string,
  { event, payload, id = crypto.randomUUID(), secret }: Delivery,
  app?: App,
) {
  const raw = JSON.stringify(payload)
  const headers = {
    'Content-Type': 'application/json',
    'X-Gitea-Event': event,
    'X-Gitea-Delivery': id,
    'X-Gitea-Signature': await signBody(raw, secret),
  }
  return send('POST', `/v1/integrations/forge/githost/${integration_id}/webhook`, {
    raw,
    headers,
    ...(app && { app }),
  })
}

/** Also waits for the work that follows the answer. */
export async function deliverAndSettle(integration_id: string, delivery: Delivery) {
  const reply = await deliver(integration_id, delivery)
  await finishPendingWork()
  return reply
}

type HostRequest = { method: string; path: string; body: unknown }
export type Repository = Awaited<ReturnType<typeof newRepository>>

/** Creates a repository at Gitea, with an integration of each of these tenants. */
export async function newRepository(...tenants: Tenant[]) {
  const name = `app-${crypto.randomUUID()}`
  const url = `${GITEA_URL}/acme/${name}`
  const integrations = await Promise.all(
    tenants.map((_, i) => newIntegration(tenants[i]!, {}, { token: `token-${i}`, webhook_secret: WEBHOOK_SECRET })),
  )
  const refs = new Map<string, string>()
  const requests: HostRequest[] = []
  /** Replace the host's answers while a test sets them. */
  const overrides: {
    answer: ((request: Request) => Response | undefined | Promise<Response | undefined>) | null
    /** Replaces the answer to a new comment. */
    afterComment: (() => Promise<Response>) | null
  } = { answer: null, afterComment: null }
  const comments: { id: number; body: string }[] = []
  const site: Site = async request => {
    const { pathname, searchParams } = new URL(request.url)
    const body = request.method === 'GET' ? null : JSON.parse(await request.clone().text())
    requests.push({ method: request.method, path: pathname, body })
    const override = await overrides.answer?.(request)
    if (override) return override
    const path = pathname.slice(`/api/v1/repos/acme/${name}`.length)
    if (request.method === 'GET' && path === '')
      return Response.json({ id: 7, name, owner: { login: 'acme' }, default_branch: 'main' })
    if (request.method === 'GET' && path === '/commits') {
      const sha = refs.get(searchParams.get('sha')!)
      if (!sha) return new Response('{"message":"not found"}', { status: 404 })
      return Response.json([{ sha, commit: { message: `Commit ${sha}`, author: { name: 'Ada' } } }])
    }
    if (request.method === 'POST' && path.startsWith('/statuses/')) return Response.json({}, { status: 201 })
    if (request.method === 'GET' && /^\/issues\/\d+\/comments$/.test(path)) return Response.json(comments)
    if (request.method === 'POST' && /^\/issues\/\d+\/comments$/.test(path)) {
      comments.push({ id: comments.length + 1, body: body.body })
      return (await overrides.afterComment?.()) ?? Response.json({ id: comments.length }, { status: 201 })
    }
    if (request.method === 'PATCH' && path.startsWith('/issues/comments/'))
      return Response.json({ id: Number(path.split('/').at(-1)) })
    return new Response('{}', { status: 404 })
  }
  sites[GITEA_URL] = respondForRepository
  repositories.set(`/api/v1/repos/acme/${name}`, site)

  const repository = { id: 7, html_url: url, clone_url: `${url}.git` }
  const sender = { id: 1, login: 'ada' }
  /** Moves the ref and returns the delivery, which the caller sends. */
  function push(ref = 'refs/heads/main', after: string | null = newSha()): Delivery {
    const before = refs.get(ref) ?? ZERO_SHA
    if (after === null) refs.delete(ref)
    else refs.set(ref, after)
    const commit = after && { id: after, message: `Message of ${after}`, author: { name: 'Ada Lovelace' } }
    const payload = { ref, before, after: after ?? ZERO_SHA, commits: commit ? [commit] : [], repository, sender }
    return { event: 'push', payload, id: crypto.randomUUID() }
  }
  let minutes = 0
  function pull(
    action: string,
    number: number,
    { fork = false, branch = 'feature', sha = newSha(), at = '' } = {},
  ): Delivery {
    refs.set(`refs/pull/${number}/head`, sha)
    const updated_at = at || new Date(Date.UTC(2026, 0, 1, 0, minutes++)).toISOString()
    const head = { ref: branch, sha, repo: { id: fork ? 8 : 7 } }
    const pull_request = { updated_at, head, base: { ref: 'main', repo: { id: 7 } } }
    return {
      event: 'pull_request',
      payload: { action, number, pull_request, repository, sender },
      id: crypto.randomUUID(),
    }
  }
  return { name, url, integrations, refs, requests: requests, overrides: overrides, push, pull }
}

const repositories = new Map<string, (request: Request) => Response | Promise<Response>>()
let sites: Record<string, Site> = {}
onFileEnd(() => {
  repositories.clear()
  sites = {}
})
const respondForRepository = (request: Request): Response | Promise<Response> => {
  const { pathname } = new URL(request.url)
  for (const [path, site] of repositories) if (pathname.toLowerCase().startsWith(path)) return site(request)
  return new Response('{}', { status: 404 })
}
/** Makes the repositories reachable for the app. */
export const serveRepositories = (more: Record<string, Site> = {}): void => {
  Object.assign(sites, { [GITEA_URL]: respondForRepository }, more)
  foreignServers.fetch = makeFakeFetch(sites)
}

export async function newRepositoryDeployment(
  tenant: Tenant,
  repository: Repository,
  of = 0,
  over: Record<string, unknown> = {},
) {
  const { source_config = {}, source_revision_config = {}, ...rest } = over as Record<string, object>
  const asked = repository.requests.length
  const reply = await tenant.post('/v2/deployments', {
    name: `app-${crypto.randomUUID()}`,
    source: 'githost',
    source_config: {
      integration_id: repository.integrations[of],
      repo_url: repository.url,
      build_on_push: true,
      ...source_config,
    },
    source_revision_config: { repo_ref: 'main', platform_config_path: 'platform.json', ...source_revision_config },
    secrets: [{ name: 'TOKEN', value: 'hush' }],
    ...rest,
  })
  if (reply.status !== 201) throw new Error(reply.text)
  // Tests read the requests that follow.
  repository.requests.length = asked
  return reply.body
}

export const sweepDeliveriesAfter = (ms: number) => withClockAhead(ms, () => sweepDeliveries(getServices()))

// A GitLab in memory, after its published REST API (version 4): pages by headers, hidden projects as 404, scopes of
// tokens, rate limits, statuses that do not go back, and webhooks with a token. No GitLab was at hand to compare.
import { createHash } from 'node:crypto'
import type { Site } from './fake-fetch.ts'

type Token = { user: { id: number; username: string }; scopes: string[]; revoked?: boolean }
type Project = {
  id: number
  path: string
  group: string
  refs: Map<string, string>
  messages: Map<string, string>
  archived: boolean
  /** The account is no member. */
  hidden: boolean
  /** The account may not change its webhooks. */
  isDeveloper: boolean
  hooks: Hook[]
  requests: Map<number, MergeRequest>
  notes: { id: number; iid: number; body: string }[]
  statuses: { sha: string; name: string; status: string; description: string; target_url: string | null }[]
}
type Hook = Record<string, unknown> & { id: number; url: string; token: string }
type MergeRequest = {
  iid: number
  state: 'opened' | 'closed' | 'merged'
  source_branch: string
  source_project_id: number | null
  updated_at: string
}
type SentDelivery = { url: string; headers: Record<string, string>; body: string }

const ZERO_SHA = '0'.repeat(40)
const ENDED = ['success', 'failed', 'canceled', 'skipped']
const json = (status: number, body: unknown, headers: Record<string, string> = {}) =>
  Response.json(body, { status, headers })
const message = (status: number, text: string) => json(status, { message: `${status} ${text}` })
const notFound = (what: string) => message(404, `${what} Not Found`)

export function makeGitlab(base = 'https://gitlab.com') {
  const tokens = new Map<string, Token>()
  const projects = new Map<number, Project>()
  const state = { isRateLimited: false }
  /** Deliveries of GitLab, for the test to send. */
  const sent: SentDelivery[] = []
  const requests: string[] = []
  let lastId = 100
  let seconds = 0
  /** In seconds, and later each time. */
  const now = () => new Date((Math.floor(Date.now() / 1000) + seconds++) * 1000).toISOString()
  const fullPath = ({ group, path }: Project) => `${group}/${path}`

  const describe = (project: Project) => ({
    id: project.id,
    name: project.path,
    path: project.path,
    path_with_namespace: fullPath(project),
    namespace: { id: 1, kind: 'group', full_path: project.group },
    default_branch: project.refs.size === 0 ? null : 'main',
    web_url: `${base}/${fullPath(project)}`,
    http_url_to_repo: `${base}/${fullPath(project)}.git`,
    archived: project.archived,
    empty_repo: project.refs.size === 0,
  })
  const describeRequest = (project: Project, request: MergeRequest) => ({
    ...request,
    id: project.id * 1000 + request.iid,
    target_branch: 'main',
    target_project_id: project.id,
    sha: project.refs.get(`refs/merge-requests/${request.iid}/head`) ?? null,
  })
  const describeHook = ({ token: _, ...hook }: Hook) => ({ alert_status: 'executable', ...hook })
  const payloadProject = (project: Project) => ({
    id: project.id,
    name: project.path,
    web_url: `${base}/${fullPath(project)}`,
    git_http_url: `${base}/${fullPath(project)}.git`,
    path_with_namespace: fullPath(project),
    default_branch: 'main',
  })

  function send(project: Project, event: string, flag: string, payload: object, only?: number): void {
    for (const hook of project.hooks) {
      if ((only !== undefined && hook.id !== only) || hook[flag] !== true) continue
      const headers = {
        'Content-Type': 'application/json',
        'User-Agent': 'GitLab/18.0.0',
        'X-Gitlab-Event': event,
        'X-Gitlab-Token': hook.token,
        'X-Gitlab-Instance': base,
        'X-Gitlab-Event-UUID': crypto.randomUUID(),
        'Idempotency-Key': crypto.randomUUID(),
      }
      sent.push({ url: hook.url, headers, body: JSON.stringify({ project: payloadProject(project), ...payload }) })
    }
  }

  function pushPayload(project: Project, ref: string, before: string, after: string) {
    const commit = { id: after, message: project.messages.get(after), author: { name: 'Ada', email: '[REDACTED]' } }
    return {
      object_kind: 'push',
      event_name: 'push',
      before,
      after,
      ref,
      checkout_sha: after === ZERO_SHA ? null : after,
      user_name: 'Ada',
      user_username: 'ada',
      project_id: project.id,
      commits: after === ZERO_SHA ? [] : [{ ...commit, added: [], modified: ['app.txt'], removed: [] }],
      total_commits_count: 1,
    }
  }

  function respondWithPage(request: Request, items: unknown[]): Response {
    const url = new URL(request.url)
    const each = Math.min(100, Number(url.searchParams.get('per_page') ?? 20))
    const page = Number(url.searchParams.get('page') ?? 1)
    const last = Math.max(1, Math.ceil(items.length / each))
    const body = JSON.stringify(items.slice((page - 1) * each, page * each))
    // The ETag is of the body alone: a page that comes after changes nothing in this one.
    const etag = `W/"${createHash('sha256').update(body).digest('hex').slice(0, 32)}"`
    const link = (number: number, rel: string) => {
      url.searchParams.set('page', String(number))
      return `<${url.href}>; rel="${rel}"`
    }
    const headers = {
      'Content-Type': 'application/json',
      ETag: etag,
      'X-Total': String(items.length),
      'X-Total-Pages': String(last),
      'X-Page': String(page),
      'X-Per-Page': String(each),
      'X-Next-Page': page < last ? String(page + 1) : '',
      Link: [...(page < last ? [link(page + 1, 'next')] : []), link(1, 'first'), link(last, 'last')].join(', '),
    }
    if (request.headers.get('If-None-Match') === etag) return new Response(null, { status: 304, headers })
    return new Response(body, { headers })
  }

  function authenticate(request: Request): Token | Response {
    const [, secret = ''] = /^Bearer (.+)$/.exec(request.headers.get('Authorization') ?? '') ?? []
    const token = tokens.get(secret)
    if (!token) return message(401, 'Unauthorized')
    if (token.revoked)
      return json(401, {
        error: 'invalid_token',
        error_description: 'Token was revoked. You have to re-authorize from the user.',
      })
    const allowed = request.method === 'GET' ? ['api', 'read_api'] : ['api']
    if (!allowed.some(scope => token.scopes.includes(scope)))
      return json(403, {
        error: 'insufficient_scope',
        error_description: 'The request requires higher privileges than provided by the access token.',
        scope: allowed.join(' '),
      })
    return token
  }

  const site: Site = async request => {
    const url = new URL(request.url)
    requests.push(`${request.method} ${url.pathname}`)
    if (!url.pathname.startsWith('/api/v4/')) return new Response('<html>', { status: 404 })
    if (state.isRateLimited)
      return new Response('Retry later\n', {
        status: 429,
        headers: { 'Retry-After': '37', 'RateLimit-Limit': '2000', 'RateLimit-Remaining': '0' },
      })
    const token = authenticate(request)
    if (token instanceof Response) return token
    const path = url.pathname.slice('/api/v4'.length)
    if (path === '/user') return json(200, token.user)
    const visible = [...projects.values()].filter(({ hidden }) => !hidden)
    if (path === '/projects') return respondWithPage(request, visible.map(describe))
    const [, name = '', rest = ''] = /^\/projects\/([^/]+)(\/.*)?$/.exec(path) ?? []
    const wanted = decodeURIComponent(name)
    const project = visible.find(one => String(one.id) === wanted || fullPath(one) === wanted)
    if (!project) return notFound('Project')
    if (rest === '') return json(200, describe(project), { ETag: `W/"${JSON.stringify(describe(project)).length}"` })
    const body = request.method === 'GET' ? {} : JSON.parse((await request.text()) || '{}')
    return respondFor(project, request, rest, body)
  }

  function respondFor(project: Project, request: Request, rest: string, body: Record<string, unknown>): Response {
    const { method } = request
    const [, ref] = /^\/repository\/commits\/([^/]+)$/.exec(rest) ?? []
    if (ref !== undefined) {
      const sha = resolve(project, decodeURIComponent(ref))
      if (!sha) return notFound('Commit')
      return json(200, { id: sha, message: project.messages.get(sha), author_name: 'Ada Lovelace' })
    }
    const [, sha] = /^\/statuses\/([^/]+)$/.exec(rest) ?? []
    if (sha !== undefined) return setStatus(project, sha, body)
    if (rest.startsWith('/hooks')) return respondForHooks(project, request, rest, body)
    if (rest === '/repository/branches') {
      const heads = [...project.refs].filter(([name]) => name.startsWith('refs/heads/'))
      const branches = heads.map(([name, id]) => ({ name: name.slice('refs/heads/'.length), commit: { id } }))
      return respondWithPage(
        request,
        branches.sort((a, b) => (a.name < b.name ? -1 : 1)),
      )
    }
    if (rest === '/merge_requests') {
      const open = [...project.requests.values()].filter(one => one.state === 'opened')
      const sorted = open.sort((a, b) => b.updated_at.localeCompare(a.updated_at))
      return respondWithPage(
        request,
        sorted.map(one => describeRequest(project, one)),
      )
    }
    const [, iid, notes, note] = /^\/merge_requests\/(\d+)(\/notes)?(?:\/(\d+))?$/.exec(rest) ?? []
    const found = project.requests.get(Number(iid))
    if (!found) return message(404, 'Not found')
    if (!notes) return json(200, describeRequest(project, found))
    const own = project.notes.filter(one => one.iid === found.iid)
    if (method === 'GET') return respondWithPage(request, own)
    const existing = own.find(({ id }) => String(id) === note)
    if (method === 'PUT' && !existing) return notFound('Note')
    const target = existing ?? { id: ++lastId, iid: found.iid, body: '' }
    target.body = String(body.body)
    if (!existing) project.notes.push(target)
    return json(existing ? 200 : 201, target)
  }

  const resolve = ({ refs, messages }: Project, ref: string): string | undefined =>
    refs.get(ref) ??
    refs.get(`refs/heads/${ref}`) ??
    refs.get(`refs/tags/${ref}`) ??
    (messages.has(ref) ? ref : undefined)

  /** A status that has ended never changes again, and one is not told twice. */
  function setStatus(project: Project, sha: string, body: Record<string, unknown>): Response {
    const { state: status, name, description, target_url = null } = body as Record<string, string>
    if (!['pending', 'running', ...ENDED].includes(status!))
      return json(400, { error: 'state does not have a valid value' })
    if (!project.messages.has(sha)) return notFound('Commit')
    const existing = project.statuses.find(one => one.sha === sha && one.name === name)
    if (existing && (existing.status === status || ENDED.includes(existing.status)))
      return json(400, {
        message: `Cannot transition status via :enqueue from :${existing.status} (Reason(s): Status cannot transition)`,
      })
    const members = { sha, name: name!, status: status!, description: description!, target_url: target_url ?? null }
    if (existing) Object.assign(existing, members)
    else project.statuses.push(members)
    return json(201, { id: ++lastId, ...members })
  }

  function respondForHooks(project: Project, request: Request, rest: string, body: Record<string, unknown>): Response {
    if (project.isDeveloper) return message(403, 'Forbidden')
    const [, id, test] = /^\/hooks\/(\d+)(\/test\/push_events)?$/.exec(rest) ?? []
    const hook = project.hooks.find(one => String(one.id) === id)
    if (id !== undefined && !hook) return message(404, 'Not found')
    const { method } = request
    if (test) {
      const head = project.refs.get('refs/heads/main')
      if (!head) return json(422, { message: 'Ensure the project has at least one commit.' })
      send(project, 'Push Hook', 'push_events', pushPayload(project, 'refs/heads/main', head, head), hook!.id)
      return json(201, { message: '201 Created' })
    }
    if (method === 'GET')
      return hook ? json(200, describeHook(hook)) : respondWithPage(request, project.hooks.map(describeHook))
    if (method === 'DELETE') {
      project.hooks = project.hooks.filter(one => one !== hook)
      return new Response(null, { status: 204 })
    }
    if (typeof body.url !== 'string') return json(400, { error: 'url is missing' })
    const changed = hook ?? ({ id: ++lastId, push_events: true, merge_requests_events: false } as unknown as Hook)
    Object.assign(changed, body)
    if (!hook) project.hooks.push(changed)
    return json(hook ? 200 : 201, describeHook(changed))
  }

  return {
    base,
    sites: { [base]: site },
    tokens,
    projects,
    state: state,
    requests: requests,
    /** The deliveries since the last call. */
    takeSent: () => sent.splice(0),
    create(path: string, over: Partial<Project> = {}): Project {
      const at = path.lastIndexOf('/')
      const project: Project = {
        id: ++lastId,
        path: path.slice(at + 1),
        group: path.slice(0, at),
        refs: new Map(),
        messages: new Map(),
        archived: false,
        hidden: false,
        isDeveloper: false,
        hooks: [],
        requests: new Map(),
        notes: [],
        statuses: [],
        ...over,
      }
      projects.set(project.id, project)
      return project
    },
    push(project: Project, ref: string, after: string | null): void {
      const before = project.refs.get(ref) ?? ZERO_SHA
      if (after === null) project.refs.delete(ref)
      else project.refs.set(ref, after)
      if (after !== null) project.messages.set(after, `Message of ${after}`)
      send(project, 'Push Hook', 'push_events', pushPayload(project, ref, before, after ?? ZERO_SHA))
    },
    /** `oldrev` only where an update moved the head. Updates of the title have none. */
    mergeRequest(project: Project, iid: number, action: string, sha: string | null, { isFork = false } = {}): void {
      const head = `refs/merge-requests/${iid}/head`
      const oldrev = project.refs.get(head)
      if (sha !== null) {
        project.refs.set(head, sha)
        project.messages.set(sha, `Message of ${sha}`)
      }
      const states = { close: 'closed', merge: 'merged' } as const
      const request: MergeRequest = {
        iid,
        state: states[action as 'close'] ?? 'opened',
        source_branch: `feature-${iid}`,
        source_project_id: isFork ? 1 : project.id,
        updated_at: now(),
      }
      project.requests.set(iid, request)
      const last_commit = { id: project.refs.get(head), message: 'x', author: { name: 'Ada', email: '' } }
      // The webhook writes its times in another way than the API.
      const updated_at = request.updated_at.replace('T', ' ').replace('.000Z', ' UTC')
      const attributes = { ...describeRequest(project, request), action, last_commit, updated_at }
      const object_attributes = { ...attributes, ...(action === 'update' && sha !== null && { oldrev }) }
      const payload = { object_kind: 'merge_request', user: { username: 'ada', name: 'Ada' }, object_attributes }
      send(project, 'Merge Request Hook', 'merge_requests_events', payload)
    },
  }
}

// Git hosts that answer like the real ones, on their real names: paging by links, ETags, rate limits, error messages.

import { makeFakeFetch } from './fake-fetch.ts'
import { PUBLIC_KEY } from './github-app-key.ts'

export const GITHUB_APP = {
  id: '4711',
  slug: 'slipway-test',
  clientId: 'Iv1.slipway',
  clientSecret: 'hush-client-secret',
}
export const TOKEN_PREFIX = 'ghs_hush'
const RATE_LIMIT_RESPONSES: Record<string, () => Response> = {
  primary: () =>
    respondWithMessage(403, 'API rate limit exceeded for installation ID 1.', {
      'X-RateLimit-Limit': '5000',
      'X-RateLimit-Remaining': '0',
      'X-RateLimit-Reset': String(Math.floor(Date.now() / 1000) + 120),
    }),
  secondary: () =>
    respondWithMessage(
      403,
      'You have exceeded a secondary rate limit. Please wait a few minutes before you try again.',
      {
        'Retry-After': '42',
        'X-RateLimit-Remaining': '4000',
      },
    ),
  bare: () =>
    respondWithMessage(403, 'You have exceeded a secondary rate limit.', {
      'X-RateLimit-Remaining': '4000',
      'X-RateLimit-Reset': String(Math.floor(Date.now() / 1000) + 3000),
    }),
  many: () =>
    respondWithMessage(429, 'Too many requests', { 'Retry-After': new Date(Date.now() + 30_000).toUTCString() }),
}

const DOCS_URL = 'https://docs.github.com/rest'
const respondWithMessage = (status: number, message: string, headers: Record<string, string> = {}) =>
  Response.json({ message, documentation_url: DOCS_URL, status: String(status) }, { status, headers })

type FakeRepository = { id: number; name: string; owner: string; default_branch?: string }
export const makeRepositories = (count: number, owner = 'acme'): FakeRepository[] =>
  Array.from({ length: count }, (_, i) => ({ id: 1000 + i, name: `repo-${String(count - i).padStart(5, '0')}`, owner }))

type Installation = {
  account: { id: number; login: string; type?: string }
  repositories: FakeRepository[]
  suspended?: boolean
}
type Person = { installations: number[]; visibleRepositories?: Record<number, number> }

/** `padding` makes it as large as GitHub's own. */
const toApiRepository = (
  base: string,
  { id, name, owner, default_branch = 'main' }: FakeRepository,
  padding: number,
) => ({
  id,
  node_id: `R_${id}`,
  name,
  full_name: `${owner}/${name}`,
  private: true,
  owner: { login: owner, id: 1, type: 'Organization', url: `${base}/users/${owner}` },
  html_url: `${base}/${owner}/${name}`,
  description: 'x'.repeat(padding),
  fork: false,
  clone_url: `${base}/${owner}/${name}.git`,
  default_branch,
  permissions: { admin: false, push: true, pull: true },
})

async function computeEtag(text: string, token: string): Promise<string> {
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text + token))
  return `W/"${Buffer.from(digest).toString('hex').slice(0, 40)}"`
}

/** Accepts a JWT of the App's key that is valid for at most ten minutes and not issued in the future. */
async function isAppJwt(jwt: string, id: string): Promise<boolean> {
  const [head = '', payload = '', signature = ''] = jwt.split('.')
  const spki = Buffer.from(PUBLIC_KEY.replace(/-----.*-----|\s/g, ''), 'base64')
  const algorithm = { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256' }
  const key = await crypto.subtle.importKey('spki', spki, algorithm, false, ['verify'])
  const signed = new TextEncoder().encode(`${head}.${payload}`)
  if (!(await crypto.subtle.verify(algorithm, key, Buffer.from(signature, 'base64url'), signed))) return false
  const { iss, iat, exp } = JSON.parse(Buffer.from(payload, 'base64url').toString())
  const now = Date.now() / 1000
  return String(iss) === id && iat <= now && exp > now && exp - iat <= 600
}

type RecordedWrite = { method: string; path: string; body: Record<string, unknown> }

/** Makes a GitHub with one App, installations by id, and people by the code of their sign-in. */
export function makeGithub(base = 'https://github.com', options: { padding?: number; ms?: number } = {}) {
  const installations = new Map<number, Installation>()
  const people = new Map<string, Person>()
  const state = {
    rateLimit: null as keyof typeof RATE_LIMIT_RESPONSES | null,
    inFlight: 0,
    maxInFlight: 0,
    mintedTokens: 0,
    status: null as number | null,
    /** The permissions that installations lack, as `checks`. */
    denied: [] as string[],
  }
  const revisions = { checks: [] as ShownObject[], deployments: [] as ShownObject[] }
  const writes: RecordedWrite[] = []
  const comments = new Set<number>()
  /** Ids of repositories by their former names. */
  const renamed = new Map<string, number>()
  const commits = new Map<string, { sha: string; message: string; author: string }>()
  const api = base === 'https://github.com' ? 'https://api.github.com' : base
  const prefix = api === base ? '/api/v3' : ''

  async function respondWithPage(
    request: Request,
    items: unknown[],
    body: (page: unknown[]) => unknown,
  ): Promise<Response> {
    const url = new URL(request.url)
    const [each, page] = [Number(url.searchParams.get('per_page') ?? 30), Number(url.searchParams.get('page') ?? 1)]
    const last = Math.max(1, Math.ceil(items.length / each))
    const text = JSON.stringify(body(items.slice((page - 1) * each, page * each)))
    const etag = await computeEtag(text, request.headers.get('Authorization') ?? '')
    const makeLink = (number: number, rel: string) => {
      url.searchParams.set('page', String(number))
      return `<${url.href}>; rel="${rel}"`
    }
    const links = [
      ...(page < last ? [makeLink(page + 1, 'next'), makeLink(last, 'last')] : []),
      ...(page > 1 ? [makeLink(1, 'first')] : []),
    ]
    const headers = { ETag: etag, 'X-RateLimit-Remaining': '4999', ...(links.length > 0 && { Link: links.join(', ') }) }
    if (request.headers.get('If-None-Match') === etag) return new Response(null, { status: 304, headers })
    return new Response(text, { headers: { ...headers, 'Content-Type': 'application/json; charset=utf-8' } })
  }

  async function answer(request: Request): Promise<Response> {
    const { pathname } = new URL(request.url)
    const path = pathname.slice(prefix.length)
    const [kind, token = ''] = (request.headers.get('Authorization') ?? '').split(' ')
    if (kind !== 'Bearer' || token === '') return respondWithMessage(401, 'Requires authentication')
    if (path.startsWith('/app/')) {
      if (!(await isAppJwt(token, GITHUB_APP.id)))
        return respondWithMessage(401, 'A JSON web token could not be decoded')
      const [, id, minting] = /^\/app\/installations\/(\d+)(\/access_tokens)?$/.exec(path) ?? []
      const one = installations.get(Number(id))
      if (!one) return respondWithMessage(404, 'Not Found')
      const suspended_at = one.suspended ? '2026-01-01T00:00:00Z' : null
      if (!minting)
        return Response.json({ id: Number(id), account: one.account, app_id: Number(GITHUB_APP.id), suspended_at })
      if (one.suspended) return respondWithMessage(403, 'This installation has been suspended')
      const scope = (await request.json().catch(() => ({}))) as { repositories?: string[] }
      if (scope.repositories?.some(name => !one.repositories.some(known => known.name === name)))
        return respondWithMessage(422, 'There is at least one repository that does not exist or is not accessible')
      state.mintedTokens++
      const expires_at = new Date(Date.now() + 3_600_000).toISOString().replace(/\.\d+/, '')
      return Response.json({ token: `${TOKEN_PREFIX}_${id}_${state.mintedTokens}`, expires_at }, { status: 201 })
    }
    if (path.startsWith('/user/')) {
      const person = people.get(token.replace('ghu_hush_', ''))
      if (!person) return respondWithMessage(401, 'Bad credentials')
      const [, of] = /^\/user\/installations\/(\d+)\/repositories$/.exec(path) ?? []
      const ids = person.installations
      if (of === undefined)
        return respondWithPage(
          request,
          ids.map(id => ({ id, account: installations.get(id)?.account })),
          page => ({
            total_count: ids.length,
            installations: page,
          }),
        )
      const all = installations.get(Number(of))?.repositories ?? []
      const visible = all.slice(0, person.visibleRepositories?.[Number(of)] ?? all.length)
      return respondWithPage(request, visible, page => ({ total_count: visible.length, repositories: page }))
    }
    const one = installations.get(Number(/^ghs_hush_(\d+)_/.exec(token)?.[1]))
    if (!one) return respondWithMessage(401, 'Bad credentials')
    if (one.suspended) return respondWithMessage(403, 'This installation has been suspended')
    if (state.rateLimit) return RATE_LIMIT_RESPONSES[state.rateLimit]!()
    if (state.status) return new Response('<html>Unicorn!</html>', { status: state.status })
    if (path === '/installation/repositories')
      return respondWithPage(request, one.repositories, page => ({
        total_count: one.repositories.length,
        repository_selection: 'all',
        repositories: (page as FakeRepository[]).map(each => toApiRepository(base, each, options.padding ?? 0)),
      }))
    const [, movedId, movedPath = ''] = /^\/repositories\/(\d+)(\/.*)$/.exec(path) ?? []
    if (one.repositories.some(each => String(each.id) === movedId))
      return respondForRepository(request, movedPath, commits, comments, writes)
    const [, owner, name, rest = ''] = /^\/repos\/([^/]+)\/([^/]+)(\/.*)?$/.exec(path) ?? []
    const currentId = renamed.get(`${owner}/${name}`)
    if (currentId !== undefined) {
      const headers = { Location: `${api}${prefix}/repositories/${currentId}${rest}` }
      return respondWithMessage(request.method === 'GET' ? 301 : 307, 'Moved Permanently', headers)
    }
    const repository = one.repositories.find(each => each.owner === owner && each.name === name)
    if (!repository) return respondWithMessage(404, 'Not Found')
    if (rest === '') return Response.json(toApiRepository(base, repository, 0))
    const [permission] = /check-runs|deployments/.exec(rest) ?? []
    if (permission === undefined) return respondForRepository(request, rest, commits, comments, writes)
    const needed = permission === 'deployments' ? permission : 'checks'
    if (state.denied.includes(needed))
      return respondWithMessage(403, 'Resource not accessible by integration', {
        'X-Accepted-GitHub-Permissions': `${needed}=write`,
      })
    return respondForRevision(request, rest, revisions, writes)
  }

  async function answerCounted(request: Request): Promise<Response> {
    state.maxInFlight = Math.max(state.maxInFlight, ++state.inFlight)
    // Lets other requests arrive meanwhile.
    await new Promise(resolve => setTimeout(resolve, options.ms ?? 0))
    try {
      return await answer(request)
    } finally {
      state.inFlight--
    }
  }

  async function exchange(request: Request): Promise<Response> {
    const form = new URLSearchParams(new TextDecoder().decode(await request.arrayBuffer()))
    const isKnownApp =
      form.get('client_id') === GITHUB_APP.clientId && form.get('client_secret') === GITHUB_APP.clientSecret
    const code = form.get('code') ?? ''
    if (!isKnownApp) return Response.json({ error: 'incorrect_client_credentials' })
    if (!people.has(code))
      return Response.json({ error: 'bad_verification_code', error_description: 'It has expired.' })
    return Response.json({ access_token: `ghu_hush_${code}`, token_type: 'bearer', scope: '' })
  }
  const site = (request: Request) =>
    new URL(request.url).pathname === '/login/oauth/access_token' ? exchange(request) : answerCounted(request)
  return {
    sites: { [base]: site, [api]: site },
    installations,
    people,
    state,
    commits,
    comments,
    revisions,
    writes: writes,
    renamed,
    base,
  }
}

type ShownObject = Record<string, unknown> & { id: number }

/** Check runs and Deployments. Like GitHub it makes a second one for a repeated request. */
async function respondForRevision(
  request: Request,
  rest: string,
  { checks, deployments }: Record<'checks' | 'deployments', ShownObject[]>,
  writes: RecordedWrite[],
): Promise<Response> {
  const query = new URL(request.url).searchParams
  if (request.method === 'GET') {
    const [, sha] = /^\/commits\/([^/]+)\/check-runs$/.exec(rest) ?? []
    const runs = checks.filter(run => run.head_sha === sha && run.name === query.get('check_name'))
    if (sha !== undefined) return Response.json({ total_count: runs.length, check_runs: runs })
    const isAsked = (one: ShownObject) => one.ref === query.get('sha') && one.environment === query.get('environment')
    return Response.json(deployments.filter(isAsked))
  }
  const body = (await request.json()) as Record<string, unknown>
  writes.push({ method: request.method, path: rest, body })
  const [, kind, id, states] = /^\/(check-runs|deployments)(?:\/(\d+))?(\/statuses)?$/.exec(rest) ?? []
  const all = kind === 'deployments' ? deployments : checks
  if (id === undefined) {
    const created = { id: all.length + 1, ...body }
    all.push(created)
    return Response.json(created, { status: 201 })
  }
  const existing = all.find(one => one.id === Number(id))
  if (!existing) return respondWithMessage(404, 'Not Found')
  Object.assign(existing, states ? { state: body.state, log_url: body.log_url } : body)
  return Response.json(existing, { status: states ? 201 : 200 })
}

/** Commits, statuses and comments, which are the same on both kinds of host. */
async function respondForRepository(
  request: Request,
  rest: string,
  commits: Map<string, { sha: string; message: string; author: string }>,
  comments: Set<number>,
  writes: RecordedWrite[],
): Promise<Response> {
  const body = request.method === 'GET' ? {} : ((await request.json()) as Record<string, unknown>)
  if (request.method !== 'GET') writes.push({ method: request.method, path: rest, body })
  const commit = (ref: string) => {
    const one = commits.get(ref.replace(/^(heads|tags)\//, ''))
    return (
      one && {
        sha: one.sha,
        commit: { message: one.message, author: { name: 'Somebody' } },
        author: { login: one.author },
      }
    )
  }
  const query = new URL(request.url).searchParams
  if (rest === '/commits') {
    const one = commit((query.get('sha') ?? '').replace(/^refs\//, ''))
    return one ? Response.json([one]) : respondWithMessage(404, 'Not Found')
  }
  if (rest.startsWith('/commits/')) {
    const one = commit(decodeURIComponent(rest.slice('/commits/'.length)))
    return one ? Response.json(one) : respondWithMessage(422, `No commit found for SHA: ${rest.slice(9)}`)
  }
  if (rest.startsWith('/statuses/')) return Response.json({ id: 1, state: body.state }, { status: 201 })
  const [, edited] = /^\/issues\/comments\/(\d+)$/.exec(rest) ?? []
  if (edited !== undefined)
    return comments.has(Number(edited)) ? Response.json({ id: Number(edited) }) : respondWithMessage(404, 'Not Found')
  if (/^\/issues\/\d+\/comments$/.test(rest)) {
    const id = 900 + comments.size
    comments.add(id)
    return Response.json({ id, body: body.body }, { status: 201 })
  }
  return respondWithMessage(404, 'Not Found')
}

/** A Gitea with accounts by their tokens. */
export function makeGitea(base = 'https://gitea.example.com') {
  const accounts = new Map<string, { id: number; login: string; repositories: FakeRepository[] }>()
  const writes: RecordedWrite[] = []
  const comments = new Set<number>()
  const commits = new Map<string, { sha: string; message: string; author: string }>()
  const site = async (request: Request): Promise<Response> => {
    const url = new URL(request.url)
    const path = url.pathname.replace(/^(\/git)?\/api\/v1/, '')
    const [kind, token = ''] = (request.headers.get('Authorization') ?? '').split(' ')
    const one = accounts.get(token)
    if (kind !== 'token' || !one) return respondWithMessage(401, 'user does not exist [uid: 0, name: ]')
    if (path === '/user') return Response.json({ id: one.id, login: one.login, email: 'bot@example.com' })
    if (path === '/user/repos') {
      const [each, page] = [Number(url.searchParams.get('limit')), Number(url.searchParams.get('page') ?? 1)]
      const items = one.repositories.slice((page - 1) * each, page * each)
      const headers = { 'X-Total-Count': String(one.repositories.length) }
      return Response.json(
        items.map(each => toApiRepository(base, each, 0)),
        { headers },
      )
    }
    const [, owner, name, rest = ''] = /^\/repos\/([^/]+)\/([^/]+)(\/.*)?$/.exec(path) ?? []
    const repository = one.repositories.find(each => each.owner === owner && each.name === name)
    if (!repository) return respondWithMessage(404, 'Not Found')
    if (rest === '') return Response.json(toApiRepository(base, repository, 0))
    return respondForRepository(request, rest, commits, comments, writes)
  }
  return { sites: { [new URL(base).origin]: site }, accounts, commits, comments, writes: writes, base }
}

export const combineHosts = (...all: { sites: Parameters<typeof makeFakeFetch>[0] }[]) =>
  makeFakeFetch(Object.assign({}, ...all.map(({ sites }) => sites)))

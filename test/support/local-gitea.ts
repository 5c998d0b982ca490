// A git host with real repositories on this machine: git over HTTP (`git http-backend`), and Gitea's API as version
// 1.26 answers: webhooks are sent once, each only for its own events, and tokens have scopes.
import { execFileSync } from 'node:child_process'
import { createHmac, randomUUID } from 'node:crypto'
import { mkdirSync, renameSync } from 'node:fs'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { runGitBackend } from './git-server.ts'

const ZERO_SHA = '0'.repeat(40)
const FORK_ID = 1000
/** The boxes of a webhook. A synchronized pull request has one of its own. */
type HookEvent = 'push' | 'delete' | 'pull_request' | 'pull_request_sync'
const HOOK_EVENTS: HookEvent[] = ['push', 'delete', 'pull_request', 'pull_request_sync']
/** Without a path it is a webhook of the account, made by hand. */
type Hook = { url: string; secret: string; id?: number; path?: string; events?: string[]; active?: boolean }
const HOOKS_PAGE = 2
const BRANCHES_PAGE = 50
const pageOf = ({ searchParams }: URL) => Number(searchParams.get('page') ?? 1)
type Pull = { number: number; branch: string; isFork: boolean; state: 'open' | 'closed'; updated_at: string }
const ALL_SCOPES = ['read:user', 'write:repository', 'write:issue']
type RecordedWrite = { method: string; path: string; body: Record<string, unknown> }

const readBody = async (request: IncomingMessage): Promise<Buffer> => {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks)
}

/** The scope that Gitea asks for, by the first part of the path. */
function requiredScope(method: string, path: string): string {
  const verb = method === 'GET' ? 'read' : 'write'
  if (/^\/api\/v1\/user$/.test(path)) return 'read:user'
  return `${verb}:${/^\/api\/v1\/repos\/[^/]+\/[^/]+\/issues\//.test(path) ? 'issue' : 'repository'}`
}

export async function startLocalGitea(root: string) {
  const hooks: Hook[] = []
  let hookCount = 0
  const ids = new Map<string, number>()
  const renames = new Map<string, string>()
  const pulls = new Map<string, Map<number, Pull>>()
  const requests: string[] = []
  /** `isCutOff`: no delivery arrives, and Gitea sends none again. `scopes` of all tokens. */
  const state = { isCutOff: false, scopes: ALL_SCOPES, isRevoked: false }
  const idOf = (path: string) => ids.get(path) ?? 7
  const writes: RecordedWrite[] = []
  const deliveryStatuses: number[] = []
  const sites: { origin: string } = { origin: '' }
  const repositoryOf = (path: string) => join(root, `${path.replace(/\.git$/, '')}.git`)
  const runGit = (repository: string, ...args: string[]) =>
    execFileSync('git', ['--git-dir', repository, ...args], { encoding: 'utf8', stdio: 'pipe' }).trim()
  const refsOf = (repository: string) =>
    new Map(
      runGit(repository, 'for-each-ref', '--format=%(refname) %(objectname)')
        .split('\n')
        .filter(Boolean)
        .map(line => line.split(' ') as [string, string]),
    )

  async function deliver(path: string, event: string, payload: object, box = event as HookEvent): Promise<void> {
    const body = JSON.stringify(payload)
    if (state.isCutOff) return
    for (const { url, secret, path: hookPath = path, events = HOOK_EVENTS, active = true } of hooks) {
      if (hookPath !== path || !active || !events.includes(box)) continue
      const headers = {
        'Content-Type': 'application/json',
        'X-Gitea-Event': event,
        'X-Gitea-Delivery': randomUUID(),
        'X-Gitea-Signature': createHmac('sha256', secret).update(body).digest('hex'),
      }
      const reply = await fetch(url, { method: 'POST', headers, body }).catch(() => null)
      if (reply) deliveryStatuses.push(reply.status)
    }
  }
  const about = (path: string) => {
    const html_url = `${sites.origin}/${path}`
    return { repository: { id: idOf(path), html_url, clone_url: `${html_url}.git` }, sender: { id: 1, login: 'ada' } }
  }
  const logOf = (repository: string, ref: string) => {
    const [id = '', name = '', ...message] = runGit(repository, 'log', '-1', '--format=%H%n%an%n%B', ref).split('\n')
    return { id, message: message.join('\n'), author: { name } }
  }

  /** Sends a webhook for each ref that a push moved. */
  async function deliverPush(path: string, before: Map<string, string>): Promise<void> {
    const repository = repositoryOf(path)
    const after = refsOf(repository)
    for (const ref of new Set([...before.keys(), ...after.keys()])) {
      const [from, to] = [before.get(ref) ?? ZERO_SHA, after.get(ref) ?? ZERO_SHA]
      if (from === to || ref.startsWith('refs/pull/')) continue
      if (to === ZERO_SHA)
        await deliver(path, 'delete', { ref: ref.split('/').slice(2).join('/'), ref_type: 'branch', ...about(path) })
      else
        await deliver(path, 'push', { ref, before: from, after: to, commits: [logOf(repository, to)], ...about(path) })
    }
  }

  async function api(request: IncomingMessage, response: ServerResponse, url: URL): Promise<void> {
    const answer = (status: number, body: unknown) =>
      response.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(body))
    requests.push(`${request.method} ${url.pathname.slice('/api/v1'.length)}`)
    if (state.isRevoked || !/^token hush-/.test(request.headers.authorization ?? ''))
      return void answer(401, { message: `user does not exist [uid: 0, name: ], ${request.headers.authorization}` })
    const required = requiredScope(request.method!, url.pathname)
    if (!grants(required)) {
      const words = `token does not have at least one of required scope(s), required=[${required}]`
      return void answer(403, { message: `${words}, token scope=${state.scopes}` })
    }
    if (url.pathname === '/api/v1/user') return void answer(200, { id: 1, login: 'bot' })
    const repositories = [...ids].map(([path, id]) => describeRepository(path, id))
    if (url.pathname === '/api/v1/user/repos') {
      response.setHeader('X-Total-Count', String(repositories.length))
      return void answer(200, repositories)
    }
    const [, id] = /^\/api\/v1\/repositories\/(\d+)$/.exec(url.pathname) ?? []
    if (id !== undefined) {
      const found = repositories.find(one => String(one.id) === id)
      return void answer(found ? 200 : 404, found ?? { message: 'not found' })
    }
    const [, path = '', rest = ''] = /^\/api\/v1\/repos\/([^/]+\/[^/]+)(\/.*)?$/.exec(url.pathname) ?? []
    const renamed = renames.get(path)
    if (renamed) {
      const location = url.href.replace(`/repos/${path}`, `/repos/${renamed}`)
      return void response.writeHead(307, { Location: location }).end()
    }
    if (!ids.has(path)) return void answer(404, { message: "The target couldn't be found." })
    if (rest === '') return void answer(200, describeRepository(path, idOf(path)))
    const body = request.method === 'GET' ? null : JSON.parse(String(await readBody(request)) || '{}')
    if (rest.startsWith('/hooks')) return answerHooks(request.method!, path, rest, body, pageOf(url), answer)
    if (body !== null) {
      writes.push({ method: request.method!, path: rest, body })
      return void answer(request.method === 'PATCH' ? 200 : 201, { id: 1 })
    }
    const known = pulls.get(path) ?? new Map<number, Pull>()
    if (rest === '/pulls') {
      const open = [...known.values()].filter(one => one.state === 'open')
      return void answer(200, url.searchParams.get('page') === '1' ? open.map(one => describePull(path, one)) : [])
    }
    if (rest === '/branches') {
      const all = [...refsOf(repositoryOf(path))].filter(([ref]) => ref.startsWith('refs/heads/'))
      const [from, to] = [(pageOf(url) - 1) * BRANCHES_PAGE, pageOf(url) * BRANCHES_PAGE]
      if (to < all.length)
        response.setHeader('Link', `<${url.origin}${url.pathname}?page=${pageOf(url) + 1}>; rel="next"`)
      const branches = all
        .slice(from, to)
        .map(([ref, id]) => ({ name: ref.slice('refs/heads/'.length), commit: { id } }))
      return void answer(200, branches)
    }
    const pull = known.get(Number(/^\/pulls\/(\d+)$/.exec(rest)?.[1]))
    if (pull) return void answer(200, describePull(path, pull))
    try {
      const { id, message, author } = logOf(repositoryOf(path), url.searchParams.get('sha') ?? '')
      answer(200, [{ sha: id, commit: { message, author } }])
    } catch {
      answer(404, { message: 'not found' })
    }
  }

  const grants = (scope: string) => state.scopes.some(one => one === scope || one === scope.replace('read:', 'write:'))

  function describeRepository(path: string, id: number) {
    const [owner = '', name = ''] = path.split('/')
    const empty = refsOf(repositoryOf(path)).size === 0
    const html_url = `${sites.origin}/${path}`
    return { id, name, owner: { login: owner }, html_url, default_branch: 'main', empty, archived: false }
  }

  function describePull(path: string, { number, branch, isFork, state, updated_at }: Pull) {
    const sha = runGit(repositoryOf(path), 'rev-parse', `refs/pull/${number}/head`)
    const head = { ref: branch, sha, repo: { id: isFork ? FORK_ID : idOf(path) } }
    return { number, state, updated_at, head, base: { repo: { id: idOf(path) } } }
  }

  async function answerHooks(
    method: string,
    path: string,
    rest: string,
    body: { events?: string[]; config?: { url: string; secret: string }; active?: boolean } | null,
    page: number,
    answer: (status: number, body: unknown) => void,
  ): Promise<void> {
    const describe = ({ id, url, events, active }: Hook) => ({
      id,
      active,
      events,
      config: { url, content_type: 'json' },
    })
    const listed = hooks.filter(hook => hook.path === path)
    const [, id, test] = /^\/hooks\/(\d+)(\/tests)?$/.exec(rest) ?? []
    if (method === 'GET' && id !== undefined) {
      const one = listed.find(hook => hook.id === Number(id))
      return answer(one ? 200 : 404, one ? describe(one) : { message: 'not found' })
    }
    // A host may be set to shorter pages than those asked for.
    if (method === 'GET') return answer(200, listed.slice((page - 1) * HOOKS_PAGE, page * HOOKS_PAGE).map(describe))
    const hook = listed.find(one => one.id === Number(id)) ?? { id: ++hookCount, path, url: '', secret: '' }
    if (test) {
      answer(204, null)
      const sha = refsOf(repositoryOf(path)).get('refs/heads/main')
      if (sha) await deliver(path, 'push', { ref: 'refs/heads/main', before: sha, after: sha, ...about(path) })
      return
    }
    if (method === 'DELETE') {
      hooks.splice(hooks.indexOf(hook), 1)
      return answer(204, null)
    }
    // An answer has the names of the boxes, and a request that of one box alone.
    const events = body!.events!.map(event => (event === 'pull_request_only' ? 'pull_request' : event))
    Object.assign(hook, { url: body!.config!.url, secret: body!.config!.secret, events, active: body!.active })
    if (!listed.includes(hook)) hooks.push(hook)
    answer(method === 'POST' ? 201 : 200, describe(hook))
  }

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url!, sites.origin)
    if (url.pathname.startsWith('/api/')) return api(request, response, url)
    const credential = Buffer.from(request.headers.authorization?.slice('Basic '.length) ?? '', 'base64').toString()
    if (state.isRevoked || !credential.includes(':hush-'))
      return void response.writeHead(401, { 'WWW-Authenticate': 'Basic realm="git"' }).end()
    const [, path] = /^\/([^/]+\/[^/]+?)(?:\.git)?\/git-receive-pack$/.exec(url.pathname) ?? []
    const before = path && refsOf(repositoryOf(path))
    await runGitBackend(root, request, response, { REMOTE_USER: 'ada' })
    if (path && before) await deliverPush(path, before)
  }
  // The receiver of a webhook may have stopped.
  const server: Server = createServer(
    (request, response) => void serve(request, response).catch(() => response.destroy()),
  )
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  sites.origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`

  return {
    origin: sites.origin,
    hooks,
    writes: writes,
    state: state,
    requests: requests,
    deliveryStatuses: deliveryStatuses,
    create(path: string): string {
      const repository = repositoryOf(path)
      ids.set(path, 7 + ids.size)
      execFileSync('git', ['init', '-q', '--bare', '-b', 'main', repository])
      runGit(repository, 'config', 'http.receivepack', 'true')
      return `${sites.origin.replace('//', '//ada:hush-push@')}/${path}.git`
    },
    /** The earlier name leads to the present one until another repository gets it. */
    rename(path: string, next: string): void {
      mkdirSync(join(repositoryOf(next), '..'), { recursive: true })
      renameSync(repositoryOf(path), repositoryOf(next))
      ids.set(next, idOf(path))
      ids.delete(path)
      renames.set(path, next)
      renames.delete(next)
    },
    /** Opens, updates or closes a pull request. The branch is deleted if it belongs to a fork. */
    async pull(path: string, number: number, branch: string, action: string, { isFork = false } = {}): Promise<void> {
      const repository = repositoryOf(path)
      runGit(repository, 'update-ref', `refs/pull/${number}/head`, branch)
      if (isFork) runGit(repository, 'update-ref', '-d', `refs/heads/${branch}`)
      const pull: Pull = {
        number,
        branch,
        isFork,
        state: action === 'closed' ? 'closed' : 'open',
        updated_at: new Date().toISOString(),
      }
      pulls.set(path, (pulls.get(path) ?? new Map()).set(number, pull))
      const box = action === 'synchronized' ? 'pull_request_sync' : 'pull_request'
      const payload = { action, number, pull_request: describePull(path, pull), ...about(path) }
      await deliver(path, 'pull_request', payload, box)
    },
    close() {
      server.close()
      server.closeAllConnections()
    },
  }
}

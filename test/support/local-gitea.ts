// A git host with real repositories on this machine: git over HTTP (`git http-backend`), Gitea's API, and webhooks
// after a push.
import { execFileSync } from 'node:child_process'
import { createHmac, randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { runGitBackend } from './git-server.ts'

const ZERO_SHA = '0'.repeat(40)
type Hook = { url: string; secret: string }
type RecordedWrite = { method: string; path: string; body: Record<string, unknown> }

const readBody = async (request: IncomingMessage): Promise<Buffer> => {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks)
}

export async function startLocalGitea(root: string) {
  const hooks: Hook[] = []
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

  async function deliver(event: string, payload: object): Promise<void> {
    const body = JSON.stringify(payload)
    for (const { url, secret } of hooks) {
      const headers = {
        'Content-Type': 'application/json',
        'X-Gitea-Event': event,
        'X-Gitea-Delivery': randomUUID(),
        'X-Gitea-Signature': createHmac('sha256', secret).update(body).digest('hex'),
      }
      deliveryStatuses.push((await fetch(url, { method: 'POST', headers, body })).status)
    }
  }
  const about = (path: string) => {
    const html_url = `${sites.origin}/${path}`
    return { repository: { id: 7, html_url, clone_url: `${html_url}.git` }, sender: { id: 1, login: 'ada' } }
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
        await deliver('delete', { ref: ref.split('/').slice(2).join('/'), ref_type: 'branch', ...about(path) })
      else await deliver('push', { ref, before: from, after: to, commits: [logOf(repository, to)], ...about(path) })
    }
  }

  async function api(request: IncomingMessage, response: ServerResponse, url: URL): Promise<void> {
    const answer = (status: number, body: unknown) =>
      response.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(body))
    if (!/^token hush-/.test(request.headers.authorization ?? '')) return void answer(401, {})
    const all = execFileSync('find', [root, '-maxdepth', '2', '-name', '*.git'], { encoding: 'utf8' })
      .trim()
      .split('\n')
    if (url.pathname === '/api/v1/user') return void answer(200, { id: 1, login: 'bot' })
    if (url.pathname === '/api/v1/user/repos') {
      const listed = all.filter(Boolean).map((folder, i) => {
        const [owner = '', name = ''] = folder.slice(root.length + 1, -'.git'.length).split('/')
        const html_url = `${sites.origin}/${owner}/${name}`
        return { id: 7 + i, name, owner: { login: owner }, html_url, default_branch: 'main' }
      })
      response.setHeader('X-Total-Count', String(listed.length))
      return void answer(200, listed)
    }
    const [, path = '', rest = ''] = /^\/api\/v1\/repos\/([^/]+\/[^/]+)(\/.*)$/.exec(url.pathname) ?? []
    if (request.method !== 'GET') {
      writes.push({ method: request.method!, path: rest, body: JSON.parse(String(await readBody(request))) })
      return void answer(request.method === 'PATCH' ? 200 : 201, { id: 1 })
    }
    try {
      const { id, message, author } = logOf(repositoryOf(path), url.searchParams.get('sha') ?? '')
      answer(200, [{ sha: id, commit: { message, author } }])
    } catch {
      answer(404, { message: 'not found' })
    }
  }

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url!, sites.origin)
    if (url.pathname.startsWith('/api/')) return api(request, response, url)
    const credential = Buffer.from(request.headers.authorization?.slice('Basic '.length) ?? '', 'base64').toString()
    if (!credential.includes(':hush-'))
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
    deliveryStatuses: deliveryStatuses,
    create(path: string): string {
      const repository = repositoryOf(path)
      execFileSync('git', ['init', '-q', '--bare', '-b', 'main', repository])
      runGit(repository, 'config', 'http.receivepack', 'true')
      return `${sites.origin.replace('//', '//ada:hush-push@')}/${path}.git`
    },
    /** Opens, updates or closes a pull request. The branch is deleted if it belongs to a fork. */
    async pull(path: string, number: number, branch: string, action: string, { isFork = false } = {}): Promise<void> {
      const repository = repositoryOf(path)
      runGit(repository, 'update-ref', `refs/pull/${number}/head`, branch)
      const head = { ref: branch, sha: runGit(repository, 'rev-parse', branch), repo: { id: isFork ? 8 : 7 } }
      if (isFork) runGit(repository, 'update-ref', '-d', `refs/heads/${branch}`)
      const pull_request = { head, base: { repo: { id: 7 } }, updated_at: new Date().toISOString() }
      await deliver('pull_request', { action, number, pull_request, ...about(path) })
    },
    close() {
      server.close()
      server.closeAllConnections()
    },
  }
}

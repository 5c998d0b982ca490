// A repository that real git serves over HTTP, with or without a password.
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import * as fs from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'

export type GitServer = Awaited<ReturnType<typeof startGitServer>>

export async function startGitServer(options: { username?: string; password?: string } = {}) {
  const root = fs.mkdtempSync(join(tmpdir(), 'slipway-git-'))
  const repository = join(root, 'app.git')
  const git = (args: string[], input = '') =>
    execFileSync('git', args, {
      cwd: root,
      encoding: 'utf8',
      env: { PATH: process.env.PATH, HOME: root, GIT_CONFIG_NOSYSTEM: '1' },
      input,
    }).trim()
  git(['init', '--quiet', '--bare', '--template=', '--initial-branch=main', repository])
  /** One process instead of the six of `add`, `commit` and `push`. */
  const fastImport = (commands: string[], into = repository) =>
    git(['--git-dir', into, '-c', 'fastimport.unpackLimit=1', 'fast-import', '--quiet', '--force'], commands.join('\n'))
  const data = (content: string) => `data ${Buffer.byteLength(content)}\n${content}`
  const signature = () => `Ada <ada@example.com> ${Math.floor(Date.now() / 1000)} +0000`
  const heads = new Map<string, string>()
  let lastCommit: string | undefined
  const importFiles = (
    into: string,
    parent: string | undefined,
    files: Record<string, string>,
    message: string,
    branch: string,
    links: Record<string, string>,
  ) =>
    fastImport(
      [
        `commit refs/heads/${branch}`,
        'mark :1',
        `committer ${signature()}`,
        data(message),
        ...(parent ? [`from ${parent}`] : []),
        ...Object.entries(files).map(([name, text]) => `M 100644 inline ${name}\n${data(text)}`),
        ...Object.entries(links).map(([name, sha]) => `M 160000 ${sha} ${name}`),
        '',
        'get-mark :1',
        '',
      ],
      into,
    )

  const requests: string[] = []
  /** The statuses of the next answers, with what the host says. */
  const failures: [status: number, text: string][] = []
  /** Files in Git LFS by their ids. */
  const lfs = new Map<string, string>()
  const answerLfs = async (req: IncomingMessage, res: ServerResponse) => {
    const [, oid = ''] = /\/info\/lfs\/objects\/([0-9a-f]{64})$/.exec(req.url!) ?? []
    if (oid) return res.end(lfs.get(oid))
    const { authorization } = req.headers
    const asked = JSON.parse(await text(req)) as { objects: { oid: string; size: number }[] }
    const href = (oid: string) => `${url}/info/lfs/objects/${oid}`
    const objects = asked.objects.map(object =>
      lfs.has(object.oid)
        ? { ...object, actions: { download: { href: href(object.oid) } } }
        : { ...object, error: { code: 404, message: `Object does not exist. You sent ${authorization}` } },
    )
    return res.setHeader('Content-Type', 'application/vnd.git-lfs+json').end(JSON.stringify({ objects }))
  }
  const server = createServer((req, res) => {
    const { authorization } = req.headers
    requests.push(`${req.method} ${req.url} ${authorization ? 'with' : 'without'} credential`)
    const [status, words] = failures.shift() ?? []
    if (status) return void res.writeHead(status, { 'Content-Type': 'text/plain' }).end(words)
    const expected = `Basic ${Buffer.from(`${options.username}:${options.password}`).toString('base64')}`
    const isPublic = req.url!.startsWith('/acme/')
    if (isPublic && authorization) return void res.writeHead(400).end()
    if (options.password && !isPublic && authorization !== expected)
      return void res.writeHead(401, { 'WWW-Authenticate': 'Basic realm="git"' }).end()
    if (req.url!.includes('/info/lfs/')) return void answerLfs(req, res)
    runGitBackend(root, req, res).catch(() => res.destroy())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/app.git`

  return {
    url,
    requests: requests,
    failures: failures,
    lfs: lfs,
    /** Makes a repository under `/acme/`, which anybody may read, and returns its commit. `links`: commits by paths. */
    makePublic(name: string, files: Record<string, string>, links: Record<string, string> = {}): string {
      const path = join(root, 'acme', name)
      git(['init', '--quiet', '--bare', '--template=', '--initial-branch=main', path])
      return importFiles(path, undefined, files, 'Begin', 'main', links)
    },
    /** Adds these files to a branch. A new branch starts at the last commit. */
    push(
      files: Record<string, string>,
      message = 'Change',
      branch = 'main',
      links: Record<string, string> = {},
    ): string {
      lastCommit = importFiles(repository, heads.get(branch) ?? lastCommit, files, message, branch, links)
      heads.set(branch, lastCommit)
      return lastCommit
    },
    tag(name: string): void {
      fastImport([`tag ${name}`, `from ${lastCommit}`, `tagger ${signature()}`, data(name), ''])
    },
    async stop(): Promise<void> {
      server.closeAllConnections()
      await new Promise(closed => server.close(closed))
      fs.rmSync(root, { recursive: true, force: true })
    },
  }
}

/** Runs git's CGI program, which prints headers, an empty line and the body. */
export async function runGitBackend(root: string, req: IncomingMessage, res: ServerResponse, more = {}): Promise<void> {
  const [path = '', query = ''] = req.url!.split('?')
  const env = {
    PATH: process.env.PATH,
    GIT_PROJECT_ROOT: root,
    GIT_HTTP_EXPORT_ALL: '1',
    PATH_INFO: path,
    QUERY_STRING: query,
    REQUEST_METHOD: req.method,
    CONTENT_TYPE: req.headers['content-type'] ?? '',
    HTTP_CONTENT_ENCODING: req.headers['content-encoding'] ?? '',
    GIT_PROTOCOL: String(req.headers['git-protocol'] ?? ''),
    ...more,
  }
  const child = spawn('git', ['http-backend'], { env, stdio: ['pipe', 'pipe', 'ignore'] })
  // Git may stop reading before the end, and the client may disconnect.
  child.stdin.on('error', () => {})
  req.once('close', () => child.stdin.end())
  req.pipe(child.stdin)
  const chunks: Buffer[] = []
  for await (const chunk of child.stdout) chunks.push(chunk as Buffer)
  const output = Buffer.concat(chunks)
  const end = output.indexOf('\r\n\r\n')
  for (const line of output.subarray(0, end).toString().split('\r\n')) {
    const [name = '', value = ''] = line.split(/:\s*/, 2)
    if (name === 'Status') res.statusCode = Number.parseInt(value, 10)
    else res.setHeader(name, value)
  }
  res.end(output.subarray(end + 4))
}

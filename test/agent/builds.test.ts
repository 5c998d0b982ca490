// Builds: sources fetched with real git, hostile archives, templates, runtime configurations and build commands.
import { execFile, execFileSync, spawn } from 'node:child_process'
import { createHash, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import * as fs from 'node:fs'
import { createServer, type IncomingMessage, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { gzipSync } from 'node:zlib'
import { packTar, type TarEntry } from 'modern-tar'
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { parseNetworks, resolveAllowedAddress } from '../../src/agent/builds/allowed-address.ts'
import { ARCHIVE_LIMITS, unpackArchive } from '../../src/agent/builds/archive.ts'
import { Builds } from '../../src/agent/builds/builds.ts'
import { runCommand } from '../../src/agent/builds/command.ts'
import { gitSettings } from '../../src/agent/builds/git-environment.ts'
import { readRuntimeConfiguration } from '../../src/agent/builds/runtime-configuration.ts'
import { planSource } from '../../src/agent/builds/source-plan.ts'
import { type BuildSource, loadSourceTree } from '../../src/agent/builds/source-tree.ts'
import { type BuildTask, type SourceTree, TransientError } from '../../src/agent/engine.ts'
import { prepare } from '../../src/agent/engines/process/prepare.ts'
import { ProcessEngine } from '../../src/agent/engines/process.ts'
import { DEFAULT_PATH } from '../../src/agent/system/search-path.ts'
import type { BuildPlan } from '../../src/build-plan/build-plan.ts'
import { describeConfigurationFaults } from '../../src/build-plan/configuration-faults.ts'
import { type PlanOutcome, previewPlan } from '../../src/build-plan/plan-preview.ts'
import { planFolder } from '../../src/dashboard/screens/new/folder-plan.ts'
import { listArchive } from '../../src/hosting/uploads/archive-listing.ts'
import { packFiles } from '../support/archives.ts'
import { filterRunning, silenceRejection, waitFor } from '../support/commands.ts'
import { type GitServer, startGitServer } from '../support/git-server.ts'
import { LOOPBACK_NETWORKS, makeUnit, makeTempFolder as newFolder } from '../support/process-engine.ts'

let home: string
let lines: string[]
let controller: AbortController
let task: BuildTask
const revision = randomUUID()

beforeEach(() => {
  home = newFolder()
  lines = []
  controller = new AbortController()
  task = {
    log: message => void lines.push(message),
    signal: controller.signal,
    cache: join(home, 'cache'),
    runningFolder: join(home, 'running'),
  }
  fs.mkdirSync(task.cache)
})
afterEach(() => {
  controller.abort(new Error('The test is over.'))
  fs.rmSync(home, { recursive: true, force: true, maxRetries: 9 })
})

const nothing: BuildSource = {
  git: null,
  archive: null,
  template_id: null,
  platform_config_path: null,
  install_command: null,
  build_command: null,
}
let trees = 0
const tree = (origin: Partial<BuildSource>, networks = LOOPBACK_NETWORKS) =>
  loadSourceTree(
    { ...nothing, ...origin },
    { revision, task, folder: join(home, `tree-${++trees}`), path: DEFAULT_PATH, disk_mb: 64, networks },
  )
/** The origin of a server of the test's own. */
async function listening(answer: RequestListener): Promise<string> {
  const server = createServer(answer).listen(0, '127.0.0.1')
  onTestFinished(() => void server.close())
  await once(server, 'listening')
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}
/** Bounded, so that a killed test run leaves no shell behind. */
const waitForFile = (name: string, test = '-e') => `timeout 60 sh -c 'while [ ! ${test} ${name} ]; do sleep 0.02; done'`
const read = (folder: string, name: string) => fs.readFileSync(join(folder, name), 'utf8')

describe('a repository', () => {
  let server: GitServer
  afterEach(() => server.stop())
  const git = (ref: string, more = {}) => ({
    git: { url: server.url, ref, commit_sha: null, credential: async () => null, ...more },
  })
  const PACKAGE = { 'package.json': '{}' }

  test('is checked out at a branch, a tag or a commit, and the commit is reported', async () => {
    server = await startGitServer()
    const first = server.push({ ...PACKAGE, 'a.txt': 'one' }, 'Begin')
    server.tag('v1')
    const second = server.push({ 'a.txt': 'two' }, 'Go on')
    server.push({ 'a.txt': 'other' }, 'Aside', 'feature/x')
    const found = await tree(git('main'))
    expect(found.commit).toEqual({ sha: second, message: 'Go on', author: 'Ada' })
    expect(read(found.folder, 'a.txt')).toBe('two')
    expect(fs.existsSync(join(found.folder, '.git'))).toBe(false)
    for (const [ref, text] of [
      ['v1', 'one'],
      [first, 'one'],
      ['refs/tags/v1', 'one'],
      ['feature/x', 'other'],
      ['refs/heads/main', 'two'],
    ] as const)
      expect(read((await tree(git(ref))).folder, 'a.txt'), ref).toBe(text)
    expect((await tree(git('main', { commit_sha: first }))).commit!.sha).toBe(first)
    expect(lines.join('\n')).toContain(second)
  })

  test('is refused with a reason if the ref or the commit does not exist, or the URL is not of a server', async () => {
    server = await startGitServer()
    server.push(PACKAGE)
    await expect(tree(git('nowhere'))).rejects.toThrow(/no branch, tag or full commit id `nowhere`/)
    await expect(tree(git('main', { commit_sha: 'a'.repeat(40) }))).rejects.toThrow(/cannot be fetched/)
    await expect(tree(git('main', { url: 'file:///etc' }))).rejects.toThrow(/cannot be read/)
  })

  test('is opened by its credential, which appears in no file, log line or error', async () => {
    server = await startGitServer({ username: 'x-access-token', password: 'hunter2hunter2' })
    server.push(PACKAGE)
    const refused = await tree(git('main')).catch(error => error.message)
    expect(refused).toMatch(/cannot be read/)
    const credential = { username: 'x-access-token', password: 'hunter2hunter2' }
    await tree(git('main', { credential: async () => credential }))
    const basic = Buffer.from('x-access-token:hunter2hunter2').toString('base64')
    const files = fs.readdirSync(home, { recursive: true, withFileTypes: true }).filter(one => one.isFile())
    for (const file of files) {
      const text = read(file.parentPath, file.name)
      for (const secret of ['hunter2', basic]) expect(text.includes(secret), file.name).toBe(false)
    }
    await tree(git('nowhere', { credential: async () => credential })).catch(error => lines.push(error.message))
    expect(lines.join('\n')).not.toMatch(/hunter2/)
    // A server that echoes the credential.
    const echoing = createServer((req, res) =>
      res.writeHead(403, { 'Content-Type': 'text/plain' }).end(`no ${said(req)}`),
    )
    const said = (req: IncomingMessage) => req.headers.authorization && 'hunter2hunter2'
    onTestFinished(() => void echoing.close())
    await new Promise<void>(resolve => echoing.listen(0, '127.0.0.1', resolve))
    const url = `http://127.0.0.1:${(echoing.address() as AddressInfo).port}/acme/shop`
    const reason = await tree(git('main', { url, credential: async () => credential })).catch(error => error.message)
    expect(`${reason} ${lines.join('\n')}`).toContain('no ***')
    expect(`${reason} ${lines.join('\n')}`).not.toMatch(/hunter2/)
  })

  test('is refused if it redirects, and the other origin gets neither a request nor the credential', async () => {
    server = await startGitServer()
    server.push(PACKAGE)
    const url = await listening((req, res) =>
      res.writeHead(302, { Location: `${new URL(server.url).origin}${req.url}` }).end(),
    )
    const credential = async () => ({ username: 'x-access-token', password: 'hunter2hunter2' })
    const moved = tree(git('main', { url: `${url}/app.git`, credential }))
    await expect(moved).rejects.toThrow(/redirects to another URL, which is not followed/)
    expect(server.requests).toEqual([])
  })

  test('with endless branches takes bounded memory', async () => {
    server = await startGitServer()
    const sha = server.push(PACKAGE)
    const names = [...Array.from({ length: 40_000 }, (_, i) => `refs/a/${i}/main`), 'refs/heads/main']
    const refs = names.map(name => `${sha}\t${name}\n`).join('')
    const url = await listening((req, res) => {
      const found = req.url!.startsWith('/app.git/info/refs')
      res.writeHead(found ? 200 : 404, { 'Content-Type': 'text/plain' }).end(found ? refs : '')
    })
    await expect(tree(git('main', { url: `${url}/app.git` }))).rejects.toThrow(/no branch, tag or full commit id/)
  })

  test('is listed and fetched with limited memory', async () => {
    server = await startGitServer()
    server.push(PACKAGE)
    const bin = newFolder()
    const found = join(bin, 'found')
    const script = `#!/bin/sh
case "$3" in ls-remote|fetch) echo "$3 $(ulimit -v) $(ulimit -d)" >> ${found} ;; esac
PATH=${DEFAULT_PATH} exec git "$@"
`
    fs.writeFileSync(join(bin, 'git'), script, { mode: 0o755 })
    const options = { revision, task, folder: join(home, 'tree'), disk_mb: 64, networks: LOOPBACK_NETWORKS }
    await loadSourceTree({ ...nothing, ...git('main') }, { ...options, path: `${bin}:${DEFAULT_PATH}` })
    expect(read(bin, 'found')).toMatch(/^ls-remote 262144 .*\nfetch .* 2097152\n$/)
  })

  test('cannot make git fetch objects from another server', async () => {
    const asked: string[] = []
    const other = await listening((req, res) => {
      asked.push(req.url!)
      res.writeHead(404).end()
    })
    server = await startGitServer()
    const sha = server.push(PACKAGE)
    const url = await listening((req, res) => {
      const files: Record<string, string> = {
        '/app.git/info/refs': `${sha}\trefs/heads/main\n`,
        '/app.git/HEAD': 'ref: refs/heads/main\n',
        '/app.git/objects/info/http-alternates': `${other}/app.git/objects\n`,
      }
      const file = files[req.url!.split('?')[0]!]
      res.writeHead(file ? 200 : 404, { 'Content-Type': 'text/plain' }).end(file)
    })
    await expect(tree(git('main', { url: `${url}/app.git` }))).rejects.toThrow()
    expect(asked).toEqual([])
  })

  test.each([
    ['http://127.0.0.1:9000/acme/shop.git', /is not `https`/],
    ['https://127.0.0.1:9443/acme/shop.git', /an IP address/],
    ['https://localhost:9443/acme/shop.git', /AGENT_ALLOWED_NETWORKS/],
    ['https://169.254.169.254/latest.git', /cloud/],
    ['https://[::1]/acme/shop.git', /an IP address/],
    ['https://0x7f000001/acme/shop.git', /an IP address/],
    ['https://git.internal/acme/shop.git', /not a public name|does not exist/],
    ['http://github.com/acme/shop.git', /is not `https`|cannot be looked up|does not exist/],
    ['https://ada:hush@example.com/acme/shop.git', /user name or password/],
    ['git://example.com/acme/shop.git', /not `https`/],
    ['ssh://git@127.0.0.1/acme/shop.git', /an IP address/],
    ['git@169.254.169.254:acme/shop.git', /cloud/],
  ])('is refused at %s', async (url, expected) => {
    server = await startGitServer()
    const reason = await tree(git('main', { url }), []).catch(error => error.message)
    expect(reason).toMatch(expected)
    expect(reason).not.toContain('hush')
  })

  test.each([
    ['loopback', ['127.0.0.1']],
    ['private', ['10.0.0.7']],
    ['one of several that is not public', ['93.184.216.34', '::ffff:10.0.0.7']],
  ])('is refused if its public host name resolves to an address that is not public: %s', async (_, addresses) => {
    server = await startGitServer()
    const resolve = async () => addresses.map(address => ({ address }))
    const asking = (networks: Parameters<typeof resolveAllowedAddress>[1]) =>
      resolveAllowedAddress('https://git.example.com/acme/shop.git', networks, resolve)
    await expect(asking([])).rejects.toThrow(/resolves to an address that is not public/)
    await expect(asking(parseNetworks('127.0.0.0/8, 10.0.0.0/8'))).resolves.toMatchObject({ addresses })
  })

  test.each(['169.254.169.254', '168.63.129.16', '100.100.100.200', 'fd00:ec2::254', '64:ff9b::a9fe:a9fe'])(
    'is refused at %s, which is of a cloud, whatever networks are allowed',
    async address => {
      const networks = parseNetworks('0.0.0.0/0, ::/0')
      const resolve = async () => [{ address }]
      for (const host of ['git.example.com', address.includes(':') ? `[${address}]` : address])
        await expect(resolveAllowedAddress(`http://${host}/a.git`, networks, resolve)).rejects.toThrow(/cloud/)
    },
  )

  test('is fetched from the address that was checked, whatever its host name resolves to later', async () => {
    server = await startGitServer()
    const sha = server.push(PACKAGE)
    const { port } = new URL(server.url)
    // No other resolver knows this name.
    const { url, addresses } = await resolveAllowedAddress(
      `http://git.example.invalid:${port}/app.git`,
      LOOPBACK_NETWORKS,
      async () => [{ address: '127.0.0.1' }],
    )
    const { settings } = gitSettings({ url, addresses }, null)
    const flags = settings.flatMap(([name, value]) => ['-c', `${name}=${value}`])
    const said = await promisify(execFile)('git', [...flags, 'ls-remote', url.href, 'refs/heads/main'], {
      env: { PATH: DEFAULT_PATH, GIT_TERMINAL_PROMPT: '0' },
    })
    expect(said.stdout).toContain(sha)
  })

  test('is checked out with its files in Git LFS, from its own server only', async () => {
    const asked: string[] = []
    const other = await listening((req, res) => {
      asked.push(req.url!)
      res.writeHead(404).end()
    })
    server = await startGitServer({ username: 'x-access-token', password: 'hunter2hunter2' })
    const big = 'the large file\n'
    const oid = createHash('sha256').update(big).digest('hex')
    const pointer = `version https://git-lfs.github.com/spec/v1\noid sha256:${oid}\nsize ${big.length}\n`
    server.push({
      ...PACKAGE,
      '.lfsconfig': `[lfs]\n\turl = ${other}/lfs\n`,
      'models/.gitattributes': '*.bin filter=lfs diff=lfs merge=lfs -text\n',
      'models/big.bin': pointer,
      'models/big.bin.slipway-lfs': 'kept',
      '"caf\\351.txt"': 'latin-1',
    })
    const credential = async () => ({ username: 'x-access-token', password: 'hunter2hunter2' })
    server.lfs.set(oid, big)
    const { folder } = await tree(git('main', { credential }))
    expect(read(folder, 'models/big.bin')).toBe(big)
    expect(read(folder, 'models/big.bin.slipway-lfs')).toBe('kept')
    expect(fs.readdirSync(folder, 'latin1')).toContain('café.txt')
    server.lfs.set(oid, 'another file   ')
    await expect(tree(git('main', { credential }))).rejects.toThrow(/models\/big.bin/)
    server.lfs.clear()
    await expect(tree(git('main', { credential }))).rejects.toThrow(/models\/big.bin.* You sent Basic \*\*\*/)
    const kept = await tree({ ...git('main', { credential }), install_command: 'true' })
    expect(read(kept.folder, 'models/big.bin')).toBe(pointer)
    expect(asked).toEqual([])
  })

  test('is checked out with the public submodules of its host, which get no credential', async () => {
    const password = 'hunter2hunter2'
    server = await startGitServer({ username: 'x-access-token', password })
    const asked: string[] = []
    const other = await listening((req, res) => {
      asked.push(req.url!)
      res.writeHead(404).end()
    })
    const section = (path: string, url: string) => `[submodule "${path}"]\n\tpath = ${path}\n\turl = ${url}\n`
    const deep = server.makePublic('deep.git', { 'deep.txt': 'deep' })
    const lib = server.makePublic(
      'lib.git',
      { 'lib.txt': 'lib', '.gitmodules': section('in/deep', '../deep.git') },
      { 'in/deep': deep },
    )
    const secret = server.push({ 'secret.txt': 'of another repository' })
    const origin = new URL(server.url).origin
    const push = (sections: string[], links: Record<string, string>) =>
      server.push({ ...PACKAGE, '.gitmodules': sections.join('') }, 'Change', 'main', links)
    const source = git('main', { credential: async () => ({ username: 'x-access-token', password }) })
    push([section('vendor/lib', '../acme/lib.git'), section('gone', '../acme/gone.git')], { 'vendor/lib': lib })
    const { folder } = await tree(source)
    expect([read(folder, 'vendor/lib/lib.txt'), read(folder, 'vendor/lib/in/deep/deep.txt')]).toEqual(['lib', 'deep'])
    expect(fs.existsSync(join(folder, 'vendor/lib.index'))).toBe(false)

    const refused = [
      ['a', `${other}/lib.git`, lib],
      ['b', `file://${home}/lib.git`, lib],
      ['c', `ext::touch ${home}/ran`, lib],
      ['d', '-u./payload', lib],
      ['e', server.url, secret],
      ['f', `${origin.replace('//', '//user:secret@')}/acme/lib.git`, lib],
      ['g', '../acme/lib.git', '1'.repeat(40)],
    ] as const
    push(
      refused.map(([path, url]) => section(path, url)),
      Object.fromEntries(refused.map(([path, , sha]) => [path, sha])),
    )
    const error = await tree(source).catch(error => error)
    expect(error.constructor.name).toBe('PermanentError')
    for (const [path] of refused) expect(error.message).toContain(`\`${path}\``)
    const kept = await tree({ ...source, install_command: 'true' })
    expect(fs.readdirSync(join(kept.folder, 'e'))).toEqual([])
    expect([asked, fs.existsSync(join(home, 'ran'))]).toEqual([[], false])

    const many = Array.from({ length: 51 }, (_, i) => section(`m${i}`, '../acme/lib.git'))
    for (const sections of [many, ['[submodule']]) {
      push(sections, {})
      await expect(tree(source)).rejects.toThrow(/^The submodules are not fetched/)
    }
  })

  test('is fetched without git settings that a build wrote into the mirror', async () => {
    server = await startGitServer()
    server.push(PACKAGE)
    await tree(git('main'))
    const mirror = join(task.cache, 'git')
    const marks = join(home, 'marks')
    fs.mkdirSync(join(mirror, 'hooks'), { recursive: true })
    fs.writeFileSync(join(mirror, 'hooks/reference-transaction'), `#!/bin/sh\ntouch ${marks}\n`, { mode: 0o755 })
    const redirect = `[url "http://127.0.0.1:9/"]\n\tinsteadOf = ${server.url}\n`
    const config = `[core]\n\tbare = true\n\tfsmonitor = touch ${marks}\n${redirect}`
    fs.writeFileSync(join(mirror, 'config'), config)
    await tree(git('main'))
    expect(fs.existsSync(marks)).toBe(false)
    const secret = join(home, 'secret')
    fs.writeFileSync(secret, 'kept')
    fs.rmSync(join(mirror, 'config'))
    fs.symlinkSync(secret, join(mirror, 'config'))
    await tree(git('main'))
    expect(read(home, 'secret')).toBe('kept')
  })

  test('keeps its mirror between builds, and replaces a damaged one', async () => {
    server = await startGitServer()
    server.push(PACKAGE)
    await tree(git('main'))
    const objects = join(task.cache, 'git/objects')
    expect(fs.existsSync(objects)).toBe(true)
    fs.rmSync(objects, { recursive: true })
    expect((await tree(git('main'))).commit).not.toBeNull()
  })
})

describe('an archive', () => {
  const file = (name: string, body = 'x'): TarEntry => ({
    header: { name, size: Buffer.byteLength(body), type: 'file' },
    body,
  })
  const link = (name: string, linkname: string, type: 'symlink' | 'link' = 'symlink'): TarEntry => ({
    header: { name, linkname, type, size: 0 },
  })
  const into = async (entries: TarEntry[], limits = {}) => {
    const packed = join(home, 'a.tgz')
    fs.writeFileSync(packed, gzipSync(await packTar(entries)))
    const folder = join(home, `unpacked-${++trees}`)
    await unpackArchive(packed, folder, task, { ...ARCHIVE_LIMITS, ...limits })
    return folder
  }

  test('is unpacked with the links that stay inside of it', async () => {
    const folder = await into([
      { header: { name: 'src/', type: 'directory', size: 0 } },
      { header: { name: './src/run.sh', size: 2, type: 'file', mode: 0o4755 }, body: 'hi' },
      file('deep/er/x', 'deep'),
      link('src/up', '../deep/er/x'),
      link('hard', 'src/run.sh', 'link'),
    ])
    expect(read(folder, 'src/up')).toBe('deep')
    expect(read(folder, 'hard')).toBe('hi')
    expect(fs.statSync(join(folder, 'src/run.sh')).mode & 0o7777).toBe(0o755)
  })

  test.each<[string, TarEntry[], RegExp, object?]>([
    ['an absolute path', [file('/etc/x')], /absolute path/],
    ['a path that leaves the folder', [file('a/../../x')], /leaves its folder/],
    ['a link to an absolute path', [link('l', '/etc/passwd')], /link out/],
    ['a link that leaves the folder', [link('a/l', '../../x')], /link out/],
    ['a link that leaves the folder behind another link', [link('p', '.'), link('q', 'p/../x')], /link out/],
    ['a file through a link', [link('p', 'q'), file('q/y'), file('p/x')], /through the link/],
    ['a link through a link', [link('p', '.'), link('p/q', '..')], /through the link|link out/],
    ['a hard link to a missing file', [link('h', 'nothing', 'link')], /not in it/],
    ['a hard link that leaves the folder', [link('h', '../x', 'link')], /leaves its folder/],
    ['a hard link to a link', [link('l', 'x'), link('h', 'l', 'link')], /not in it/],
    ['a device', [{ header: { name: 'd', type: 'character-device', size: 0 } }], /neither a file nor a folder/],
    ['a pipe', [{ header: { name: 'd', type: 'fifo', size: 0 } }], /neither a file nor a folder/],
    ['a file in the place of a folder', [file('a/b'), file('a')], /twice/],
    ['too many entries', [file('a'), file('b'), file('c')], /more than 2 entries/, { entries: 2 }],
    ['too many nested folders', [file(`${'a/'.repeat(70)}x`)], /deeper than 64/],
    ['a decompression bomb', [file('big', 'a'.repeat(8 * 1024 * 1024))], /more than 4 MB/, { megabytes: 4 }],
  ])('is refused with %s', async (_, entries, reason, limits) => {
    const before = fs.readdirSync(home, { recursive: true }).length
    await expect(into(entries, limits)).rejects.toThrow(reason)
    expect(fs.existsSync(join(home, 'x'))).toBe(false)
    expect(fs.readdirSync(home, { recursive: true }).length).toBeGreaterThan(before)
  })

  test('is refused if it is truncated or no archive at all', async () => {
    const bytes = gzipSync(await packTar([file('a', 'x'.repeat(100_000))]))
    const cut = gzipSync((await packTar([file('a')])).subarray(0, 1024))
    const broken = [bytes.subarray(0, bytes.length / 2), Buffer.from('hello'), gzipSync('a'.repeat(2000)), cut]
    for (const [i, some] of broken.entries()) {
      fs.writeFileSync(join(home, 'b.tgz'), some)
      await expect(unpackArchive(join(home, 'b.tgz'), join(home, `b-${i}`), task), String(i)).rejects.toThrow(
        /is damaged/,
      )
    }
  })

  test('is downloaded, and refused if its digest differs', async () => {
    const bytes = gzipSync(await packTar([file('package.json', '{}')]))
    const server = createServer((_, res) => res.end(bytes)).listen(0, '127.0.0.1')
    onTestFinished(() => void server.close())
    await new Promise(resolve => server.once('listening', resolve))
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/a`
    const sha256 = createHash('sha256').update(bytes).digest('hex')
    const archive = { url, sha256, size: bytes.length }
    expect(fs.readdirSync((await tree({ archive })).folder)).toEqual(['package.json'])
    await expect(tree({ archive: { ...archive, sha256: '0'.repeat(64) } })).rejects.toThrow(/digest differs/)
    await expect(tree({ archive: { ...archive, size: 10 } })).rejects.toThrow(/digest differs/)
  })

  test('is downloaded again after a broken connection', async () => {
    const server = createServer((_, res) => {
      res.writeHead(200, { 'Content-Length': 1000 }).write('half of it', () => res.destroy())
    })
    onTestFinished(() => void server.close())
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/a`
    await expect(tree({ archive: { url, sha256: '0'.repeat(64), size: 1000 } })).rejects.toThrow(TransientError)
  })
})

describe('the same folder', () => {
  const NODE = { 'package.json': '{"scripts": {"start": "node a.js"}}', 'a.js': '' }
  const COMPOSE = { 'compose.yaml': 'services: {web: {build: .}}' }
  const GRAPH = { 'langgraph.json': '{"graphs": {"a": "./a.py:g"}}', 'a.py': '', 'requirements.txt': 'langgraph' }
  const DOCKERFILE = { Dockerfile: 'FROM scratch' }
  const outcomeOf = (outcome: PlanOutcome) =>
    'plan' in outcome ? (outcome.plan.start ?? outcome.plan.kind) : outcome.refusal.message
  const ofAgent = (found: SourceTree) => {
    try {
      const { start, kind } = planSource(found, false, task)
      return start ?? kind
    } catch (error) {
      return (error as Error).message
    }
  }
  const settle = (found: Promise<SourceTree>) => found.then(ofAgent, (error: Error) => error.message)

  test.each<[string, Record<string, string>]>([
    ['for compose', COMPOSE],
    ['for compose beside a language', { ...COMPOSE, ...NODE }],
    ['for a graph', GRAPH],
    ['in PHP', { 'index.php': '', 'composer.json': '{}' }],
    ['without a program', { 'b.md': '', 'a.md': '', 'c/d.md': '' }],
    ['with a Dockerfile that is elsewhere', { 'web/Dockerfile': 'FROM scratch', 'a.md': '' }],
    ['with a file that is no JSON', { 'slipway.json': '{', 'index.html': '' }],
    ['with a member that is not known', { 'slipway.json': '{"strat_command": "x"}', 'index.html': '' }],
    ['with a disk outside of any path', { 'slipway.json': '{"disks": {"a": {"path": "a"}}}', ...NODE }],
    ['with a member that is no text', { 'slipway.json': '{"start_command": 1}', ...NODE }],
    ['with an empty archive', {}],
    ['with nothing but a Dockerfile', DOCKERFILE],
    ['with a Dockerfile beside a language', { ...DOCKERFILE, ...NODE }],
  ])('is planned or refused in the same words from git, as an archive and in a page: %s', async (_, files) => {
    const bytes = await packFiles(files)
    const listing = listArchive({}, { growTo: () => {}, release: () => {} })
    await listing.write(bytes)
    const listed = (await listing.end())!
    const ofUpload = previewPlan(listed, {}, describeConfigurationFaults)

    const url = await listening((_, res) => res.end(bytes))
    const sha256 = createHash('sha256').update(bytes).digest('hex')
    const ofArchive = await settle(tree({ archive: { url, sha256, size: bytes.length } }))
    const server = await startGitServer()
    onTestFinished(() => server.stop())
    server.push({ '.gitignore': '', ...files })
    const credential = async () => null
    const ofGit = await settle(tree({ git: { url: server.url, ref: 'main', commit_sha: null, credential } }))
    const page = await planFolder(Object.entries(files).map(([path, text]) => ({ path, file: new File([text], path) })))

    // An agent that runs processes passes a Dockerfile over, or refuses it. Nobody else knows which agent it will be.
    if ('plan' in ofUpload && ofUpload.plan.provider === 'dockerfile') {
      expect(page.warnings).toEqual(ofUpload.plan.warnings)
      expect(ofUpload.plan.warnings.some(warning => warning.includes(ofArchive))).toBe('a.js' in files)
    } else expect(outcomeOf(ofUpload)).toBe(ofArchive)
    // Git has a file more than the others.
    if (Object.keys(files).length > 0) expect(ofGit.replace('`.gitignore`, ', '')).toBe(ofArchive)
    // A page has no schemas: the answer to its upload says these.
    const isOfSchemas = ofArchive.includes('runtime configuration')
    if ('refusal' in ofUpload && !isOfSchemas) expect(page.refusal).toBe(ofArchive)
  })
})

describe('a template', () => {
  test.each(['mcp-server', 'static-site', 'web-service'])('is loaded with its start command: %s', async template_id => {
    const found = await tree({ template_id })
    expect(found).toMatchObject({ start_command: 'node server.js', commit: null })
    expect(JSON.parse(read(found.folder, 'package.json')).scripts.start).toBe('node server.js')
  })

  test('is refused if it is not in the gallery', async () => {
    for (const template_id of ['nothing', '../src', '..', ''])
      await expect(tree({ template_id })).rejects.toThrow(/mcp-server, static-site, web-service/)
  })
})

describe('the runtime configuration', () => {
  const written = (text: string) => {
    fs.writeFileSync(join(home, 'c.json'), text)
    return () => readRuntimeConfiguration(home, 'c.json')
  }

  test('is read', () => {
    const text = { start_command: ' run ', health_path: '/ok', env: { A: 'b' }, build_command: null, $schema: 'x' }
    expect(written(JSON.stringify(text))()).toEqual({
      start_command: 'run',
      health_path: '/ok',
      env: { A: 'b' },
      build_command: null,
    })
    expect(written('{"install_command": "", "build_command": " "}')()).toEqual({
      install_command: '',
      build_command: '',
    })
    expect(readRuntimeConfiguration(home, 'none.json')).toBeUndefined()
  })

  test.each([
    ['{', /not valid JSON/],
    ['[]', /not a valid runtime configuration/],
    ['{"start_command": 1, "env": {"A": 1}}', /start_command.*env\.A/],
    ['{"processes": {"web": {"command": "x"}}}', /`processes`.*`start_command`/],
    ['{"processes": {"worker": {"comand": "x"}}}', /`processes.worker.command`/],
    ['{"release_timeout_seconds": 841}', /`release_timeout_seconds`/],
    ['{"env": {"PORT": "1"}}', /PORT/],
    ['{"health_path": "ok"}', /health_path/],
    ['{"sleep_path": "ok"}', /sleep_path/],
    ['{"protocol": "h2"}', /protocol/],
    ['{"strat_command": "x"}', /`strat_command`.*`start_command`/],
  ])('is refused if it is %s', (text, reason) => expect(written(text)).toThrow(reason))

  test('is refused if it is a link to a file of the agent’s machine', () => {
    fs.mkdirSync(join(home, 'app'))
    fs.symlinkSync('/etc/passwd', join(home, 'app/c.json'))
    expect(() => readRuntimeConfiguration(join(home, 'app'), 'c.json')).toThrow(/leads out/)
  })

  test.each([
    ['is a link out of the source', /cannot be read/, (file: string) => fs.symlinkSync('/dev/zero', file)],
    ['is not a file', /cannot be read/, (file: string) => void execFileSync('mkfifo', [file])],
    ['is too large', /cannot be read/, (file: string) => fs.writeFileSync(file, ' '.repeat(1e6 + 1))],
  ])('a package.json that %s is not read', async (_, reason, make) => {
    const folder = join(home, 'odd')
    fs.mkdirSync(folder)
    make(join(folder, 'package.json'))
    const found = {
      ...nothing,
      folder,
      commit: null,
      version: null,
      configuration_path: null,
      start_command: null,
      health_path: null,
      env: {},
    }
    const ref = { deployment_id: randomUUID(), revision_id: revision }
    await expect(
      prepare(makeUnit(ref), found, task, { disk_mb: 64, toolsFolder: join(home, 'tools') }),
    ).rejects.toThrow(reason)
  })

  test('is that of the root, where the application is built, and its plan is reported', async () => {
    const server = await startGitServer()
    onTestFinished(() => server.stop())
    server.push({
      'slipway.json': '{"start_command": "echo of the whole"}',
      'package.json': '{"version": "1.0.0", "workspaces": ["apps/*"]}',
      'package-lock.json': '{}',
      'apps/api/package.json': '{"version": "2.0.0", "scripts": {"start": "node api.js", "build": "pwd > built"}}',
      'apps/web/package.json': '{"scripts": {"start": "node web.js"}}',
      node_modules: '',
    })
    const git = { url: server.url, ref: 'main', commit_sha: null, credential: async () => null }
    expect((await tree({ git, platform_config_path: 'apps/web/missing.json' })).root).toBe('apps/web')
    const found = await tree({ git, root_directory: './apps/api/' })
    expect(found).toMatchObject({ root: 'apps/api', version: '2.0.0', configuration_path: null, start_command: null })
    const ref = { deployment_id: randomUUID(), revision_id: revision }
    const plans: BuildPlan[] = []
    const onPlan = (plan: BuildPlan) => void plans.push(plan)
    const options = { disk_mb: 64, toolsFolder: join(home, 'tools') }
    const { root, start_command } = await prepare(makeUnit(ref), found, { ...task, onPlan }, options)
    expect([root, start_command]).toEqual(['apps/api', 'npm start --silent'])
    expect(read(found.folder, 'apps/api/built')).toMatch(/\/apps\/api\n$/)
    expect(plans).toMatchObject([{ root: 'apps/api', install_root: '' }])
  })

  test('gives way to the commands of the deployment, and without a start command npm start is used', async () => {
    const server = await startGitServer()
    onTestFinished(() => server.stop())
    const commands = { install_command: 'echo theirs', build_command: 'echo theirs' }
    server.push({ 'app.json': JSON.stringify(commands), 'package.json': '{"scripts": {"start": "node main.mjs"}}' })
    const git = { url: server.url, ref: 'main', commit_sha: null, credential: async () => null }
    const origin = { git, platform_config_path: 'app.json' }
    expect(await tree({ ...origin, install_command: 'echo ours' })).toMatchObject({
      install_command: 'echo ours',
      build_command: 'echo theirs',
    })
    const found = await tree(origin)
    const ref = { deployment_id: randomUUID(), revision_id: revision }
    expect(
      (await prepare(makeUnit(ref), found, task, { disk_mb: 64, toolsFolder: join(home, 'tools') })).start_command,
    ).toBe('npm start --silent')
    fs.writeFileSync(join(found.folder, 'package.json'), '{}')
    await expect(
      prepare(makeUnit(ref), found, task, { disk_mb: 64, toolsFolder: join(home, 'tools') }),
    ).rejects.toThrow(/no `start` script/)
    fs.writeFileSync(join(found.folder, 'server.js'), '')
    expect(
      (await prepare(makeUnit(ref), found, task, { disk_mb: 64, toolsFolder: join(home, 'tools') })).start_command,
    ).toBe('node server.js')
    for (const name of ['package.json', 'server.js']) fs.rmSync(join(found.folder, name))
    await expect(
      prepare(makeUnit(ref), found, task, { disk_mb: 64, toolsFolder: join(home, 'tools') }),
    ).rejects.toThrow(/start_command/)
    expect((await tree({ ...origin, platform_config_path: 'no.json' })).start_command).toBeNull()
  })
})

test('build commands see the operator’s AGENT_BUILD_ENV, unless the deployment sets the same variable', async () => {
  const location = join(home, 'lent')
  fs.mkdirSync(location)
  const own = {
    folder: location,
    commit: null,
    version: null,
    configuration_path: null,
    health_path: null,
    install_command: null,
    env: {},
  }
  const wanted = { ...own, start_command: 'node main.mjs', build_command: 'echo "$HTTPS_PROXY $CITY $HOME" > seen' }
  const of = makeUnit({ deployment_id: randomUUID(), revision_id: revision }, { secrets: { CITY: 'Bergen' } })
  await prepare(of, wanted, task, {
    disk_mb: 64,
    toolsFolder: join(home, 'tools'),
    commandEnv: { HTTPS_PROXY: 'http://proxy', CITY: 'Oslo', HOME: '/root' },
  })
  expect(fs.readFileSync(join(location, 'seen'), 'utf8')).toBe(`http://proxy Bergen ${join(task.cache, 'home')}\n`)
})

test('a build that waits for a free slot is interrupted at once', async () => {
  const engine = new ProcessEngine({ home, port: 0 })
  const builds = new Builds({ home, engine, onChange() {}, onLinkExpired() {}, log() {} })
  onTestFinished(() => builds.close())
  const install_command = waitForFile(`${home}/go`)
  const all = [1, 2, 3].map(() => makeUnit({ deployment_id: randomUUID(), revision_id: randomUUID() }))
  for (const one of all) builds.start(one, { ...nothing, template_id: 'static-site', install_command })
  await builds.interrupt(all[2]!)
  expect(all.map(one => builds.isBuilding(one))).toEqual([true, true, false])
  fs.writeFileSync(join(home, 'go'), '')
  await waitFor(() => builds.readRecord(all[0]!) && builds.readRecord(all[1]!))
  expect(builds.readRecord(all[2]!)).toBeUndefined()
})

test('a build whose result cannot be saved is retried', async () => {
  const said: string[] = []
  const engine = new ProcessEngine({ home, port: 0 })
  const log = (_: unknown, message: string) => void said.push(message)
  const builds = new Builds({ home, engine, onChange() {}, onLinkExpired() {}, log, retry_ms: 0 })
  onTestFinished(() => builds.close())
  const of = makeUnit({ deployment_id: randomUUID(), revision_id: randomUUID() })
  const record = join(home, 'builds', of.deployment_id, of.revision_id, 'record.json')
  const failing = (build_command: string) => {
    builds.start(of, { ...nothing, template_id: 'static-site', build_command })
    return waitFor(() => !builds.isBuilding(of))
  }
  await failing(`mkdir ${record}; exit 1`)
  expect(builds.readRecord(of)).toBeUndefined()
  await failing('exit 1')
  expect(builds.readRecord(of)).toMatchObject({ state: 'broken' })
})

describe('a command of a build', () => {
  const run = (command: string, more = {}) =>
    runCommand(['/bin/sh', '-c', command], {
      cwd: home,
      env: { PATH: DEFAULT_PATH },
      revision,
      task,
      label: 'It',
      ...more,
    })

  test('is logged line by line, and sees no variable of the agent’s environment', async () => {
    process.env.OURS = 'secret'
    await run('echo one; echo two >&2; env')
    delete process.env.OURS
    expect(lines).toEqual(expect.arrayContaining(['one', 'two']))
    expect(lines.join()).not.toContain('OURS')
  })

  test('reports its exit code and its last lines if it fails', async () => {
    await expect(run('echo no such file; exit 3')).rejects.toThrow(
      /^It ended with code 3\. Its last lines:\nno such file$/,
    )
    await expect(run('kill -9 $$')).rejects.toThrow(/killed by SIGKILL/)
  })

  test('is logged even while a very long line has not ended', async () => {
    const running = silenceRejection(
      run(`head -c 100000 /dev/zero | tr '\\0' x; ${waitForFile('told')}; echo; echo; echo end`),
    )
    await waitFor(() => lines.length > 0)
    fs.writeFileSync(join(home, 'told'), '')
    await running
    expect(lines.map(line => line.length)).toEqual([16 * 1024 + 1, 0, 3])
  })

  test('leaves no daemon of a killed agent once the next agent has started', async () => {
    const of = { deployment_id: randomUUID(), revision_id: revision }
    const folder = join(home, 'builds', of.deployment_id, revision)
    fs.mkdirSync(folder, { recursive: true })
    const env = { PATH: DEFAULT_PATH, SLIPWAY_REVISION_ID: revision }
    const daemon = spawn('sleep', ['60'], { env, detached: true, stdio: 'ignore' })
    onTestFinished(() => void daemon.kill('SIGKILL'))
    const builds = new Builds({
      home,
      engine: new ProcessEngine({ home, port: 0 }),
      onChange() {},
      onLinkExpired() {},
      log() {},
    })
    await builds.open()
    expect(fs.existsSync(folder)).toBe(false)
    await waitFor(() => filterRunning([daemon.pid!]).length === 0)
  })

  test('ends together with a daemon that it started in a session of its own', async () => {
    await run(`setsid sh -c 'echo $$ > pid; exec sleep 60' & ${waitForFile('pid', '-s')}`)
    await waitFor(() => filterRunning([Number(read(home, 'pid'))]).length === 0)
  })

  test.each([
    ['interrupted', {}, () => controller.abort(new Error('interrupted')), /interrupted/],
    ['too slow', { time_ms: 3000 }, () => {}, /did not end within 3 s/],
    ['writing too much', { disk_mb: 1 }, () => {}, /more than the 1 MB/],
  ])('ends with all processes that it started when it is %s', async (_, more, then, reason) => {
    const big = 'dd if=/dev/zero of=big bs=1024 count=4096 2>/dev/null'
    const outcome = run(`sleep 60 & echo $! $$; ${big}; wait`, more).then(
      () => 'success',
      error => error.message,
    )
    const pids = (await waitFor(() => lines.find(line => /^\d+ \d+$/.test(line)))).split(' ').map(Number)
    then()
    expect(await outcome).toMatch(reason)
    await waitFor(() => filterRunning(pids).length === 0)
    expect(fs.existsSync(task.runningFolder)).toBe(false)
  })
})

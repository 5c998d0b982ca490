// A static site through the router and the process engine: files over real HTTP, hostile clients, rollbacks, restarts.
import { once } from 'node:events'
import * as fs from 'node:fs'
import * as http from 'node:http'
import { connect } from 'node:net'
import { dirname, join } from 'node:path'
import { text } from 'node:stream/consumers'
import * as zlib from 'node:zlib'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { Artifact, RevisionRef, SourceTree } from '../../../src/agent/engine.ts'
import type { ProcessEngine } from '../../../src/agent/engines/process.ts'
import { manifestFile } from '../../../src/agent/site/site-manifest.ts'
import { waitFor } from '../../support/commands.ts'
import {
  closeEngines,
  makeRevisionRef,
  makeServerCode,
  makeTempFolder,
  makeUnit,
  openEngine,
  requestRouter,
  writeApplication,
} from '../../support/process-engine.ts'

const isRoot = process.platform === 'linux' && process.getuid?.() === 0
const SCRIPT = 'const answer = 42;\n'.repeat(500)
let home: string
let ref: RevisionRef

beforeEach(() => {
  home = makeTempFolder()
  ref = makeRevisionRef()
})
afterEach(async () => {
  await closeEngines()
  fs.rmSync(home, { recursive: true, force: true })
})

const nextRevision = (): RevisionRef => ({ ...ref, revision_id: crypto.randomUUID() })
const urlOf = async (engine: ProcessEngine) => (await engine.observe(ref.deployment_id)).url!
const waitForPhase = (engine: ProcessEngine, { deployment_id, revision_id }: RevisionRef, phase: string) =>
  waitFor(async () =>
    (await engine.observe(deployment_id)).running.some(one => one.revision_id === revision_id && one.phase === phase),
  )

/** Builds files by a build command, as the engine does it for an application. */
async function build(
  engine: ProcessEngine,
  revision: RevisionRef,
  files: Record<string, string>,
  { build_command = 'cp -R public dist', fallback = null as string | null } = {},
): Promise<Artifact> {
  const folder = join(home, 'builds', revision.deployment_id, revision.revision_id, 'tree')
  for (const [path, content] of Object.entries(files)) {
    const file = join(folder, 'public', path)
    fs.mkdirSync(dirname(file), { recursive: true })
    fs.writeFileSync(file, content)
  }
  const tree: SourceTree = {
    folder,
    commit: null,
    version: null,
    configuration_path: null,
    start_command: null,
    health_path: '/health',
    env: {},
    install_command: null,
    build_command,
    site: { folder: 'dist', fallback },
  }
  const cache = join(home, 'builds', revision.deployment_id, 'cache')
  fs.mkdirSync(cache, { recursive: true })
  return engine.prepare(makeUnit(revision), tree, {
    log: () => {},
    signal: new AbortController().signal,
    cache,
    runningFolder: join(home, 'running'),
  })
}
async function serve(engine: ProcessEngine, revision: RevisionRef, artifact: Artifact): Promise<string> {
  await engine.start(makeUnit(revision), artifact)
  await waitForPhase(engine, revision, 'healthy')
  await engine.route(makeUnit(revision))
  return urlOf(engine)
}
async function open(files: Record<string, string>, options: Parameters<typeof build>[3] = {}) {
  const { engine, lines } = await openEngine(home)
  const artifact = await build(engine, ref, files, options)
  return { engine, lines, artifact, url: await serve(engine, ref, artifact) }
}
/** The bytes of an answer, as the wire has them. */
async function fetchBytes(url: string, path: string, headers: http.OutgoingHttpHeaders = {}) {
  const { port, host } = new URL(url)
  const request = http.get({ port, host: '127.0.0.1', path, headers: { host, ...headers }, agent: false })
  const [res] = (await once(request, 'response')) as [http.IncomingMessage]
  return { status: res.statusCode, headers: res.headers, bytes: Buffer.concat(await res.toArray()) }
}
/** Sends bytes as they are, and returns all that the router sends until it closes. */
async function sendRaw(url: string, request: string): Promise<string> {
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  socket.write(request)
  return text(socket)
}

test('files are served compressed, in ranges and with validators, without a process', async () => {
  const { engine, url, artifact } = await open(
    {
      'index.html': '<h1>Home</h1>',
      'app.js': SCRIPT,
      'docs/index.html': 'docs',
      '404.html': 'lost',
      _redirects: '/old/* /docs/:splat 302',
      _headers: '/*\n  X-Frame-Options: DENY',
    },
    { fallback: '404.html' },
  )
  expect(artifact).toMatchObject({ start_command: null, health_path: null, site: { fallback: '404.html' } })
  const page = await requestRouter(url)
  expect([page.status, page.body, page.headers['x-frame-options']]).toEqual([200, '<h1>Home</h1>', 'DENY'])
  expect(page.headers).toMatchObject({
    'content-type': 'text/html; charset=utf-8',
    'x-content-type-options': 'nosniff',
  })

  const plain = await fetchBytes(url, '/app.js')
  const [br, gzip] = await Promise.all(
    ['br', 'gzip'].map(encoding => fetchBytes(url, '/app.js', { 'accept-encoding': encoding })),
  )
  expect(plain.bytes.toString()).toBe(SCRIPT)
  expect(zlib.brotliDecompressSync(br!.bytes).toString()).toBe(SCRIPT)
  expect(zlib.gunzipSync(gzip!.bytes).toString()).toBe(SCRIPT)
  expect(br!.bytes.length).toBeLessThan(SCRIPT.length / 10)
  for (const { headers, bytes } of [plain, br!, gzip!]) expect(headers['content-length']).toBe(String(bytes.length))
  expect(new Set([plain, br!, gzip!].map(({ headers }) => headers.etag)).size).toBe(3)

  const unchanged = await fetchBytes(url, '/app.js', { 'if-none-match': plain.headers.etag })
  expect([unchanged.status, unchanged.bytes.length, unchanged.headers.etag]).toEqual([304, 0, plain.headers.etag])
  const part = await fetchBytes(url, '/app.js', { range: 'bytes=6-11', 'accept-encoding': 'br' })
  expect([part.status, part.bytes.toString(), part.headers['content-range']]).toEqual([
    206,
    'answer',
    `bytes 6-11/${SCRIPT.length}`,
  ])
  expect((await fetchBytes(url, '/app.js', { range: `bytes=${SCRIPT.length}-` })).status).toBe(416)
  const head = await requestRouter(url, '/app.js', { method: 'HEAD' })
  expect([head.status, head.body, head.headers['content-length']]).toEqual([200, '', String(SCRIPT.length)])

  const outcome = async (path: string, method = 'GET') => {
    const { status, body, headers } = await requestRouter(url, path, { method })
    return [status, headers.location ?? body]
  }
  expect(await outcome('/docs')).toEqual([308, '/docs/'])
  expect(await outcome('/old/x?y')).toEqual([302, '/docs/x?y'])
  expect(await outcome('/nowhere')).toEqual([404, 'lost'])
  expect((await outcome('/', 'POST'))[0]).toBe(405)
  expect((await outcome('/', 'OPTIONS'))[0]).toBe(204)
  const [usage] = await engine.readUsage()
  expect(usage!.copies).toMatchObject([{ copy: '1', running: true, restarts: 0, cpu_ms: 0 }])
  const [, success, redirected, refused] = usage!.copies[0]!.requests!.statuses
  expect([success, redirected, refused]).toEqual([7, 3, 3])
})

test('one connection serves request after request, also after a body that nobody reads', async () => {
  const { url } = await open({ 'index.html': 'home' })
  const { host } = new URL(url)
  const post = `POST / HTTP/1.1\r\nHost: ${host}\r\nContent-Length: 100000\r\n\r\n${'x'.repeat(100_000)}`
  const get = `GET / HTTP/1.1\r\nHost: ${host}\r\n\r\n`
  const last = `GET / HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`
  const answer = await sendRaw(url, post + get + last)
  expect(answer.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 405', 'HTTP/1.1 200', 'HTTP/1.1 200'])
})

test('a WebSocket is refused, and the site keeps serving', async () => {
  const { url } = await open({ 'index.html': 'home' }, { fallback: 'index.html' })
  const handshake = 'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: eA=='
  const answer = await sendRaw(url, `GET /ws HTTP/1.1\r\nHost: ${new URL(url).host}\r\n${handshake}\r\n\r\n`)
  expect(answer).toMatch(/^HTTP\/1\.1 400 /)
  expect((await requestRouter(url, '/any/page')).body).toBe('home')
})

test('a client reads no file outside, by no spelling of a path', async () => {
  const { url, artifact } = await open(
    { 'index.html': 'home', 'a/b.txt': 'b', _redirects: '/r/* /:splat 200\n/q/:x /:x 200', _headers: '/x\n  X-A: 1' },
    { fallback: 'index.html' },
  )
  const { host } = new URL(url)
  const manifest = manifestFile(artifact.location)
  const targets = ['etc/passwd', manifest.slice(1), 'manifest.json', 'content', '_headers', '_redirects', '.env']
  const ups = ['..', '%2e%2e', '.%2e', '%252e%252e', '..%00', '..;', '%c0%ae%c0%ae', '%u002e%u002e', '．．']
  const separators = ['/', '%2f', '\\', '%5c', '%255c', '//', '%c0%af']
  const prefixes = ['/', '//', '/a/', '/r/', '/q/', '/%2f', '/file:///', '/\\', '/a/b.txt/']
  const paths = prefixes.flatMap(prefix =>
    ups.flatMap(up =>
      separators.flatMap(separator =>
        targets.map(target => prefix + `${up}${separator}`.repeat(6) + target.replaceAll('/', separator)),
      ),
    ),
  )
  paths.push(...targets.flatMap(target => prefixes.map(prefix => prefix + target)), `http://${host}/etc/passwd`)
  // One connection sends all of them, as the bytes they are.
  const last = 'GET /a/b.txt HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n'.replace('Host: x', `Host: ${host}`)
  for (let at = 0; at < paths.length; at += 200) {
    const requests = paths.slice(at, at + 200).map(path => `GET ${path} HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
    const answer = await sendRaw(url, requests.join('') + last)
    expect(answer).not.toMatch(/root:|"files"|X-A: 1|built_at|HTTP\/1\.1 5/)
  }
  expect((await requestRouter(url, '/a/b.txt')).body).toBe('b')
})

test('a slow client holds no memory, and other clients are served', async () => {
  const size = 64 * 1024 * 1024
  const { url } = await open(
    { 'index.html': 'home' },
    { build_command: `cp -R public dist && truncate -s ${size} dist/big.bin` },
  )
  const { port, host } = new URL(url)
  const router = JSON.parse(fs.readFileSync(join(home, 'router.json'), 'utf8')).identity.pid as number
  const residentMegabytes = () =>
    Number(/VmRSS:\s+(\d+)/.exec(fs.readFileSync(`/proc/${router}/status`, 'utf8'))![1]) / 1024
  const before = residentMegabytes()
  const slow = Array.from({ length: 20 }, () => {
    const socket = connect(Number(port), '127.0.0.1').pause()
    socket.write(`GET /big.bin HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
    return socket
  })
  for (const socket of slow) await once(socket, 'connect')
  expect((await requestRouter(url)).body).toBe('home')
  const whole = await fetchBytes(url, '/big.bin')
  expect(whole.bytes.length).toBe(size)
  expect(residentMegabytes() - before).toBeLessThan(300)
  for (const socket of slow) socket.destroy()
  expect((await requestRouter(url)).body).toBe('home')
})

describe('revisions', () => {
  test('switch from a process to sites, roll back, and are removed with their folders', async () => {
    const { engine } = await openEngine(home)
    const url = await serve(engine, ref, writeApplication(home, 'app', makeServerCode('process')))
    expect((await requestRouter(url)).body).toBe('process')
    const [first, second] = [nextRevision(), nextRevision()]
    const one = await build(engine, first, { 'index.html': 'one', 'only.txt': 'one' })
    await serve(engine, first, one)
    expect((await requestRouter(url)).body).toBe('one')
    await engine.drain(ref)
    await waitForPhase(engine, ref, 'drained')
    await engine.stop(ref)

    await serve(engine, second, await build(engine, second, { 'index.html': 'two' }))
    expect((await requestRouter(url)).body).toBe('two')
    expect((await requestRouter(url, '/only.txt')).status).toBe(404)
    await engine.drain(first)
    await waitForPhase(engine, first, 'drained')
    await engine.stop(first)
    expect((await engine.observe(ref.deployment_id)).running.map(one => one.revision_id)).toEqual([second.revision_id])

    const back = nextRevision()
    const reused = await engine.reuse(makeUnit(back), one)
    expect(reused).toEqual(one)
    await serve(engine, back, reused!)
    expect((await requestRouter(url, '/only.txt')).body).toBe('one')
    fs.appendFileSync(manifestFile(one.location), ' ')
    expect(await engine.reuse(makeUnit(back), one)).toBeNull()
    await engine.remove(ref.deployment_id)
    expect((await requestRouter(url)).status).toBe(404)
    expect((await engine.observe(ref.deployment_id)).hasRemains).toBe(false)
  })

  test('a site that is drained waits for its own downloads, also when another revision has its folder', async () => {
    const { engine } = await openEngine(home)
    const artifact = await build(
      engine,
      ref,
      { 'index.html': 'home' },
      { build_command: 'cp -R public dist && truncate -s 64M dist/big.bin' },
    )
    const url = await serve(engine, ref, artifact)
    const { port, host } = new URL(url)
    const download = async () => {
      const socket = connect(Number(port), '127.0.0.1')
      socket.write(`GET /big.bin HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
      await once(socket, 'data')
      return socket.pause()
    }
    const old = await download()
    const again = nextRevision()
    await serve(engine, again, artifact)
    const present = await download()
    await engine.drain(ref)
    await waitForPhase(engine, ref, 'draining')
    old.destroy()
    await waitForPhase(engine, ref, 'drained')
    present.destroy()
    await engine.stop(ref)
    expect((await requestRouter(url)).body).toBe('home')
  })

  test('the next agent finds the site again, and the router serves it in between', async () => {
    const { engine, url, artifact } = await open({ 'index.html': 'home' })
    await engine.close({ stop: false })
    expect((await requestRouter(url)).body).toBe('home')
    const { engine: next } = await openEngine(home)
    await waitForPhase(next, ref, 'healthy')
    expect(await urlOf(next)).toBe(url)
    await next.start(makeUnit(ref), artifact)
    await next.close({ stop: true })
    const { engine: last } = await openEngine(home)
    await last.start(makeUnit(ref), artifact)
    await waitForPhase(last, ref, 'healthy')
    expect((await requestRouter(await urlOf(last))).body).toBe('home')
  })

  test('a site whose files are gone is unhealthy and says what to do', async () => {
    const { engine, url, artifact } = await open({ 'index.html': 'home' })
    fs.rmSync(artifact.location, { recursive: true })
    await waitForPhase(engine, ref, 'unhealthy')
    const [running] = (await engine.observe(ref.deployment_id)).running
    expect(running!.reason).toContain('deploy it again')
    expect((await requestRouter(url)).status).toBe(503)
  })
})

test.runIf(isRoot)('a build of another user makes a site that this user cannot change or read', async () => {
  const user = { uid: 23_457, gid: 23_457 }
  fs.chmodSync(home, 0o755)
  const users = { isPerDeployment: false, of: () => user, forget: () => {} }
  const { engine } = await openEngine(home, { users })
  const folder = join(home, 'builds', ref.deployment_id, ref.revision_id)
  fs.mkdirSync(folder, { recursive: true, mode: 0o755 })
  const artifact = await build(
    engine,
    ref,
    { 'index.html': 'home' },
    { build_command: 'cp -R public dist; id -u > dist/uid.txt' },
  )
  const url = await serve(engine, ref, artifact)
  expect((await requestRouter(url, '/uid.txt')).body).toBe('23457\n')
  const { uid, mode } = fs.statSync(artifact.location)
  expect([uid, mode & 0o777]).toEqual([0, 0o700])
  const attack = build(
    engine,
    nextRevision(),
    { 'index.html': 'x' },
    { build_command: 'cp -R public dist; ln -s /etc/passwd dist/p.txt' },
  )
  await expect(attack).rejects.toThrow('`p.txt` in `dist` is a link that leads out')
})

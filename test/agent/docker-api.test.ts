// How the agent talks to a container engine, held against a small one of the test's own behind a unix socket.
import * as fs from 'node:fs'
import * as http from 'node:http'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { ContainerReplica } from '../../src/agent/engines/container/replica.ts'
import type { ReplicaParts } from '../../src/agent/engines/container/replica-spec.ts'
import { followLog } from '../../src/agent/images/container-log.ts'
import { DockerApi } from '../../src/agent/images/docker-api.ts'
import { createLogDemultiplexer } from '../../src/agent/images/log-frames.ts'
import { LineSplitter } from '../../src/agent/system/lines.ts'
import { waitFor } from '../support/commands.ts'
import { makeTempFolder } from '../support/process-engine.ts'

let home: string
let socket: string
let server: http.Server
let asked: string[]
let answer: (req: http.IncomingMessage, res: http.ServerResponse) => void
const json = (res: http.ServerResponse, status: number, body: object) =>
  res.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(body))
const version = { Version: '28.0', ApiVersion: '1.99', MinAPIVersion: '1.24', Components: [{ Name: 'Engine' }] }

beforeEach(async () => {
  home = makeTempFolder()
  socket = join(home, 'engine.sock')
  asked = []
  answer = (_, res) => json(res, 200, version)
  server = http.createServer((req, res) => {
    asked.push(`${req.method} ${req.url}`)
    answer(req, res)
  })
  await new Promise<void>(resolve => server.listen(socket, resolve))
})
afterEach(() => {
  server.closeAllConnections()
  server.close()
  fs.rmSync(home, { recursive: true })
})

const rejectionOf = (work: Promise<unknown>) =>
  work.then(
    () => 'nothing failed',
    (error: Error & { status?: number }) => `${error.status}: ${error.message}`,
  )

describe('the version', () => {
  test.each([
    ['1.99', '1.47'],
    ['1.41', '1.41'],
  ])('of an engine that speaks %s is %s', async (theirs, ours) => {
    answer = (_, res) => json(res, 200, { ...version, ApiVersion: theirs })
    const api = new DockerApi(socket)
    expect(await api.open()).toEqual({ engine: 'Engine', version: '28.0', api: ours })
    await api.get('/info')
    expect(asked).toEqual(['GET /version', `GET /v${ours}/info`])
  })
  test('of an engine that requires a newer API is refused', async () => {
    answer = (_, res) => json(res, 200, { ...version, MinAPIVersion: '1.60' })
    expect(await rejectionOf(new DockerApi(socket).open())).toMatch(/^0: .*1\.60.*1\.47/)
  })
})

describe('a failed request', () => {
  test('has the engine’s message and status', async () => {
    answer = (_, res) => json(res, 409, { message: 'it is in use' })
    expect(await rejectionOf(new DockerApi(socket).post('/images/prune'))).toBe('409: it is in use')
  })
  test('says that no engine listens on the socket', async () => {
    expect(await rejectionOf(new DockerApi(join(home, 'nothing')).get('/info'))).toMatch(
      /^0: .*nothing listens on its socket/,
    )
  })
  test('says that the engine does not answer, or breaks the connection', async () => {
    answer = () => {}
    const api = new DockerApi(socket)
    expect(await rejectionOf(api.ask('GET', '/info', { timeoutMs: 50 }))).toMatch(/^0: .*does not answer in time/)
    answer = (_, res) => res.writeHead(200).write('{', () => res.destroy())
    expect(await rejectionOf(api.get('/info'))).toMatch(/^0: The container engine is unreachable/)
  })
  test('is no error if the object to delete is already gone', async () => {
    answer = (_, res) => json(res, 404, { message: 'no such container' })
    expect(await new DockerApi(socket).requestIfExists('DELETE', '/containers/x')).toBe(false)
  })
  test('with a conflict waits for the removal that is in progress', async () => {
    let left = 2
    answer = (_, res) =>
      left-- > 0
        ? json(res, 409, { message: 'removal of container x is already in progress' })
        : json(res, 404, { message: 'No such container: x' })
    await new DockerApi(socket).removeContainer('x')
    expect(asked).toEqual(Array(3).fill('DELETE /containers/x?force=true&v=true'))
    answer = (_, res) => json(res, 500, { message: 'driver failed' })
    expect(await rejectionOf(new DockerApi(socket).removeContainer('x'))).toBe('500: driver failed')
  })
  test('is also a pull whose progress reports an error', async () => {
    answer = (_, res) => res.writeHead(200).end('{"status":"Pulling"}\n{"error":"denied"}\n')
    const api = new DockerApi(socket)
    const said: unknown[] = []
    const pull = async () => {
      for await (const one of api.streamProgress('/images/create', { query: { fromImage: 'a' } })) said.push(one)
    }
    expect(await rejectionOf(pull())).toBe('500: denied')
    expect(said).toEqual([{ status: 'Pulling' }])
  })
  test('has the reason of the abort signal if it was aborted', async () => {
    const controller = new AbortController()
    answer = (_, res) => res.writeHead(200).write('{"status":"one"}\n')
    const pull = async () => {
      const all = new DockerApi(socket).streamProgress('/images/create', { signal: controller.signal })
      for await (const _ of all) controller.abort(new Error('interrupted'))
    }
    expect(await rejectionOf(pull())).toBe('undefined: interrupted')
  })
})

test('queries encode filters as JSON and leave out undefined members', async () => {
  await new DockerApi(socket).get('/containers/json', { all: true, filters: { label: ['a=b'] }, none: undefined })
  expect(decodeURIComponent(asked[0]!)).toBe('GET /containers/json?all=true&filters={"label":["a=b"]}')
})

describe('bytes into lines', () => {
  const frame = (stream: number, text: string) => {
    const bytes = Buffer.from(text)
    const header = Buffer.alloc(8)
    header[0] = stream
    header.writeUInt32BE(bytes.length, 4)
    return Buffer.concat([header, bytes])
  }

  test('however they are cut, of both streams', () => {
    const all = Buffer.concat([frame(1, 'one\ntw'), frame(2, 'bad\r\n'), frame(1, 'ö\nlast'), frame(1, '')])
    for (let size = 1; size <= all.length; size++) {
      const said: string[] = []
      const frames = createLogDemultiplexer((line, error) => void said.push(`${error ? 'err' : 'out'} ${line}`))
      for (let at = 0; at < all.length; at += size) frames.push(all.subarray(at, at + size))
      frames.end()
      expect(said).toEqual(['out one', 'err bad', 'out twö', 'out last'])
    }
  })

  test('one without an end is cut, and costs no more than that', () => {
    const lines = new LineSplitter(10)
    const said = Array.from({ length: 100 }, () => lines.push(Buffer.from('x'.repeat(9)))).flat()
    said.push(...lines.push(Buffer.from('\nnext\n')), ...lines.end())
    expect(said).toEqual([`${'x'.repeat(10)}…`, 'next'])
  })
})

const frame = (text: string) => {
  const header = Buffer.alloc(8)
  header[0] = 1
  header.writeUInt32BE(Buffer.byteLength(text), 4)
  return Buffer.concat([header, Buffer.from(text)])
}

test('lines that were read but not shipped are shipped by the next agent', async () => {
  const all = [`2026-11-21T15:00:01Z a\n`, `2026-11-21T15:00:01Z b\n`].map(frame)
  answer = (req, res) =>
    req.url!.includes('/logs') ? void res.writeHead(200).write(Buffer.concat(all)) : json(res, 200, [])
  const here = {
    ...{ Id: 'x', Names: [], State: 'running', Labels: { 'slipway.role': 'app' } },
    Ports: [{ PrivatePort: 8000, PublicPort: 1 }],
  }
  const adopted = async () =>
    (await ContainerReplica.adopt({ api: new DockerApi(socket), liveReplicas: new Set(), folder: home }, 'c', [here]))!
  fs.writeFileSync(join(home, 'c.json'), '{}')
  const first = await adopted()
  await waitFor(() => first.lastLines.includes('a'))
  expect(first.readLines()).toEqual(['a', 'b'])
  all.push(frame('2026-11-21T15:00:02Z c\n'))
  first.release()

  const second = await adopted()
  await waitFor(() => second.lastLines.includes('c'))
  second.release()
  const third = await adopted()
  await waitFor(() => third.lastLines.length > 0)
  expect(third.readLines()).toEqual(['c'])
  third.release()
})

test('a replica that is killed during its launch has ended', async () => {
  const host = { api: new DockerApi(socket), liveReplicas: new Set<string>(), folder: home }
  const copy = ContainerReplica.launch(host, { copy: 'c' } as ReplicaParts, () => new Promise(() => {}))
  let told = 0
  copy.onExit = () => void told++
  copy.kill()
  expect([told, copy.endReason]).toEqual([1, expect.any(String)])
})

test('a failed removal is retried by the next call', async () => {
  let refusing = true
  const here = { Id: 'x', Names: [], State: 'exited', Labels: { 'slipway.role': 'app' } }
  answer = (req, res) => {
    if (req.url!.startsWith('/containers/json')) return json(res, 200, [here])
    if (req.method === 'DELETE' && refusing) return json(res, 500, { message: 'device or resource busy' })
    json(res, 200, {})
  }
  const host = { api: new DockerApi(socket), liveReplicas: new Set<string>(), folder: home }
  const copy = ContainerReplica.launch(host, { copy: 'c' } as ReplicaParts, () => new Promise(() => {}))
  expect(await rejectionOf(copy.end(0))).toMatch(/^500: .*busy/)
  refusing = false
  await copy.end(0)
  expect(asked.filter(one => one.startsWith('DELETE'))).toHaveLength(2)
})

test('a kill is retried while the engine is unreachable', async () => {
  const listed = { Id: 'x', Names: [], State: 'running', Labels: { 'slipway.role': 'app' } }
  const here = { ...listed, Ports: [{ PrivatePort: 8000, PublicPort: 1 }] }
  answer = (req, res) => (req.url!.includes('/logs') ? void res.writeHead(200).write('') : json(res, 200, []))
  const copy = await ContainerReplica.adopt(
    { api: new DockerApi(socket), liveReplicas: new Set(), folder: home },
    'c',
    [here],
  )
  const asks = asked
  server.closeAllConnections()
  await new Promise(resolve => server.close(resolve))
  copy!.kill()
  await new Promise<void>(resolve => server.listen(socket, resolve))
  await waitFor(() => asks.includes('POST /containers/x/kill'))
  copy!.release()
})

test('a broken log stream resumes at its position, with no line twice', async () => {
  const at = (second: number) => `2026-11-21T15:00:0${second}Z`
  const all = [`${at(1)} a\n`, `${at(2)} b\n`, `${at(2)} c\n`, `${at(2)} d\n`, `${at(3)} e\n`].map(frame)
  let reads = 0
  answer = (req, res) => {
    if (req.url!.includes('/logs')) return void res.writeHead(200).end(Buffer.concat(reads++ ? all : all.slice(0, 3)))
    json(res, 200, { State: { Running: reads < 2, ExitCode: 0 }, HostConfig: { Memory: 5 } })
  }
  const said: string[] = []
  const position = { second: 0, count: 0 }
  const state = await followLog(
    new DockerApi(socket),
    'x',
    position,
    new AbortController().signal,
    line => void said.push(line),
  )
  expect(said).toEqual(['a', 'b', 'c', 'd', 'e'])
  expect(state).toMatchObject({ ExitCode: 0, memory: 5 })
  expect(asked[2]).toContain(`since=${Date.parse(at(2)) / 1000 - 1}`)
})

test('a log stream that does not end with its container is read to its last whole line', async () => {
  const said: string[] = []
  const lines = Buffer.concat([frame('2026-11-21T15:00:01Z no\n'), frame('2026-11-21T15:00:01Z table\n')])
  answer = (req, res) => {
    if (!req.url!.includes('/logs')) return json(res, 200, { State: { Running: false, ExitCode: 2 }, HostConfig: {} })
    res.writeHead(200)
    if (req.url!.includes('follow=true')) res.write(lines.subarray(0, -4))
    else res.end(lines)
  }
  const position = { second: 0, count: 0 }
  const { signal } = new AbortController()
  const state = await followLog(new DockerApi(socket), 'x', position, signal, line => void said.push(line))
  expect(state).toMatchObject({ ExitCode: 2 })
  expect(said).toEqual(['no', 'table'])
})

// The client of the container engine's API, tested against a small server on a unix socket.
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
let requests: string[]
let answer: (req: http.IncomingMessage, res: http.ServerResponse) => void
const json = (res: http.ServerResponse, status: number, body: object) =>
  res.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(body))
const version = { Version: '28.0', ApiVersion: '1.99', MinAPIVersion: '1.24', Components: [{ Name: 'Engine' }] }

beforeEach(async () => {
  home = makeTempFolder()
  socket = join(home, 'engine.sock')
  requests = []
  answer = (_, res) => json(res, 200, version)
  server = http.createServer((req, res) => {
    requests.push(`${req.method} ${req.url}`)
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

describe('the API version', () => {
  test.each([
    ['1.99', '1.47'],
    ['1.41', '1.41'],
  ])('with an engine of the API %s is %s', async (engineApi, usedApi) => {
    answer = (_, res) => json(res, 200, { ...version, ApiVersion: engineApi })
    const api = new DockerApi(socket)
    expect(await api.open()).toEqual({ engine: 'Engine', version: '28.0', api: usedApi })
    await api.get('/info')
    expect(requests).toEqual(['GET /version', `GET /v${usedApi}/info`])
  })
  test('is refused if the engine requires a newer one', async () => {
    answer = (_, res) => json(res, 200, { ...version, MinAPIVersion: '1.60' })
    expect(await rejectionOf(new DockerApi(socket).open())).toMatch(/^0: .*1\.60.*1\.47/)
  })
})

describe('a failed request', () => {
  test('has the message and the status of the engine', async () => {
    answer = (_, res) => json(res, 409, { message: 'it is in use' })
    expect(await rejectionOf(new DockerApi(socket).post('/images/prune'))).toBe('409: it is in use')
  })
  test('names the cause if no engine listens on the socket', async () => {
    expect(await rejectionOf(new DockerApi(join(home, 'nothing')).get('/info'))).toMatch(
      /^0: .*nothing listens on its socket/,
    )
  })
  test('names the cause if the engine does not answer or breaks the connection', async () => {
    answer = () => {}
    const api = new DockerApi(socket)
    expect(await rejectionOf(api.ask('GET', '/info', { timeoutMs: 50 }))).toMatch(/^0: .*does not answer in time/)
    answer = (_, res) => res.writeHead(200).write('{', () => res.destroy())
    expect(await rejectionOf(api.get('/info'))).toMatch(/^0: The container engine is unreachable/)
  })
  test('counts as success if the object to delete does not exist', async () => {
    answer = (_, res) => json(res, 404, { message: 'no such container' })
    expect(await new DockerApi(socket).requestIfExists('DELETE', '/containers/x')).toBe(false)
  })
  test('is repeated if another removal of the container is in progress', async () => {
    let remainingConflicts = 2
    answer = (_, res) =>
      remainingConflicts-- > 0
        ? json(res, 409, { message: 'removal of container x is already in progress' })
        : json(res, 404, { message: 'No such container: x' })
    await new DockerApi(socket).removeContainer('x')
    expect(requests).toEqual(Array(3).fill('DELETE /containers/x?force=true&v=true'))
    answer = (_, res) => json(res, 500, { message: 'driver failed' })
    expect(await rejectionOf(new DockerApi(socket).removeContainer('x'))).toBe('500: driver failed')
  })
  test('to stop a container that is paused is repeated once it goes on', async () => {
    let isPaused = true
    answer = (req, res) => {
      if (req.url?.endsWith('/unpause')) isPaused = false
      if (isPaused) json(res, 500, { message: 'x is running or paused, refusing to clean up' })
      else res.writeHead(204).end()
    }
    expect(await new DockerApi(socket).stopContainer('x', 3)).toBe(true)
    const [stop, unpause] = ['POST /containers/x/stop?t=3', 'POST /containers/x/unpause']
    expect(requests).toEqual([stop, unpause, stop])
  })
  test('includes a pull whose progress reports an error', async () => {
    answer = (_, res) => res.writeHead(200).end('{"status":"Pulling"}\n{"error":"denied"}\n')
    const api = new DockerApi(socket)
    const messages: unknown[] = []
    const pull = async () => {
      for await (const message of api.streamProgress('/images/create', { query: { fromImage: 'a' } }))
        messages.push(message)
    }
    expect(await rejectionOf(pull())).toBe('500: denied')
    expect(messages).toEqual([{ status: 'Pulling' }])
  })
  test('has the reason of the abort signal if it is aborted', async () => {
    const controller = new AbortController()
    answer = (_, res) => res.writeHead(200).write('{"status":"one"}\n')
    const pull = async () => {
      const messages = new DockerApi(socket).streamProgress('/images/create', { signal: controller.signal })
      for await (const _ of messages) controller.abort(new Error('interrupted'))
    }
    expect(await rejectionOf(pull())).toBe('undefined: interrupted')
  })
})

test('a query encodes filters as JSON and leaves out undefined members', async () => {
  await new DockerApi(socket).get('/containers/json', { all: true, filters: { label: ['a=b'] }, none: undefined })
  expect(decodeURIComponent(requests[0]!)).toBe('GET /containers/json?all=true&filters={"label":["a=b"]}')
})

const [STDOUT, STDERR] = [1, 2]
const frame = (text: string, stream = STDOUT) => {
  const bytes = Buffer.from(text)
  const header = Buffer.alloc(8)
  header[0] = stream
  header.writeUInt32BE(bytes.length, 4)
  return Buffer.concat([header, bytes])
}

describe('the lines of a log', () => {
  test('are the same for every size of the received chunks', () => {
    const log = Buffer.concat([frame('one\ntw'), frame('bad\r\n', STDERR), frame('ö\nlast'), frame('')])
    for (let size = 1; size <= log.length; size++) {
      const lines: string[] = []
      const frames = createLogDemultiplexer((line, error) => void lines.push(`${error ? 'err' : 'out'} ${line}`))
      for (let i = 0; i < log.length; i += size) frames.push(log.subarray(i, i + size))
      frames.end()
      expect(lines).toEqual(['out one', 'err bad', 'out twö', 'out last'])
    }
  })

  test('are one line with one time if they were written in parts', () => {
    const time = '2026-11-21T15:00:01.5Z'
    const log = Buffer.concat([
      frame(`${time} one, `),
      frame(`${time} two`),
      frame(`${time} \n`),
      frame(`${time} next\n`),
    ])
    for (let size = 1; size <= log.length; size++) {
      const lines: string[] = []
      const frames = createLogDemultiplexer(line => void lines.push(line))
      for (let i = 0; i < log.length; i += size) frames.push(log.subarray(i, i + size))
      frames.end()
      expect(lines).toEqual([`${time} one, two`, `${time} next`])
    }
  })

  test('are cut at the maximum length', () => {
    const splitter = new LineSplitter(10)
    const lines = Array.from({ length: 100 }, () => splitter.push(Buffer.from('x'.repeat(9)))).flat()
    lines.push(...splitter.push(Buffer.from('\nnext\n')), ...splitter.end())
    expect(lines).toEqual([`${'x'.repeat(10)}…`, 'next'])
  })
})

test('lines that an agent read but did not ship are shipped by the next agent', async () => {
  const log = [`2026-11-21T15:00:01Z a\n`, `2026-11-21T15:00:01Z b\n`].map(line => frame(line))
  answer = (req, res) =>
    req.url!.includes('/logs') ? void res.writeHead(200).write(Buffer.concat(log)) : json(res, 200, [])
  const container = {
    Id: 'x',
    Names: [],
    State: 'running',
    Labels: { 'slipway.role': 'app' },
    Ports: [{ PrivatePort: 8000, PublicPort: 1 }],
  }
  const host = () => ({ api: new DockerApi(socket), liveReplicas: new Set<string>(), folder: home })
  const adopt = async () => (await ContainerReplica.adopt(host(), 'c', [container]))!
  fs.writeFileSync(join(home, 'c.json'), '{}')
  const first = await adopt()
  await waitFor(() => first.lastLines.includes('a'))
  expect(first.readLines().map(({ text }) => text)).toEqual(['a', 'b'])
  log.push(frame('2026-11-21T15:00:02Z c\n'))
  first.release()

  const second = await adopt()
  await waitFor(() => second.lastLines.includes('c'))
  second.release()
  const third = await adopt()
  await waitFor(() => third.lastLines.length > 0)
  expect(third.readLines()).toEqual([{ text: 'c', level: 'INFO', isError: false }])
  third.release()
})

test('a replica that is killed during its launch reports its end', async () => {
  const host = { api: new DockerApi(socket), liveReplicas: new Set<string>(), folder: home }
  const replica = ContainerReplica.launch(host, { copy: 'c' } as ReplicaParts, () => new Promise(() => {}))
  let exitCount = 0
  replica.onExit = () => void exitCount++
  replica.kill()
  expect([exitCount, replica.endReason]).toEqual([1, expect.any(String)])
})

test('a failed removal of a container is repeated by the next call', async () => {
  let isRefusing = true
  const container = { Id: 'x', Names: [], State: 'exited', Labels: { 'slipway.role': 'app' } }
  answer = (req, res) => {
    if (req.url!.startsWith('/containers/json')) return json(res, 200, [container])
    if (req.method === 'DELETE' && isRefusing) return json(res, 500, { message: 'device or resource busy' })
    json(res, 200, {})
  }
  const host = { api: new DockerApi(socket), liveReplicas: new Set<string>(), folder: home }
  const replica = ContainerReplica.launch(host, { copy: 'c' } as ReplicaParts, () => new Promise(() => {}))
  expect(await rejectionOf(replica.end(0))).toMatch(/^500: .*busy/)
  isRefusing = false
  await replica.end(0)
  expect(requests.filter(request => request.startsWith('DELETE'))).toHaveLength(2)
})

test('a kill is retried until the engine is reachable', async () => {
  const summary = { Id: 'x', Names: [], State: 'running', Labels: { 'slipway.role': 'app' } }
  const container = { ...summary, Ports: [{ PrivatePort: 8000, PublicPort: 1 }] }
  answer = (req, res) => (req.url!.includes('/logs') ? void res.writeHead(200).write('') : json(res, 200, []))
  const host = { api: new DockerApi(socket), liveReplicas: new Set<string>(), folder: home }
  const replica = await ContainerReplica.adopt(host, 'c', [container])
  server.closeAllConnections()
  await new Promise(resolve => server.close(resolve))
  replica!.kill()
  await new Promise<void>(resolve => server.listen(socket, resolve))
  await waitFor(() => requests.includes('POST /containers/x/kill'))
  replica!.release()
})

test('a broken log stream resumes where it broke, and repeats no line', async () => {
  const timeAt = (second: number) => `2026-11-21T15:00:0${second}Z`
  const lines = [`${timeAt(1)} a\n`, `${timeAt(2)} b\n`, `${timeAt(2)} c\n`, `${timeAt(2)} d\n`, `${timeAt(3)} e\n`]
  const log = lines.map(line => frame(line))
  let reads = 0
  answer = (req, res) => {
    if (req.url!.includes('/logs')) return void res.writeHead(200).end(Buffer.concat(reads++ ? log : log.slice(0, 3)))
    json(res, 200, { State: { Running: reads < 2, ExitCode: 0 }, HostConfig: { Memory: 5 } })
  }
  const shipped: string[] = []
  const position = { second: 0, count: 0 }
  const { signal } = new AbortController()
  const state = await followLog(new DockerApi(socket), 'x', position, signal, line => void shipped.push(line))
  expect(shipped).toEqual(['a', 'b', 'c', 'd', 'e'])
  expect(state).toMatchObject({ ExitCode: 0, memory: 5 })
  expect(requests[2]).toContain(`since=${Date.parse(timeAt(2)) / 1000 - 1}`)
})

test('the last line of an ended container is read again if the log stream did not end with it', async () => {
  const shipped: string[] = []
  const log = Buffer.concat([frame('2026-11-21T15:00:01Z no\n'), frame('2026-11-21T15:00:01Z table\n')])
  answer = (req, res) => {
    if (!req.url!.includes('/logs')) return json(res, 200, { State: { Running: false, ExitCode: 2 }, HostConfig: {} })
    res.writeHead(200)
    if (req.url!.includes('follow=true')) res.write(log.subarray(0, -4))
    else res.end(log)
  }
  const position = { second: 0, count: 0 }
  const { signal } = new AbortController()
  const state = await followLog(new DockerApi(socket), 'x', position, signal, line => void shipped.push(line))
  expect(state).toMatchObject({ ExitCode: 2 })
  expect(shipped).toEqual(['no', 'table'])
})

// Terminals and forwarded ports on the process engine: the test holds the other end of the agent's socket.
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import * as fs from 'node:fs'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { Duplex, PassThrough } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { type WebSocket as PeerSocket, WebSocketServer } from 'ws'
import { loadPty } from '../../src/agent/engines/process/terminal.ts'
import { openTar } from '../../src/agent/snapshots/open-tar.ts'
import { newCgroupPath } from '../../src/agent/system/cgroups.ts'
import { Tunnels } from '../../src/agent/tunnels.ts'
import {
  type Channel,
  channels,
  encodeCredit,
  encodeFrame,
  type Frame,
  isData,
  parseJson,
  readFrame,
  readText,
  WINDOW_BYTES,
} from '../../src/protocol/tunnel-frames.ts'
import type { NewForward, NewTerminal } from '../../src/protocol/tunnels.schema.ts'
import {
  closeEngines,
  makeRevisionRef,
  makeServerCode,
  makeTempFolder,
  makeUnit,
  openEngine,
  writeApplication,
} from '../support/process-engine.ts'

function canMakeCgroups(): boolean {
  const path = newCgroupPath()
  try {
    fs.mkdirSync(path!)
    fs.rmdirSync(path!)
    return true
  } catch {
    return false
  }
}
const hasPty = (await loadPty()) !== undefined
const server = new WebSocketServer({ port: 0, host: '127.0.0.1' })
const folders: string[] = []
beforeAll(async () => {
  if (!server.address()) await once(server, 'listening')
})
afterAll(() => {
  for (const client of server.clients) client.terminate()
  server.close()
})
afterEach(async () => {
  await closeEngines()
  for (const folder of folders.splice(0)) fs.rmSync(folder, { recursive: true, force: true })
})

async function runCopy(code = makeServerCode('ok')) {
  const home = makeTempFolder()
  folders.push(home)
  const { engine } = await openEngine(home)
  const ref = makeRevisionRef()
  const unit = makeUnit(ref, { secrets: { TOKEN: 'hush' } })
  await engine.start(unit, writeApplication(home, 'app', code))
  await expect.poll(async () => (await engine.observe(ref.deployment_id)).running[0]?.phase).toBe('healthy')
  const { port } = server.address() as AddressInfo
  const tunnels = new Tunnels({
    engine,
    openSocket: id => new WebSocket(`ws://127.0.0.1:${port}/${id}`),
    currentLease: () => ({ agent_id: 'one', fence: 1 }),
    openSnapshot: (_, folder) => ({ connect: async () => openTar(folder) }),
  })
  let count = 0
  /** The other end of a tunnel that the agent is told of. */
  async function open(request: { terminal: Partial<NewTerminal> } | { forward: NewForward }) {
    const connected = once(server, 'connection')
    const terminal = 'terminal' in request ? { tty: false, columns: 80, rows: 24, ...request.terminal } : null
    const forward = 'forward' in request ? request.forward : null
    tunnels.open([{ id: `tunnel-${count++}`, ...ref, terminal, forward }])
    return peerOf((await connected)[0] as PeerSocket)
  }
  return { engine, ref, tunnels, open }
}

function peerOf(socket: PeerSocket) {
  const frames: Frame[] = []
  let text = ''
  let isReading = true
  socket.on('message', (message: Buffer) => {
    const frame = readFrame(new Uint8Array(message))
    frames.push(frame)
    if (!isData(frame.channel)) return
    text += readText(frame.payload)
    if (isReading) socket.send(encodeCredit(frame.payload.length, frame.stream))
  })
  const send = (channel: Channel, payload: string | Uint8Array = '', stream = 0) =>
    socket.send(encodeFrame(channel, typeof payload === 'string' ? Buffer.from(payload) : payload, stream))
  return {
    socket,
    frames,
    send,
    stopReading: () => (isReading = false),
    text: () => text,
    has: (channel: Channel) => frames.some(frame => frame.channel === channel),
    until: (part: string) => expect.poll(() => text).toContain(part),
    async json(channel: Channel) {
      await expect.poll(() => frames.some(frame => frame.channel === channel)).toBe(true)
      return parseJson(frames.find(frame => frame.channel === channel)!.payload)
    },
  }
}

describe('a command with pipes', () => {
  it('has the environment of its copy, apart outputs, an end of its input, and an exit code', async () => {
    const { open } = await runCopy()
    const peer = await open({ terminal: { command: ['sh', '-c', 'cat; echo $TOKEN; echo no >&2; ls; exit 7'] } })
    peer.send(channels.data, 'typed\n')
    peer.send(channels.end)
    expect(await peer.json(channels.exit)).toEqual({ code: 7, signal: null })
    expect(peer.text()).toContain('typed\nhush\n')
    expect(peer.text()).toContain('main.js')
    expect(readText(peer.frames.find(({ channel }) => channel === channels.errors)!.payload)).toBe('no\n')
  })

  it('gets signals, and its end is told', async () => {
    const { open } = await runCopy()
    const peer = await open({ terminal: { command: ['sh', '-c', 'echo begun; sleep 60'] } })
    await peer.until('begun')
    peer.send(channels.signal, 'SIGTERM')
    expect(await peer.json(channels.exit)).toEqual({ code: null, signal: 'SIGTERM' })
  })

  it('ends with its socket, with all that it has started', async () => {
    const { open } = await runCopy()
    const peer = await open({
      terminal: { command: ['sh', '-c', 'trap "" HUP; setsid sleep 61 & echo $! begun; wait'] },
    })
    await peer.until('begun')
    const pid = Number.parseInt(peer.text(), 10)
    expect(() => process.kill(pid, 0)).not.toThrow()
    peer.socket.close()
    await expect.poll(() => fs.existsSync(`/proc/${pid}`)).toBe(false)
  })

  it.runIf(canMakeCgroups()).each([false, true])('leaves nothing that hides from it, with tty %s', async tty => {
    if (tty && !hasPty) return
    const { open } = await runCopy()
    const hidden = "env -i setsid sh -c 'echo $$ begun; exec sleep 64' & wait"
    const peer = await open({ terminal: { tty, command: ['sh', '-c', hidden] } })
    await peer.until('begun')
    const pid = Number.parseInt(peer.text(), 10)
    peer.socket.close()
    await expect.poll(() => fs.existsSync(`/proc/${pid}`)).toBe(false)
  })

  it('ends with its copy', async () => {
    const { engine, ref, open } = await runCopy()
    const peer = await open({ terminal: { command: ['sh', '-c', 'echo begun; sleep 62'] } })
    await peer.until('begun')
    await engine.stop(ref)
    expect(await peer.json(channels.exit)).toMatchObject({ code: null })
  })

  it('waits while its reader reads nothing, and loses nothing', async () => {
    const { open } = await runCopy()
    const bytes = 3 * WINDOW_BYTES
    const peer = await open({
      terminal: {
        command: ['sh', '-c', 'echo begun; read go; head -c $1 /dev/zero | tr "\\0" x; echo end', 'sh', String(bytes)],
      },
    })
    await peer.until('begun')
    peer.stopReading()
    peer.send(channels.data, 'go\n')
    await expect.poll(() => peer.text().length).toBe('begun\n'.length + WINDOW_BYTES)
    expect(peer.has(channels.exit)).toBe(false)
    peer.socket.send(encodeCredit(bytes, 0))
    expect(await peer.json(channels.exit)).toEqual({ code: 0, signal: null })
    expect(peer.text().length).toBe('begun\n'.length + bytes + 'end\n'.length)
  })
})

it('a snapshot is sent as one tar, which ends', async () => {
  const { open } = await runCopy()
  const folder = makeTempFolder()
  folders.push(folder)
  fs.writeFileSync(join(folder, 'disk.tar'), 'a tar already')
  const download = async () => {
    const peer = await open({ forward: { snapshot_id: folder } })
    peer.send(channels.open, '', 1)
    await expect.poll(() => peer.has(channels.end) && peer.has(channels.reset)).toBe(true)
    return peer.text()
  }
  expect(await download()).toBe('a tar already')
  fs.writeFileSync(join(folder, 'other'), 'of several files')
  expect(await download()).toMatch(/ustar.*of several files/s)
})

it('an end of the output that is read after the end of its command is sent before it is told', async () => {
  const output = new PassThrough({ highWaterMark: 2 * WINDOW_BYTES })
  const piece = Buffer.alloc(10_000)
  const pieces = Math.floor((WINDOW_BYTES * 1.5) / piece.length)
  for (let i = 0; i < pieces; i++) output.write(piece)
  output.end()
  const rest = { input: new PassThrough(), errors: null, resize() {}, signal() {}, async close() {} }
  const terminal = { ...rest, output, exit: Promise.resolve({ code: 0, signal: null }) }
  const { port } = server.address() as AddressInfo
  const tunnels = new Tunnels({
    engine: { openTerminal: async () => terminal } as never,
    openSocket: id => new WebSocket(`ws://127.0.0.1:${port}/${id}`),
    currentLease: () => ({ agent_id: 'one', fence: 1 }),
    openSnapshot: () => ({ connect: async () => new PassThrough() }),
  })
  const connected = once(server, 'connection')
  const request = { tty: false, columns: 80, rows: 24 }
  tunnels.open([{ id: 'ended', ...makeRevisionRef(), terminal: request, forward: null }])
  const peer = peerOf((await connected)[0] as PeerSocket)
  peer.stopReading()
  await expect.poll(() => peer.text().length).toBe(WINDOW_BYTES)
  peer.socket.send(encodeCredit(WINDOW_BYTES, 0))
  await peer.json(channels.exit)
  expect(peer.text().length).toBe(pieces * piece.length)
})

it('without a lease, all that tunnels have started ends, also if the control plane does not answer', async () => {
  const { open, tunnels } = await runCopy()
  const peer = await open({ terminal: { command: ['sh', '-c', 'echo $$; exec sleep 63'] } })
  await peer.until('\n')
  const pid = Number.parseInt(peer.text(), 10)
  peer.socket.pause()
  await tunnels.closeAll()
  await expect.poll(() => fs.existsSync(`/proc/${pid}`)).toBe(false)
})

describe.skipIf(!hasPty)('a command in a terminal', () => {
  it('has its size, and is told of another one', async () => {
    const { open } = await runCopy()
    const peer = await open({ terminal: { tty: true, columns: 91, rows: 31 } })
    peer.send(channels.data, 'stty size; [ -t 0 ] && tty\n')
    await peer.until('31 91')
    await peer.until('/dev/')
    peer.send(channels.resize, '{"columns":77,"rows":17}')
    peer.send(channels.data, 'stty size\n')
    await peer.until('17 77')
    // Echoed as it is typed, so the output differs.
    peer.send(channels.data, 'echo sle""eps; sleep 60\n')
    await peer.until('sleeps')
    peer.send(channels.data, '\x03')
    peer.send(channels.data, 'echo "after $?"; exit 5\n')
    await peer.until('after 130')
    expect(await peer.json(channels.exit)).toEqual({ code: 5, signal: null })
  })

  it('is open to no program that the agent starts later', async () => {
    const { open } = await runCopy()
    const terminal = await open({ terminal: { tty: true, command: ['sh', '-c', 'echo begun; sleep 60'] } })
    await terminal.until('begun')
    for (const tty of [false, true]) {
      const peer = await open({ terminal: { tty, command: ['ls', '-l', '/proc/self/fd'] } })
      await peer.json(channels.exit)
      expect(peer.text()).toContain('/proc/')
      expect(peer.text()).not.toContain('ptmx')
    }
  })

  it('loses nothing that it has shown before its end, however late that is read', async () => {
    const { open } = await runCopy()
    const bytes = 3 * WINDOW_BYTES
    const show = `stty raw; echo begun; head -c ${bytes} /dev/zero | tr "\\0" x; echo end`
    const peer = await open({ terminal: { tty: true, command: ['sh', '-c', show] } })
    await peer.until('begun')
    peer.stopReading()
    await expect.poll(() => peer.text().length).toBeGreaterThanOrEqual(WINDOW_BYTES)
    for (let read = 0; !peer.has(channels.exit); read = peer.text().length) {
      // Each piece is read long after the command could have ended.
      await delay(250)
      peer.socket.send(encodeCredit(peer.text().length - read || WINDOW_BYTES, 0))
    }
    expect(peer.text().length).toBe('begun\n'.length + bytes + 'end\n'.length)
  })

  it('takes input as fast as its program reads it', async () => {
    const { open } = await runCopy()
    const command = [
      'sh',
      '-c',
      'stty raw -echo; echo begun; read -r go; head -c $1 | wc -c',
      'sh',
      String(WINDOW_BYTES / 2),
    ]
    const peer = await open({ terminal: { tty: true, command } })
    await peer.until('begun')
    const sent = new Uint8Array(32 * 1024).fill(97)
    for (let i = 0; i < 4; i++) peer.send(channels.data, sent)
    expect(peer.frames.some(({ channel }) => channel === channels.credit)).toBe(false)
    peer.send(channels.data, '\n')
    for (let i = 0; i < 4; i++) peer.send(channels.data, sent)
    await peer.until(String(WINDOW_BYTES / 2))
  })
})

describe('a forwarding', () => {
  it('reaches ports of its copy, and no others', async () => {
    const { open } = await runCopy()
    const peer = await open({ forward: {} })
    await peer.json(channels.ready)
    for (const stream of [1, 2]) {
      peer.send(channels.open, '', stream)
      peer.send(channels.data, 'GET / HTTP/1.0\r\n\r\n', stream)
    }
    await expect.poll(() => peer.frames.filter(({ channel }) => channel === channels.reset).length).toBe(2)
    expect(peer.text().match(/200 OK/g)).toHaveLength(2)
    const { port } = server.address() as AddressInfo
    const other = await open({ forward: { port } })
    other.send(channels.open, '', 1)
    await expect.poll(() => other.has(channels.reset)).toBe(true)
    expect(readText(other.frames.find(({ channel }) => channel === channels.reset)!.payload)).toContain(
      'does not listen',
    )
  })

  it('connects a stream once at a time, however often it is opened', async () => {
    const { open } = await runCopy()
    const peer = await open({ forward: {} })
    await peer.json(channels.ready)
    for (let i = 0; i < 50; i++) {
      peer.send(channels.open, '', 1)
      peer.send(channels.reset, '', 1)
    }
    peer.send(channels.open, '', 2)
    peer.send(channels.data, 'GET / HTTP/1.0\r\n\r\n', 2)
    await peer.until('200 OK')
    expect(peer.frames.filter(({ channel }) => channel === channels.reset).length).toBeGreaterThan(40)
  })

  it('closes a stream that was given up before it was connected', async () => {
    const connecting = Promise.withResolvers<Duplex>()
    const { port } = server.address() as AddressInfo
    const tunnels = new Tunnels({
      engine: {} as never,
      openSocket: id => new WebSocket(`ws://127.0.0.1:${port}/${id}`),
      currentLease: () => ({ agent_id: 'one', fence: 1 }),
      openSnapshot: () => ({ connect: () => connecting.promise }),
    })
    const connected = once(server, 'connection')
    const forward = { snapshot_id: randomUUID() } as NewForward
    tunnels.open([{ id: 'given-up', ...makeRevisionRef(), terminal: null, forward }])
    const peer = peerOf((await connected)[0] as PeerSocket)
    await peer.json(channels.ready)
    peer.send(channels.open, '', 1)
    peer.send(channels.reset, '', 1)
    peer.send(channels.open, '', 1)
    await expect.poll(() => peer.has(channels.reset)).toBe(true)
    // It emits an error when it is destroyed: a pair of streams does, as that of a container.
    const connection = Duplex.from({ readable: new PassThrough(), writable: new PassThrough() })
    connecting.resolve(connection)
    await expect.poll(() => connection.closed).toBe(true)
  })

  it('ends when a client sends more than a window', async () => {
    const { open } = await runCopy()
    const peer = await open({ forward: {} })
    await peer.json(channels.ready)
    for (let i = 0; i < 6; i++) peer.send(channels.data, new Uint8Array(60_000), 3)
    await once(peer.socket, 'close')
  })

  it('is refused with a sentence where there is no database', async () => {
    const { open } = await runCopy()
    const peer = await open({ forward: { store: 'postgres' } })
    expect(await peer.json(channels.error)).toMatchObject({ detail: expect.stringContaining('no database') })
  })
})

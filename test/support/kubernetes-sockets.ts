// The sockets of pods of the Kubernetes API that tests use. Unless a test says otherwise, commands run on this machine,
// and ports are those of it.
import { spawn } from 'node:child_process'
import type * as http from 'node:http'
import { connect } from 'node:net'
import type { Duplex } from 'node:stream'
import { type WebSocket, WebSocketServer } from 'ws'
import { loadPty } from '../../src/agent/engines/process/terminal.ts'

const [INPUT, OUTPUT, ERRORS, STATUS, RESIZE, CLOSE] = [0, 1, 2, 3, 4, 255]

/** The real place of the pods. */
type Place = {
  commandOf: (pod: string, words: string[], tty: boolean) => string[]
  targetOf: (pod: string, port: number) => { host: string; port: number } | undefined
}

export class PodSockets {
  readonly #place: Place
  /** The ports of this machine, by `pod:port`. */
  readonly ports = new Map<string, number>()
  /** The protocols that the server has. An old one has no v5. */
  protocols = ['v5.channel.k8s.io', 'v4.channel.k8s.io']
  /** Folders of pods, and those of this machine that stand for them. */
  readonly folders = new Map<string, string>()
  readonly #server = new WebSocketServer({
    noServer: true,
    handleProtocols: asked => this.protocols.find(one => asked.has(one)) ?? false,
  })

  constructor(place: Partial<Place> = {}) {
    this.#place = {
      commandOf: (_, words) => words.map(word => this.#toLocal(word)),
      targetOf: (pod, port) => ({ host: '127.0.0.1', port: this.ports.get(`${pod}:${port}`) ?? 1 }),
      ...place,
    }
  }

  close(): void {
    for (const client of this.#server.clients) client.terminate()
    this.#server.close()
  }

  accept(req: http.IncomingMessage, raw: Duplex, head: Buffer, pod: string, subresource: string): void {
    const query = new URL(req.url!, 'http://cluster').searchParams
    // The API server and a node have different names and values for the same.
    const tty = ['true', '1'].includes(query.get('tty')!)
    this.#server.handleUpgrade(req, raw, head, socket => {
      if (subresource === 'exec') void execute(socket, this.#place.commandOf(pod, query.getAll('command'), tty), tty)
      else this.#forward(socket, pod, Number(query.get('ports') ?? query.get('port')))
    })
  }

  #toLocal(word: string): string {
    return [...this.folders].reduce((text, [folder, local]) => text.replaceAll(folder, local), word)
  }

  #forward(socket: WebSocket, pod: string, port: number): void {
    const number = Buffer.alloc(2)
    number.writeUInt16LE(port)
    for (const channel of [0, 1]) socket.send(Buffer.concat([Buffer.of(channel), number]))
    const target = connect(this.#place.targetOf(pod, port) ?? { host: '127.0.0.1', port: 1 })
    target.on('data', bytes => socket.send(Buffer.concat([Buffer.of(0), bytes])))
    target.on('error', error => socket.send(Buffer.concat([Buffer.of(1), Buffer.from(error.message)])))
    target.on('close', () => socket.close())
    socket.on('message', (message: Buffer) => target.write(message.subarray(1)))
    socket.on('close', () => target.destroy())
  }
}

async function execute(socket: WebSocket, [program, ...args]: string[], tty: boolean): Promise<void> {
  const send = (channel: number, bytes: Uint8Array | string) =>
    socket.send(Buffer.concat([Buffer.of(channel), Buffer.from(bytes)]))
  const end = (code: number) => {
    const causes = [{ reason: 'ExitCode', message: String(code) }]
    send(STATUS, JSON.stringify(code === 0 ? { status: 'Success' } : { status: 'Failure', details: { causes } }))
    socket.close()
  }
  if (tty) {
    const { spawn: spawnPty } = (await loadPty())!
    const pty = spawnPty(program!, args, { encoding: null, env: process.env as Record<string, string> })
    pty.onData(data => send(OUTPUT, data))
    pty.onExit(({ exitCode }) => end(exitCode))
    socket.on('message', (message: Buffer) => {
      const bytes = message.subarray(1)
      if (message[0] === INPUT) pty.write(bytes as never)
      if (message[0] !== RESIZE) return
      const { Width, Height } = JSON.parse(bytes.toString())
      pty.resize(Width, Height)
    })
    return
  }
  const child = spawn(program!, args, { stdio: 'pipe' })
  child.stdout.on('data', bytes => send(OUTPUT, bytes))
  child.stderr.on('data', bytes => send(ERRORS, bytes))
  child.stdin.on('error', () => {})
  child.once('close', (code, signal) => end(code ?? 128 + (signal === 'SIGKILL' ? 9 : 15)))
  socket.on('message', (message: Buffer) => {
    if (message[0] === INPUT) child.stdin.write(message.subarray(1))
    if (message[0] === CLOSE && message[1] === INPUT) child.stdin.end()
  })
  socket.on('close', () => child.stdin.end())
}

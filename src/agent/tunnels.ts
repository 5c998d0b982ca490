// Terminals and forwarded ports that clients wait for: joins each by a socket, and connects it to the engine.
import type { Duplex, Readable } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import {
  channels,
  encodeJson,
  encodeText,
  type Frame,
  MAX_STREAMS,
  parseJson,
  readText,
} from '../protocol/tunnel-frames.ts'
import { TunnelLink } from '../protocol/tunnel-link.ts'
import { Size, type WaitingTunnel } from '../protocol/tunnels.schema.ts'
import { type Engine, type ForwardTarget, PermanentError, type Terminal } from './engine.ts'

type Lease = { agent_id: string; fence: number }
type Options = {
  engine: Engine
  openSocket: (id: string, lease: Lease) => WebSocket
  currentLease: () => Lease | undefined
  /** Each connection to it sends a snapshot of the deployment as a tar. */
  openSnapshot: (deployment_id: string, snapshot_id: string) => ForwardTarget
}
/** Ends what the tunnel has started. */
type Served = { onFrame(frame: Frame): void; close(): unknown }

const UNEXPECTED = 'The agent could not open it. The log of the agent has the reason.'
const OUTPUT_MS = 1000
const UNSUPPORTED = 'The engine of this agent does not offer this.'

export class Tunnels {
  readonly #options: Options
  readonly #open = new Map<string, TunnelLink>()

  constructor(options: Options) {
    this.#options = options
  }

  open(waiting: WaitingTunnel[]): void {
    for (const tunnel of waiting) if (!this.#open.has(tunnel.id)) this.#join(tunnel)
  }

  /** An agent without the lease must not serve them. */
  async closeAll(): Promise<void> {
    const links = [...this.#open.values()]
    for (const link of links) link.abandon('agent_stopped')
    for (let i = 0; i < 20 && this.#open.size > 0; i++) await delay(50)
  }

  #join(tunnel: WaitingTunnel): void {
    const lease = this.#options.currentLease()
    if (!lease) return
    const socket = this.#options.openSocket(tunnel.id, lease)
    let served: Served | undefined
    let isClosed = false
    const link = new TunnelLink(socket, {
      onFrame: frame => served?.onFrame(frame),
      onClose: () => {
        isClosed = true
        void Promise.resolve(served?.close()).finally(() => this.#open.delete(tunnel.id))
      },
    })
    this.#open.set(tunnel.id, link)
    socket.addEventListener('open', async () => {
      try {
        served = await this.#serve(tunnel, link)
        if (isClosed) served.close()
      } catch (error) {
        const detail = error instanceof PermanentError ? error.message : UNEXPECTED
        link.send(encodeJson(channels.error, { code: 'not_started', detail }))
        link.close('not_started')
      }
    })
  }

  async #serve({ id, terminal, forward, ...ref }: WaitingTunnel, link: TunnelLink): Promise<Served> {
    const { engine } = this.#options
    if (terminal && engine.openTerminal) return serveTerminal(await engine.openTerminal(ref, id, terminal), link)
    if (forward?.snapshot_id)
      return serveForward(this.#options.openSnapshot(ref.deployment_id, forward.snapshot_id), link)
    if (forward && engine.openForward) return serveForward(await engine.openForward(ref, forward), link)
    throw new PermanentError(UNSUPPORTED)
  }
}

function serveTerminal(terminal: Terminal, link: TunnelLink): Served {
  const { input, output, errors, exit } = terminal
  // The command may end while there is input for it.
  input.on('error', () => {})
  link.send(encodeJson(channels.ready, {}))
  link.readFrom(output)
  if (errors) link.readFrom(errors, 0, channels.errors)
  link.writeTo(input)
  void exit.then(async how => {
    await untilRead([output, ...(errors ? [errors] : [])], link)
    link.send(encodeJson(channels.exit, how))
    link.close()
  })
  return {
    onFrame({ channel, payload }) {
      if (channel === channels.resize) {
        const { data } = Size.safeParse(parseJson(payload))
        if (data) terminal.resize(data)
      } else if (channel === channels.signal) terminal.signal(readText(payload))
    },
    close: () => terminal.close(),
  }
}

/** A process in the background may keep an output open: then its silence is the end. */
async function untilRead(outputs: Readable[], link: TunnelLink): Promise<void> {
  const isEnded = () => outputs.every(output => output.readableEnded || output.destroyed)
  let count = 0
  for (const output of outputs) output.on('data', () => count++)
  for (let before = -1; !isEnded() && before !== count; ) {
    await link.drained()
    before = count
    await Promise.race([Promise.all(outputs.map(untilEnd)), delay(OUTPUT_MS, undefined, { ref: false })])
  }
  await link.drained()
}

const untilEnd = (output: Readable): Promise<void> =>
  new Promise(resolve => {
    if (output.readableEnded || output.destroyed) resolve()
    else output.once('close', resolve).once('end', resolve)
  })

function serveForward(target: ForwardTarget, link: TunnelLink): Served {
  const { store, connect } = target
  const connections = new Map<number, Duplex>()
  /** A client may close and open a stream again and again while it connects: one attempt at a time. */
  const opening = new Map<number, { isWanted: boolean }>()
  let isClosed = false
  link.send(encodeJson(channels.ready, store ? { store } : {}))
  const drop = (stream: number, reason = '') => {
    connections.get(stream)?.destroy()
    connections.delete(stream)
    link.forget(stream)
    link.send(encodeText(channels.reset, reason, stream))
  }
  const open = async (stream: number) => {
    const attempt = { isWanted: true }
    opening.set(stream, attempt)
    try {
      const connection = await connect().finally(() => opening.delete(stream))
      // A pair of streams that is destroyed emits an error, which nobody else may listen to yet.
      connection.on('error', () => {})
      if (isClosed || !attempt.isWanted) return void connection.destroy()
      connections.set(stream, connection)
      connection.on('error', error => connections.get(stream) === connection && drop(stream, error.message))
      connection.once('end', () => link.end(stream))
      connection.once('close', async () => {
        await link.drained(stream)
        if (connections.get(stream) === connection) drop(stream)
      })
      link.readFrom(connection, stream)
      link.writeTo(connection, stream)
    } catch (error) {
      if (attempt.isWanted) drop(stream, error instanceof PermanentError ? error.message : 'Nothing listens there.')
    }
  }
  return {
    onFrame({ channel, stream }) {
      if (stream < 1 || stream > MAX_STREAMS) return
      if (channel === channels.open && opening.has(stream)) drop(stream, 'It is still closing. Retry in a moment.')
      else if (channel === channels.open && !connections.has(stream)) void open(stream)
      else if (channel === channels.reset) {
        const attempt = opening.get(stream)
        if (attempt) attempt.isWanted = false
        connections.get(stream)?.destroy()
        connections.delete(stream)
        link.forget(stream)
      }
    },
    close() {
      isClosed = true
      for (const connection of connections.values()) connection.destroy()
      connections.clear()
    },
  }
}

// The relay: joins the socket of a client with that of an agent, checks and bounds what goes through, and ends it.
// It buffers a bounded number of bytes of each end.
import { sql } from 'drizzle-orm'
import { run, runAsSystem } from '../../kernel/db/db.ts'
import { journalTenantEvents, setSystemSettings } from '../../kernel/db/journal.ts'
import { verb } from '../../kernel/http/context.ts'
import { Failure, isDatabaseUnavailable } from '../../kernel/http/errors.ts'
import { configuredOrigin } from '../../kernel/http/origin.ts'
import type { Services } from '../../kernel/http/routes.ts'
import type { Socket, TunnelEnd } from '../../platform.ts'
import {
  channels,
  decodeFrame,
  type Exit,
  encodeFrame,
  encodeJson,
  type Frame,
  isData,
  MAX_STREAMS,
  PING_MS,
  parseJson,
  readCredit,
  type Side,
  WINDOW_BYTES,
} from '../../protocol/tunnel-frames.ts'
import { callerOf } from './tunnels.ts'

/** An end that sends nothing for this long is dead: it answers pings. */
const SILENCE_MS = 3 * PING_MS
/** While the database cannot be reached, a tunnel goes on for this long without a check. */
const MAX_UNCHECKED_MS = 60_000
/** Frames of a client that wait for its agent: those of one window, in the smallest useful pieces. */
const MAX_EARLY_FRAMES = 1000
const MAX_EARLY_BYTES = 2 * WINDOW_BYTES
/** The bytes of one end that the other has not taken yet. Above it, no more is read. */
const MAX_WAITING_BYTES = WINDOW_BYTES
/** RFC 6455: normal, policy violation, and a protocol error. */
const CLOSE = { done: 1000, refused: 1008, invalid: 1002 } as const

type EndReason = keyof typeof REASONS | Failure['code']
/** The reasons of the relay itself. All others are codes of the API. */
const REASONS = {
  finished: 'The command has ended.',
  closed: 'The client has closed it.',
  not_started: 'The agent could not start it.',
  agent_lost: 'The connection to the agent has ended.',
  agent_unreachable: 'The agent did not answer. Check that it runs, and that it can open WebSockets to this address.',
  lease_lost: 'Another agent has taken over.',
  idle: 'Nothing was sent for too long.',
  too_long: 'It has lasted as long as it may. Open another one.',
  invalid_frame: 'The other end has sent what it must not. Update it.',
  stopping: 'The control plane restarts. Open another one.',
} as const

type Peer = {
  socket: Socket
  heardAt: number
  /** It takes silence for a lost connection, also while it sends. */
  toldAt: number
  /** The bytes that it has sent, and that are not on their way to the other end yet. */
  waiting: number
}
type Tunnel = {
  end: TunnelEnd & { side: 'client' }
  client: Peer
  agent: Peer | undefined
  early: Uint8Array<ArrayBuffer>[]
  earlyBytes: number
  /** The streams of a forwarding. */
  streams: Set<number>
  /** The bytes that the receiver of a stream has not consumed, by sender and stream. */
  unconsumed: Record<Side, Map<number, number>>
  bytes: Record<Side, number>
  startedAt: number
  movedAt: number
  checkedAt: number
  isChecking: boolean
  exit: Exit | undefined
  /** The agent has said why it could not start. */
  hasFailed: boolean
}

export function createPairs(services: Services) {
  const { platform } = services
  const limits = platform.tunnelLimits
  const tunnels = new Map<string, Tunnel>()
  let timer: ReturnType<typeof setInterval> | undefined
  platform.stopping?.addEventListener('abort', () => {
    for (const [id, tunnel] of tunnels) end(id, tunnel, 'stopping')
  })

  /** Adds a socket that a route has authorized. */
  function attach(joined: TunnelEnd, socket: Socket): void {
    const now = Date.now()
    const peer: Peer = { socket, heardAt: now, toldAt: now, waiting: 0 }
    const { tunnel_id: id } = joined
    if (joined.side === 'client') {
      const tunnel: Tunnel = {
        end: joined,
        client: peer,
        agent: undefined,
        early: [],
        earlyBytes: 0,
        streams: new Set(),
        unconsumed: { client: new Map(), agent: new Map() },
        bytes: { client: 0, agent: 0 },
        startedAt: now,
        movedAt: now,
        checkedAt: now,
        isChecking: false,
        exit: undefined,
        hasFailed: false,
      }
      tunnels.set(id, tunnel)
      timer ??= setInterval(tick, Math.min(1000, limits.checkMs, limits.idleMs, limits.joinMs))
      listen(id, tunnel, 'client', peer)
      return
    }
    const tunnel = tunnels.get(id)
    if (!tunnel || tunnel.agent) {
      socket.close(CLOSE.refused, 'tunnel_not_found')
      return
    }
    tunnel.agent = peer
    listen(id, tunnel, 'agent', peer)
    for (const message of tunnel.early.splice(0)) socket.send(message)
  }

  function listen(id: string, tunnel: Tunnel, side: Side, peer: Peer): void {
    peer.socket.onMessage(message => {
      if (tunnels.get(id) !== tunnel) return
      peer.heardAt = Date.now()
      const frame = decodeFrame(message, side)
      if (!frame || !account(tunnel, side, frame)) return end(id, tunnel, 'invalid_frame')
      if (frame.channel === channels.pong) return
      // A view of a larger buffer would keep that in memory.
      const copy = new Uint8Array(message)
      const to = side === 'agent' ? tunnel.client : tunnel.agent
      if (to) return carry(peer, to, copy)
      tunnel.earlyBytes += copy.length
      if (tunnel.early.push(copy) > MAX_EARLY_FRAMES || tunnel.earlyBytes > MAX_EARLY_BYTES)
        end(id, tunnel, 'invalid_frame')
    })
    peer.socket.onClose(() => {
      if (tunnels.get(id) !== tunnel) return
      const ofAgent = tunnel.hasFailed ? 'not_started' : 'agent_lost'
      end(id, tunnel, tunnel.exit ? 'finished' : side === 'client' ? 'closed' : ofAgent)
    })
  }

  /** An end that reads slowly fills no memory: the other end is not read meanwhile. */
  function carry(from: Peer, to: Peer, message: Uint8Array<ArrayBuffer>): void {
    to.toldAt = Date.now()
    from.waiting += message.length
    if (from.waiting > MAX_WAITING_BYTES) from.socket.pause?.()
    to.socket.send(message, () => {
      const wasFull = from.waiting > MAX_WAITING_BYTES
      from.waiting -= message.length
      if (wasFull && from.waiting <= MAX_WAITING_BYTES) from.socket.resume?.()
    })
  }

  /** Counts the bytes of a frame. False for more than the receiver has room for. */
  function account(tunnel: Tunnel, side: Side, { channel, stream, payload }: Frame): boolean {
    if (isData(channel)) {
      const waiting = (tunnel.unconsumed[side].get(stream) ?? 0) + payload.length
      tunnel.unconsumed[side].set(stream, waiting)
      tunnel.bytes[side] += payload.length
      tunnel.movedAt = Date.now()
      return waiting <= WINDOW_BYTES
    }
    if (channel === channels.credit) {
      const sent = tunnel.unconsumed[side === 'client' ? 'agent' : 'client']
      sent.set(stream, Math.max(0, (sent.get(stream) ?? 0) - readCredit(payload)))
    }
    if (channel === channels.reset) tunnel.streams.delete(stream)
    if (channel === channels.open) {
      // Otherwise its count would begin again while its bytes wait.
      if (stream === 0 || tunnel.streams.has(stream)) return false
      tunnel.streams.add(stream)
      for (const map of Object.values(tunnel.unconsumed)) map.delete(stream)
    }
    if (channel === channels.error) tunnel.hasFailed = true
    if (channel === channels.exit) tunnel.exit = parseJson<Exit>(payload)
    return tunnel.unconsumed[side].size <= MAX_STREAMS + 1
  }

  function tick(): void {
    const now = Date.now()
    for (const [id, tunnel] of tunnels) {
      const { client, agent, startedAt, movedAt, checkedAt } = tunnel
      if (!agent && now - startedAt > limits.joinMs) end(id, tunnel, 'agent_unreachable')
      else if (now - movedAt > limits.idleMs) end(id, tunnel, 'idle')
      else if (now - startedAt > limits.lifeMs) end(id, tunnel, 'too_long')
      else if (now - client.heardAt > SILENCE_MS) end(id, tunnel, 'closed')
      else if (agent && now - agent.heardAt > SILENCE_MS) end(id, tunnel, 'agent_lost')
      else {
        for (const peer of [client, agent]) {
          if (!peer || now - Math.min(peer.heardAt, peer.toldAt) <= PING_MS) continue
          peer.toldAt = now
          peer.socket.send(encodeFrame(channels.ping))
        }
        if (now - checkedAt > limits.checkMs && !tunnel.isChecking) void check(id, tunnel)
      }
    }
    if (tunnels.size > 0) return
    clearInterval(timer)
    timer = undefined
  }

  /** Acts as the caller who asked for it, so all that would refuse a request of theirs ends the tunnel. */
  async function check(id: string, tunnel: Tunnel): Promise<void> {
    tunnel.isChecking = true
    try {
      const openRequest = { requestId: `tunnel-${id}`, origin: configuredOrigin(services.config), request: null }
      const reason = await checkTunnel(callerOf(services, tunnel.end, openRequest), { id, bytes: tunnel.bytes })
      tunnel.checkedAt = Date.now()
      if (reason) end(id, tunnel, reason)
    } catch (error) {
      const isLate = Date.now() - tunnel.checkedAt > MAX_UNCHECKED_MS
      if (error instanceof Failure && !isDatabaseUnavailable(error)) end(id, tunnel, error.code)
      else if (isLate) end(id, tunnel, 'database_unavailable')
    } finally {
      tunnel.isChecking = false
    }
  }

  function end(id: string, tunnel: Tunnel, reason: EndReason): void {
    if (tunnels.get(id) !== tunnel) return
    tunnels.delete(id)
    const code = reason === 'invalid_frame' ? CLOSE.invalid : reason === 'finished' ? CLOSE.done : CLOSE.refused
    if (!['finished', 'closed', 'not_started'].includes(reason)) {
      const detail = reason in REASONS ? REASONS[reason as keyof typeof REASONS] : 'The access to it has ended.'
      tunnel.client.socket.send(encodeJson(channels.error, { code: reason, detail }))
    }
    tunnel.client.socket.close(code, reason)
    tunnel.agent?.socket.close(code, reason)
    const work = recordEnd(services, id, tunnel, reason).catch(error =>
      // The sweep ends it.
      platform.log({ level: 'error', notice: 'The end of a tunnel was not recorded.', error: String(error) }),
    )
    platform.waitUntil(work, undefined)
  }

  return { attach, open: () => tunnels.size }
}

type CheckedTunnel = { id: string; bytes: Record<Side, number> }

/** Returns the reason why the tunnel must end. Throws the refusal of its caller. */
const checkTunnel = verb(
  'deployments:exec',
  async (ctx, { id, bytes }: CheckedTunnel): Promise<EndReason | undefined> => {
    const [row] = await run(
      ctx,
      sql<[isDeleted: boolean, isLeased: boolean]>`
        update tunnels t
        set seen_at = clock(), bytes_in = ${bytes.client}, bytes_out = ${bytes.agent}
        from deployments d
        where t.id = ${id}::uuid
          and t.tenant_id = current_tenant()
          and t.ended_at is null
          and d.id = t.deployment_id
          and d.tenant_id = t.tenant_id
        returning
          d.deleting_at is not null,
          t.fence is null or is_lease_held(t.listener_id, t.fence)`,
    )
    if (!row) return 'deployment_not_found'
    const [isDeleted, isLeased] = row
    return isDeleted ? 'deployment_deleting' : isLeased ? undefined : 'lease_lost'
  },
)

/** The event of a tunnel that has ended: a row of `ended`. */
const END_EVENTS = sql`
    select tenant_id, organization_id, 'tunnel.ended'::text as type, id as subject_id,
      json_build_object(
        'deployment_id', deployment_id,
        'kind', case when is_terminal then 'terminal' else 'forward' end,
        'reason', end_reason,
        'seconds', case when joined_at is not null then extract(epoch from ended_at - joined_at)::integer end,
        'bytes_in', bytes_in,
        'bytes_out', bytes_out,
        'exit_code', exit_code,
        'signal', exit_signal) as data,
      null::json as changes
    from (select ended.*) one`
const ACTOR = sql`ended.actor_kind, ended.actor_id, ended.actor_name`
/** Journals the end of each row of `ended`. */
export const journalEnds = journalTenantEvents(END_EVENTS, { actor: ACTOR })

async function recordEnd(
  services: Services,
  id: string,
  { bytes, exit }: Pick<Tunnel, 'bytes' | 'exit'>,
  reason: string,
): Promise<void> {
  // An agent may say anything.
  const code = Number.isInteger(exit?.code) && Math.abs(exit!.code!) < 2 ** 31 ? exit!.code : null
  const signal = /^[\w ]{1,20}$/.test(String(exit?.signal ?? '')) ? exit!.signal : null
  await runAsSystem(
    services.database,
    setSystemSettings(services.platform, `tunnel-${id}`),
    sql`
      with ended as (
        update tunnels
        set ended_at = clock(), end_reason = ${reason}, request = null, exit_code = ${code}, exit_signal = ${signal},
          bytes_in = ${bytes.client}, bytes_out = ${bytes.agent}
        where id = ${id}::uuid and ended_at is null
        returning *)
      select ${journalEnds}
      from ended`,
  )
}

// Cloudflare Workers: one app per isolate, its bindings, and the scheduled work.
import { createApp } from '../app.ts'
import { type AssetBinding, createBoundFiles } from '../dashboard/served/asset-binding.ts'
import { readConfig } from '../env.ts'
import { type Bucket, createBucketStorage } from '../kernel/db/storage.ts'
import { settingsErrorResponse } from '../kernel/http/errors.ts'
import { loadOnce } from '../kernel/http/load-once.ts'
import {
  createClock,
  EXCHANGE_MS,
  type Execution,
  type Platform,
  type RateLimiter,
  type Relay,
  TUNNEL_LIMITS,
} from '../platform.ts'
import { lookForAMinute } from './schedule.ts'
import type { RelayBinding } from './workers-relay.ts'

type Env = Record<string, unknown>
type Context = Execution & { passThroughOnException(): void; props: unknown }

const MIB = 1024 * 1024

declare const FixedLengthStream: new (
  bytes: number,
) => { readable: ReadableStream<Uint8Array>; writable: WritableStream<Uint8Array> }

/** workerd sends a stream in chunks, which some servers refuse, unless it is one of a known length. */
const fetchWithLength: typeof fetch = (input, init) => {
  const declared = new Headers(init?.headers).get('Content-Length')
  if (declared === null || !(init?.body instanceof ReadableStream)) return fetch(input, init)
  const { readable, writable } = new FixedLengthStream(Number(declared))
  // The request fails then, too.
  init.body.pipeTo(writable).catch(() => {})
  return fetch(input, { ...init, body: readable })
}

const loadRelay = () => import('./workers-relay.ts')
/** The answers that open the sockets which routes have taken. */
const sockets = new WeakMap<Request, Response>()
const createRelay = (binding: RelayBinding): Relay => ({
  // Each instance reaches every durable object.
  instance: 'workers',
  address: null,
  async accept(request, end) {
    const { passToObject } = await loadRelay()
    sockets.set(request, await passToObject(binding, request, end))
  },
  pass: async () => {},
})

export function createWorkersPlatform(env: Env): Platform {
  const ingestion = env.INGESTION_RATE_LIMITER as RateLimiter | undefined
  return {
    storage: env.UPLOADS ? createBucketStorage(env.UPLOADS as Bucket) : undefined,
    assets: env.ASSETS ? createBoundFiles(env.ASSETS as AssetBinding) : undefined,
    limiters: { key: env.RATE_LIMITER as RateLimiter | undefined, ingestion, deployment: ingestion },
    waitUntil: (work, execution) => execution!.waitUntil(work),
    clock: createClock(),
    // Cloudflare overwrites this header, so a client cannot forge it.
    clientAddress: ({ req }) => req.header('CF-Connecting-IP'),
    // Cloudflare's network reaches public addresses only. With workerd, `network.allow` has to say so.
    foreignFetch: fetchWithLength,
    log: line => console.log(JSON.stringify(line)),
    exchangeMs: EXCHANGE_MS,
    relay: env.RELAY ? createRelay(env.RELAY as RelayBinding) : undefined,
    tunnelLimits: TUNNEL_LIMITS,
    // A request may make 50 of its own.
    liveStreams: { seconds: 900, trips: 45, perKey: 100, lookMs: [1000, 5000], keyCheckMs: 15_000 },
    // An isolate has 128 MB for everything, and text takes up to four times the bytes until it is stored.
    rawBodies: { wireBytes: 16 * MIB, bytes: 16 * MIB, heldBytes: 24 * MIB },
    answerBytes: 32 * MIB,
    // Each takes three of the 50 requests.
    deliveriesPerRequest: 12,
  }
}

let app: ReturnType<typeof createApp> | undefined
const appFor = (env: Env) => (app ??= createApp(readConfig(env), createWorkersPlatform(env)))

export default {
  async fetch(request: Request, env: Env, context: Context) {
    try {
      const response = await appFor(env).fetch(request, env, context)
      return sockets.get(request) ?? response
    } catch (error) {
      return settingsErrorResponse(error)
    }
  },
  scheduled: (_event: unknown, env: Env, context: Context) => {
    const { housekeep, look } = appFor(env)
    context.waitUntil(housekeep())
    context.waitUntil(lookForAMinute(look))
  },
}

/** The durable object of one tunnel, in which the sockets of its client and of its agent meet. */
export class TunnelRelay {
  readonly #open: () => Promise<(request: Request) => Promise<Response>>
  constructor(state: Execution, env: Env) {
    this.#open = loadOnce(async () => (await loadRelay()).createTunnelObject(state, appFor(env).services))
  }
  fetch = async (request: Request): Promise<Response> => (await this.#open())(request)
}

// Instances of the control plane, each a process of its own, and a client that takes them in turn as a load balancer
// does: it sends to those that are ready, and sends a request that was refused a connection to the next one.
import { once } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'
import { findFreePort } from '../../../src/postgres/free-port.ts'
import { startScript } from './instance.ts'
import type { Cleanup, StartedProcess } from './processes.ts'
import { makeTempFolder } from './workerd.ts'

const LOOK_MS = 100
/** A client that stands still for so long may send on a connection that the server has closed as idle, after 5 s. */
const STALL_MS = 4000
const START_TIMEOUT_MS = 60_000
type Span = { from: number; until: number }

export type Instance = {
  name: string
  url: string
  isRunning: boolean
  /** The client sends to it. */
  isReady: boolean
  /** Each from the signal until the process has ended, and with it all its connections. */
  kills: Span[]
  end(signal: 'SIGKILL' | 'SIGTERM'): Promise<number | null>
  start(): Promise<void>
}
type Failure = { instance: Instance; sentAt: number; failedAt: number; error: string }

export type Fleet = Awaited<ReturnType<typeof startFleet>>

/** `names` are scripts of package.json, such as `start`, one for each instance. */
export async function startFleet(cleanup: Cleanup, names: string[], env: Record<string, string>) {
  const common = { HOST: '127.0.0.1', UPLOADS_DIR: await makeTempFolder(cleanup), ...env }
  const openInstance = async (script: string, number: number): Promise<Instance> => {
    const port = await findFreePort()
    let child: StartedProcess['child'] | undefined
    const instance: Instance = {
      name: `${number + 1} (${script})`,
      url: `http://127.0.0.1:${port}`,
      isRunning: false,
      isReady: false,
      kills: [],
      async start() {
        const command = startScript(cleanup, script, { ...common, PORT: String(port) })
        child = command.child
        await Promise.race([waitUntilReady(instance), command.broken])
        instance.isRunning = instance.isReady = true
      },
      async end(signal) {
        const kill = { from: Date.now(), until: Number.POSITIVE_INFINITY }
        if (signal === 'SIGKILL') instance.kills.push(kill)
        const ended = once(child!, 'exit')
        process.kill(child!.pid!, signal)
        const [code] = await ended
        kill.until = Date.now()
        instance.isRunning = instance.isReady = false
        return code
      },
    }
    await instance.start()
    return instance
  }
  const instances = await Promise.all(names.map(openInstance))

  // Health checks of a load balancer: an instance that answers no more, or says so, gets nothing new.
  let isOver = false
  const looking = Promise.all(
    instances.map(async instance => {
      while (!isOver) {
        const answers = instance.isRunning && (await isReady(instance.url))
        instance.isReady = answers && instance.isRunning
        await delay(LOOK_MS)
      }
    }),
  )
  const stalls: Span[] = []
  let lastSeen = Date.now()
  const clock = setInterval(() => {
    if (Date.now() - lastSeen > STALL_MS) stalls.push({ from: lastSeen, until: Date.now() })
    lastSeen = Date.now()
  }, LOOK_MS)
  cleanup.defer(async () => {
    isOver = true
    clearInterval(clock)
    await looking
  })

  const failures: Failure[] = []
  let refused = 0
  let turn = 0
  async function pick(): Promise<Instance> {
    for (;;) {
      const ready = instances.filter(one => one.isReady)
      if (ready.length > 0) return ready[turn++ % ready.length]!
      await delay(LOOK_MS / 10)
    }
  }
  const addressOf = (instance: Instance, url: string) => instance.url + url.slice(new URL(url).origin.length)

  /** Until its headers are there. A connection that was refused has sent nothing. */
  async function open(request: Request): Promise<{ instance: Instance; response: Response }> {
    const body = request.method === 'GET' ? null : await request.text()
    for (;;) {
      const instance = await pick()
      const sentAt = Date.now()
      try {
        const { method, headers, signal } = request
        const url = addressOf(instance, request.url)
        return { instance, response: await fetch(url, { method, headers, body, signal }) }
      } catch (error) {
        if (request.signal.aborted) throw error
        instance.isReady = false
        if ((error as { cause?: { code?: string } }).cause?.code !== 'ECONNREFUSED') {
          failures.push({ instance, sentAt, failedAt: Date.now(), error: describe(error) })
          throw error
        }
        refused++
      }
    }
  }

  return {
    instances,
    open,
    /** A connection that was cut counts as a 503, so that clients send the request again. */
    async fetch(request: Request): Promise<Response> {
      const sentAt = Date.now()
      let instance: Instance | undefined
      try {
        const opened = await open(request)
        instance = opened.instance
        const { status, headers } = opened.response
        const text = await opened.response.text()
        return new Response(text || null, { status, headers })
      } catch (error) {
        if (instance) failures.push({ instance, sentAt, failedAt: Date.now(), error: describe(error) })
        return Response.json({ code: 'connection_cut' }, { status: 503, headers: { 'Retry-After': '1' } })
      }
    },
    refused: () => refused,
    failures,
    stalls,
    /** Requests on a connection that no kill has cut. */
    listUnexplained: () =>
      failures.filter(failure => ![...failure.instance.kills, ...stalls].some(span => wasOpenIn(span, failure))),
    kills: () => instances.flatMap(({ kills }) => kills.map(({ from }) => from)),
  }
}

const wasOpenIn = ({ from, until }: Span, { sentAt, failedAt }: Failure): boolean =>
  sentAt <= until + LOOK_MS && failedAt >= from

const describe = (error: unknown): string => {
  const { message, cause } = error as { message: string; cause?: { code?: string } }
  return `${message} ${cause?.code ?? ''}`.trim()
}

const isReady = async (url: string): Promise<boolean> =>
  fetch(`${url}/readyz`)
    .then(async response => {
      await response.text()
      return response.ok
    })
    .catch(() => false)

async function waitUntilReady({ name, url }: Instance): Promise<void> {
  for (let waited = 0; waited < START_TIMEOUT_MS; waited += LOOK_MS) {
    if (await isReady(url)) return
    await delay(LOOK_MS)
  }
  throw new Error(`Instance ${name} does not answer.`)
}

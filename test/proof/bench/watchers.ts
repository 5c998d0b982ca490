// P20: what those who wait for events of one workspace ask of the database together, while nothing happens and while
// events are written twice a second.
import { setTimeout as delay } from 'node:timers/promises'
import { createHost } from '../../../src/host/host.ts'
import { bootstrap } from '../../../src/people/access/bootstrap.ts'
import type { Bench, BenchContext } from '../support/bench-context.ts'
import { SETTINGS } from '../support/database.ts'
import { formatNumber, median } from '../support/statistics.ts'

const [WATCHERS, SECONDS, EVENTS_PER_SECOND, PER_KEY, BATCH] = [1000, 5, 2, 100, 25]
const TARGET = 2

export default {
  id: 'P20',
  what: `queries a second of ${WATCHERS} watchers of one workspace on Node, idle and while events are written`,
  target: `≤ ${TARGET}`,
  async run(context: BenchContext) {
    const { url } = await context.database()
    let trips = 0
    const { app, close } = createHost(
      { ...SETTINGS, DATABASE_URL: url },
      { log: () => {} },
      { onTrip: () => void trips++ },
    )
    context.defer(close)
    const workspace = { organization: 'Bench', workspace: 'Watched' }
    const { api_key } = await bootstrap(app.database, workspace)
    const keys = [api_key]
    while (keys.length * PER_KEY < WATCHERS) keys.push((await bootstrap(app.database, workspace)).api_key)
    const send = (path: string, key: string, init: RequestInit = {}) =>
      app.fetch(new Request(`http://bench${path}`, { ...init, headers: { 'X-Api-Key': key, ...init.headers } }))
    const json = { 'Content-Type': 'application/json', 'If-Match': '*' }
    const made = await send('/v2/tag-keys', api_key, { method: 'POST', headers: json, body: '{"key":"watched"}' })
    const { id } = (await made.json()) as { id: string }
    const write = (i: number) => {
      const body = JSON.stringify({ key: `watched-${i % 2}` })
      return send(`/v2/tag-keys/${id}`, api_key, { method: 'PATCH', headers: json, body })
    }

    /** Trips a second, and the median time from a write to its event, over all watchers. */
    async function measure(watchers: number, writesPerSecond: number) {
      const written = new Map<number, number>()
      const waits: number[] = []
      const open = async (i: number) => {
        const follow = () => send('/v2/events/stream', keys[i % keys.length]!)
        let response = await follow()
        // On a busy machine the database takes too long for some. A client comes back, too.
        for (; response.status === 503; response = await follow()) await delay(1000)
        const reader = response.body!.getReader()
        const decoder = new TextDecoder()
        const read = async () => {
          for (let chunk = await reader.read(); !chunk.done; chunk = await reader.read())
            for (const [, number] of decoder.decode(chunk.value).matchAll(/^id: (\d+)\nevent: message/gm))
              waits.push(performance.now() - (written.get(Number(number)) ?? Number.NaN))
        }
        const reading = read()
        return () => reader.cancel().then(() => reading)
      }
      const closers: (() => Promise<void>)[] = []
      for (let i = 0; i < watchers; i += BATCH) {
        const batch = Array.from({ length: Math.min(BATCH, watchers - i) }, (_, k) => open(i + k))
        closers.push(...(await Promise.all(batch)))
      }
      await delay(2000)
      const newest = async () =>
        (
          (await (await send('/v2/events?order=desc&limit=1', api_key)).json()) as {
            next_after: number
            resources: { number: number }[]
          }
        ).resources[0]!.number
      let number = await newest()
      const [before, start] = [trips, performance.now()]
      let writes = 0
      while (performance.now() - start < SECONDS * 1000) {
        if (writesPerSecond > 0) {
          await write(writes++)
          written.set(++number, performance.now())
        }
        await delay(writesPerSecond > 0 ? 1000 / writesPerSecond : 1000)
      }
      const perSecond = (trips - before - writes) / ((performance.now() - start) / 1000)
      await delay(1500)
      for (const end of closers) await end()
      return { perSecond, writes, waits: waits.filter(wait => !Number.isNaN(wait)) }
    }

    context.progress(`${WATCHERS} watchers`)
    const cpu = process.cpuUsage()
    const all = { idle: await measure(WATCHERS, 0), busy: await measure(WATCHERS, EVENTS_PER_SECOND) }
    const { user, system } = process.cpuUsage(cpu)
    const worst = Math.max(all.idle.perSecond, all.busy.perSecond)
    const isComplete = all.busy.waits.length === all.busy.writes * WATCHERS
    return {
      measured: `${formatNumber(all.idle.perSecond)} and ${formatNumber(all.busy.perSecond)}`,
      met: worst <= TARGET && isComplete,
      notes: [
        `${keys.length} keys; ${all.busy.waits.length} of ${all.busy.writes * WATCHERS} events arrived`,
        `from a write to its event: ${formatNumber(median(all.busy.waits), 0)} ms (median)`,
        `${formatNumber((user + system) / 1e6, 1)} s of CPU for ${WATCHERS} watchers in ${2 * SECONDS} s`,
      ],
      figures: {
        all: { idle: all.idle.perSecond, busy: all.busy.perSecond },
        delivery_ms: median(all.busy.waits),
      },
    }
  },
} satisfies Bench

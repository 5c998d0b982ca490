// P16: a list of five thousand repositories, fifty pages of a git host that is 50 ms away, without and with a cached
// listing.
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { sql } from 'drizzle-orm'
import { createHost } from '../../../src/host/host.ts'
import { MAX_CONCURRENT_REQUESTS } from '../../../src/hosting/git-hosts/request.ts'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { makeGithub, makeRepositories } from '../../support/fake-git-hosts.ts'
import type { Bench, BenchContext } from '../support/bench-context.ts'
import { SETTINGS } from '../support/database.ts'
import { GITHUB_SETTINGS } from '../support/github-settings.ts'
import { formatNumber, median, SLICES } from '../support/statistics.ts'

const [REPOSITORIES, PADDING, HOST_LATENCY_MS, SAMPLE_MS] = [5000, 4800, 50, 20]
const TARGETS = { requests: 51, ms: 1000, megabytes: 64 }

export default {
  id: 'P16',
  what: `listing ${REPOSITORIES} repositories of a git host ${HOST_LATENCY_MS} ms away: requests; time; memory`,
  target: `${TARGETS.requests}; ≤ ${formatNumber(TARGETS.ms / 1000, 1)} s; ≤ ${TARGETS.megabytes} MB`,
  async run(context: BenchContext) {
    const { url, tenant } = await context.database()
    const host = makeCachedHost()
    const { app, close } = createHost(
      { ...SETTINGS, ...GITHUB_SETTINGS, DATABASE_URL: url },
      { log: () => {}, foreignFetch: host.fetch },
    )
    context.defer(close)
    const id = crypto.randomUUID()
    const insert = sql`
      insert into integrations (id, organization_id, tenant_id, host, base_url, installation_id, account_id, name)
      values (${id}::uuid, ${tenant.organization_id}::uuid, ${tenant.tenant_id}::uuid, 'github', 'https://github.com',
        '1', '1', 'acme')`
    await runAsSystem(app.database, insert)
    const headers = { 'X-Api-Key': tenant.api_key, 'X-Tenant-Id': tenant.tenant_id }
    const list = async () => {
      const before = host.requestCount()
      const start = performance.now()
      const answer = await app.request(`/v1/integrations/forge/githost/${id}/repos`, { headers })
      const { length } = (await answer.json()) as unknown[]
      if (length !== REPOSITORIES) throw new Error(`${length} repositories listed, status ${answer.status}`)
      return { ms: performance.now() - start, requests: host.requestCount() - before }
    }
    const clearCache = () =>
      runAsSystem(app.database, sql`delete from integration_listings`, sql`update integrations set token = null`)
    const expireCache = () => runAsSystem(app.database, sql`update integration_listings set fetched_at = 'epoch'`)

    context.progress('warming up')
    await list()
    const [uncached, revalidated, megabytes]: [ListTiming[], ListTiming[], number[]] = [[], [], []]
    for (let slice = 1; slice <= SLICES; slice++) {
      context.progress(`slice ${slice} of ${SLICES}`)
      await clearCache()
      uncached.push(await list())
      await expireCache()
      revalidated.push(await list())
      await clearCache()
      megabytes.push(await measureLiveMegabytes(list))
    }
    const [ms, conditional, memory] = [getMedian(uncached, 'ms'), getMedian(revalidated, 'ms'), median(megabytes)]
    const [requests, unchanged] = [getMedian(uncached, 'requests'), getMedian(revalidated, 'requests')]
    return {
      measured: `${requests}; ${formatNumber(ms / 1000)} s; ${formatNumber(memory, 0)} MB`,
      met: requests <= TARGETS.requests && ms <= TARGETS.ms && memory <= TARGETS.megabytes,
      notes: [
        `50 pages and one token, ${MAX_CONCURRENT_REQUESTS} requests at once`,
        `with a cached listing: ${unchanged} requests, answered by 304, in ${formatNumber(conditional / 1000)} s`,
      ],
      figures: { requests, ms, conditional, memory, uncached, revalidated, megabytes },
    }
  },
} satisfies Bench

type ListTiming = { ms: number; requests: number }
const getMedian = (timings: ListTiming[], member: keyof ListTiming) => median(timings.map(timing => timing[member]))

/** It caches its pages, so that its own work and memory are not measured. */
function makeCachedHost() {
  const host = makeGithub('https://github.com', { padding: PADDING })
  host.installations.set(1, { account: { id: 1, login: 'acme' }, repositories: makeRepositories(REPOSITORIES) })
  const pages = new Map<string, { bytes: Uint8Array<ArrayBuffer>; headers: Headers }>()
  let requestCount = 0
  const respond = async (input: Request | string | URL, init?: RequestInit): Promise<Response> => {
    requestCount++
    await new Promise(resolve => setTimeout(resolve, HOST_LATENCY_MS))
    const request = new Request(input, init)
    const { origin, pathname } = new URL(request.url)
    const site = host.sites[origin] as (request: Request) => Promise<Response>
    if (pathname !== '/installation/repositories') return site(request)
    const page = pages.get(request.url)
    const headers = page && { ...Object.fromEntries(page.headers), ETag: `"${pathname}"` }
    if (page) {
      const isUnchanged = request.headers.get('If-None-Match') === `"${pathname}"`
      return isUnchanged
        ? new Response(null, { status: 304, headers: headers! })
        : new Response(page.bytes, { headers: headers! })
    }
    const answer = await site(request)
    pages.set(request.url, { bytes: new Uint8Array(await answer.arrayBuffer()), headers: answer.headers })
    requestCount--
    return respond(input, init)
  }
  return { fetch: respond as typeof fetch, requestCount: () => requestCount }
}

/** The peak of live memory while it works, above that before: garbage does not count. */
async function measureLiveMegabytes(work: () => Promise<unknown>): Promise<number> {
  setFlagsFromString('--expose-gc')
  const collectGarbage = runInNewContext('gc') as () => void
  const readUsage = () => {
    collectGarbage()
    const { heapUsed, arrayBuffers } = process.memoryUsage()
    return (heapUsed + arrayBuffers) / 1_000_000
  }
  const before = readUsage()
  let peak = before
  const sampling = setInterval(() => {
    peak = Math.max(peak, readUsage())
  }, SAMPLE_MS)
  await work()
  clearInterval(sampling)
  return peak - before
}

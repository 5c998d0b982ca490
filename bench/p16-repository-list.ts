// P16: a list of five thousand repositories over fifty pages of a git host that is 50 ms away: asked for anew, and asked for again.
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { sql } from 'drizzle-orm'
import { createHost } from '../src/host/node.ts'
import { MAX_CONCURRENT_REQUESTS } from '../src/integrations/request.ts'
import { runAsSystem } from '../src/kernel/db.ts'
import { GITHUB_APP, makeGithub, makeRepositories } from '../test/support/fake-git-hosts.ts'
import { PKCS1 } from '../test/support/github-app-key.ts'
import type { Bench, BenchContext } from './support/bench-context.ts'
import { SEALING_KEYS } from './support/database.ts'
import { formatNumber, median } from './support/statistics.ts'

const [REPOSITORIES, PADDING, HOST_LATENCY_MS, SLICES, SAMPLE_MS] = [5000, 4800, 50, 5, 20]
const TARGETS = { requests: 51, ms: 1000, megabytes: 64 }

export default {
  id: 'P16',
  what: `${REPOSITORIES} repositories, 50 pages, each ${HOST_LATENCY_MS} ms away: requests, one for a token; seconds; memory`,
  target: `${TARGETS.requests}; ≤ ${formatNumber(TARGETS.ms / 1000, 1)} s; ≤ ${TARGETS.megabytes} MB`,
  async run(lab: BenchContext) {
    const { url, tenant } = await lab.database()
    const host = makeCachedHost()
    const { app, close } = createHost(
      {
        PUBLIC_URL: 'http://slipway.test',
        DATABASE_URL: url,
        SEALING_KEYS,
        RATE_LIMIT_PER_MINUTE: '0',
        ...GITHUB_SETTINGS,
      },
      { log: () => {}, foreignFetch: host.fetch },
    )
    lab.defer(close)
    const id = crypto.randomUUID()
    const insert = sql`insert into integrations (id, organization_id, tenant_id, host, base_url, installation_id, account_id, name)
      values (${id}::uuid, ${tenant.organization_id}::uuid, ${tenant.tenant_id}::uuid, 'github', 'https://github.com', '1', '1', 'acme')`
    await runAsSystem(app.database, insert)
    const headers = { 'X-Api-Key': tenant.api_key, 'X-Tenant-Id': tenant.tenant_id }
    const list = async () => {
      const before = host.asked()
      const start = performance.now()
      const answer = await app.request(`/v1/integrations/forge/githost/${id}/repos`, { headers })
      const { length } = (await answer.json()) as unknown[]
      if (length !== REPOSITORIES) throw new Error(`It lists ${length} repositories and answers ${answer.status}`)
      return { ms: performance.now() - start, requests: host.asked() - before }
    }
    const forget = () =>
      runAsSystem(app.database, sql`delete from integration_listings`, sql`update integrations set token = null`)
    const age = () => runAsSystem(app.database, sql`update integration_listings set fetched_at = 'epoch'`)

    lab.progress('warming up')
    await list()
    const [anew, again, megabytes]: [ListTiming[], ListTiming[], number[]] = [[], [], []]
    for (let slice = 1; slice <= SLICES; slice++) {
      lab.progress(`slice ${slice} of ${SLICES}`)
      await forget()
      anew.push(await list())
      await age()
      again.push(await list())
      await forget()
      megabytes.push(await measureLiveMegabytes(list))
    }
    const [ms, conditional, memory] = [getMedian(anew, 'ms'), getMedian(again, 'ms'), median(megabytes)]
    const [requests, unchanged] = [getMedian(anew, 'requests'), getMedian(again, 'requests')]
    return {
      measured: `${requests}; ${formatNumber(ms / 1000)} s; ${formatNumber(memory, 0)} MB`,
      met: requests <= TARGETS.requests && ms <= TARGETS.ms && memory <= TARGETS.megabytes,
      notes: [
        `${MAX_CONCURRENT_REQUESTS} at once; asked again, ${unchanged} requests answered by 304 in ${formatNumber(conditional / 1000)} s`,
      ],
      figures: { requests, ms, conditional, memory, anew, again, megabytes },
    }
  },
} satisfies Bench

type ListTiming = { ms: number; requests: number }
const getMedian = (all: ListTiming[], what: keyof ListTiming) => median(all.map(one => one[what]))

const GITHUB_SETTINGS = {
  GITHUB_APP_ID: GITHUB_APP.id,
  GITHUB_APP_SLUG: GITHUB_APP.slug,
  GITHUB_APP_PRIVATE_KEY: PKCS1,
  GITHUB_APP_CLIENT_ID: GITHUB_APP.clientId,
  GITHUB_APP_CLIENT_SECRET: GITHUB_APP.clientSecret,
  GITHUB_APP_WEBHOOK_SECRET: 'secret',
}

/** A host whose pages were written before they are asked for, so that its own work and memory are not measured. */
function makeCachedHost() {
  const host = makeGithub('https://github.com', { padding: PADDING })
  host.installations.set(1, { account: { id: 1, login: 'acme' }, repositories: makeRepositories(REPOSITORIES) })
  const pages = new Map<string, { bytes: Uint8Array<ArrayBuffer>; headers: Headers }>()
  let asked = 0
  const away = async (input: Request | string | URL, init?: RequestInit): Promise<Response> => {
    asked++
    await new Promise(resolve => setTimeout(resolve, HOST_LATENCY_MS))
    const request = new Request(input, init)
    const { origin, pathname } = new URL(request.url)
    const site = host.sites[origin] as (request: Request) => Promise<Response>
    if (pathname !== '/installation/repositories') return site(request)
    const known = pages.get(request.url)
    const tag = known && { ...Object.fromEntries(known.headers), ETag: `"${pathname}"` }
    if (known) {
      const same = request.headers.get('If-None-Match') === `"${pathname}"`
      return same ? new Response(null, { status: 304, headers: tag! }) : new Response(known.bytes, { headers: tag! })
    }
    const answer = await site(request)
    pages.set(request.url, { bytes: new Uint8Array(await answer.arrayBuffer()), headers: answer.headers })
    asked--
    return away(input, init)
  }
  return { fetch: away as typeof fetch, asked: () => asked }
}

/** The most that is in use at once while it works, above what was before: without what only waits to be collected. */
async function measureLiveMegabytes(work: () => Promise<unknown>): Promise<number> {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  const used = () => {
    collect()
    const { heapUsed, arrayBuffers } = process.memoryUsage()
    return (heapUsed + arrayBuffers) / 1_000_000
  }
  const before = used()
  let most = before
  const sampling = setInterval(() => {
    most = Math.max(most, used())
  }, SAMPLE_MS)
  await work()
  clearInterval(sampling)
  return most - before
}

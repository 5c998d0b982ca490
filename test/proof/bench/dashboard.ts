// P22: what a person waits for when the dashboard opens with nothing cached: on this machine, and as Lighthouse
// measures a phone, with a quarter of the processor and a slow network.
import type { AddressInfo } from 'node:net'
import { createAdaptorServer } from '@hono/node-server'
import type { Browser, CDPSession } from 'playwright-core'
import { buildDashboard, isBuilt } from '../../../scripts/dashboard-build.ts'
import { createHost } from '../../../src/host/host.ts'
import { bootstrap } from '../../../src/people/access/bootstrap.ts'
import { launchChromium } from '../../support/chromium.ts'
import type { Bench, BenchContext } from '../support/bench-context.ts'
import { SETTINGS } from '../support/database.ts'
import { formatNumber, median } from '../support/statistics.ts'

const [DEPLOYMENTS, LOADS] = [100, 5]
const TARGET = { paint: 1800, blocked: 200, shift: 0.1 }
/** The network and processor of Lighthouse's phone. */
const PHONE = { latencyMs: 150, bytesPerSecond: (1.6 * 1024 * 1024) / 8, slowdown: 4 }

/** Milliseconds, bytes, and the unit of layout shifts. */
type Load = { paint: number; listed: number; blocked: number; shift: number; bytes: number }
type Network = Omit<typeof PHONE, 'slowdown'>

export default {
  id: 'P22',
  what: `cold load of the dashboard, ${DEPLOYMENTS} deployments: first paint, list shown, time blocked, layout shift`,
  target: `on a slow phone: paint ≤ ${TARGET.paint} ms, blocked ≤ ${TARGET.blocked} ms, shift ≤ ${TARGET.shift}`,
  async run(context: BenchContext) {
    const browser = await launchChromium()
    if (typeof browser === 'string') return { measured: 'skipped', met: false, skipped: true, notes: [browser] }
    context.defer(() => browser.close())
    if (!isBuilt()) await buildDashboard()
    const open = await serveDashboard(context, browser)
    const loads = { machine: [] as Load[], phone: [] as Load[] }
    for (let i = 0; i < LOADS; i++) {
      context.progress(`load ${i + 1} of ${LOADS}`)
      loads.machine.push(await open())
      loads.phone.push(await open(PHONE))
    }
    const [machine, phone] = [summarize(loads.machine), summarize(loads.phone)]
    return {
      measured: `${describe(phone)}; without limits ${describe(machine)}`,
      met: phone.paint <= TARGET.paint && phone.blocked <= TARGET.blocked && phone.shift <= TARGET.shift,
      notes: [`${formatNumber(machine.bytes / 1024, 1)} KB were transferred, with headers and the answers of the API.`],
      figures: { machine, phone },
    }
  },
} satisfies Bench

const summarize = (loads: Load[]): Load =>
  Object.fromEntries(
    (Object.keys(loads[0]!) as (keyof Load)[]).map(name => [name, median(loads.map(one => one[name]))]),
  ) as Load

const describe = ({ paint, listed, blocked, shift }: Load): string =>
  `${[paint, listed, blocked].map(ms => `${formatNumber(ms, 0)} ms`).join(', ')}, ${formatNumber(shift, 3)}`

/** Returns a function that opens the list in a browser that has seen nothing but the sign-in page. */
async function serveDashboard(context: BenchContext, browser: Browser) {
  const { url } = await context.database()
  let respond: (request: Request) => Response | Promise<Response>
  const server = createAdaptorServer({ fetch: request => respond(request) })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  context.defer(() => void server.close())
  const origin = `http://localhost:${(server.address() as AddressInfo).port}`
  const settings = { ...SETTINGS, PUBLIC_URL: origin, DATABASE_URL: url }
  const { app, close } = createHost(settings, { log: () => {} })
  context.defer(close)
  respond = request => app.fetch(request)
  const workspace = await bootstrap(app.database, { organization: 'Bench', workspace: 'Dashboard' })
  const headers = { 'X-Api-Key': workspace.api_key, 'Content-Type': 'application/json' }
  const source = { source: 'internal_source', source_config: {}, source_revision_config: {}, secrets: [] }
  for (let i = 0; i < DEPLOYMENTS; i++) {
    const body = JSON.stringify({ name: `service-${i}`, ...source })
    const { status } = await app.request(`${origin}/v2/deployments`, { method: 'POST', headers, body })
    if (status !== 201) throw new Error(`POST /v2/deployments answers ${status}`)
  }

  return async (limits?: typeof PHONE): Promise<Load> => {
    const visitor = await browser.newContext({ viewport: { width: 1280, height: 800 } })
    try {
      const page = await visitor.newPage()
      await page.goto(`${origin}/sign-in`)
      const fetchSession = `fetch('/v2/me/sessions', { method: 'POST', headers: ${JSON.stringify(headers)} })`
      const status = await page.evaluate<number>(`${fetchSession}.then(response => response.status)`)
      if (status !== 201) throw new Error(`POST /v2/me/sessions answers ${status}`)
      const session = await visitor.newCDPSession(page)
      await session.send('Network.enable')
      await session.send('Network.setCacheDisabled', { cacheDisabled: true })
      let bytes = 0
      session.on('Network.loadingFinished', ({ encodedDataLength }) => (bytes += encodedDataLength))
      if (limits) await limit(session, limits)
      await page.addInitScript({ content: OBSERVER })
      await page.goto(`${origin}/ui/${workspace.tenant_id}/deployments`)
      await page.getByText('service-99', { exact: true }).waitFor({ state: 'attached' })
      const timing = await page.evaluate<Omit<Load, 'bytes'>>(READ)
      return { ...timing, bytes }
    } finally {
      await visitor.close()
    }
  }
}

async function limit(session: CDPSession, { slowdown, latencyMs, bytesPerSecond }: Network & { slowdown: number }) {
  await session.send('Emulation.setCPUThrottlingRate', { rate: slowdown })
  const speed = { downloadThroughput: bytesPerSecond, uploadThroughput: bytesPerSecond }
  await session.send('Network.emulateNetworkConditions', { offline: false, latency: latencyMs, ...speed })
}

/** Time blocked is what Lighthouse counts: of each long task, what is over 50 ms. */
const OBSERVER = `
  window.measured = { blocked: 0, shift: 0 }
  const observe = (type, count) =>
    new PerformanceObserver(list => list.getEntries().forEach(count)).observe({ type, buffered: true })
  observe('longtask', ({ duration }) => { window.measured.blocked += duration - 50 })
  observe('layout-shift', ({ value, hadRecentInput }) => { if (!hadRecentInput) window.measured.shift += value })`
const READ = `({
  ...window.measured,
  paint: performance.getEntriesByName('first-contentful-paint')[0].startTime,
  listed: performance.now(),
})`

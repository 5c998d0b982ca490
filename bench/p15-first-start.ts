// P15: how long a newcomer waits from `npm run dev` to the first answer, in a fresh folder and at the second start, and to a template's.
import { readFile } from 'node:fs/promises'
import { get } from 'node:http'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { DevState } from '../src/host/home-folder.ts'
import { findFreePort } from '../src/postgres/free-port.ts'
import type { Bench, BenchContext } from './support/bench-context.ts'
import { startProcess } from './support/processes.ts'
import { formatNumber } from './support/statistics.ts'
import { makeTempFolder, PROJECT_ROOT } from './support/workerd.ts'

const [TARGET, TEMPLATE_TARGET] = [10, 30]
const TIMEOUT_MS = 120_000

export default {
  id: 'P15',
  what: '`npm run dev` to the first 200: cold; second start; cold, to a template deployment that answers',
  target: `≤ ${TARGET} s; ≤ ${TARGET} s; ≤ ${TEMPLATE_TARGET} s`,
  async run(lab: BenchContext) {
    const home = await makeTempFolder(lab)
    lab.progress('cold start')
    const { first: cold, template = Number.NaN } = await measureFirstAnswer(lab, home, true)
    lab.progress('second start')
    const { first: second } = await measureFirstAnswer(lab, home)
    return {
      measured: `${formatNumber(cold, 1)} s; ${formatNumber(second, 1)} s; ${formatNumber(template, 1)} s`,
      met: Math.max(cold, second) <= TARGET && template <= TEMPLATE_TARGET,
      figures: { cold, second, template },
    }
  },
} satisfies Bench

/** Seconds since the start. */
async function measureFirstAnswer(
  lab: BenchContext,
  home: string,
  deploys = false,
): Promise<{ first: number; template?: number }> {
  const port = await findFreePort()
  const url = `http://127.0.0.1:${port}`
  // Whoever measures this may have a database of their own in the environment.
  const { DATABASE_URL: _, ...environment } = process.env
  const began = performance.now()
  const seconds = () => (performance.now() - began) / 1000
  const { broken, end } = startProcess(lab, process.execPath, ['src/host/dev.ts', '--port', String(port)], {
    cwd: PROJECT_ROOT,
    env: { ...environment, SLIPWAY_HOME: home },
  })
  const work = async () => {
    const key = await waitFor('an answer', () => readWorkingKey(home, url))
    const first = seconds()
    if (!deploys) return { first }
    lab.progress('a template')
    await deployTemplate(url, key)
    return { first, template: seconds() }
  }
  const found = await Promise.race([work(), broken])
  await end()
  return found
}

async function waitFor<T>(what: string, look: () => Promise<T | false>): Promise<T> {
  const deadline = Date.now() + TIMEOUT_MS
  while (Date.now() < deadline) {
    const found = await look().catch(() => false as const)
    if (found !== false) return found
    await delay(25)
  }
  throw new Error(`no ${what} within ${TIMEOUT_MS / 1000} s`)
}

const makeTimeoutSignal = () => AbortSignal.timeout(5000)

async function readWorkingKey(home: string, url: string): Promise<string | false> {
  const { api_key }: DevState = JSON.parse(await readFile(join(home, 'dev.json'), 'utf8'))
  const headers = { 'X-Api-Key': api_key }
  return (await fetch(`${url}/orgs/current/info`, { headers, signal: makeTimeoutSignal() })).ok && api_key
}

/** As the last line of `npm run dev` says it; asked at the address that the deployment names. */
async function deployTemplate(url: string, key: string): Promise<void> {
  const headers = { 'X-Api-Key': key, 'Content-Type': 'application/json' }
  const wanted = { name: 'hello', source: 'internal_template', source_config: { template_id: 'web-service' } }
  const body = JSON.stringify({ ...wanted, source_revision_config: {}, secrets: [] })
  const made = await fetch(`${url}/v2/deployments`, { method: 'POST', headers, body })
  if (!made.ok) throw new Error(`The deployment is refused: ${await made.text()}`)
  const { id } = (await made.json()) as { id: string }
  const address = await waitFor('address of the deployment', async () => {
    const answer = await fetch(`${url}/v2/deployments/${id}`, { headers, signal: makeTimeoutSignal() })
    return ((await answer.json()) as { url: string | null }).url ?? false
  })
  await waitFor(`answer of ${address}`, () => isServed(address))
}

/** Names under `localhost` are this machine, which not every resolver knows. */
const isServed = (address: string) =>
  new Promise<true | false>(resolve => {
    const { host, port } = new URL(address)
    get({ host: '127.0.0.1', port, headers: { host } }, answer => {
      answer.resume()
      resolve(answer.statusCode === 200)
    }).on('error', () => resolve(false))
  })

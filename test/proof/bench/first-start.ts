// P15: how long a newcomer waits from `npm run dev` in an empty folder to the first answer, and to that of a template.
import { readFile } from 'node:fs/promises'
import { get } from 'node:http'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { DevState } from '../../../src/host/home-folder.ts'
import { findFreePort } from '../../../src/postgres/free-port.ts'
import type { Bench, BenchContext } from '../support/bench-context.ts'
import { startProcess } from '../support/processes.ts'
import { formatNumber, median } from '../support/statistics.ts'
import { makeTempFolder, PROJECT_ROOT } from '../support/workerd.ts'

const TARGETS = { first: 6, template: 12 }
const STARTS = 3
const TIMEOUT_MS = 120_000

export default {
  id: 'P15',
  what: '`npm run dev` in an empty folder to the first answer; to a template deployment that answers',
  target: `≤ ${TARGETS.first} s; ≤ ${TARGETS.template} s`,
  async run(context: BenchContext) {
    const starts: { first: number; template: number }[] = []
    let home = ''
    for (let start = 1; start <= STARTS; start++) {
      home = await makeTempFolder(context)
      context.progress(`start ${start} of ${STARTS}`)
      const { first, template = Number.NaN } = await measureFirstAnswer(context, home, true)
      starts.push({ first, template })
    }
    const { first: second } = await measureFirstAnswer(context, home)
    const first = median(starts.map(one => one.first))
    const template = median(starts.map(one => one.template))
    return {
      measured: `${formatNumber(first, 1)} s; ${formatNumber(template, 1)} s`,
      met: first <= TARGETS.first && template <= TARGETS.template,
      notes: [`of ${STARTS} starts; the second start in a folder: ${formatNumber(second, 1)} s to the first answer`],
      figures: { first, template, second, starts },
    }
  },
} satisfies Bench

/** In seconds. */
async function measureFirstAnswer(
  context: BenchContext,
  home: string,
  deploys = false,
): Promise<{ first: number; template?: number }> {
  const port = await findFreePort()
  const url = `http://127.0.0.1:${port}`
  // The environment may name another database.
  const { DATABASE_URL: _, ...environment } = process.env
  const start = performance.now()
  const seconds = () => (performance.now() - start) / 1000
  const { broken, end } = startProcess(context, process.execPath, ['src/host/dev.ts', '--port', String(port)], {
    cwd: PROJECT_ROOT,
    env: { ...environment, SLIPWAY_HOME: home },
  })
  const work = async () => {
    const key = await waitFor('answer', () => readWorkingKey(home, url))
    const first = seconds()
    if (!deploys) return { first }
    await deployTemplate(url, key)
    return { first, template: seconds() }
  }
  const timing = await Promise.race([work(), broken])
  await end()
  return timing
}

async function waitFor<T>(what: string, look: () => Promise<T | false>): Promise<T> {
  const deadline = Date.now() + TIMEOUT_MS
  while (Date.now() < deadline) {
    const value = await look().catch(() => false as const)
    if (value !== false) return value
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

/** The request that `npm run dev` prints, then one to the address of the deployment. */
async function deployTemplate(url: string, key: string): Promise<void> {
  const headers = { 'X-Api-Key': key, 'Content-Type': 'application/json' }
  const template = { name: 'hello', source: 'internal_template', source_config: { template_id: 'web-service' } }
  const body = JSON.stringify({ ...template, source_revision_config: {}, secrets: [] })
  const created = await fetch(`${url}/v2/deployments`, { method: 'POST', headers, body })
  if (!created.ok) throw new Error(`The deployment was refused: ${await created.text()}`)
  const { id } = (await created.json()) as { id: string }
  const address = await waitFor('address of the deployment', async () => {
    const answer = await fetch(`${url}/v2/deployments/${id}`, { headers, signal: makeTimeoutSignal() })
    return ((await answer.json()) as { url: string | null }).url ?? false
  })
  await waitFor(`answer from ${address}`, () => isServed(address))
}

/** Not every resolver knows that names under `localhost` are this machine. */
const isServed = (address: string) =>
  new Promise<true | false>(resolve => {
    const { host, port } = new URL(address)
    get({ host: '127.0.0.1', port, headers: { host } }, answer => {
      answer.resume()
      resolve(answer.statusCode === 200)
    }).on('error', () => resolve(false))
  })

// Deployed graphs that sleep, with a worker: woken by a request, for a delayed run, and for a cron, in both languages.
import { join } from 'node:path'
import { check, note } from '../../support/trial.ts'
import { until } from '../../support/two-hosts.ts'
import { type Installation, makeWorkFolder, read, startDev } from './dev.ts'
import { makeSlipway } from './slipway.ts'

const EXAMPLES = join(import.meta.dirname, '../../../../examples')
const INPUT = { messages: [{ role: 'user', content: 'hi' }] }
const RUN = { assistant_id: 'agent', input: INPUT, on_completion: 'keep' }
type Run = { status: string; updated_at: string; run_id: string }

export async function trySleep(): Promise<void> {
  await using cleanup = new AsyncDisposableStack()
  const work = makeWorkFolder(cleanup)
  const installation = await startDev(cleanup, join(work, 'home'))
  const slipway = makeSlipway(installation, work)
  for (const example of ['graph-javascript', 'graph-python']) {
    const output = await slipway('deploy', join(EXAMPLES, example), '--create', '--name', example, '--yes')
    const url = /"local_url": ?"([^"]+)"/.exec(output)?.[1]
    check(`${example}: it is deployed`, url !== undefined, output)
    if (url === undefined) continue
    for (const frozen_seconds of [0, 3600]) await sleepAndWake(installation, { example, url, frozen_seconds })
  }
}

type Case = { example: string; url: string; frozen_seconds: number }

async function sleepAndWake(installation: Installation, { example, url, frozen_seconds }: Case): Promise<void> {
  const name = `${example}, ${frozen_seconds > 0 ? 'frozen' : 'stopped'}`
  const { resources } = await read(installation, `/v2/deployments?name=${example}`)
  const path = `/v2/deployments/${resources[0].id}`
  const { application_key: key } = await read(installation, `${path}?reveal=true`)
  const ask = async (method: string, path: string, body?: object) => {
    const headers = { 'X-Api-Key': key, 'Content-Type': 'application/json' }
    const answer = await fetch(url + path, { method, headers, ...(body && { body: JSON.stringify(body) }) })
    return answer.status === 204 ? undefined : answer.json()
  }
  const stateOf = async (): Promise<string> => (await read(installation, path)).health?.state
  const untilState = (state: string) =>
    until(`${name} is ${state}`, async () => (await stateOf()) === state, 180_000).catch(() => false)
  const resource_spec = { min_scale: 0, idle_seconds: 10, frozen_seconds, queue_min_scale: 1 }
  await fetch(installation.url + path, {
    method: 'PATCH',
    headers: { 'X-Api-Key': installation.api_key, 'X-Contract-Words': 'contract', 'Content-Type': 'application/json' },
    body: JSON.stringify({ source_config: { resource_spec } }),
  })
  check(`${name}: it sleeps with nothing to do`, await untilState('sleeping'), await stateOf())
  const since = performance.now()
  const values = await ask('POST', '/runs/wait', RUN)
  note(`${name}: woken by a run, which ended after ${Math.round(performance.now() - since)} ms`)
  check(`${name}: a request wakes it`, JSON.stringify(values).includes('You said: hi'), JSON.stringify(values))
  await untilState('healthy')

  const at = Date.now() + 60_000
  const { thread_id, run_id } = await ask('POST', '/runs', { ...RUN, after_seconds: 60 })
  check(`${name}: it sleeps before a delayed run`, await untilState('sleeping'), await stateOf())
  check(`${name}: it wakes for the run`, await untilState('healthy'), await stateOf())
  check(`${name}: it sleeps again`, await untilState('sleeping'), await stateOf())
  const run: Run = await ask('GET', `/threads/${thread_id}/runs/${run_id}`)
  await untilState('healthy')
  const late = Date.parse(run.updated_at) - at
  note(`${name}: a delayed run ended ${late} ms after its time`)
  check(`${name}: the run was in time`, run.status === 'success' && late > -1000 && late < 10_000, JSON.stringify(run))

  const thread = (await ask('POST', '/threads', {})).thread_id
  const cron = await ask('POST', `/threads/${thread}/runs/crons`, { ...RUN, schedule: '* * * * *' })
  check(`${name}: it sleeps before a cron`, await untilState('sleeping'), await stateOf())
  const due = Math.ceil(Date.now() / 60_000) * 60_000
  check(`${name}: it wakes for the cron`, await untilState('healthy'), await stateOf())
  check(`${name}: it sleeps after it`, await untilState('sleeping'), await stateOf())
  const runs: Run[] = await ask('GET', `/threads/${thread}/runs`)
  const delays = runs.map(({ updated_at }) => Date.parse(updated_at) - due)
  note(`${name}: runs of a cron ended ${delays.join(', ')} ms after its time`)
  const isInTime = runs.every(({ status }) => status === 'success') && delays.some(ms => ms >= 0 && ms < 10_000)
  check(`${name}: the run of the cron was in time`, isInTime, JSON.stringify(runs))
  await ask('DELETE', `/runs/crons/${cron.cron_id}`)
  await untilState('healthy')
}

// P15: how long a newcomer waits from `npm run dev` to the first answer, in a fresh folder and at the second start.
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { DevState } from '../src/host/home.ts'
import { freePort } from '../src/host/ports.ts'
import { fixed } from './support/figures.ts'
import type { Bench, Lab } from './support/lab.ts'
import { start } from './support/processes.ts'
import { PROJECT, temporary } from './support/workerd.ts'

const TARGET = 10
const PATIENCE = 120_000

export default {
  id: 'P15',
  what: '`npm run dev` to the first 200: cold; second start',
  target: `≤ ${TARGET} s`,
  async run(lab: Lab) {
    const home = await temporary(lab)
    lab.progress('cold start')
    const cold = await firstAnswer(lab, home)
    lab.progress('second start')
    const second = await firstAnswer(lab, home)
    return {
      measured: `${fixed(cold, 1)} s; ${fixed(second, 1)} s`,
      met: Math.max(cold, second) <= TARGET,
      figures: { cold, second },
    }
  },
} satisfies Bench

async function firstAnswer(lab: Lab, home: string): Promise<number> {
  const port = await freePort()
  // Whoever measures this may have a database of their own in the environment.
  const { DATABASE_URL: _, ...environment } = process.env
  const began = performance.now()
  const { broken, end } = start(lab, process.execPath, ['src/host/dev.ts', '--port', String(port)], {
    cwd: PROJECT,
    env: { ...environment, SLIPWAY_HOME: home },
  })
  await Promise.race([answered(home, `http://127.0.0.1:${port}`), broken])
  const seconds = (performance.now() - began) / 1000
  await end()
  return seconds
}

async function answered(home: string, url: string): Promise<void> {
  const deadline = Date.now() + PATIENCE
  while (Date.now() < deadline) {
    if (await asked(home, url).catch(() => false)) return
    await delay(25)
  }
  throw new Error(`no answer within ${PATIENCE / 1000} s`)
}

async function asked(home: string, url: string): Promise<boolean> {
  const { api_key }: DevState = JSON.parse(await readFile(join(home, 'dev.json'), 'utf8'))
  const headers = { 'X-Api-Key': api_key }
  return (await fetch(`${url}/orgs/current/info`, { headers, signal: AbortSignal.timeout(5000) })).ok
}

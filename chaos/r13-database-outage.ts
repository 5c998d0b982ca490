// R13: the database is away, once gone and once silent (its processes stopped, so that nothing answers and nothing refuses).

import { readFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { makeImageConfig } from '../test/support/deployment-bodies.ts'
import { createDeployments, makeClient, runWorkers, Tally } from './support/client.ts'
import { openTestbed, scaleCount, type Testbed, type Trial, type TrialContext } from './support/testbed.ts'

const OUTAGE_MS = 10_000
const MAX_ANSWER_MS = 5000
const MAX_RECOVERY_MS = 2000

type Outage = { begin(): Promise<unknown>; end(): Promise<unknown> }

const makeOutages = (scene: Testbed): Record<string, Outage> => {
  const signal = async (name: 'SIGSTOP' | 'SIGCONT') => {
    for (const pid of [scene.pid(), ...listChildProcesses(scene.pid())]) process.kill(pid, name)
  }
  return {
    gone: { begin: () => scene.crash('SIGQUIT'), end: () => scene.restart() },
    silent: { begin: () => signal('SIGSTOP'), end: () => signal('SIGCONT') },
  }
}

const listChildProcesses = (pid: number): number[] =>
  readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter(Boolean).map(Number)

export default {
  id: 'R13',
  what: 'the database away for 10 s, gone or silent',
  target: 'only 503 with Retry-After, none over 5 s, back within 2 s',
  async run(lab: TrialContext) {
    const scene = await openTestbed(lab)
    const { api_key } = await scene.tenant()
    const ids = await createDeployments(makeClient(scene.app.fetch, api_key), 4)
    const figures: Record<string, { answers: string; slowest: number; back: number; met: boolean }> = {}
    for (const [name, { begin: away, end: back }] of Object.entries(makeOutages(scene))) {
      const during = new Tally()
      const since = new Map<number, number>()
      let [gone, over, returned] = [false, false, 0]
      const ask = async (worker: number) => {
        const path = `/v2/deployments/${ids[worker % ids.length]}`
        while (!over) {
          const tally = new Tally()
          const client = makeClient(scene.app.fetch, api_key, tally)
          const asked = performance.now()
          const answer =
            worker % 2 ? await client.send('GET', path) : await client.send('PATCH', path, makeImageConfig('next'))
          const well = answer.status === 200
          // Whoever was asked while it was away and refused counts; success may have left just before.
          if (gone && !returned) during.record(answer, tally.slowest)
          else if (returned) during.slowest = Math.max(during.slowest, tally.slowest)
          if (returned && well && asked >= returned && !since.has(worker))
            since.set(worker, performance.now() - returned)
          await delay(20)
        }
      }
      const asking = runWorkers(12, ask)
      await delay(300)
      lab.progress(`${name}: away`)
      await away()
      gone = true
      await delay(scaleCount(lab, OUTAGE_MS))
      await back()
      returned = performance.now()
      lab.progress(`${name}: back`)
      await delay(MAX_ANSWER_MS + 1000)
      over = true
      await asking
      const slowestBack = since.size === 12 ? Math.max(...since.values()) : Number.POSITIVE_INFINITY
      const met =
        during.listUnexpected('503 database_unavailable', '200').length === 0 &&
        during.withoutRetryAfter === 0 &&
        during.slowest <= MAX_ANSWER_MS &&
        slowestBack <= MAX_RECOVERY_MS
      figures[name] = { answers: String(during), slowest: during.slowest, back: slowestBack, met }
    }
    const parts = Object.entries(figures)
    return {
      measured: parts
        .map(
          ([name, { slowest, back }]) => `${name}: slowest ${formatSeconds(slowest)}, back in ${formatSeconds(back)}`,
        )
        .join('; '),
      met: parts.every(([, { met }]) => met),
      notes: parts.map(([name, { answers }]) => `${name}, while away: ${answers}`),
      figures,
    }
  },
} satisfies Trial

const formatSeconds = (ms: number): string => `${(ms / 1000).toFixed(2)} s`

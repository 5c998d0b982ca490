// R13: the database is away: once it has crashed, once its processes are stopped and neither answer nor refuse.

import { readFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { makeImageConfig } from '../../support/deployment-bodies.ts'
import { createDeployments, makeClient, runWorkers, Tally } from '../support/retrying-client.ts'
import { openServerTestbed, type ServerTestbed, scaleCount, type Trial, type TrialContext } from '../support/testbed.ts'

const WORKERS = 12
const OUTAGE_MS = 10_000
const MAX_ANSWER_MS = 5000
const MAX_RECOVERY_MS = 2000

type Outage = { begin(): Promise<unknown>; end(): Promise<unknown> }

const makeOutages = (testbed: ServerTestbed): Record<string, Outage> => {
  const signal = async (name: 'SIGSTOP' | 'SIGCONT') => {
    for (const pid of [testbed.pid(), ...listChildProcesses(testbed.pid())]) process.kill(pid, name)
  }
  return {
    crashed: { begin: () => testbed.crash('SIGQUIT'), end: () => testbed.restart() },
    silent: { begin: () => signal('SIGSTOP'), end: () => signal('SIGCONT') },
  }
}

const listChildProcesses = (pid: number): number[] =>
  readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter(Boolean).map(Number)

export default {
  id: 'R13',
  what: 'the database is away for 10 s, crashed or silent',
  target: 'only 503 with Retry-After, none after 5 s, recovered within 2 s',
  async run(context: TrialContext) {
    const testbed = await openServerTestbed(context)
    const { api_key } = await testbed.tenant()
    const ids = await createDeployments(makeClient(testbed.app.fetch, api_key), 4)
    const figures: Record<string, { answers: string; slowest: number; recovery: number; met: boolean }> = {}
    for (const [name, outage] of Object.entries(makeOutages(testbed))) {
      const during = new Tally()
      const recoveries = new Map<number, number>()
      let [isAway, isOver, endedAt] = [false, false, 0]
      const sendRequests = async (worker: number) => {
        const path = `/v2/deployments/${ids[worker % ids.length]}`
        while (!isOver) {
          const tally = new Tally()
          const client = makeClient(testbed.app.fetch, api_key, tally)
          const sentAt = performance.now()
          const answer =
            worker % 2 ? await client.send('GET', path) : await client.send('PATCH', path, makeImageConfig('next'))
          const succeeded = answer.status === 200
          if (isAway && !endedAt) during.record(answer, tally.slowest)
          else if (endedAt) during.slowest = Math.max(during.slowest, tally.slowest)
          if (endedAt && succeeded && sentAt >= endedAt && !recoveries.has(worker))
            recoveries.set(worker, performance.now() - endedAt)
          await delay(20)
        }
      }
      const load = runWorkers(WORKERS, sendRequests)
      await delay(300)
      context.progress(`${name}: away`)
      await outage.begin()
      isAway = true
      await delay(scaleCount(context, OUTAGE_MS))
      await outage.end()
      endedAt = performance.now()
      context.progress(`${name}: back`)
      await delay(MAX_ANSWER_MS + 1000)
      isOver = true
      await load
      const slowestRecovery = recoveries.size === WORKERS ? Math.max(...recoveries.values()) : Number.POSITIVE_INFINITY
      const met =
        // A success may have left the database just before the outage.
        during.listUnexpected('503 database_unavailable', '200').length === 0 &&
        during.withoutRetryAfter === 0 &&
        during.slowest <= MAX_ANSWER_MS &&
        slowestRecovery <= MAX_RECOVERY_MS
      figures[name] = { answers: String(during), slowest: during.slowest, recovery: slowestRecovery, met }
    }
    const parts = Object.entries(figures)
    return {
      measured: parts
        .map(([name, { slowest, recovery }]) =>
          [`${name}: slowest answer ${formatSeconds(slowest)}`, `recovered in ${formatSeconds(recovery)}`].join(', '),
        )
        .join('; '),
      met: parts.every(([, { met }]) => met),
      notes: parts.map(([name, { answers }]) => `${name}, answers while away: ${answers}`),
      figures,
    }
  },
} satisfies Trial

const formatSeconds = (ms: number): string => `${(ms / 1000).toFixed(2)} s`

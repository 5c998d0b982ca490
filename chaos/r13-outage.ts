// R13: the database is away, once gone and once silent (its processes stopped, so that nothing answers and nothing refuses).

import { readFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { imageNamed } from '../test/support/bodies.ts'
import { clientOf, inParallel, makeDeployments, Tally } from './support/client.ts'
import { counted, type Lab, openScene, type Scene, type Trial } from './support/lab.ts'

const AWAY_MS = 10_000
const LONGEST_MS = 5000
const BACK_MS = 2000

type Outage = { away(): Promise<unknown>; back(): Promise<unknown> }

const outages = (scene: Scene): Record<string, Outage> => {
  const signal = async (name: 'SIGSTOP' | 'SIGCONT') => {
    for (const pid of [scene.pid(), ...childrenOf(scene.pid())]) process.kill(pid, name)
  }
  return {
    gone: { away: () => scene.crash('SIGQUIT'), back: () => scene.restart() },
    silent: { away: () => signal('SIGSTOP'), back: () => signal('SIGCONT') },
  }
}

const childrenOf = (pid: number): number[] =>
  readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter(Boolean).map(Number)

export default {
  id: 'R13',
  what: 'the database away for 10 s, gone or silent',
  target: 'only 503 with Retry-After, none over 5 s, back within 2 s',
  async run(lab: Lab) {
    const scene = await openScene(lab)
    const { api_key } = await scene.tenant()
    const ids = await makeDeployments(clientOf(scene.app.fetch, api_key), 4)
    const figures: Record<string, { answers: string; slowest: number; back: number; met: boolean }> = {}
    for (const [name, { away, back }] of Object.entries(outages(scene))) {
      const during = new Tally()
      const since = new Map<number, number>()
      let [gone, over, returned] = [false, false, 0]
      const ask = async (worker: number) => {
        const path = `/v2/deployments/${ids[worker % ids.length]}`
        while (!over) {
          const tally = new Tally()
          const client = clientOf(scene.app.fetch, api_key, tally)
          const asked = performance.now()
          const answer =
            worker % 2 ? await client.send('GET', path) : await client.send('PATCH', path, imageNamed('next'))
          const well = answer.status === 200
          // Whoever was asked while it was away and refused counts; success may have left just before.
          if (gone && !returned) during.note(answer, tally.slowest)
          else if (returned) during.slowest = Math.max(during.slowest, tally.slowest)
          if (returned && well && asked >= returned && !since.has(worker))
            since.set(worker, performance.now() - returned)
          await delay(20)
        }
      }
      const asking = inParallel(12, ask)
      await delay(300)
      lab.progress(`${name}: away`)
      await away()
      gone = true
      await delay(counted(lab, AWAY_MS))
      await back()
      returned = performance.now()
      lab.progress(`${name}: back`)
      await delay(LONGEST_MS + 1000)
      over = true
      await asking
      const slowestBack = since.size === 12 ? Math.max(...since.values()) : Number.POSITIVE_INFINITY
      const met =
        during.besides('503 database_unavailable', '200').length === 0 &&
        during.rude === 0 &&
        during.slowest <= LONGEST_MS &&
        slowestBack <= BACK_MS
      figures[name] = { answers: String(during), slowest: during.slowest, back: slowestBack, met }
    }
    const parts = Object.entries(figures)
    return {
      measured: parts
        .map(([name, { slowest, back }]) => `${name}: slowest ${seconds(slowest)}, back in ${seconds(back)}`)
        .join('; '),
      met: parts.every(([, { met }]) => met),
      notes: parts.map(([name, { answers }]) => `${name}, while away: ${answers}`),
      figures,
    }
  },
} satisfies Trial

const seconds = (ms: number): string => `${(ms / 1000).toFixed(2)} s`

// R7: one idempotency key many times in parallel: one of them makes the deployment, all get the same answer.
import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { makeImageBody } from '../test/support/deployment-bodies.ts'
import { makeClient } from './support/client.ts'
import { openTestbed, scaleCount, type Trial, type TrialContext } from './support/testbed.ts'

export default {
  id: 'R7',
  what: 'one idempotency key × 100 creates in parallel',
  target: 'one effect and one body for each of 100 keys',
  async run(lab: TrialContext) {
    const scene = await openTestbed(lab)
    const client = makeClient(scene.app.fetch, (await scene.tenant()).api_key)
    const keys = scaleCount(lab, 100)
    let different = 0
    for (let i = 1; i <= keys; i++) {
      lab.progress(`key ${i} of ${keys}`)
      const headers = { 'Idempotency-Key': randomUUID() }
      const body = makeImageBody({ name: `app-${i}` })
      const create = async (): Promise<string> => {
        for (;;) {
          const answer = await client.send('POST', '/v2/deployments', body, headers)
          if (answer.body.code !== 'idempotency_in_flight') return JSON.stringify(answer.body)
          await delay(5)
        }
      }
      const bodies = await Promise.all(Array.from({ length: 100 }, create))
      if (new Set(bodies).size !== 1) different++
    }
    let made = 0
    for (let shown = 100; shown === 100; made += shown) {
      const { body } = await client.send('GET', `/v2/deployments?limit=100&offset=${made}`)
      shown = (body.resources as unknown[]).length
    }
    const odd = client.tally.listUnexpected('200', '201', '409 idempotency_in_flight')
    return {
      measured: `${keys} keys: ${made} effects, ${different} with different bodies`,
      met: made === keys && different === 0 && odd.length === 0 && client.tally.replayed === keys * 99,
      notes: [`answers: ${client.tally}; ${client.tally.replayed} of them replayed`],
      figures: { keys, made, different },
    }
  },
} satisfies Trial

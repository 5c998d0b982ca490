// R7: many parallel requests with one idempotency key: one creates the deployment, all get the same answer.
import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { makeImageBody } from '../../support/deployment-bodies.ts'
import { makeClient } from '../support/retrying-client.ts'
import { openTestbed, scaleCount, type Trial, type TrialContext } from '../support/testbed.ts'

export default {
  id: 'R7',
  what: '100 parallel creates with one idempotency key',
  target: '1 deployment and 1 response body for each of 100 keys',
  async run(context: TrialContext) {
    const testbed = await openTestbed(context)
    const client = makeClient(testbed.app.fetch, (await testbed.tenant()).api_key)
    const keys = scaleCount(context, 100)
    let different = 0
    for (let i = 1; i <= keys; i++) {
      context.progress(`key ${i} of ${keys}`)
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
    let created = 0
    for (let listed = 100; listed === 100; created += listed) {
      const { body } = await client.send('GET', `/v2/deployments?limit=100&offset=${created}`)
      listed = (body.resources as unknown[]).length
    }
    const unexpected = client.tally.listUnexpected('200', '201', '409 idempotency_in_flight')
    return {
      measured: `${keys} keys: ${created} deployments, ${different} keys with different bodies`,
      met: created === keys && different === 0 && unexpected.length === 0 && client.tally.replayed === keys * 99,
      notes: [`answers: ${client.tally}; ${client.tally.replayed} of them replayed`],
      figures: { keys, created, different },
    }
  },
} satisfies Trial

import { expect, it } from 'vitest'
import manifest from '../../package.json' with { type: 'json' }
import { healthRoutes } from '../../src/kernel/http/health.routes.ts'
import { send } from '../support/app.ts'

it('/healthz answers ok and the version of package.json, without the database', async () => {
  expect((await send('GET', '/healthz')).body).toEqual({ status: 'ok', version: manifest.version })
})

it('/readyz answers ready if the database has the newest migration', async () => {
  expect((await send('GET', '/readyz')).body).toMatchObject({ status: 'ready' })
})

it('/readyz caches a positive result, and checks again after a negative one', async () => {
  const operation = healthRoutes.operations.filter(one => one.kind === 'open').find(one => one.id === 'readiness')!
  let [trips, isReady] = [0, false]
  const database = async () => {
    trips++
    return [[[isReady ? String(Number.MAX_SAFE_INTEGER) : '0']]]
  }
  const context = { json: (body: unknown) => Response.json(body) }
  const checkReadiness = async () => operation.open(context as never, { platform: {}, database } as never, operation)
  await expect(checkReadiness()).rejects.toMatchObject({ code: 'not_ready' })
  await expect(checkReadiness()).rejects.toMatchObject({ code: 'not_ready' })
  isReady = true
  for (let i = 0; i < 50; i++) expect((await checkReadiness()).status).toBe(200)
  expect(trips).toBe(3)
})

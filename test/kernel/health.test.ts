import { expect, it } from 'vitest'
import { healthRoutes } from '../../src/kernel/health.ts'
import { send } from '../support/app.ts'

it('answers that the process is alive', async () => {
  expect((await send('GET', '/healthz')).body).toEqual({ status: 'ok' })
})

it('answers that the database has the newest migration', async () => {
  expect((await send('GET', '/readyz')).body).toMatchObject({ status: 'ready' })
})

it('caches a positive result for a second and a negative one not at all', async () => {
  const { open } = healthRoutes.operations.find(one => one.id === 'readiness')!
  let [trips, isReady] = [0, false]
  const database = async () => {
    trips++
    return [[[isReady ? String(Number.MAX_SAFE_INTEGER) : '0']]]
  }
  const context = { json: (body: unknown) => Response.json(body) }
  const ask = async () => open!(context as never, { database } as never)
  await expect(ask()).rejects.toMatchObject({ code: 'not_ready' })
  await expect(ask()).rejects.toMatchObject({ code: 'not_ready' })
  isReady = true
  for (let i = 0; i < 50; i++) expect((await ask()).status).toBe(200)
  expect(trips).toBe(3)
})

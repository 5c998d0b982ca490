import { expect, it } from 'vitest'
import { send } from '../support/app.ts'

it('is alive', async () => {
  expect((await send('GET', '/healthz')).body).toEqual({ status: 'ok' })
})

it('is ready at the newest migration', async () => {
  expect((await send('GET', '/readyz')).body).toMatchObject({ status: 'ready' })
})

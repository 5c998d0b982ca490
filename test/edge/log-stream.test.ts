import { expect, it } from 'vitest'
import { openStream, startStreamingApp } from '../support/live-streams.ts'
import { newLoggedDeployment } from '../support/logged-deployment.ts'

it('a stream of logs sends the lines that are kept and those that arrive', async () => {
  const { tenant, path, openLog } = await newLoggedDeployment()
  const write = openLog()
  await write([{ message: 'one' }])
  const stream = await openStream(startStreamingApp(), tenant, `${path}/stream`)
  expect(await stream.next()).toMatchObject({ id: '1', event: 'message' })
  const next = stream.next()
  await write([{ message: 'two' }])
  expect(await next).toMatchObject({ id: '2', event: 'message', data: expect.stringContaining('"two"') })
  await stream.close()
})

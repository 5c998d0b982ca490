// When the response breaks off, the write may have happened, so the client has to retry: 503 instead of 500.
import { sql } from 'drizzle-orm'
import { expect, it, onTestFinished, vi } from 'vitest'
import { readConfig } from '../../src/env.ts'
import { connect } from '../../src/kernel/db/db.ts'
import { SEALING_KEYS } from '../support/app.ts'

const streamBrokenBody = () =>
  new ReadableStream({
    start(controller) {
      controller.enqueue(new TextEncoder().encode('{"results":['))
      controller.error(new TypeError('terminated'))
    },
  })

it.each([
  ['within its body', () => new Response(streamBrokenBody())],
  ['without an error of the stream', () => new Response('{"results":[')],
  ['before its body', () => Promise.reject(new TypeError('fetch failed'))],
])('a database response that breaks off %s is answered with database_unavailable', async (_, reply) => {
  const config = readConfig({
    PUBLIC_URL: 'http://slipway.test',
    SEALING_KEYS,
    DATABASE_URL: 'postgresql://u:p@db.example.com/slipway',
  })
  vi.stubGlobal('fetch', async () => reply())
  onTestFinished(() => void vi.unstubAllGlobals())
  const database = connect(config)
  await expect(database([sql`select 1`])).rejects.toMatchObject({
    code: 'database_unavailable',
    extra: { headers: { 'Retry-After': '1' } },
  })
})

// A reply of the database that breaks off: the write may have happened, so the caller is told to come back, not that we failed.
import { sql } from 'drizzle-orm'
import { expect, it } from 'vitest'
import { readConfig } from '../../src/env.ts'
import { connect } from '../../src/kernel/db.ts'
import { SEALING_KEYS } from '../support/app.ts'

const broken = () =>
  new ReadableStream({
    start(controller) {
      controller.enqueue(new TextEncoder().encode('{"results":['))
      controller.error(new TypeError('terminated'))
    },
  })

it.each([
  ['within its body', () => new Response(broken())],
  ['and looks whole', () => new Response('{"results":[')],
  ['before its body', () => Promise.reject(new TypeError('fetch failed'))],
])('breaks off %s', async (_, reply) => {
  const config = readConfig({
    PUBLIC_URL: 'http://slipway.test',
    SEALING_KEYS,
    DATABASE_URL: 'postgresql://u:p@db.example.com/slipway',
  })
  const database = connect(config, async () => reply())
  await expect(database([sql`select 1`])).rejects.toMatchObject({
    code: 'database_unavailable',
    extra: { headers: { 'Retry-After': '1' } },
  })
})

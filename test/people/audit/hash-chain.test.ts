import { type SQL, sql } from 'drizzle-orm'
import { describe, expect, it } from 'vitest'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { createJournalSigner } from '../../../src/people/audit/hash-chain.ts'
import { sweepAuditLog } from '../../../src/people/audit/sweep.ts'
import { listJournals, verifyJournal } from '../../../src/people/audit/verify.ts'
import { getApp, getServices, newTenant, type Tenant, withClockAhead } from '../../support/app.ts'

const DAY_MS = 24 * 60 * 60_000

const change = (...statements: SQL[]) => runAsSystem(getApp().database, ...statements)
const verify = (scope: string, now?: number) => {
  const { database, config } = getServices()
  return verifyJournal({ database, signer: createJournalSigner(config.sealingKeys), ...(now && { now }) }, scope)
}
const findFaults = async (scope: string, now?: number) =>
  (await verify(scope, now)).faults.map(({ kind, message }) => `${kind}: ${message}`)
const sweep = () => sweepAuditLog(getServices())

const rename = (tenant: Tenant, name: string) => tenant.patch(`/workspaces/${tenant.tenant_id}`, { display_name: name })

/** A workspace whose journal has events 1 to 10. */
async function newJournal() {
  const tenant = await newTenant()
  for (let i = 2; i <= 10; i++) expect((await rename(tenant, `name ${i}`)).status).toBe(200)
  const scope = tenant.tenant_id
  const at = (seq: number) => sql`scope_id = ${scope}::uuid and seq = ${seq}`
  return { tenant, scope, at }
}

const move = (scope: string, from: number, to: number) =>
  sql`update events set seq = ${to} where scope_id = ${scope}::uuid and seq = ${from}`
const setCounter = (scope: string, seq: number) => sql`update journals set seq = ${seq} where scope_id = ${scope}::uuid`
/** Computes the chain again, as an attacker with write access to the database could: by inserting every event again. */
const computeAgain = (scope: string) => [
  sql`create temporary table copied on commit drop as select * from events where scope_id = ${scope}::uuid`,
  sql`delete from events where scope_id = ${scope}::uuid`,
  sql`insert into events select * from copied order by seq`,
]

describe('a journal', () => {
  it('that was not changed has no fault', async () => {
    const { scope } = await newJournal()
    await sweep()
    expect(await verify(scope)).toEqual({ scope, events: 10, withoutHash: 0, heads: 1, unknownKeys: 0, faults: [] })
    expect(await listJournals(getApp().database)).toContain(scope)
  })

  it('that 20 requests write at once has a valid chain', async () => {
    const tenant = await newTenant()
    const writes = Array.from({ length: 20 }, async (_, i) => {
      for (let n = 0; n < 5; n++) expect((await tenant.post('/v2/tag-keys', { key: `key-${i}-${n}` })).status).toBe(201)
    })
    await Promise.all(writes)
    expect(await verify(tenant.tenant_id)).toMatchObject({ events: 101, faults: [] })
  })

  it('has a valid chain where one statement writes many events', async () => {
    const tenant = await newTenant()
    const parent = (await tenant.post('/workspaces/current/api-keys', { description: 'parent' })).body
    for (let i = 0; i < 10; i++) await tenant.as(parent.key).post('/workspaces/current/api-keys', { description: 'x' })
    await tenant.delete(`/workspaces/current/api-keys/${parent.id}`)
    expect(await verify(tenant.tenant_id)).toMatchObject({ events: 23, faults: [] })
  })

  it.each<[string, string, (journal: Awaited<ReturnType<typeof newJournal>>) => SQL[]]>([
    ['an event changed', 'changed: Event 5 ', ({ at }) => [sql`update events set data = '{"x":1}' where ${at(5)}`]],
    [
      'the time of an event changed',
      'changed: Event 5 ',
      ({ at }) => [sql`update events set created_at = now() where ${at(5)}`],
    ],
    [
      'an event changed with its hash',
      'changed: Event 6 ',
      ({ at }) => [sql`update events set actor_name = 'x', hash = 'x' where ${at(5)}`],
    ],
    ['a hash removed', 'changed: Event 5 has no hash', ({ at }) => [sql`update events set hash = null where ${at(5)}`]],
    ['an event removed', 'removed: Event 5 is missing', ({ at }) => [sql`delete from events where ${at(5)}`]],
    [
      'an event removed and the others renumbered',
      'removed: An event before',
      ({ scope, at }) => [
        sql`delete from events where ${at(5)}`,
        ...[6, 7, 8, 9, 10].map(seq => move(scope, seq, seq - 1)),
        setCounter(scope, 9),
      ],
    ],
    [
      'the oldest events removed',
      'removed: Events 1 to 3 are missing',
      ({ scope }) => [sql`delete from events where scope_id = ${scope}::uuid and seq <= 3`],
    ],
    [
      'the newest events removed',
      'removed: Events 9 to 10 are missing',
      ({ scope }) => [sql`delete from events where scope_id = ${scope}::uuid and seq > 8`],
    ],
    [
      'an event appended without the counter',
      'inserted: Event 11 ',
      ({ scope, at }) => [
        sql`create temporary table copied on commit drop as select * from events where ${at(10)}`,
        sql`update copied set seq = 11`,
        sql`insert into events select * from copied where scope_id = ${scope}::uuid`,
      ],
    ],
    [
      'an event inserted and the others renumbered',
      'inserted: Event 5 ',
      ({ scope, at }) => [
        sql`create temporary table copied on commit drop as select * from events where ${at(5)}`,
        ...[10, 9, 8, 7, 6, 5].map(seq => move(scope, seq, seq + 1)),
        sql`insert into events select * from copied`,
        setCounter(scope, 11),
      ],
    ],
    [
      'two events exchanged',
      'reordered: Events 5 and 6 were exchanged.',
      ({ scope }) => [move(scope, 5, -1), move(scope, 6, 5), move(scope, -1, 6)],
    ],
    [
      'distant events exchanged',
      'reordered: Event 8 was written as event 4.',
      ({ scope }) => [move(scope, 4, -1), move(scope, 8, 4), move(scope, -1, 8)],
    ],
    ['the counter set back', 'inserted: Event 10 ', ({ scope }) => [setCounter(scope, 8)]],
    [
      'the counter deleted',
      'inserted: Event 10 ',
      ({ scope }) => [sql`delete from journals where scope_id = ${scope}::uuid`],
    ],
  ])('with %s has a fault', async (_, fault, tamper) => {
    const journal = await newJournal()
    await change(...tamper(journal))
    expect(await findFaults(journal.scope)).toContainEqual(expect.stringContaining(fault))
  })

  it.each<[string, string, (journal: Awaited<ReturnType<typeof newJournal>>) => SQL[]]>([
    [
      'an event changed and all hashes computed again',
      'signature: Event 10 has another hash',
      ({ scope, at }) => [sql`update events set data = '{"x":1}' where ${at(5)}`, ...computeAgain(scope)],
    ],
    [
      'the newest events and the counter removed',
      'removed: Event 10 was signed on',
      ({ scope }) => [sql`delete from events where scope_id = ${scope}::uuid and seq > 8`, setCounter(scope, 8)],
    ],
    [
      'the signed hash changed',
      'signature: The signature of the head at event 10',
      ({ scope }) => [sql`update journal_heads set hash = 'x' where scope_id = ${scope}::uuid`],
    ],
    [
      'a signature without its key',
      'signature: The signature of the head',
      ({ scope }) => [sql`update journal_heads set signature = 'first.AAAA' where scope_id = ${scope}::uuid`],
    ],
  ])('that is signed, with %s, has a fault', async (_, fault, tamper) => {
    const journal = await newJournal()
    await sweep()
    await change(...tamper(journal))
    expect(await findFaults(journal.scope)).toContainEqual(expect.stringContaining(fault))
  })

  it('whose signatures were deleted has a fault once its events are older than two days', async () => {
    const { scope } = await newJournal()
    await sweep()
    await change(sql`delete from journal_heads where scope_id = ${scope}::uuid`)
    expect(await findFaults(scope)).toEqual([])
    expect(await findFaults(scope, Date.now() + 3 * DAY_MS)).toEqual([
      expect.stringContaining('signature: No signature covers event 1 '),
    ])
  })

  it('is signed once a day while it is written', async () => {
    const { tenant, scope } = await newJournal()
    await sweep()
    await rename(tenant, 'later')
    await sweep()
    expect(await verify(scope)).toMatchObject({ heads: 1 })
    await withClockAhead(DAY_MS + 1000, sweep)
    await withClockAhead(2 * DAY_MS + 2000, sweep)
    expect(await verify(scope)).toMatchObject({ heads: 2, faults: [] })
  })

  it('may have events from before the chain, but none after its first hash', async () => {
    const { scope } = await newJournal()
    await change(sql`update events set hash = null where scope_id = ${scope}::uuid`)
    expect(await verify(scope)).toMatchObject({ events: 10, withoutHash: 10, faults: [] })
  })
})

describe('the deletion of old events', () => {
  const age = (scope: string, days: number, last: number) => [
    // The events get earlier times, and the chain is computed with those.
    sql`create temporary table copied on commit drop as select * from events where scope_id = ${scope}::uuid`,
    sql`delete from events where scope_id = ${scope}::uuid`,
    sql`update copied set created_at = created_at - ${`${days} days`}::interval where seq <= ${last}`,
    sql`insert into events select * from copied order by seq`,
  ]

  it('leaves a valid chain, which goes on', async () => {
    const { tenant, scope } = await newJournal()
    await change(...age(scope, 401, 4))
    await sweep()
    expect(await verify(scope)).toMatchObject({ events: 6, faults: [] })
    await change(...age(scope, 401, 10))
    await sweep()
    expect(await verify(scope)).toMatchObject({ events: 0, faults: [] })
    await rename(tenant, 'after')
    expect(await verify(scope)).toMatchObject({ events: 1, faults: [] })
  })

  it('keeps an old event behind one that is not old, so that the chain has no gap', async () => {
    const { scope } = await newJournal()
    await change(
      ...age(scope, 401, 4),
      sql`update events set created_at = now() where scope_id = ${scope}::uuid and seq = 2`,
    )
    await sweep()
    expect((await verify(scope)).events).toBe(9)
  })

  it('runs while requests write, and the chain is valid', async () => {
    const { tenant, scope } = await newJournal()
    await change(...age(scope, 401, 10))
    const writes = Array.from({ length: 10 }, (_, i) => tenant.post('/v2/tag-keys', { key: `key-${i}` }))
    const replies = await Promise.all([...writes, sweep(), sweep()])
    for (const reply of replies.slice(0, 10)) expect(reply).toMatchObject({ status: 201 })
    expect(await verify(scope)).toMatchObject({ events: 10, faults: [] })
  })

  it.each<[string, string, (scope: string) => SQL[]]>([
    [
      'was changed',
      'signature: The signature of the checkpoint at event 6',
      scope => [
        sql`delete from events where scope_id = ${scope}::uuid and seq <= 6`,
        sql`update journal_checkpoints c set seq = 6 where scope_id = ${scope}::uuid`,
      ],
    ],
    [
      'covers events that were made older to be deleted',
      'removed: Events 11 to 12 were removed before their time',
      scope => [
        sql`update events set created_at = now() - interval '500 days' where scope_id = ${scope}::uuid and seq <= 12`,
      ],
    ],
  ])('has a fault if the checkpoint %s', async (_, fault, tamper) => {
    const { tenant, scope } = await newJournal()
    await change(...age(scope, 401, 4))
    await sweep()
    for (const name of ['a', 'b', 'c']) await rename(tenant, name)
    await change(...tamper(scope))
    await sweep()
    expect(await findFaults(scope)).toContainEqual(expect.stringContaining(fault))
  })
})

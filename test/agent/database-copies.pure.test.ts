// The copies of databases that an agent makes at a time, and the snapshots that it makes none of.
import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { DatabaseCopies } from '../../src/agent/reconcile/database-copies.ts'
import type { Observation } from '../../src/agent/reconcile/observe.ts'
import { revisionSpecOf } from '../../src/agent/reconcile/work.ts'
import type { CopiedSnapshots } from '../../src/agent/snapshots/copy-database.ts'
import type { FeatureName } from '../../src/protocol/engine-features.ts'
import type { HeldSnapshot, SnapshotReason } from '../../src/protocol/snapshots.schema.ts'
import { FakeEngine } from '../proof/kit/fake-engine.ts'
import { makeRevisionWork, makeWork } from '../support/fake-control-plane.ts'

const SEEN = { observed: { database: 'ready', revisions: {} }, databaseFailure: null } as unknown as Observation

function makeCopies(over: Partial<CopiedSnapshots>, features: FeatureName[]) {
  const engine = new FakeEngine()
  Object.assign(engine, { policy: { ...engine.policy, features } })
  const snapshots = { storesOf: async () => ['database'], requireSpace: () => {}, ...over } as CopiedSnapshots
  const ended: string[] = []
  const onChange = (id: string) => void ended.push(id)
  const copies = new DatabaseCopies({ engine, snapshots, log: () => {}, onChange, retry_ms: 1 })
  const start = (from_deployment_id: string): string => {
    const id = randomUUID()
    const revision = makeRevisionWork({ source: 'internal_container', image_uri: 'shop:1' })
    const work = {
      ...makeWork(id),
      revision,
      database_copy: { from_deployment_id, from_name: 'shop', copied: false },
    }
    copies.judge(work, SEEN, () => revisionSpecOf(work, revision, {} as never))
    return id
  }
  return { copies, start, ended }
}

test('one database is copied once at a time, and leaves room for a copy of another', async () => {
  const running: { id: string; end: () => void }[] = []
  const restore: CopiedSnapshots['restore'] = (spec, _store, _from, signal) =>
    new Promise((end, reject) => {
      running.push({ id: spec.deployment_id, end })
      signal.addEventListener('abort', () => reject(signal.reason))
    })
  const { copies, start, ended } = makeCopies({ restore }, ['database_history'])
  const [shop, other, third] = [randomUUID(), randomUUID(), randomUUID()]
  const ids = [start(shop), start(shop), start(shop), start(other), start(third)]
  const runningIds = () => running.map(({ id }) => id)
  await expect.poll(runningIds).toEqual([ids[0], ids[3]])
  // One that waits can be deleted.
  await copies.stop(ids[1]!)
  running[0]!.end()
  await expect.poll(runningIds).toEqual([ids[0], ids[3], ids[2]])
  running[1]!.end()
  await expect.poll(runningIds).toEqual([ids[0], ids[3], ids[2], ids[4]])
  await copies.stop(ids[2]!)
  running[3]!.end()
  await expect.poll(() => ended).toEqual([ids[0], ids[3], ids[4]])
})

test.each<[SnapshotReason, boolean]>([
  ['schedule', true],
  ['before_restore', false],
])('without a history, the newest snapshot is restored unless its data were replaced: %s', async (reason, isUsed) => {
  const shop = randomUUID()
  const snapshotOf = (of: SnapshotReason): HeldSnapshot => ({
    id: randomUUID(),
    deployment_id: shop,
    store: 'database',
    reason: of,
    size_bytes: 1,
    taken_at: new Date().toISOString(),
    expires_at: null,
  })
  const [held, fresh] = [snapshotOf(reason), snapshotOf('automatic')]
  const restored: unknown[] = []
  const restore: CopiedSnapshots['restore'] = async (_spec, _store, from) => void restored.push(from)
  const { start } = makeCopies({ restore, take: async () => fresh, listHeld: () => [held] }, [])
  start(shop)
  await expect.poll(() => restored).toEqual([{ snapshot_id: (isUsed ? held : fresh).id }])
})

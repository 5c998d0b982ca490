// The object store holds texts that are too long for a row: JSON members of runs, and attachments.

import { verifyKey } from '../../kernel/db/db.ts'
import type { Ctx } from '../../kernel/http/context.ts'
import { fail, isDatabaseUnavailable } from '../../kernel/http/errors.ts'
import type { Storage } from '../../platform.ts'
import { MAX_IN_ROW, PAYLOADS, type StoredObject, type StoredObjects } from '../store/store.ts'
import type { MergedRun } from './merged-operations.ts'
import { cutText } from './run-contents.ts'

const PARALLEL_PUTS = 8

type PutObject = { run_id: string; path: string; bytes: number }
type Pending = { run_id: string; bytes: Uint8Array<ArrayBuffer>; stored: StoredObject }

/** Runs as rows, and the objects that were put for them. */
export type StoredRuns = { runs: (MergedRun & { objects?: StoredObjects })[]; objects: PutObject[] }

/**
 * Puts objects and then stores the rows. Rows that are refused leave no objects behind. After a failure that may have
 * stored them, the objects stay.
 */
export async function withObjects(
  ctx: Ctx,
  runs: MergedRun[],
  store: (stored: StoredRuns) => Promise<void>,
): Promise<void> {
  const { storage } = ctx.platform
  const pending: Pending[] = []
  const stored = runs.map(run => moveIntoObjects(run, storage, pending))
  if (!storage || pending.length === 0) return store({ runs: stored, objects: [] })
  // Objects are put only for a key that may do this.
  if (!ctx.requestInfo.keyLookedUp) await verifyKey(ctx)
  const objects = pending.map(({ run_id, bytes, stored }) => ({
    run_id,
    bytes: bytes.byteLength,
    path: pathOf(stored),
  }))
  try {
    await putAll(storage, pending)
    await store({ runs: stored, objects })
  } catch (error) {
    if (!isDatabaseUnavailable(error)) await storage.remove(objects.map(({ path }) => path)).catch(() => {})
    throw error
  }
}

function moveIntoObjects(run: MergedRun, storage: Storage | undefined, pending: Pending[]): StoredRuns['runs'][number] {
  const objects: StoredObjects = {}
  const kept: MergedRun & { objects?: StoredObjects } = { ...run }
  const move = (bytes: Uint8Array<ArrayBuffer>, type?: string): StoredObject => {
    const common = { bytes: bytes.byteLength, ...(type !== undefined && { type }) }
    if (!storage) return { ...common, base64: Buffer.from(bytes).toString('base64') }
    const stored = { ...common, path: newPath() }
    pending.push({ run_id: run.id, bytes, stored })
    return stored
  }
  for (const payload of PAYLOADS) {
    const text = run[payload]
    if (!storage || text === undefined || text.length <= MAX_IN_ROW) continue
    objects[payload] = move(new TextEncoder().encode(text))
    kept[payload] = ''
  }
  const { error } = run
  if (error !== undefined && error.length > MAX_IN_ROW) {
    objects.error = move(new TextEncoder().encode(error), 'text/plain')
    kept.error = cutText(error, MAX_IN_ROW)
  }
  if (run.attachments.length > 0)
    objects.attachments = Object.fromEntries(run.attachments.map(({ name, type, bytes }) => [name, move(bytes, type)]))
  return Object.keys(objects).length > 0 ? { ...kept, objects } : kept
}

/** Each put has a path of its own: a repeated request must not replace the objects of the first one. */
const newPath = (): string => `traces/${new Date().toISOString().slice(0, 10)}/${crypto.randomUUID()}`
const pathOf = (stored: StoredObject): string => (stored as { path: string }).path

async function putAll(storage: Storage, pending: Pending[]): Promise<void> {
  const remaining = [...pending]
  const putNext = async () => {
    for (let next = remaining.pop(); next; next = remaining.pop()) await storage.put(pathOf(next.stored), next.bytes)
  }
  const workers = await Promise.allSettled(Array.from({ length: PARALLEL_PUTS }, putNext))
  const failed = workers.find(({ status }) => status === 'rejected') as PromiseRejectedResult | undefined
  if (failed) throw fail('trace_storage_unavailable', { headers: { 'Retry-After': '5' }, cause: failed.reason })
}

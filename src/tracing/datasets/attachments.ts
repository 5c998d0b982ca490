// Attachments of examples: reserved in the database, put into the object store, and deleted once no example has them.
import { sql } from 'drizzle-orm'
import { sha256Hex } from '../../kernel/crypto/digest.ts'
import { type Row, run, runAsSystem, uuidArray } from '../../kernel/db/db.ts'
import { setClock } from '../../kernel/db/journal.ts'
import { LEASE } from '../../kernel/db/outbox.ts'
import { requireRow } from '../../kernel/db/rows.ts'
import { MISSING_STORAGE } from '../../kernel/db/storage.ts'
import { type Ctx, type DatabaseServices, withoutRateLimit } from '../../kernel/http/context.ts'
import { fail, notConfigured } from '../../kernel/http/errors.ts'
import { pathOfObject } from './attachment-links.ts'
import type { NewAttachment } from './example-input.ts'
import type { ExampleAttachments } from './tables.ts'

const PARALLEL_PUTS = 8

type Attached = { attachments: NewAttachment[] }
type Pending = { id: string; bytes: Uint8Array<ArrayBuffer> }

/**
 * Puts the attachments of a request before its examples are stored. The sweep removes those of a request that fails
 * later. A request with attachments takes one more round trip, which checks the key before anything is put.
 */
export async function storeAttachments<Example extends Attached>(
  ctx: Ctx,
  examples: Example[],
): Promise<{ ctx: Ctx; examples: (Example & { stored?: ExampleAttachments })[] }> {
  const pending: Pending[] = []
  const stored = examples.map(example => {
    const { attachments } = example
    if (attachments.length === 0) return example
    return { ...example, stored: Object.fromEntries(attachments.map(one => describeAttachment(one, pending))) }
  })
  if (pending.length === 0) return { ctx, examples }
  const { storage } = ctx.platform
  if (!storage) throw notConfigured(MISSING_STORAGE)
  const [tenant] = requireRow(await run(ctx, reserveObjects(pending, ctx.config.uploadBytes)), 'workspace_not_found')
  const remaining = [...pending]
  const putNext = async () => {
    for (let next = remaining.pop(); next; next = remaining.pop())
      await storage.put(pathOfObject(tenant as string, next.id), toStream(next.bytes))
  }
  const outcomes = await Promise.allSettled(Array.from({ length: PARALLEL_PUTS }, putNext))
  const failed = outcomes.find(({ status }) => status === 'rejected') as PromiseRejectedResult | undefined
  if (failed) throw fail('attachments_unavailable', { headers: { 'Retry-After': '5' }, cause: failed.reason })
  return { ctx: withoutRateLimit(ctx), examples: stored }
}

function describeAttachment(
  { name, mime_type, bytes }: NewAttachment,
  pending: Pending[],
): [name: string, described: ExampleAttachments[string]] {
  const id = crypto.randomUUID()
  pending.push({ id, bytes })
  return [name, { id, mime_type, size: bytes.byteLength, sha256: sha256Hex(bytes) }]
}

const reserveObjects = (pending: Pending[], limit: number) => {
  const sizes = pending.map(({ bytes }) => bytes.byteLength)
  const total = sizes.reduce((sum, size) => sum + size, 0)
  return sql<Row>`
    insert into example_objects (id, organization_id, tenant_id, bytes)
    select o.id, current_organization(), current_tenant(), o.bytes
    from unnest(${uuidArray(pending.map(({ id }) => id))}, ${sql.param(sizes)}::bigint[]) as o(id, bytes)
    where (select require_attachment_room(current_tenant(), ${total}, ${limit}))
    returning tenant_id`
}

const toStream = (bytes: Uint8Array<ArrayBuffer>): ReadableStream<Uint8Array> => new Blob([bytes]).stream()

const MAX_REMOVALS = 100

/** Looks at each object a day after it was put, and an hour after an example that had it was deleted. */
export async function sweepAttachments({ platform, database }: DatabaseServices): Promise<void> {
  const { storage } = platform
  if (!storage) return
  const due = sql`
      select id
      from example_objects
      where check_at < clock()
      order by check_at
      limit ${MAX_REMOVALS}
      for update skip locked`
  const isUsed = sql`exists (
      select from examples e
      where e.tenant_id = o.tenant_id and e.object_ids @> array[o.id]
    )`
  // Unused objects are due again after the lease, unless they are removed from the store by then.
  const check = sql<Row>`
    with due as (${due})
    update example_objects o
    set check_at = case when ${isUsed} then null else clock() + ${LEASE} end
    from due
    where o.id = due.id
    returning o.id, o.tenant_id, o.check_at is null`
  const [, checked] = (await runAsSystem(database, setClock(platform), check)) as [unknown, [string, string, boolean][]]
  const unused = checked.filter(([, , used]) => !used)
  if (unused.length === 0) return
  await storage.remove(unused.map(([id, tenant]) => pathOfObject(tenant, id)))
  const ids = uuidArray(unused.map(([id]) => id))
  await runAsSystem(database, sql`delete from example_objects where id = any(${ids})`)
}

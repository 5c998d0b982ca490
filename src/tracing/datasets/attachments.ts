// Attachments of examples: reserved in the database, then put into the object store.
import { sql } from 'drizzle-orm'
import { sha256Hex } from '../../kernel/crypto/digest.ts'
import { type Row, run, uuidArray } from '../../kernel/db/db.ts'
import { requireRow } from '../../kernel/db/rows.ts'
import { MISSING_STORAGE } from '../../kernel/db/storage.ts'
import type { Ctx } from '../../kernel/http/context.ts'
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
): Promise<(Example & { stored?: ExampleAttachments })[]> {
  const pending: Pending[] = []
  const stored = examples.map(example => {
    const { attachments } = example
    if (attachments.length === 0) return example
    return { ...example, stored: Object.fromEntries(attachments.map(one => describeAttachment(one, pending))) }
  })
  if (pending.length === 0) return examples
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
  return stored
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

// Uploads of source archives: by a signed link that works once.
import { type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { createSigner } from '../../kernel/crypto/crypto.ts'
import { type Row, refuseUnless, runAsSystem } from '../../kernel/db/db.ts'
import { commit, journalTenantEvents, setSystemSettings } from '../../kernel/db/journal.ts'
import { createdMembers, recordColumns } from '../../kernel/db/recorded-changes.ts'
import { requireRow } from '../../kernel/db/rows.ts'
import { MISSING_STORAGE } from '../../kernel/db/storage.ts'
import { type OpenRequest, verb } from '../../kernel/http/context.ts'
import { Failure, fail, notConfigured } from '../../kernel/http/errors.ts'
import type { Services } from '../../kernel/http/routes.ts'
import type * as shared from '../deployments/schema.ts'
import { isDeployment } from '../deployments/service.ts'
import { deployments } from '../deployments/tables.ts'
import { inspectArchive, MAX_ARCHIVE_BYTES } from './archive-inspection.ts'
import { uploads } from './tables.ts'
import type * as schema from './uploads.schema.ts'

type UploadLink = z.output<typeof schema.UploadRef> & z.output<typeof schema.UploadSignature>
type UploadRow = typeof uploads.$inferSelect
type SigningKeys = { sealingKeys: [kid: string, key: string][] }

export const UPLOAD_RECORD = recordColumns(uploads, ['object_path', 'size', 'sha256'])
/** Null until the archive is stored. */
const ARCHIVE_RECORD = recordColumns(uploads, ['size', 'sha256'])

const linkSigner = ({ sealingKeys }: SigningKeys) => createSigner(sealingKeys, 'upload links')
const signedText = ({ workspace_id, upload_id, expires }: Omit<UploadLink, 'signature'>) =>
  ['PUT', workspace_id, upload_id, expires].join('\n')

export const offerUpload = verb(
  'deployments:update',
  async (ctx, { deployment_id }: z.output<typeof shared.DeploymentRef>): Promise<schema.UploadTarget> => {
    if (!ctx.platform.storage) throw notConfigured(MISSING_STORAGE)
    const id = crypto.randomUUID()
    const takesArchives = sql`case
      when ${deployments.source} = 'internal_source' then true
      else refuse('source_rule', 'source must be internal_source for an upload')
    end`
    const change = sql<UploadRow>`
      insert into uploads (id, organization_id, tenant_id, deployment_id, object_path, expires_at, actor_kind, actor_id)
      select ${id}::uuid, organization_id, tenant_id, id,
        tenant_id || '/' || ${id}::text || '.tar.gz',
        clock() + interval '15 minutes',
        setting('actor_kind'), current_actor()
      from ${deployments}
      where ${isDeployment(deployment_id)}
        and require_upload_link_room(tenant_id, ${MAX_UNUSED_LINKS})
        and require_upload_room(tenant_id, 1, ${ctx.config.uploadBytes})
        and ${refuseUnless('deployment_deleting', sql`${deployments.deleting_at} is null`)}
        and ${takesArchives}
      returning *`
    const parts = { changes: createdMembers(UPLOAD_RECORD) }
    const rows = await commit(ctx, 'upload.offered', change, { deployment_id }, parts)
    const row = requireRow(rows, 'deployment_not_found')
    const expires = Date.parse(row.expires_at)
    const link = { workspace_id: row.tenant_id, upload_id: row.id, expires }
    const signature = await linkSigner(ctx.config).sign(signedText(link))
    const query = new URLSearchParams({ expires: String(expires), signature })
    return {
      upload_url: `${ctx.origin}/v2/uploads/${row.tenant_id}/${row.id}?${query}`,
      object_path: row.object_path,
    }
  },
)

type UploadBody = Pick<OpenRequest, 'requestId' | 'request'> & {
  stream: ReadableStream<Uint8Array> | null
  length: number | null
  type: string | undefined
}
/** The limit of a workspace. */
const MAX_UNUSED_LINKS = 100
const ARCHIVE_TYPES = /^application\/(gzip|x-gzip|x-gtar|x-tgz|x-tar|octet-stream)\s*(;|$)/i

/** A request that is refused by its headers leaves the link unused; a later failure does not. */
export async function receiveUpload(
  { config, platform, database }: Services,
  link: UploadLink,
  body: UploadBody,
): Promise<schema.Upload> {
  const { storage } = platform
  if (!(await linkSigner(config).verify(link.signature, signedText(link)))) throw fail('upload_link_invalid')
  if (link.expires <= platform.clock.now()) throw fail('upload_link_expired')
  if (body.type !== undefined && !ARCHIVE_TYPES.test(body.type)) throw fail('not_gzip_type')
  if ((body.length ?? 0) > MAX_ARCHIVE_BYTES) throw fail('archive_too_large')
  if (!storage) throw notConfigured(MISSING_STORAGE)
  if (!body.stream) throw fail('archive_invalid')

  const settings = setSystemSettings(platform, body.requestId, body.request)
  const [, claimed] = await runAsSystem(
    database,
    settings,
    claimUpload(link, body.length || MAX_ARCHIVE_BYTES, config.uploadBytes),
  )
  const [path] = requireRow(claimed as Row[], 'upload_link_expired') as [string]
  const { stream, summary } = inspectArchive(body.stream, body.length)
  await storage.put(path, stream).catch(cause => {
    throw cause instanceof Failure ? cause : fail('storage_unavailable', { cause })
  })
  const [, stored] = await runAsSystem(database, settings, markStored(link, summary))
  requireRow(stored as Row[], 'upload_link_expired')
  return { object_path: path, ...summary }
}

const isUploadOfLink = ({ workspace_id, upload_id }: UploadLink): SQL =>
  sql`id = ${upload_id}::uuid and tenant_id = ${workspace_id}::uuid`

/** The second of two concurrent uploads waits here, and then finds the link used. */
const claimUpload = (link: UploadLink, bytes: number, limit: number): SQL<Row> => sql`
  update uploads set state = 'receiving', used_at = clock(), reserved = ${bytes}
  where ${isUploadOfLink(link)}
    and expires_at > clock()
    and (made_by is null or is_living_credential(made_by))
    and ${refuseUnless('upload_link_used', sql`used_at is null`)}
    and require_upload_room(tenant_id, ${bytes}, ${limit})
  returning object_path`

const STORED_EVENTS = sql`
    select ${uploadEventColumns('upload.stored', createdMembers(ARCHIVE_RECORD))}
    from changed`
const LINK_ACTOR = sql`changed.actor_kind, changed.actor_id, coalesce(
      (select k.description from api_keys k where k.id = changed.actor_id),
      (select coalesce(m.full_name, m.email) from members m where m.id = changed.actor_id)
    )`

/** The actor of the event is the one who requested the link. */
const markStored = (link: UploadLink, { size, sha256 }: { size: number; sha256: string }): SQL<Row> => sql`
  with changed as (
    update uploads set state = 'stored', size = ${size}, sha256 = ${sha256}
    where ${isUploadOfLink(link)} and state = 'receiving'
    returning *)
  select id, ${journalTenantEvents(STORED_EVENTS, { actor: LINK_ACTOR })}
  from changed`

export function uploadEventColumns(type: string, changes: SQL): SQL {
  return sql`tenant_id, organization_id, ${type}::text as type, id as subject_id,
      json_build_object('deployment_id', deployment_id, 'object_path', object_path) as data,
      ${changes} as changes`
}

// Uploads of source archives: by a signed link that works once.
import { type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { describeConfigurationFaults } from '../../build-plan/configuration-faults.ts'
import { previewPlan, type SourceSettings } from '../../build-plan/plan-preview.ts'
import { MAX_PLAN_BYTES, toStoredPlan } from '../../build-plan/stored-plan.ts'
import { createSigner } from '../../kernel/crypto/crypto.ts'
import { type Row, refuseUnless, runAsSystem } from '../../kernel/db/db.ts'
import { commit, journalTenantEvents, setSystemSettings } from '../../kernel/db/journal.ts'
import { createdMembers, recordColumns } from '../../kernel/db/recorded-changes.ts'
import { requireRow } from '../../kernel/db/rows.ts'
import { MISSING_STORAGE } from '../../kernel/db/storage.ts'
import type { Code } from '../../kernel/http/codes.ts'
import { type Ctx, type OpenRequest, verb } from '../../kernel/http/context.ts'
import { Failure, fail, notConfigured } from '../../kernel/http/errors.ts'
import type { Services } from '../../kernel/http/routes.ts'
import type { Hold } from '../../kernel/limits/held-bytes.ts'
import type * as shared from '../deployments/schema.ts'
import { isDeployment } from '../deployments/service.ts'
import { deployments } from '../deployments/tables.ts'
import { inspectArchive, MAX_ARCHIVE_BYTES } from './archive-inspection.ts'
import { type ListedFiles, listArchive } from './archive-listing.ts'
import { type PlanSettings, uploads } from './tables.ts'
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

/** For an archive of a deployment, whose settings decide what its plan finds. */
export const offerUpload = verb(
  'deployments:update',
  async (ctx, { deployment_id }: z.output<typeof shared.DeploymentRef>): Promise<schema.UploadTarget> => {
    const takesArchives = sql`case
      when ${deployments.source} = 'internal_source' then true
      else refuse('source_rule', 'source must be internal_source for an upload')
    end`
    const source = sql`
      select organization_id, tenant_id, id as deployment_id, json_build_object(
        'root_directory', ${deployments.source_config} -> 'root_directory',
        'platform_config_path', ${deployments.source_revision_config} -> 'platform_config_path'
      ) as settings
      from ${deployments}
      where ${isDeployment(deployment_id)}
        and ${refuseUnless('deployment_deleting', sql`${deployments.deleting_at} is null`)}
        and ${takesArchives}`
    return offerLink(ctx, source, { deployment_id }, 'deployment_not_found')
  },
)

/** For the archive of a deployment that is yet to be created. */
export const offerNewUpload = verb(
  'deployments:create',
  async (ctx, { root_directory, platform_config_path }: schema.NewUpload): Promise<schema.UploadTarget> => {
    const settings: PlanSettings = {
      root_directory: root_directory ?? null,
      platform_config_path: platform_config_path ?? null,
    }
    const source = sql`
      select current_organization() as organization_id, current_tenant() as tenant_id, null::uuid as deployment_id,
        ${JSON.stringify(settings)}::json as settings`
    return offerLink(ctx, source, {}, 'workspace_not_found')
  },
)

/** `source` selects what the archive is for, or nothing if that does not exist. */
async function offerLink(
  ctx: Ctx,
  source: SQL,
  data: Record<string, unknown>,
  missing: Code,
): Promise<schema.UploadTarget> {
  if (!ctx.platform.storage) throw notConfigured(MISSING_STORAGE)
  const id = crypto.randomUUID()
  const change = sql<UploadRow>`
    insert into uploads (
      id, organization_id, tenant_id, deployment_id, settings, object_path, expires_at, actor_kind, actor_id
    )
    select ${id}::uuid, organization_id, tenant_id, deployment_id, settings,
      tenant_id || '/' || ${id}::text || '.tar.gz',
      clock() + interval '15 minutes',
      setting('actor_kind'), current_actor()
    from (${source}) s
    where require_upload_link_room(tenant_id, ${MAX_UNUSED_LINKS})
      and require_upload_room(tenant_id, 1, ${ctx.config.uploadBytes})
    returning *`
  const rows = await commit(ctx, 'upload.offered', change, data, { changes: createdMembers(UPLOAD_RECORD) })
  const row = requireRow(rows, missing)
  const expires = Date.parse(row.expires_at)
  const link = { workspace_id: row.tenant_id, upload_id: row.id, expires }
  const signature = await linkSigner(ctx.config).sign(signedText(link))
  const query = new URLSearchParams({ expires: String(expires), signature })
  return {
    upload_url: `${ctx.origin}/v2/uploads/${row.tenant_id}/${row.id}?${query}`,
    object_path: row.object_path,
  }
}

type UploadBody = Pick<OpenRequest, 'requestId' | 'request'> & {
  stream: ReadableStream<Uint8Array> | null
  length: number | null
  type: string | undefined
  /** The memory that the listing of the archive holds. */
  hold: Hold
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
    claimUpload(link, (body.length || MAX_ARCHIVE_BYTES) + MAX_PLANNED_BYTES, config.uploadBytes),
  )
  const [path, plannedWith] = requireRow(claimed as Row[], 'upload_link_expired') as [string, string | null]
  const planSettings: PlanSettings | null = plannedWith === null ? null : JSON.parse(plannedWith)
  const listing = listArchive(planSettings ?? {}, body.hold)
  const { stream, summary } = inspectArchive(body.stream, body.length, listing)
  try {
    await storage.put(path, stream)
  } catch (cause) {
    listing.cancel()
    throw cause instanceof Failure ? cause : fail('storage_unavailable', { cause })
  }
  const build = planArchive(await listing.end(), planSettings ?? {})
  body.hold.release()
  const [, stored] = await runAsSystem(database, settings, markStored(link, summary, build))
  requireRow(stored as Row[], 'upload_link_expired')
  return { object_path: path, ...summary, ...build }
}

type PlannedArchive = Pick<schema.Upload, 'build_plan' | 'build_refusal'>

function planArchive(files: ListedFiles | null, settings: SourceSettings): PlannedArchive {
  const outcome = files && previewPlan(files, settings, describeConfigurationFaults)
  if (!outcome || files.hasUnread()) return { build_plan: null, build_refusal: null }
  return 'plan' in outcome
    ? { build_plan: toStoredPlan(outcome.plan), build_refusal: null }
    : { build_plan: null, build_refusal: outcome.refusal.message.replaceAll('\0', '').slice(0, MAX_REFUSAL) }
}
const MAX_REFUSAL = 4096
/** A character takes at most three bytes. */
export const MAX_PLANNED_BYTES = MAX_PLAN_BYTES + 3 * MAX_REFUSAL

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
  returning object_path, settings::text`

const STORED_EVENTS = sql`
    select ${uploadEventColumns('upload.stored', createdMembers(ARCHIVE_RECORD))}
    from changed`
const LINK_ACTOR = sql`changed.actor_kind, changed.actor_id, coalesce(
      (select k.description from api_keys k where k.id = changed.actor_id),
      (select coalesce(m.full_name, m.email) from members m where m.id = changed.actor_id)
    )`

/** The actor of the event is the one who requested the link. */
const markStored = (
  link: UploadLink,
  { size, sha256 }: { size: number; sha256: string },
  { build_plan, build_refusal }: PlannedArchive,
): SQL<Row> => sql`
  with changed as (
    update uploads set
      state = 'stored', size = ${size}, sha256 = ${sha256},
      build_plan = ${build_plan && JSON.stringify(build_plan)}::json, build_refusal = ${build_refusal}
    where ${isUploadOfLink(link)} and state = 'receiving'
    returning *)
  select id, ${journalTenantEvents(STORED_EVENTS, { actor: LINK_ACTOR })}
  from changed`

export function uploadEventColumns(type: string, changes: SQL): SQL {
  return sql`tenant_id, organization_id, ${type}::text as type, id as subject_id,
      json_build_object('deployment_id', deployment_id, 'object_path', object_path) as data,
      ${changes} as changes`
}

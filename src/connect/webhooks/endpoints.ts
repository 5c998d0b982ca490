// Registers, reads, changes and deletes the webhooks of a workspace, and rotates their secrets.
import { and, eq, type SQL, sql } from 'drizzle-orm'
import type { AnyPgColumn } from 'drizzle-orm/pg-core'
import type * as z from 'zod'
import {
  bumpVersion,
  db,
  inTenant,
  type Row,
  requirePermission,
  run,
  runAsSystem,
  versionMatches,
} from '../../kernel/db/db.ts'
import { announceEvents, commit } from '../../kernel/db/journal.ts'
import { hasOnlyKnownIds } from '../../kernel/db/known-ids.ts'
import { changedMembers, createdMembers, deletedMembers, recordColumns } from '../../kernel/db/recorded-changes.ts'
import { requireRow, toIsoTime, withoutNulls } from '../../kernel/db/rows.ts'
import { type Placeholders, prepareStatement } from '../../kernel/db/statement.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import { requireAllowedUrl } from '../../kernel/http/guarded-fetch.ts'
import { afterCursor, hasName, hasOwner, newestFirst, readPage } from '../../kernel/http/paging.ts'
import { etagVersion, type Services } from '../../kernel/http/routes.ts'
import { newKeyPair, newSecret } from '../../protocol/webhook-signing.ts'
import type * as schema from './schema.ts'
import { SECRET_PLACE, SIGNING_KEY_PLACE } from './send.ts'
import { webhooks } from './tables.ts'

type WebhookParams = z.output<typeof schema.WebhookRef>
type WebhookRow = typeof webhooks.$inferSelect

const toWire = (row: WebhookRow): schema.Webhook & { [etagVersion]: number } => ({
  id: row.id,
  url: row.url,
  description: row.description,
  event_types: row.event_types,
  deployment_ids: row.deployment_ids,
  tag_value_ids: row.tag_value_ids,
  enabled: row.enabled,
  owner: row.owner,
  health: {
    status: row.disabled_at !== null ? 'disabled' : row.failing_since !== null ? 'failing' : 'ok',
    failing_since: toIsoTime(row.failing_since),
    disabled_at: toIsoTime(row.disabled_at),
    disabled_reason: row.disabled_reason,
  },
  after: Number(row.position),
  public_key: row.public_key,
  previous_secret_until: toIsoTime(row.previous_secret_until),
  created_at: toIsoTime(row.created_at),
  updated_at: toIsoTime(row.updated_at),
  [etagVersion]: row.version,
})

const withSecret = async ({ sealer }: Ctx, row: WebhookRow) => ({
  ...toWire(row),
  secret: await sealer.open(row.secret, row.id, SECRET_PLACE),
})

export const isWebhook = ({ webhook_id }: WebhookParams | Placeholders<WebhookParams>): SQL =>
  and(eq(webhooks.id, webhook_id), inTenant(webhooks))!

/** The URL is shown without its query, which may hold a secret. */
const RECORDED = {
  url: (row: SQL) => sql`split_part(${row}.url, '?', 1)`,
  description: (row: SQL) => sql`nullif(${row}.description, '')`,
  ...Object.fromEntries(
    (['event_types', 'deployment_ids', 'tag_value_ids', 'enabled', 'owner'] as const).map(name => [
      name,
      (row: SQL) => sql`${row}.${sql.identifier(name)}`,
    ]),
  ),
}

const hasKnownFilters = ({ deployment_ids = [], tag_value_ids = [] }: Partial<schema.NewWebhook>): SQL =>
  sql`${hasOnlyKnownIds('deployment_not_found', sql`deployments`, deployment_ids)}
    and ${hasOnlyKnownIds('tag_value_not_found', sql`tag_values`, tag_value_ids)}`

/** A webhook gets what a key with `events:read` sees. */
const CAN_READ_EVENTS = requirePermission('events:read')

/** The position is not beyond the journal: otherwise later events would be left out. */
const positionAfter = (after: number | null | undefined): SQL => sql`coalesce((
    select least(${after ?? null}::bigint, j.seq)
    from journals j
    where j.scope_id = current_tenant()), 0)`

type WebhookPage = z.output<typeof schema.WebhookQuery>
const pageStatement = prepareStatement((page: Placeholders<WebhookPage>) =>
  db
    .select()
    .from(webhooks)
    .where(
      and(
        inTenant(webhooks),
        hasName(webhooks.url, { name: page.url }),
        hasOwner(webhooks.owner, page),
        afterCursor(webhooks, page),
      ),
    )
    .orderBy(...newestFirst(webhooks))
    .limit(page.limit)
    .offset(page.offset),
)

export const listWebhooks = verb('webhooks:read', (ctx, page: WebhookPage) =>
  readPage(ctx, pageStatement, page, toWire),
)

const webhookStatement = prepareStatement((ref: Placeholders<WebhookParams>) =>
  db.select().from(webhooks).where(isWebhook(ref)),
)

export const readWebhook = verb('webhooks:read', async (ctx, { webhook_id }: WebhookParams) =>
  toWire(requireRow(await run(ctx, webhookStatement({ webhook_id })), 'webhook_not_found')),
)

export const createWebhook = verb('webhooks:manage', async (ctx, { after, ...input }: schema.NewWebhook) => {
  requireAllowedUrl(ctx.config, ctx.origin, input.url)
  const id = crypto.randomUUID()
  const { publicKey, privateKey } = await newKeyPair()
  const values = {
    ...input,
    id,
    organization_id: sql`current_organization()`,
    tenant_id: sql`case when ${CAN_READ_EVENTS} and ${hasKnownFilters(input)} then current_tenant() end`,
    secret: await ctx.sealer.seal(newSecret(), id, SECRET_PLACE),
    signing_key: await ctx.sealer.seal(privateKey, id, SIGNING_KEY_PLACE),
    public_key: publicKey,
    position: positionAfter(after),
  }
  const change = db.insert(webhooks).values(values).returning()
  const { event_types, enabled } = input
  const changes = createdMembers(RECORDED)
  const rows = await commit(ctx, 'webhook.created', change, { event_types, enabled }, { lock: LOCK_WORKSPACE, changes })
  announceEvents(ctx)
  // A repeated request gets the stored row, and with it the same secret.
  return withSecret(ctx, requireRow(rows, 'workspace_not_found'))
})

/** Locks the workspace before the journal: deleting the workspace meanwhile could deadlock otherwise. */
const LOCK_WORKSPACE = sql`select from workspaces w where w.id = current_tenant() for key share`
const lockWebhook = (ref: WebhookParams): SQL => sql`select from ${webhooks} where ${isWebhook(ref)} for update`

/** A resumed webhook starts as if it were new. */
const RESUMED = {
  failing_since: null,
  disabled_reason: null,
  disabled_at: null,
  throttled: 0,
  next_send_at: sql`clock()`,
}

/** Deliveries from before the new position are not sent any more. */
const SKIPPED = sql`skipped as (
    update webhook_deliveries d
    set state = 'failed', next_attempt_at = null, error = 'skipped'
    from changed
    where d.webhook_id = changed.id and d.tenant_id = current_tenant() and d.state = 'waiting'
      and d.seq <= changed.position
  )`

export const changeWebhook = verb(
  'webhooks:manage',
  async (ctx, { webhook_id, after, owner, ...input }: WebhookParams & schema.WebhookPatch) => {
    if (input.url != null) requireAllowedUrl(ctx.config, ctx.origin, input.url)
    const changed = withoutNulls(input)
    const change = db
      .update(webhooks)
      .set({
        ...changed,
        ...(owner != null && { owner: owner || null }),
        ...(input.enabled != null && RESUMED),
        ...(after != null && { position: positionAfter(after) }),
        ...bumpVersion(webhooks),
      })
      .where(and(isWebhook({ webhook_id }), versionMatches(ctx, webhooks), CAN_READ_EVENTS, hasKnownFilters(changed)))
      .returning()
    const data = { supplied: Object.keys(withoutNulls({ ...input, owner, after })), ...(after != null && { after }) }
    const parts = {
      lock: lockWebhook({ webhook_id }),
      changes: changedMembers(webhooks, RECORDED),
      ...(after != null && { ctesAfter: [SKIPPED] }),
    }
    const rows = await commit(ctx, 'webhook.updated', change, data, parts)
    announceEvents(ctx)
    return toWire(requireRow(rows, 'webhook_not_found'))
  },
)

export const deleteWebhook = verb('webhooks:manage', async (ctx, ref: WebhookParams) => {
  const change = db
    .delete(webhooks)
    .where(and(isWebhook(ref), versionMatches(ctx, webhooks)))
    .returning()
  const parts = { lock: lockWebhook(ref), changes: deletedMembers(RECORDED) }
  requireRow(await commit(ctx, 'webhook.deleted', change, {}, parts), 'webhook_not_found')
})

export const rotateSecret = verb(
  'webhooks:manage',
  async (ctx, { webhook_id, overlap_seconds }: WebhookParams & schema.Rotation) => {
    const overlaps = overlap_seconds > 0
    const change = db
      .update(webhooks)
      .set({
        secret: await ctx.sealer.seal(newSecret(), webhook_id, SECRET_PLACE),
        previous_secret: overlaps ? sql`${webhooks.secret as AnyPgColumn}` : null,
        previous_secret_until: overlaps ? sql`clock() + ${overlap_seconds} * interval '1 second'` : null,
        ...bumpVersion(webhooks),
      })
      .where(isWebhook({ webhook_id }))
      .returning()
    const changes = changedMembers(webhooks, recordColumns(webhooks, ['previous_secret_until']))
    const parts = { lock: lockWebhook({ webhook_id }), changes }
    const rows = await commit(ctx, 'webhook.secret_rotated', change, { overlap_seconds }, parts)
    return withSecret(ctx, requireRow(rows, 'webhook_not_found'))
  },
)

/** Receivers need these keys to verify `v1a`. */
export async function readPublicKeys({ database }: Services, webhook_id: string): Promise<schema.PublicKeys> {
  const query = sql<Row>`select public_key from webhooks where id = ${webhook_id}::uuid`
  const [rows] = (await runAsSystem(database, query)) as [[string][]]
  const [whpk] = requireRow(rows, 'webhook_not_found')
  const x = Buffer.from(whpk.slice('whpk_'.length), 'base64').toString('base64url')
  return { keys: [{ kty: 'OKP', crv: 'Ed25519', use: 'sig', alg: 'EdDSA', kid: webhook_id, x, whpk }] }
}

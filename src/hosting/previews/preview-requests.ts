// Previews that a request makes: of a ref, a commit, an archive or an image. They need no connected git host.
import { sql } from 'drizzle-orm'
import type * as z from 'zod'
import { refuseUnless } from '../../kernel/db/db.ts'
import { commit } from '../../kernel/db/journal.ts'
import { changedMembers } from '../../kernel/db/recorded-changes.ts'
import { requireRow } from '../../kernel/db/rows.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import type { DeploymentRef } from '../deployments/schema.ts'
import { lockDeployment } from '../deployments/service.ts'
import { type PreviewRequest, previews } from '../pushes/tables.ts'
import { DEFAULT_POLICY, PREVIEW_RECORD } from './preview-lifecycle.ts'
import { requirePreviewDatabase } from './preview-policy.ts'
import type { NewPreview } from './previews.schema.ts'
import { ABOUT, reconcileAndNotify, type ShownPreview, toWire } from './previews.ts'

type Input = z.output<typeof DeploymentRef> & NewPreview

const SHORT_COMMIT_LENGTH = 12
/** Previews that wait for a place count, too: nothing else bounds them. */
const MAX_REQUESTED = 200
const nameOf = ({ branch, repo_ref, repo_commit_sha }: NewPreview): string =>
  branch ?? repo_ref?.replace(/^(?:refs\/)?heads\//, '') ?? repo_commit_sha!.slice(0, SHORT_COMMIT_LENGTH)

function describeRequest({ config }: Ctx, body: NewPreview): PreviewRequest {
  const { repo_ref, repo_commit_sha, source_tarball_path, image_uri, ttl } = body
  const common = ttl == null ? {} : { ttl_seconds: ttl }
  if (source_tarball_path != null) return { source: 'internal_source', source_tarball_path, ...common }
  if (image_uri != null)
    return { source: config.mode === 'saas' ? 'internal_container' : 'external_container', image_uri, ...common }
  return {
    source: 'githost',
    repo_ref: repo_ref ?? repo_commit_sha!,
    ...(repo_commit_sha != null && { repo_commit_sha }),
    ...common,
  }
}

const NEEDS_REPOSITORY = 'a ref or a commit needs a deployment of source githost; send an archive or an image'
const NO_PREVIEW_OF_PREVIEW = 'a preview has no previews of its own'

/** Stores the request. The preview is made after the answer, and by the sweep if this process dies. */
export const requestPreview = verb('deployments:update', async (ctx, { deployment_id, ...body }: Input) => {
  const request = describeRequest(ctx, body)
  const { source, source_tarball_path, ttl_seconds } = request
  const isDatabaseSent = body.database !== undefined
  // Stored with the request: a policy that changes later must not give it a copy.
  const database = isDatabaseSent
    ? sql`${JSON.stringify(body.database)}::jsonb`
    : sql`coalesce(to_jsonb(p.database), 'null')`
  const isDeployed = sql`v.state <> 'ended' and v.deployment_id is not null`
  const ttl = sql`coalesce(${ttl_seconds ?? null}::integer, p.ttl_seconds, ${DEFAULT_POLICY.ttl_seconds})`
  const isSame = sql`
    v.state = 'ended'
      or v.deployment_id is null
      or (v.request ->> 'source', v.request ->> 'repo_ref')
        is not distinct from (excluded.request ->> 'source', excluded.request ->> 'repo_ref')
      and (
        not ${isDatabaseSent}
        or coalesce(v.request::jsonb -> 'database', 'null') = coalesce(excluded.request::jsonb -> 'database', 'null'))`
  const hasRoom = sql`(
    select count(*)
    from (
      select
      from previews o
      where o.parent_id = d.id
        and o.tenant_id = current_tenant()
        and o.kind = 'request'
        and o.state <> 'ended'
        and o.branch <> ${nameOf(body)}
      limit ${MAX_REQUESTED}) others) < ${MAX_REQUESTED}`
  const change = sql<ShownPreview>`
    insert into previews as v
      (organization_id, tenant_id, parent_id, kind, state, branch, request, fork, changed_at, expires_at)
    select current_organization(), current_tenant(), d.id, 'request', 'pending', ${nameOf(body)},
      (${JSON.stringify(request)}::jsonb || jsonb_build_object('database', ${database}))::json, false, clock(),
      clock() + ${ttl} * interval '1 second'
    from deployments d
    left join preview_policies p on p.id = d.id and p.tenant_id = current_tenant()
    where d.id = ${deployment_id}::uuid
      and d.tenant_id = current_tenant()
      and ${refuseUnless('deployment_deleting', sql`d.deleting_at is null`)}
      and case when d.parent_deployment_id is null then true else refuse('source_rule', ${NO_PREVIEW_OF_PREVIEW}) end
      and case
        when d.source = 'githost' or ${source !== 'githost'} then true
        else refuse('source_rule', ${NEEDS_REPOSITORY})
      end
      and ${requirePreviewDatabase(database)}
      and ${refuseUnless('previews_full', hasRoom)}
      and ${source_tarball_path === undefined ? sql`true` : sql`require_stored_archive(${source_tarball_path})`}
    on conflict (parent_id, branch) where number is null do update
      set kind = 'request',
        request = case
          when ${isDeployed} and not ${isDatabaseSent} then (
            excluded.request::jsonb || jsonb_build_object('database', v.request::jsonb -> 'database'))::json
          else excluded.request
        end,
        problem = null,
        state = 'pending',
        end_reason = null,
        head_sha = null,
        commit = null,
        deployment_id = case when v.state = 'ended' then null else v.deployment_id end,
        expires_at = excluded.expires_at,
        changed_at = excluded.changed_at,
        updated_at = clock()
      where ${refuseUnless('preview_followed', sql`v.kind = 'request' or v.state = 'ended'`)}
        and ${refuseUnless('preview_source_changed', isSame)}
    returning v.*, ${ABOUT} as about`
  const parts = { lock: lockDeployment(deployment_id), changes: changedMembers(previews, PREVIEW_RECORD) }
  const rows = await commit(ctx, 'preview.requested', change, { branch: nameOf(body), source }, parts)
  const row = requireRow(rows, 'deployment_not_found')
  if (!ctx.requestInfo.replayed) ctx.waitUntil?.(reconcileAndNotify(ctx, deployment_id, row.id))
  return toWire(ctx)(row)
})

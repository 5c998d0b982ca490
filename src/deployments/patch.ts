// Patching: the plan told before, or applied. The database asks the plan's questions of the row that it holds, so that one trip does.
import { and, type SQL, sql } from 'drizzle-orm'
import { alias } from 'drizzle-orm/pg-core'
import type * as z from 'zod'
import { type Ctx, verb } from '../kernel/context.ts'
import { db, refuseUnless, run, textArray, versionMatches } from '../kernel/db.ts'
import { sha256Hex } from '../kernel/digest.ts'
import { commit } from '../kernel/journal.ts'
import { requireRow } from '../kernel/rows.ts'
import { hostOf } from '../protocol/custom-url.schema.ts'
import { sources } from '../protocol/parts.schema.ts'
import { deployments } from '../tables/deployments.ts'
import { canChangeCommands } from './command-permission.ts'
import { awaitsHostVerification, describeHostVerification, isCustomUrlFree, refuseReservedUrl } from './custom-hosts.ts'
import { isPlanFresh, refuseTagOnPush } from './guards.ts'
import {
  hasSecrets,
  isMasked,
  listPatchMembers,
  type PatchMember,
  planPatchChanges,
  REPO_REF_PATH,
  type Wanted,
} from './plan.ts'
import {
  decideChange,
  enqueueEvents,
  insertQueuedRevision,
  isDeploymentInTenant,
  lockDeployment,
  type PlannedColumns,
  planChange,
  supersedeWaiting,
  unchangedColumns,
  updateWanted,
} from './revision-queue.ts'
import { type DeploymentRow, deploymentToWire } from './rows.ts'
import type * as schema from './schema.ts'
import { insertSecrets, isArchiveUploaded, sourceRuleError } from './service.ts'
import { findModeFaults, SOURCE_RULES } from './source-rules.ts'

type PatchInput = z.output<typeof schema.DeploymentRef> & schema.DeploymentPatch & z.output<typeof schema.PatchQuery>

// ---- told

const c = alias(deployments, 'c')

export const planPatch = verb('deployments:update', async (ctx, input: PatchInput): Promise<schema.Plan> => {
  const customUrl = input.source_config?.custom_url
  const query = db
    .select({ wanted: c, waits: customUrl != null ? awaitsHostVerification(customUrl) : sql<boolean>`false` })
    .from(c)
    .where(sql`${isDeploymentInTenant(input.deployment_id)} and ${patchGuards(ctx, input)}`)
  const { wanted, waits } = requireRow(await run(ctx, query), 'deployment_not_found')
  const planned = planPatchChanges(wanted as DeploymentRow & Wanted, input, input.clear)
  if (waits && planned.changes.some(({ path }) => path === 'source_config.custom_url'))
    planned.warnings.push(await describeHostVerification(ctx, wanted.tenant_id, hostOf(customUrl!)!))
  return { ...planned, plan_digest: `${wanted.version}.${requestDigest(input)}` }
})

/** Names the request and, before the dot, the version that it was planned on. */
function requestDigest({ deployment_id: _, dry_run: __, ...patch }: PatchInput): string {
  return sha256Hex(JSON.stringify(patch)).slice(0, 32)
}

// ---- applied

export const patchDeployment = verb('deployments:update', async (ctx, input: PatchInput) => {
  const { deployment_id } = input
  const revision = crypto.randomUUID()
  const secrets = input.secrets ?? []
  const planned = planChange({
    columns: plannedColumns(input),
    where: sql`${isDeploymentInTenant(deployment_id)}
    and ${patchGuards(ctx, input)}
    and ${matchesPlan(ctx, input, requestDigest(input))}`,
  })
  const plain = secrets.filter(secret => !isMasked(secret))
  const also = [supersedeWaiting('changed'), sql`revision as (${insertQueuedRevision(revision, 'changed')})`]
  if (plain.length > 0) also.push(await insertSecrets(ctx, deployment_id, plain, sql`changed.revisions`))
  const data = {
    supplied: listPatchMembers(input, input.clear).map(({ path }) => path.join('.')),
    secrets: secrets.map(({ name }) => name),
  }
  const rows = await commit(ctx, 'deployment.patched', updateWanted(revision), data, {
    lock: lockDeployment(deployment_id),
    first: [planned, decideChange],
    also,
    others: enqueueEvents('changed'),
  })
  return deploymentToWire(requireRow(rows, 'deployment_not_found'))
})

const toJsonb = (value: unknown): SQL => (value === null ? sql`null::jsonb` : sql`${JSON.stringify(value)}::jsonb`)
const emptyListAsNull = (value: unknown): unknown => (Array.isArray(value) && value.length === 0 ? null : value)

/** Is what a member says new? The same question that plan.ts asks. */
function isMemberChanged({ path: [column, member], value, isAlwaysNew: always }: PatchMember): SQL {
  if (always) return sql`true`
  const stored = sql`c.${sql.identifier(column!)}::jsonb`
  return sql`${member ? sql`(${stored} -> ${member}::text)` : stored} is distinct from ${toJsonb(emptyListAsNull(value))}`
}

/** The places of those members that say something new. */
const changedPaths = (members: PatchMember[], ...more: SQL[]): SQL => {
  if (members.length + more.length === 0) return sql`'{}'::text[]`
  const each = members.map(member => sql`case when ${isMemberChanged(member)} then ${member.path.join('.')}::text end`)
  return sql`array_remove(array[${sql.join([...each, ...more, sql`null`], sql`, `)}]::text[], null)`
}

function plannedColumns(input: PatchInput): PlannedColumns {
  const members = listPatchMembers(input, input.clear)
  const membersWith = (effect: PatchMember['effect']) => members.filter(member => member.effect === effect)
  const secrets = hasSecrets(input) ? [sql`case when ${haveSecretsChanged(input)} then 'secrets' end`] : []
  const { next_secrets, next_secret_references } = unchangedColumns
  const references = input.secret_references
  const revisionConfig = mergeColumn('source_revision_config', input.source_revision_config)
  return {
    ...unchangedColumns,
    reasons: changedPaths(membersWith('revision'), ...secrets),
    changes_in_place: sql`cardinality(${changedPaths(membersWith('in_place'))}) > 0`,
    next_source_config: mergeColumn('source_config', input.source_config, input.clear),
    next_source_revision_config: sql`${revisionConfig} - ${staleCommitKey(members)}`,
    next_secrets: hasSecrets(input) ? nextSecrets(input) : next_secrets,
    next_secret_references: references ? toJsonb(emptyListAsNull(references)) : next_secret_references,
    revision_source: sql`coalesce(${input.revision_source ?? null}, c.source)`,
  }
}

/** The commit that was found for a ref that is said anew; where a preview's own is, only its pull request moves it. */
const staleCommitKey = (members: PatchMember[]): SQL =>
  sql`case when not (c.preview is not null and c.source_revision_config ->> 'repo_ref' = ${requestedRef(members)}::text) and ${REPO_REF_PATH} = any(${changedPaths(members.filter(({ path }) => path.join('.') === REPO_REF_PATH))}) then 'repo_commit_sha' else '' end`

const requestedRef = (members: PatchMember[]): string | null =>
  (members.find(({ path }) => path.join('.') === REPO_REF_PATH)?.value as string | undefined) ?? null

const mergeColumn = (column: string, supplied: object | null | undefined, cleared: readonly string[] = []): SQL => {
  const stored = sql`c.${sql.identifier(column)}::jsonb`
  if (!supplied && cleared.length === 0) return stored
  return sql`((${stored} || ${toJsonb(supplied ?? {})}) - ${sql.param([...cleared])}::text[])`
}

const requestedSecrets = (input: PatchInput): SQL => {
  const items = input.secrets!.map(secret => ({ name: secret.name, masked: isMasked(secret) }))
  return sql`jsonb_to_recordset(${JSON.stringify(items)}::jsonb) i(name text, masked boolean)`
}
const STORED_SECRETS = sql`jsonb_to_recordset(c.secrets::jsonb) k(name text, version integer)`

const haveSecretsChanged = (input: PatchInput): SQL =>
  input.secrets!.every(isMasked)
    ? sql`(select array_agg(i.name order by i.name) from ${requestedSecrets(input)})
        is distinct from (select array_agg(k.name order by k.name) from ${STORED_SECRETS})`
    : sql`true`

/** A value that is sent gets the number of the revision that it makes; a masked one stays as it is. */
const nextSecrets = (input: PatchInput): SQL => sql`(
  select jsonb_agg(jsonb_build_object('name', i.name, 'version', case when i.masked then k.version else c.revisions + 1 end))
  from ${requestedSecrets(input)} left join ${STORED_SECRETS} on k.name = i.name)`

/**
 * What a patch is refused for once the row is known, when planned as when applied. What it does not supply is not asked after, since it
 * stands.
 */
function patchGuards(ctx: Ctx, input: PatchInput): SQL {
  validateInput(ctx, input)
  const { source_config: config, source_revision_config: madeFrom } = input
  const all = [
    refuseUnless('deployment_deleting', sql`c.deleting_at is null`),
    versionMatches(ctx, { version: sql`c.version` }),
    checkSourceRules(input),
    (config || madeFrom) &&
      refuseTagOnPush(mergeColumn('source_config', config), mergeColumn('source_revision_config', madeFrom)),
    input.secrets?.some(isMasked) && checkMaskedSecrets(input),
    (hasSecrets(input) || input.secret_references) && checkVariableNames(input),
    isArchiveUploaded(madeFrom),
    config?.custom_url != null && isCustomUrlFree(config.custom_url),
    canResolveRef(input),
    (config || input.clear.length > 0) &&
      canChangeCommands(sql`c.source_config`, mergeColumn('source_config', config, input.clear)),
  ]
  return and(...all.filter(guard => guard instanceof Object))!
}

/** A ref is looked up anew through the integration: that one is still there, and its host answers for it. */
function canResolveRef({ revision_source, source_revision_config }: PatchInput): SQL | undefined {
  const looked = revision_source === 'githost' || source_revision_config?.repo_ref != null
  const through = sql`c.source_config ->> 'integration_id'`
  return looked ? sql`(${through} is null or integrated((${through})::uuid))` : undefined
}

/** A plan shows what is immutable; applied, it is refused. */
function matchesPlan(ctx: Ctx, input: PatchInput, digest: string): SQL {
  const fresh = isPlanFresh(ctx, digest)
  const immutable = listPatchMembers(input).filter(member => member.effect === 'immutable')
  if (immutable.length === 0) return fresh
  const said = changedPaths(immutable)
  return sql`${fresh} and case when cardinality(${said}) > 0 then refuse('member_immutable', array_to_string(${said}, ', ')) else true end`
}

/** The rules of sources stand in one table; the database says which source it is, and what is there. */
function checkSourceRules(input: PatchInput): SQL {
  const source = sql`coalesce(${input.revision_source ?? null}, c.source)`
  const sourcesWhere = (rule: 'needs' | 'refuses', path: string[]) =>
    sources.filter(one => SOURCE_RULES[one][rule].some(other => other.join() === path.join()))
  const said = listPatchMembers(input).flatMap(member => {
    const refusing = sourcesWhere('refuses', member.path)
    const sentence = `${member.path.join('.')} is not allowed for source `
    const broken = sql`${source} = any(${textArray(refusing)}) and ${isMemberChanged({ ...member, isAlwaysNew: false })}`
    return refusing.length > 0 ? [sql`case when ${broken} then ${sentence}::text || ${source} end`] : []
  })
  const cleared = input.clear.flatMap(name => {
    const path = ['source_config', name]
    const needing = sourcesWhere('needs', path)
    return needing.length > 0
      ? [sql`case when ${source} = any(${textArray(needing)}) then ${requiredMessage(path)} || ${source} end`]
      : []
  })
  const missing = (input.revision_source ? SOURCE_RULES[input.revision_source].needs : []).map(path => {
    const [column, member] = path as ['source_config' | 'source_revision_config', string]
    return sql`case when ${mergeColumn(column, input[column])} -> ${member}::text is null then ${requiredMessage(path)} || ${source} end`
  })
  const all = [...said, ...cleared, ...missing]
  if (all.length === 0) return sql`true`
  const sentence = sql`array_to_string(array[${sql.join(all, sql`, `)}], '; ')`
  return sql`case when ${sentence} = '' then true else refuse('source_rule', ${sentence}) end`
}
const requiredMessage = (path: string[]) => sql`${`${path.join('.')} is required for source `}::text`

/** What is against a rule whatever is there. */
function validateInput(ctx: Ctx, input: PatchInput): void {
  const { mode } = ctx.config
  refuseReservedUrl(ctx, input.source_config)
  const both = input.clear.filter(name => input.source_config?.[name] != null)
  const faults = both.map(name => ({ loc: ['body', 'source_config', name], msg: 'is both supplied and cleared' }))
  const wrongMode = input.revision_source ? findModeFaults(input.revision_source, mode, 'revision_source') : []
  if (faults.length + wrongMode.length > 0)
    throw sourceRuleError([...wrongMode, ...faults.map(one => ({ type: 'member_cleared', ...one }))])
}
const checkMaskedSecrets = (input: PatchInput): SQL => {
  const unknown = sql`(select string_agg(i.name, ', ') from ${requestedSecrets(input)} left join ${STORED_SECRETS} on k.name = i.name
    where i.masked and k.name is null)`
  return sql`case when ${unknown} is null then true else refuse('secret_unknown', ${unknown}) end`
}
/** Asked of what is sent of the one and, where the other is not sent, of what is there. */
const checkVariableNames = (input: PatchInput): SQL => {
  const sent = (items: { name: string }[]) => sql`${JSON.stringify(items.map(({ name }) => ({ name })))}::jsonb`
  const secrets = hasSecrets(input) ? sent(input.secrets!) : sql`c.secrets::jsonb`
  const references = input.secret_references
    ? sent(input.secret_references)
    : sql`coalesce(c.secret_references::jsonb, '[]')`
  const twice = sql`(select string_agg(name, ', ') from jsonb_to_recordset(${secrets}) s(name text)
    join jsonb_to_recordset(${references}) f(name text) using (name))`
  return sql`case when ${twice} is null then true else refuse('variable_doubled', ${twice}) end`
}

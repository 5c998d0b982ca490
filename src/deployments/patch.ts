// Patches a deployment, or plans the patch. The database evaluates the plan's rules on the locked row, in one trip.
import { and, type SQL, sql } from 'drizzle-orm'
import { alias } from 'drizzle-orm/pg-core'
import type * as z from 'zod'
import { type Ctx, verb } from '../kernel/context.ts'
import { db, refuseUnless, run, textArray, versionMatches } from '../kernel/db.ts'
import { commit } from '../kernel/journal.ts'
import { changedMembers } from '../kernel/recorded-changes.ts'
import { requireRow } from '../kernel/rows.ts'
import { hostOf } from '../protocol/custom-url.schema.ts'
import { sources } from '../protocol/parts.schema.ts'
import { deployments } from '../tables/deployments.ts'
import { canChangeCommands } from './command-permission.ts'
import {
  awaitsHostVerification,
  describeHostVerification,
  refuseReservedUrl,
  requireFreeCustomUrl,
} from './custom-hosts.ts'
import { digestRequest, isPlanFresh, refuseTagOnPush } from './guards.ts'
import {
  hasSecrets,
  isMasked,
  isSetting,
  listPatchMembers,
  type PatchMember,
  planPatchChanges,
  REPO_REF_PATH,
  replacesSecrets,
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
  supersedeOlder,
  unchangedColumns,
  updateWanted,
} from './revision-queue.ts'
import { DEPLOYMENT_RECORD, type DeploymentRow, deploymentToWire } from './rows.ts'
import type * as schema from './schema.ts'
import {
  compareSecrets,
  type FingerprintedSecret,
  fingerprintSecrets,
  insertSecrets,
  unknownMasks,
} from './secret-versions.ts'
import { requireStoredArchive, sourceRuleError } from './service.ts'
import { findModeFaults, SOURCE_RULES } from './source-rules.ts'

type PatchInput = z.output<typeof schema.DeploymentRef> & schema.DeploymentPatch & z.output<typeof schema.PatchQuery>

// ---- planned

const c = alias(deployments, 'c')

export const planPatch = verb('deployments:update', async (ctx, input: PatchInput): Promise<schema.Plan> => {
  const customUrl = input.source_config?.custom_url
  const secrets = await fingerprintSecrets(ctx, input.deployment_id, input.secrets ?? [])
  const kept = sql<string>`(select s.kept from (${compareSecrets(secrets)}) s)`
  const query = db
    .select({
      wanted: c,
      awaitsVerification: customUrl != null ? awaitsHostVerification(customUrl) : sql<boolean>`false`,
      kept: secrets.length > 0 ? kept : sql<string>`'[]'`,
    })
    .from(c)
    .where(sql`${isDeploymentInTenant(input.deployment_id)} and ${patchGuards(ctx, input, secrets)}`)
  const { wanted, awaitsVerification, ...row } = requireRow(await run(ctx, query), 'deployment_not_found')
  const keptSecrets = JSON.parse(row.kept) as string[]
  const planned = planPatchChanges(wanted as DeploymentRow & Wanted, input, { clear: input.clear, keptSecrets })
  if (awaitsVerification && planned.changes.some(({ path }) => path === 'source_config.custom_url'))
    planned.warnings.push(await describeHostVerification(ctx, wanted.tenant_id, hostOf(customUrl!)!))
  planned.warnings.push(...ctx.warnings)
  return { ...planned, plan_digest: `${wanted.version}.${requestDigest(input)}` }
})

const requestDigest = ({ deployment_id: _, dry_run: __, ...patch }: PatchInput): string => digestRequest(patch)

// ---- applied

export const patchDeployment = verb('deployments:update', async (ctx, input: PatchInput) => {
  const { deployment_id } = input
  const revision = crypto.randomUUID()
  const secrets = await fingerprintSecrets(ctx, deployment_id, input.secrets ?? [])
  const planned = planChange({
    columns: plannedColumns(input),
    from: replacesSecrets(input, input.clear)
      ? sql`deployments c
  cross join lateral (${compareSecrets(secrets)}) s`
      : sql`deployments c`,
    where: sql`${isDeploymentInTenant(deployment_id)}
    and ${patchGuards(ctx, input, secrets)}
    and ${matchesPlan(ctx, input, requestDigest(input))}`,
  })
  const ctesAfter = [supersedeOlder('changed'), sql`revision as (${insertQueuedRevision(revision, 'changed')})`]
  const sentValues = secrets.filter(secret => !isMasked(secret))
  if (sentValues.length > 0) {
    // Without a change of secrets, the number of the revision may be that of a stored version.
    const isNew = sql`'secrets' = any(changed.reasons)`
    ctesAfter.push(await insertSecrets(ctx, deployment_id, sentValues, sql`changed.revisions`, isNew))
  }
  const rows = await commit(
    ctx,
    'deployment.patched',
    updateWanted(revision),
    {},
    {
      lock: lockDeployment(deployment_id),
      changes: changedMembers(sql`planned`, DEPLOYMENT_RECORD),
      ctesBefore: [planned, decideChange],
      ctesAfter,
      otherEvents: enqueueEvents('changed'),
    },
  )
  return deploymentToWire(requireRow(rows, 'deployment_not_found'))
})

const toJsonb = (value: unknown): SQL => (value === null ? sql`null::jsonb` : sql`${JSON.stringify(value)}::jsonb`)
const emptyListAsNull = (value: unknown): unknown => (Array.isArray(value) && value.length === 0 ? null : value)

/** The same rule as in `planPatchChanges`. */
function isMemberChanged({ path: [column, member], value, isAlwaysNew }: PatchMember): SQL {
  if (isAlwaysNew) return sql`true`
  const stored = sql`c.${sql.identifier(column!)}::jsonb`
  const before = member ? sql`(${stored} -> ${member}::text)` : stored
  return sql`${before} is distinct from ${toJsonb(emptyListAsNull(value))}`
}

const changedPaths = (members: PatchMember[], ...more: SQL[]): SQL => {
  if (members.length + more.length === 0) return sql`'{}'::text[]`
  const each = members.map(member => sql`case when ${isMemberChanged(member)} then ${member.path.join('.')}::text end`)
  return sql`array_remove(array[${sql.join([...each, ...more, sql`null`], sql`, `)}]::text[], null)`
}

function plannedColumns(input: PatchInput): PlannedColumns {
  const members = listPatchMembers(input, input.clear)
  const membersWith = (effect: PatchMember['effect']) => members.filter(member => member.effect === effect)
  const hasNewSecrets = replacesSecrets(input, input.clear)
  const secrets = hasNewSecrets ? [sql`case when s.has_changes then 'secrets' end`] : []
  const { next_secrets, next_secret_references } = unchangedColumns
  const references = input.secret_references
  const revisionConfig = mergeColumn('source_revision_config', input.source_revision_config)
  return {
    ...unchangedColumns,
    reasons: changedPaths(membersWith('revision'), ...secrets),
    changes_in_place: sql`cardinality(${changedPaths(membersWith('in_place'))}) > 0`,
    next_source_config: mergeColumn('source_config', input.source_config, input.clear),
    next_source_revision_config: sql`${revisionConfig} - ${staleCommitKey(members)}`,
    next_secrets: hasNewSecrets ? sql`case when s.has_changes then s.next else ${next_secrets} end` : next_secrets,
    next_secret_references: references ? toJsonb(emptyListAsNull(references)) : next_secret_references,
    revision_source: sql`coalesce(${input.revision_source ?? null}, c.source)`,
  }
}

/** A ref that is sent again resolves again, so its commit is dropped. A preview's commit follows its pull request. */
const staleCommitKey = (members: PatchMember[]): SQL => {
  const ref = members.filter(({ path }) => path.join('.') === REPO_REF_PATH)
  const isOwnRef = sql`c.source_revision_config ->> 'repo_ref' = ${requestedRef(members)}::text`
  return sql`case
      when not (c.preview is not null and ${isOwnRef}) and ${REPO_REF_PATH} = any(${changedPaths(ref)})
        then 'repo_commit_sha'
      else ''
    end`
}

const requestedRef = (members: PatchMember[]): string | null =>
  (members.find(({ path }) => path.join('.') === REPO_REF_PATH)?.value as string | undefined) ?? null

const mergeColumn = (column: string, patch: object | null | undefined, cleared: readonly string[] = []): SQL => {
  const stored = sql`c.${sql.identifier(column)}::jsonb`
  if (!patch && cleared.length === 0) return stored
  return sql`((${stored} || ${toJsonb(patch ?? {})}) - ${sql.param([...cleared])}::text[])`
}

// ---- guards: what a patch is refused for once the row is known, planned or applied

function patchGuards(ctx: Ctx, input: PatchInput, secrets: FingerprintedSecret[]): SQL {
  validateInput(ctx, input)
  const { source_config: config, source_revision_config: revisionConfig } = input
  const guards = [
    refuseUnless('deployment_deleting', sql`c.deleting_at is null`),
    versionMatches(ctx, { version: sql`c.version` }),
    checkSourceRules(input),
    (config || revisionConfig) &&
      refuseTagOnPush(mergeColumn('source_config', config), mergeColumn('source_revision_config', revisionConfig)),
    secrets.some(isMasked) && checkMaskedSecrets(secrets),
    (replacesSecrets(input, input.clear) || input.secret_references) && checkVariableNames(input),
    requireStoredArchive(revisionConfig),
    config?.custom_url != null && requireFreeCustomUrl(config.custom_url, sql`c.id`),
    canResolveRef(input),
    (config || input.clear.length > 0) &&
      canChangeCommands(sql`c.source_config`, mergeColumn('source_config', config, input.clear)),
  ]
  return and(...guards.filter(guard => guard instanceof Object))!
}

function canResolveRef({ revision_source, source_revision_config }: PatchInput): SQL | undefined {
  const resolvesRef = revision_source === 'githost' || source_revision_config?.repo_ref != null
  const integration = sql`c.source_config ->> 'integration_id'`
  return resolvesRef ? sql`(${integration} is null or require_active_integration((${integration})::uuid))` : undefined
}

/** A plan shows changes of immutable members; applying them is refused. */
function matchesPlan(ctx: Ctx, input: PatchInput, digest: string): SQL {
  const fresh = isPlanFresh(ctx, digest)
  const immutable = listPatchMembers(input).filter(member => member.effect === 'immutable')
  if (immutable.length === 0) return fresh
  const paths = changedPaths(immutable)
  return sql`${fresh}
    and case
      when cardinality(${paths}) > 0 then refuse('member_immutable', array_to_string(${paths}, ', '))
      else true
    end`
}

/** Applies SOURCE_RULES to what the row will be. */
function checkSourceRules(input: PatchInput): SQL {
  const source = sql`coalesce(${input.revision_source ?? null}, c.source)`
  const sourcesWhere = (rule: 'needs' | 'refuses', path: string[]) =>
    sources.filter(name => SOURCE_RULES[name][rule].some(other => other.join() === path.join()))
  const refused = listPatchMembers(input).flatMap(member => {
    const refusing = sourcesWhere('refuses', member.path)
    const message = `${member.path.join('.')} is not allowed for source `
    const isRefusing = sql`${source} = any(${textArray(refusing)})`
    const isChanged = isMemberChanged({ ...member, isAlwaysNew: false })
    const fault = sql`case when ${isRefusing} and ${isChanged} then ${message}::text || ${source} end`
    return refusing.length > 0 ? [fault] : []
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
    const next = sql`${mergeColumn(column, input[column])} -> ${member}::text`
    return sql`case when ${next} is null then ${requiredMessage(path)} || ${source} end`
  })
  const faults = [...refused, ...cleared, ...missing]
  if (faults.length === 0) return sql`true`
  const message = sql`array_to_string(array[${sql.join(faults, sql`, `)}], '; ')`
  return sql`case when ${message} = '' then true else refuse('source_rule', ${message}) end`
}
const requiredMessage = (path: string[]) => sql`${`${path.join('.')} is required for source `}::text`

/** Faults that do not depend on the row. */
function validateInput(ctx: Ctx, input: PatchInput): void {
  const { mode } = ctx.config
  refuseReservedUrl(ctx, input.source_config)
  const both = input.clear.filter(isSetting).filter(name => input.source_config?.[name] != null)
  const paths = both.map(name => ['source_config', name])
  if (input.clear.includes('secrets') && hasSecrets(input)) paths.push(['secrets'])
  const faults = paths.map(path => ({ loc: ['body', ...path], msg: 'is both set and cleared' }))
  const wrongMode = input.revision_source ? findModeFaults(input.revision_source, mode, 'revision_source') : []
  if (faults.length + wrongMode.length > 0)
    throw sourceRuleError([...wrongMode, ...faults.map(fault => ({ type: 'member_cleared', ...fault }))])
}
const checkMaskedSecrets = (secrets: FingerprintedSecret[]): SQL => {
  const unknown = unknownMasks(secrets)
  return sql`case when ${unknown} is null then true else refuse('secret_unknown', ${unknown}) end`
}
/** No name is both a secret and a reference. What the patch does not send is compared as stored. */
const checkVariableNames = (input: PatchInput): SQL => {
  const sent = (items: { name: string }[]) => sql`${JSON.stringify(items.map(({ name }) => ({ name })))}::jsonb`
  const secrets = replacesSecrets(input, input.clear) ? sent(input.secrets ?? []) : sql`c.secrets::jsonb`
  const references = input.secret_references
    ? sent(input.secret_references)
    : sql`coalesce(c.secret_references::jsonb, '[]')`
  const duplicates = sql`(
    select string_agg(name, ', ')
    from jsonb_to_recordset(${secrets}) s(name text)
    join jsonb_to_recordset(${references}) f(name text) using (name))`
  return sql`case when ${duplicates} is null then true else refuse('variable_doubled', ${duplicates}) end`
}

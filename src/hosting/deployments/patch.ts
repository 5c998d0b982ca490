// Patches a deployment, or plans the patch. patch_deployment() in drizzle/functions/deployments.sql applies it.
import { sql } from 'drizzle-orm'
import type * as z from 'zod'
import { run } from '../../kernel/db/db.ts'
import { describeWrite, runWrite } from '../../kernel/db/journal.ts'
import { requireRow } from '../../kernel/db/rows.ts'
import { prepareStatement, type Row } from '../../kernel/db/statement.ts'
import type { Ctx } from '../../kernel/http/context.ts'
import { hostOf } from '../../protocol/custom-url.schema.ts'
import { listListenerNeeds } from '../../protocol/listener-policy.ts'
import { type Source, sources } from '../../protocol/parts.schema.ts'
import { hasDatabase, REQUEST_LIMIT_PAIRS, type ResourceSpec } from '../../protocol/resources.schema.ts'
import { awaitsHostVerification, describeHostVerification, refuseReservedUrl } from '../custom-hosts/custom-hosts.ts'
import { listenerPolicy, runsImages, runsImagesOf } from './listener-facts.ts'
import {
  describePatchPlan,
  hasSecrets,
  isMasked,
  isSetting,
  listPatchMembers,
  type PatchDecision,
  type PatchMember,
  type PlannedBuild,
  readPath,
  replacesSecrets,
  type Wanted,
  withBuild,
} from './plan.ts'
import { makePlanDigest, readPlannedVersion } from './plan-digest.ts'
import {
  describeDormantParts,
  describeIgnoredMembers,
  describeIgnoredProcesses,
  describeReplacement,
} from './plan-warnings.ts'
import { type DeploymentRow, deploymentToWire } from './rows.ts'
import type * as schema from './schema.ts'
import { type FingerprintedSecret, fingerprintSecrets, sealSecret } from './secret-versions.ts'
import { findModeFaults, SOURCE_RULES, sourceRuleError } from './source-rules.ts'
import { describeFirstShare, type TrafficRow } from './traffic-shares.ts'

export type PatchInput = z.output<typeof schema.DeploymentRef> &
  schema.DeploymentPatch &
  z.output<typeof schema.PatchQuery>

const plannedRequest = ({ dry_run: _, ...patch }: PatchInput) => patch

// ---- planned

export async function planPatch(ctx: Ctx, input: PatchInput): Promise<schema.Plan> {
  validateInput(ctx, input)
  const customUrl = input.source_config?.custom_url
  const secrets = await fingerprintSecrets(ctx, input.deployment_id, input.secrets ?? [])
  const patch = sql`${describePatch(input, secrets)}::jsonb`
  const query = sql<
    [
      wanted: string,
      decision: string,
      awaitsVerification: boolean,
      images: boolean | null,
      policy: string | null,
      ...PlannedBuild,
    ]
  >`
    select
      to_json(c),
      to_json(p),
      ${customUrl != null ? awaitsHostVerification(customUrl) : sql`false`},
      ${runsImages(sql`c.listener_id`)},
      ${listenerPolicy(sql`c.listener_id`)},
      b.build_plan::text,
      b.build_refusal
    from deployments c
    cross join lateral plan_patch(c, ${patch}) p
    left join lateral planned_build(
      coalesce(${input.revision_source ?? null}::text, c.source),
      (p.next).source_config,
      (p.next).source_revision_config
    ) b on cardinality(p.reasons) > 0
    where c.id = ${input.deployment_id}::uuid
      and c.tenant_id = current_tenant()
      and require_allowed_patch(c, p, ${patch}, ${describeWrite(ctx)}::jsonb)
      and require_listener_allows_patch(c.id, ${patch})`
  const row = requireRow(await run(ctx, query), 'deployment_not_found')
  const [, , , runs_images, policy, ...build] = row
  const wanted: Wanted & TrafficRow & { tenant_id: string; source: Source } = JSON.parse(row[0])
  const decision = JSON.parse(row[1]) as PatchDecision
  const planned = withBuild(describePatchPlan(wanted, input, input.clear, decision), build)
  if (row[2] && planned.changes.some(({ path }) => path === 'source_config.custom_url'))
    planned.warnings.push(await describeHostVerification(ctx, wanted.tenant_id, hostOf(customUrl!)!))
  planned.warnings.push(
    ...describeIgnoredMembers(decision.next.source_config, policy),
    ...describeIgnoredProcesses(planned.build_plan, policy),
    ...describeDormantParts(wanted.dormant_parts, decision.next.dormant_parts, policy),
    ...(planned.creates_revision ? describeReplacement(decision.next.source_config, policy) : []),
    ...(planned.creates_revision
      ? describeFirstShare(wanted, hasDatabase(decision.next.source_config.resource_spec as ResourceSpec | undefined))
      : []),
    ...ctx.warnings,
  )
  return {
    ...planned,
    ...runsImagesOf(wanted.source, runs_images),
    plan_digest: await makePlanDigest(ctx, wanted.version, plannedRequest(input)),
  }
}

// ---- applied

const patchStatement = prepareStatement<{ deployment: string; revision: string; patch: string; request: string }, Row>(
  ({ deployment, revision, patch, request }) => sql`
    select answer, has_webhooks
    from patch_deployment(${deployment}::uuid, ${revision}::uuid, ${patch}::jsonb, ${request}::jsonb)
    where require_listener_allows_patch(${deployment}::uuid, ${patch}::jsonb)`,
)

export async function patchDeployment(ctx: Ctx, input: PatchInput): Promise<schema.Deployment> {
  validateInput(ctx, input)
  const { deployment_id: deployment } = input
  const request = describeWrite(ctx, await readPlannedVersion(ctx, plannedRequest(input)))
  const secrets = await fingerprintSecrets(ctx, deployment, input.secrets ?? [])
  const sealed = await Promise.all(
    secrets.map(secret => (isMasked(secret) ? secret : sealSecret(ctx, deployment, secret))),
  )
  const patch = describePatch(input, sealed)
  const statement = patchStatement({ deployment, revision: crypto.randomUUID(), patch, request })
  return deploymentToWire(requireRow(await runWrite<DeploymentRow>(ctx, statement), 'deployment_not_found'))
}

// ---- described for plan_patch(): the members of the patch with their rules

/** The database gets no values of secrets: it compares fingerprints. */
export function describePatch(
  input: Omit<PatchInput, 'deployment_id' | 'dry_run'>,
  secrets: FingerprintedSecret[],
): string {
  const { clear, revision_source } = input
  return JSON.stringify({
    revision_source: revision_source ?? undefined,
    members: listPatchMembers(input, clear).map(describeMember),
    policy_needs: listListenerNeeds(input.source_config?.resource_spec ?? {}, revision_source).map(need =>
      need.path === 'source' ? { ...need, path: 'revision_source' } : need,
    ),
    resource_pairs: changesResources(input) ? REQUEST_LIMIT_PAIRS : [],
    required: listRequiredPaths(input).map(path => ({ path: path.join('.'), needed_by: sourcesWith('needs', path) })),
    secrets: replacesSecrets(input, clear)
      ? secrets.map(({ value, ...secret }) => ({ ...secret, masked: isMasked({ value }) }))
      : undefined,
  })
}

const describeMember = ({ path, value, effect, isAlwaysNew }: PatchMember) => ({
  path: path.join('.'),
  value,
  effect,
  is_always_new: isAlwaysNew,
  refused_by: sourcesWith('refuses', path),
})

const sourcesWith = (rule: 'needs' | 'refuses', path: string[]): Source[] =>
  sources.filter(name => SOURCE_RULES[name][rule].some(other => other.join() === path.join()))

/** The deployment's own source has what it needs, and nothing that a patch can clear is needed. */
const listRequiredPaths = ({ revision_source }: Pick<PatchInput, 'revision_source'>): string[][] =>
  revision_source ? SOURCE_RULES[revision_source].needs : []

const changesResources = ({ source_config, clear }: Pick<PatchInput, 'source_config' | 'clear'>) =>
  source_config?.resource_spec != null || clear.some(name => name.startsWith('resource_spec'))

/** Refuses faults that do not depend on the deployment. */
function validateInput(ctx: Ctx, input: PatchInput): void {
  refuseReservedUrl(ctx, input.source_config)
  const settings = input.clear.filter(isSetting).map(name => ['source_config', ...name.split('.')])
  const paths = settings.filter(path => readPath(input, path) !== null)
  if (input.clear.includes('secrets') && hasSecrets(input)) paths.push(['secrets'])
  const faults = paths.map(path => ({ loc: ['body', ...path], msg: 'is both set and cleared' }))
  const { mode } = ctx.config
  const wrongMode = input.revision_source ? findModeFaults(input.revision_source, mode, 'revision_source') : []
  if (faults.length + wrongMode.length > 0)
    throw sourceRuleError([...wrongMode, ...faults.map(fault => ({ type: 'member_cleared', ...fault }))])
}

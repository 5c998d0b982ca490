// Creates a deployment, or plans it. create_deployment() in drizzle/functions/deployments.sql decides and inserts.
import { sql } from 'drizzle-orm'
import type * as z from 'zod'
import { run } from '../../kernel/db/db.ts'
import { describeWrite, runWrite } from '../../kernel/db/journal.ts'
import { requireRow } from '../../kernel/db/rows.ts'
import { prepareStatement, type Row } from '../../kernel/db/statement.ts'
import type { Ctx } from '../../kernel/http/context.ts'
import { fail } from '../../kernel/http/errors.ts'
import { hostOf } from '../../protocol/custom-url.schema.ts'
import { listListenerNeeds, listProtectionNeeds, listRepositoryNeeds } from '../../protocol/listener-policy.ts'
import { toStored } from '../../protocol/protection.schema.ts'
import { hasDatabase } from '../../protocol/resources.schema.ts'
import { awaitsHostVerification, describeHostVerification, refuseReservedUrl } from '../custom-hosts/custom-hosts.ts'
import { listenerPolicy, runsImages, runsImagesOf } from './listener-facts.ts'
import { type PlannedBuild, planCreation, withBuild } from './plan.ts'
import { makePlanDigest, readPlannedVersion } from './plan-digest.ts'
import { describeIgnoredMembers, describeIgnoredProcesses } from './plan-warnings.ts'
import { findRepositoryHead } from './repository-check.ts'
import { type DeploymentRow, deploymentToWire } from './rows.ts'
import type * as schema from './schema.ts'
import { type SealedSecret, sealSecrets } from './secret-versions.ts'
import { findSourceFaults, sourceRuleError } from './source-rules.ts'

type NewDeployment = schema.NewDeployment
export type CreateInput = NewDeployment & z.output<typeof schema.DryRun>
const plannedRequest = ({ dry_run: _, ...body }: CreateInput) => body

/** Refuses what creating it would refuse, except for the quota. */
export async function planCreate(ctx: Ctx, input: CreateInput): Promise<schema.Plan> {
  validateNewDeployment(ctx, input)
  if (input.source === 'githost') await findRepositoryHead(ctx, input)
  const customUrl = input.source_config.custom_url
  const described = describeNewDeployment(input, [])
  const query = sql<
    [
      tenant: string,
      lacksArtifact: boolean,
      awaitsVerification: boolean,
      images: boolean | null,
      policy: string | null,
      ...PlannedBuild,
    ]
  >`
    select
      c.tenant_id,
      lacks_artifact(${input.source}, ${described}::json -> 'source_revision_config'),
      ${customUrl != null ? awaitsHostVerification(customUrl) : sql`false`},
      ${runsImages(sql`c.listener_id`)},
      ${listenerPolicy(sql`c.listener_id`)},
      b.build_plan::text,
      b.build_refusal
    from (select current_tenant() as tenant_id, require_creatable_deployment(${described}::json) as listener_id) c
    left join lateral planned_build(
      ${input.source},
      ${described}::json -> 'source_config',
      ${described}::json -> 'source_revision_config'
    ) b on true`
  const [tenant, lacksArtifact, awaitsVerification, runs_images, policy, ...planned] = requireRow(
    await run(ctx, query),
    'workspace_not_found',
  )
  const plan = withBuild(planCreation(input), planned)
  if (lacksArtifact) plan.warnings.push('The first revision waits for a patch that brings its archive or image.')
  if (awaitsVerification) plan.warnings.push(await describeHostVerification(ctx, tenant, hostOf(customUrl!)!))
  plan.warnings.push(
    ...describeIgnoredMembers(input.source_config, policy),
    ...describeIgnoredProcesses(plan.build_plan, policy),
    ...ctx.warnings,
  )
  return {
    ...plan,
    ...runsImagesOf(input.source, runs_images),
    plan_digest: await makePlanDigest(ctx, 0, plannedRequest(input)),
  }
}

const createStatement = prepareStatement<{ id: string; revision: string; described: string; request: string }, Row>(
  ({ id, revision, described, request }) => sql`
    select answer, has_webhooks
    from create_deployment(${id}::uuid, ${revision}::uuid, ${described}::json, ${request}::jsonb)`,
)

export async function createDeployment(ctx: Ctx, input: CreateInput): Promise<schema.Deployment> {
  const version = await readPlannedVersion(ctx, plannedRequest(input))
  if (version !== null && version !== 0) throw fail('plan_stale')
  validateNewDeployment(ctx, input)
  const [id, revision] = [crypto.randomUUID(), crypto.randomUUID()]
  const sealed = await sealSecrets(ctx, id, input.secrets)
  const described = describeNewDeployment(await pinCommit(ctx, input), sealed)
  const statement = createStatement({ id, revision, described, request: describeWrite(ctx) })
  return deploymentToWire(requireRow(await runWrite<DeploymentRow>(ctx, statement), 'workspace_not_found'))
}

/** A push before the first build would build the same commit again if the first revision had none. */
async function pinCommit(ctx: Ctx, input: CreateInput): Promise<CreateInput> {
  const repo_commit_sha = input.source === 'githost' ? await findRepositoryHead(ctx, input) : null
  if (repo_commit_sha === null) return input
  return { ...input, source_revision_config: { ...input.source_revision_config, ...({ repo_commit_sha } as object) } }
}

export function validateNewDeployment(ctx: Ctx, input: NewDeployment): void {
  const faults = findSourceFaults(input, ctx.config)
  if (faults.length > 0) throw sourceRuleError(faults)
  refuseReservedUrl(ctx, input.source_config)
}

/** The argument `p_new` of create_deployment() and create_preview(). */
export const describeNewDeployment = (
  { name, source, source_config, source_revision_config, secret_references, owner, protection }: NewDeployment,
  secrets: SealedSecret[],
  branch_labels?: string[],
): string =>
  JSON.stringify({
    name,
    source,
    source_config: {
      ...source_config,
      deployment_type: source === 'external_container' ? 'prod' : (source_config.deployment_type ?? 'dev'),
    },
    source_revision_config,
    secret_references: secret_references ?? undefined,
    owner: owner ?? undefined,
    protection: toStored(protection),
    has_database: hasDatabase(source_config.resource_spec),
    policy_needs: [
      ...listListenerNeeds(source_config.resource_spec ?? {}, source),
      ...listProtectionNeeds('protection', protection),
      ...listRepositoryNeeds(source_config.repo_url),
    ],
    secrets,
    branch_labels,
  })

// Patching: the plan told before, or applied. The database asks the plan's questions of the row that it holds, so that one trip does.
import { and, type SQL, sql } from 'drizzle-orm'
import { alias } from 'drizzle-orm/pg-core'
import type * as z from 'zod'
import { type Ctx, verb } from '../kernel/context.ts'
import { db, run, textArray, unless, unmoved } from '../kernel/db.ts'
import { sha256Hex } from '../kernel/digest.ts'
import { commit } from '../kernel/journal.ts'
import { found } from '../kernel/rows.ts'
import { deployments } from '../tables.ts'
import { commandsStay } from './commands.ts'
import { customUrlFree, hostWaits, refuseReservedUrl, waitingFor } from './custom-hosts.ts'
import { hostOf } from './custom-url.schema.ts'
import { freshPlan, pushOfTag } from './guards.ts'
import { sources } from './parts.schema.ts'
import { isMasked, plan, REF, type Supplied, supplied, suppliesSecrets, type Wanted } from './plan.ts'
import { decided, entered, held, made, ofCurrent, skipped, wantedFrom } from './queue.ts'
import { type DeploymentRow, deploymentToWire } from './rows.ts'
import type * as schema from './schema.ts'
import { archiveOf, ruleBroken, sealedSecrets } from './service.ts'
import { modeFaults, SOURCES } from './sources.ts'

type Input = z.output<typeof schema.DeploymentRef> & schema.DeploymentPatch & z.output<typeof schema.PatchQuery>

// ---- told

const c = alias(deployments, 'c')

export const planPatch = verb('deployments:update', async (ctx, input: Input): Promise<schema.Plan> => {
  const customUrl = input.source_config?.custom_url
  const query = db
    .select({ wanted: c, waits: customUrl != null ? hostWaits(customUrl) : sql<boolean>`false` })
    .from(c)
    .where(sql`${ofCurrent(input.deployment_id)} and ${guards(ctx, input)}`)
  const { wanted, waits } = found(await run(ctx, query), 'deployment_not_found')
  const planned = plan(wanted as DeploymentRow & Wanted, input, input.clear)
  if (waits && planned.changes.some(({ path }) => path === 'source_config.custom_url'))
    planned.warnings.push(await waitingFor(ctx, wanted.tenant_id, hostOf(customUrl!)!))
  return { ...planned, plan_digest: `${wanted.version}.${digestOf(input)}` }
})

/** Names the request and, before the dot, the version that it was planned on. */
function digestOf({ deployment_id: _, dry_run: __, ...patch }: Input): string {
  return sha256Hex(JSON.stringify(patch)).slice(0, 32)
}

// ---- applied

export const patchDeployment = verb('deployments:update', async (ctx, input: Input) => {
  const { deployment_id } = input
  const revision = crypto.randomUUID()
  const secrets = input.secrets ?? []
  const first = [
    sql`planned as (select c.*, ${questions(input)} from deployments c where ${ofCurrent(deployment_id)}
      and ${guards(ctx, input)} and ${asPlanned(ctx, input, digestOf(input))})`,
    decided,
  ]
  const plain = secrets.filter(secret => !isMasked(secret))
  const also = [skipped('changed'), sql`revision as (${made(revision, 'changed')})`]
  if (plain.length > 0) also.push(await sealedSecrets(ctx, deployment_id, plain, sql`changed.revisions`))
  const data = {
    supplied: supplied(input, input.clear).map(({ path }) => path.join('.')),
    secrets: secrets.map(({ name }) => name),
  }
  const rows = await commit(ctx, 'deployment.patched', wantedFrom(revision), data, {
    lock: held(deployment_id),
    first,
    also,
    others: entered('changed'),
  })
  return deploymentToWire(found(rows, 'deployment_not_found'))
})

const json = (value: unknown): SQL => (value === null ? sql`null::jsonb` : sql`${JSON.stringify(value)}::jsonb`)
const emptied = (value: unknown): unknown => (Array.isArray(value) && value.length === 0 ? null : value)

/** Is what a member says new? The same question that plan.ts asks. */
function isNew({ path: [column, member], value, always }: Supplied): SQL {
  if (always) return sql`true`
  const stored = sql`c.${sql.identifier(column!)}::jsonb`
  return sql`${member ? sql`(${stored} -> ${member}::text)` : stored} is distinct from ${json(emptied(value))}`
}

/** The places of those members that say something new. */
const newOnes = (members: Supplied[], ...more: SQL[]): SQL => {
  if (members.length + more.length === 0) return sql`'{}'::text[]`
  const each = members.map(member => sql`case when ${isNew(member)} then ${member.path.join('.')}::text end`)
  return sql`array_remove(array[${sql.join([...each, ...more, sql`null`], sql`, `)}]::text[], null)`
}

/** What the patch comes to on the row: the reasons for a revision, whether anything else changes, and what is wanted then. */
function questions(input: Input): SQL {
  const members = supplied(input, input.clear)
  const of = (effect: Supplied['effect']) => members.filter(member => member.effect === effect)
  const secrets = suppliesSecrets(input) ? [sql`case when ${secretsAreNew(input)} then 'secrets' end`] : []
  const references = input.secret_references
  return sql`${newOnes(of('revision'), ...secrets)} as reasons,
    cardinality(${newOnes(of('in_place'))}) > 0 as placed,
    ${merged('source_config', input.source_config, input.clear)} as next_config,
    ${merged('source_revision_config', input.source_revision_config)} - ${stale(members)} as next_made_from,
    ${suppliesSecrets(input) ? nextSecrets(input) : sql`c.secrets::jsonb`} as next_secrets,
    ${references ? json(emptied(references)) : sql`c.secret_references::jsonb`} as next_references,
    coalesce(${input.revision_source ?? null}, c.source) as made_source, null::json as made_commit, null::uuid as from_revision, c.hold as next_hold`
}

/** The commit that was found for a ref that is said anew; where a preview's own is, only its pull request moves it. */
const stale = (members: Supplied[]): SQL =>
  sql`case when not (c.preview is not null and c.source_revision_config ->> 'repo_ref' = ${refSaid(members)}::text) and ${REF} = any(${newOnes(members.filter(({ path }) => path.join('.') === REF))}) then 'repo_commit_sha' else '' end`

const refSaid = (members: Supplied[]): string | null =>
  (members.find(({ path }) => path.join('.') === REF)?.value as string | undefined) ?? null

const merged = (column: string, supplied: object | null | undefined, cleared: readonly string[] = []): SQL => {
  const stored = sql`c.${sql.identifier(column)}::jsonb`
  if (!supplied && cleared.length === 0) return stored
  return sql`((${stored} || ${json(supplied ?? {})}) - ${sql.param([...cleared])}::text[])`
}

const itemsOf = (input: Input): SQL => {
  const items = input.secrets!.map(secret => ({ name: secret.name, masked: isMasked(secret) }))
  return sql`jsonb_to_recordset(${JSON.stringify(items)}::jsonb) i(name text, masked boolean)`
}
const KEPT = sql`jsonb_to_recordset(c.secrets::jsonb) k(name text, version integer)`

const secretsAreNew = (input: Input): SQL =>
  input.secrets!.every(isMasked)
    ? sql`(select array_agg(i.name order by i.name) from ${itemsOf(input)})
        is distinct from (select array_agg(k.name order by k.name) from ${KEPT})`
    : sql`true`

/** A value that is sent gets the number of the revision that it makes; a masked one stays as it is. */
const nextSecrets = (input: Input): SQL => sql`(
  select jsonb_agg(jsonb_build_object('name', i.name, 'version', case when i.masked then k.version else c.revisions + 1 end))
  from ${itemsOf(input)} left join ${KEPT} on k.name = i.name)`

/**
 * What a patch is refused for once the row is known, when planned as when applied. What it does not supply is not asked after, since it
 * stands.
 */
function guards(ctx: Ctx, input: Input): SQL {
  wellAsked(ctx, input)
  const { source_config: config, source_revision_config: madeFrom } = input
  const all = [
    unless('deployment_deleting', sql`c.deleting_at is null`),
    unmoved(ctx, { version: sql`c.version` }),
    brokenRules(input),
    (config || madeFrom) && pushOfTag(merged('source_config', config), merged('source_revision_config', madeFrom)),
    input.secrets?.some(isMasked) && knownSecrets(input),
    (suppliesSecrets(input) || input.secret_references) && namedOnce(input),
    archiveOf(madeFrom),
    config?.custom_url != null && customUrlFree(config.custom_url),
    reachable(input),
    (config || input.clear.length > 0) &&
      commandsStay(sql`c.source_config`, merged('source_config', config, input.clear)),
  ]
  return and(...all.filter(guard => guard instanceof Object))!
}

/** A ref is looked up anew through the integration: that one is still there, and its host answers for it. */
function reachable({ revision_source, source_revision_config }: Input): SQL | undefined {
  const looked = revision_source === 'githost' || source_revision_config?.repo_ref != null
  const through = sql`c.source_config ->> 'integration_id'`
  return looked ? sql`(${through} is null or integrated((${through})::uuid))` : undefined
}

/** A plan shows what is immutable; applied, it is refused. */
function asPlanned(ctx: Ctx, input: Input, digest: string): SQL {
  const fresh = freshPlan(ctx, digest)
  const immutable = supplied(input).filter(member => member.effect === 'immutable')
  if (immutable.length === 0) return fresh
  const said = newOnes(immutable)
  return sql`${fresh} and case when cardinality(${said}) > 0 then refuse('member_immutable', array_to_string(${said}, ', ')) else true end`
}

/** The rules of sources stand in one table; the database says which source it is, and what is there. */
function brokenRules(input: Input): SQL {
  const source = sql`coalesce(${input.revision_source ?? null}, c.source)`
  const sourcesWhere = (rule: 'needs' | 'refuses', path: string[]) =>
    sources.filter(one => SOURCES[one][rule].some(other => other.join() === path.join()))
  const said = supplied(input).flatMap(member => {
    const refusing = sourcesWhere('refuses', member.path)
    const sentence = `${member.path.join('.')} is not allowed for source `
    const broken = sql`${source} = any(${textArray(refusing)}) and ${isNew({ ...member, always: false })}`
    return refusing.length > 0 ? [sql`case when ${broken} then ${sentence}::text || ${source} end`] : []
  })
  const cleared = input.clear.flatMap(name => {
    const path = ['source_config', name]
    const needing = sourcesWhere('needs', path)
    return needing.length > 0
      ? [sql`case when ${source} = any(${textArray(needing)}) then ${needed(path)} || ${source} end`]
      : []
  })
  const missing = (input.revision_source ? SOURCES[input.revision_source].needs : []).map(path => {
    const [column, member] = path as ['source_config' | 'source_revision_config', string]
    return sql`case when ${merged(column, input[column])} -> ${member}::text is null then ${needed(path)} || ${source} end`
  })
  const all = [...said, ...cleared, ...missing]
  if (all.length === 0) return sql`true`
  const sentence = sql`array_to_string(array[${sql.join(all, sql`, `)}], '; ')`
  return sql`case when ${sentence} = '' then true else refuse('source_rule', ${sentence}) end`
}
const needed = (path: string[]) => sql`${`${path.join('.')} is required for source `}::text`

/** What is against a rule whatever is there. */
function wellAsked(ctx: Ctx, input: Input): void {
  const { mode } = ctx.config
  refuseReservedUrl(ctx, input.source_config)
  const both = input.clear.filter(name => input.source_config?.[name] != null)
  const faults = both.map(name => ({ loc: ['body', 'source_config', name], msg: 'is both supplied and cleared' }))
  const wrongMode = input.revision_source ? modeFaults(input.revision_source, mode, 'revision_source') : []
  if (faults.length + wrongMode.length > 0)
    throw ruleBroken([...wrongMode, ...faults.map(one => ({ type: 'member_cleared', ...one }))])
}
const knownSecrets = (input: Input): SQL => {
  const unknown = sql`(select string_agg(i.name, ', ') from ${itemsOf(input)} left join ${KEPT} on k.name = i.name
    where i.masked and k.name is null)`
  return sql`case when ${unknown} is null then true else refuse('secret_unknown', ${unknown}) end`
}
/** Asked of what is sent of the one and, where the other is not sent, of what is there. */
const namedOnce = (input: Input): SQL => {
  const sent = (items: { name: string }[]) => sql`${JSON.stringify(items.map(({ name }) => ({ name })))}::jsonb`
  const secrets = suppliesSecrets(input) ? sent(input.secrets!) : sql`c.secrets::jsonb`
  const references = input.secret_references
    ? sent(input.secret_references)
    : sql`coalesce(c.secret_references::jsonb, '[]')`
  const twice = sql`(select string_agg(name, ', ') from jsonb_to_recordset(${secrets}) s(name text)
    join jsonb_to_recordset(${references}) f(name text) using (name))`
  return sql`case when ${twice} is null then true else refuse('variable_doubled', ${twice}) end`
}

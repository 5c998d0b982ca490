// Patching: the plan told before, or applied. The database asks the plan's questions of the row that it holds, so that one trip does.
import { and, type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { type Ctx, verb } from '../kernel/context.ts'
import { sha256Hex } from '../kernel/crypto.ts'
import { db, run, unless, unmoved } from '../kernel/db.ts'
import { commit } from '../kernel/journal.ts'
import { found } from '../kernel/rows.ts'
import { deployments } from '../tables.ts'
import { freshPlan, pushOfTag, sentenceOf } from './guards.ts'
import { sources } from './parts.schema.ts'
import { isMasked, plan, type Supplied, supplied, suppliesSecrets, type Wanted } from './plan.ts'
import { decided, held, made, ofCurrent, skipped, wantedFrom } from './queue.ts'
import { type DeploymentRow, deploymentToWire } from './rows.ts'
import type * as schema from './schema.ts'
import { archiveOf, ruleBroken, sealedSecrets, theOne } from './service.ts'
import { refusedMembers } from './sources.ts'

type Input = z.output<typeof schema.DeploymentRef> & schema.DeploymentPatch & z.output<typeof schema.PatchQuery>

// ---- told

export const planPatch = verb('deployments:update', async (ctx, input: Input): Promise<schema.Plan> => {
  const row = found(
    await run(
      ctx,
      db
        .select()
        .from(deployments)
        .where(and(theOne(input.deployment_id), archiveOf(input.source_revision_config))),
    ),
    'deployment_not_found',
  )
  const faults = refusedMembers(input.revision_source ?? (row.source as schema.Deployment['source']), whole(input))
  if (faults.length > 0) throw ruleBroken(faults)
  const wanted = row as DeploymentRow & Wanted
  return { ...plan(wanted, input, input.clear), plan_digest: `${row.version}.${await digestOf(input)}` }
})

/** Names the request and, before the dot, the version that it was planned on. */
async function digestOf({ deployment_id: _, dry_run: __, ...patch }: Input): Promise<string> {
  return (await sha256Hex(JSON.stringify(patch))).slice(0, 32)
}

const whole = ({ source_config, source_revision_config, secret_references }: schema.DeploymentPatch) => ({
  source_config: source_config ?? {},
  source_revision_config: source_revision_config ?? {},
  secret_references,
})

// ---- applied

export const patchDeployment = verb('deployments:update', async (ctx, input: Input) => {
  const { deployment_id } = input
  const revision = crypto.randomUUID()
  const secrets = input.secrets ?? []
  const first = [
    sql`planned as (select c.*, ${questions(input)} from deployments c where ${ofCurrent(deployment_id)} and ${await guards(ctx, input)})`,
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
    ${merged('source_revision_config', input.source_revision_config, input.source_revision_config?.repo_ref ? PINNED : [])} as next_made_from,
    ${suppliesSecrets(input) ? nextSecrets(input) : sql`c.secrets::jsonb`} as next_secrets,
    ${references ? json(emptied(references)) : sql`c.secret_references::jsonb`} as next_references,
    coalesce(${input.revision_source ?? null}, c.source) as made_source, null::json as made_commit, null::uuid as from_revision, c.hold as next_hold`
}

/** A ref that is said anew is looked up anew. */
const PINNED = ['repo_commit_sha']

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

/** Everything that a patch may be refused for once the row is known: what it does not supply is not asked after, since it stands. */
async function guards(ctx: Ctx, input: Input): Promise<SQL> {
  const { source_config: config, source_revision_config: madeFrom } = input
  const held = { version: sql`c.version` }
  const immutable = supplied(input).filter(member => member.effect === 'immutable')
  const all = [
    unless('deployment_deleting', sql`c.deleting_at is null`),
    unmoved(ctx, held),
    freshPlan(ctx, await digestOf(input)),
    immutable.length > 0 && unchanged(newOnes(immutable)),
    refusedBySource(input),
    (config || madeFrom) && pushOfTag(merged('source_config', config), merged('source_revision_config', madeFrom)),
    input.secrets?.some(isMasked) && knownSecrets(input),
    archiveOf(madeFrom),
  ]
  return and(...all.filter(guard => guard instanceof Object))!
}

const unchanged = (changed: SQL): SQL =>
  sql`case when cardinality(${changed}) > 0 then refuse('member_immutable', array_to_string(${changed}, ', ')) else true end`

/** The rules of sources stand in one table; the database only says which source it is. */
function refusedBySource(input: Input): SQL {
  const faults = sources.map(source => [source, refusedMembers(source, whole(input))] as const)
  const sentences = faults.flatMap(([source, found]) => (found.length > 0 ? [[source, sentenceOf(found)]] : []))
  if (sentences.length === 0) return sql`true`
  const source = sql`coalesce(${input.revision_source ?? null}, c.source)`
  const map = json(Object.fromEntries(sentences))
  return sql`case when ${map} ->> ${source} is null then true else refuse('source_rule', ${map} ->> ${source}) end`
}
const knownSecrets = (input: Input): SQL => {
  const unknown = sql`(select string_agg(i.name, ', ') from ${itemsOf(input)} left join ${KEPT} on k.name = i.name
    where i.masked and k.name is null)`
  return sql`case when ${unknown} is null then true else refuse('secret_unknown', ${unknown}) end`
}

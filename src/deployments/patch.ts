// Patching: the plan told before, or applied. The database asks the plan's questions of the row that it holds, so that one trip does.
import { type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { type Ctx, verb } from '../kernel/context.ts'
import { sha256Hex } from '../kernel/crypto.ts'
import { db, run, unless, unmoved } from '../kernel/db.ts'
import { fail } from '../kernel/errors.ts'
import { commit } from '../kernel/journal.ts'
import { found } from '../kernel/rows.ts'
import { deployments, type SecretVersion } from '../tables.ts'
import { sources } from './parts.schema.ts'
import { isMasked, plan, type Supplied, supplied, suppliesSecrets, type Wanted } from './plan.ts'
import { type DeploymentRow, deploymentToWire } from './rows.ts'
import type * as schema from './schema.ts'
import { ruleBroken, sealedSecrets, theOne } from './service.ts'
import { pushFaults, refusedMembers, SOURCES } from './sources.ts'

type Input = z.output<typeof schema.DeploymentRef> & schema.DeploymentPatch & z.output<typeof schema.PatchQuery>

// ---- told

export const planPatch = verb('deployments:update', async (ctx, input: Input): Promise<schema.Plan> => {
  const row = found(
    await run(ctx, db.select().from(deployments).where(theOne(input.deployment_id))),
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
  const lock = sql`select from deployments c where ${ofCurrent(deployment_id)} for update`
  const first = [
    sql`planned as (select c.*, ${questions(input)} from deployments c where ${ofCurrent(deployment_id)} and ${await guards(ctx, input)})`,
    sql`decided as (select p.*, cardinality(reasons) > 0 as makes, cardinality(reasons) > 0 or placed as changes, ${BARE} as bare from planned p)`,
  ]
  const also = [
    SKIPPED,
    madeRevision(revision, input.revision_source ?? null),
    await sealedSecrets(
      ctx,
      deployment_id,
      secrets.filter(secret => !isMasked(secret)),
      sql`changed.revisions`,
    ),
  ]
  const data = {
    supplied: supplied(input, input.clear).map(({ path }) => path.join('.')),
    secrets: secrets.map(({ name }) => name),
  }
  const rows = await commit(ctx, 'deployment.patched', update(revision, input), data, { lock, first, also })
  return deploymentToWire(found(rows, 'deployment_not_found'))
})

/** The second wall's own predicate, spelt for the alias that the statement reads from. */
const ofCurrent = (id: string): SQL => sql`c.id = ${id}::uuid and c.tenant_id = current_tenant()`

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
    ${merged('source_revision_config', input.source_revision_config)} as next_made_from,
    ${suppliesSecrets(input) ? nextSecrets(input) : sql`c.secrets::jsonb`} as next_secrets,
    ${references ? json(emptied(references)) : sql`c.secret_references::jsonb`} as next_references`
}

const merged = (column: string, supplied: object | null | undefined, cleared: readonly string[] = []): SQL =>
  sql`((c.${sql.identifier(column)}::jsonb || ${json(supplied ?? {})}) - ${sql.param([...cleared])}::text[])`

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

/** Everything that a patch may be refused for once the row is known. */
async function guards(ctx: Ctx, input: Input): Promise<SQL> {
  const held = { version: sql`c.version` }
  const immutable = newOnes(supplied(input).filter(member => member.effect === 'immutable'))
  const all = [
    unless('deployment_deleting', sql`c.deleting_at is null`),
    unmoved(ctx, held) ?? sql`true`,
    await freshPlan(ctx, input),
    sql`case when cardinality(${immutable}) > 0 then refuse('member_immutable', array_to_string(${immutable}, ', ')) else true end`,
    refusedBySource(input),
    PUSH_OF_TAG(input),
    suppliesSecrets(input) ? knownSecrets(input) : sql`true`,
  ]
  return sql.join(all, sql` and `)
}

async function freshPlan(ctx: Ctx, input: Input): Promise<SQL> {
  if (ctx.planDigest === null) return sql`true`
  const [version = '', request] = ctx.planDigest.split('.')
  if (!/^\d{1,9}$/.test(version) || request !== (await digestOf(input))) throw fail('plan_stale')
  return unless('plan_stale', sql`c.version = ${Number(version)}`)
}

/** The rules of sources stand in one table; the database only says which source it is. */
function refusedBySource(input: Input): SQL {
  const faults = sources.map(source => [source, refusedMembers(source, whole(input))] as const)
  const sentences = faults.flatMap(([source, found]) => (found.length > 0 ? [[source, sentenceOf(found)]] : []))
  if (sentences.length === 0) return sql`true`
  const source = sql`coalesce(${input.revision_source ?? null}, c.source)`
  const map = json(Object.fromEntries(sentences))
  return sql`case when ${map} ->> ${source} is null then true else refuse('source_rule', ${map} ->> ${source}) end`
}
const sentenceOf = (faults: { loc: (string | number)[]; msg: string }[]) =>
  faults.map(({ loc, msg }) => `${loc.slice(1).join('.')} ${msg}`).join('; ')

const PUSH_OF_TAG = (input: Input): SQL => {
  const [tagged] = pushFaults({
    source_config: { build_on_push: true },
    source_revision_config: { repo_ref: 'refs/tags/' },
  })
  const push = sql`(${merged('source_config', input.source_config)} ->> 'build_on_push') = 'true'`
  const tag = sql`(${merged('source_revision_config', input.source_revision_config)} ->> 'repo_ref') like 'refs/tags/%'`
  return sql`case when ${push} and ${tag} then refuse('source_rule', ${sentenceOf([tagged!])}) else true end`
}

const knownSecrets = (input: Input): SQL => {
  const unknown = sql`(select string_agg(i.name, ', ') from ${itemsOf(input)} left join ${KEPT} on k.name = i.name
    where i.masked and k.name is null)`
  return sql`case when ${unknown} is null then true else refuse('secret_unknown', ${unknown}) end`
}

/** Still without what it is made from. */
const BARE = sql`(source = 'internal_container' and next_made_from -> 'image_uri' is null)
  or (source = 'internal_source' and next_made_from -> 'source_tarball_path' is null)`

const update = (revision: string, input: Input): SQL<DeploymentRow & { secrets: SecretVersion[] }> => sql`
  update deployments d set
    source_config = p.next_config, source_revision_config = p.next_made_from,
    secrets = p.next_secrets, secret_references = p.next_references,
    revisions = p.revisions + p.makes::integer,
    latest_revision_id = case when p.makes then ${revision}::uuid else p.latest_revision_id end,
    in_flight_revision_id = case when p.makes and not p.bare then coalesce(p.in_flight_revision_id, ${revision}::uuid) else p.in_flight_revision_id end,
    waiting_revision_id = case when not p.makes then p.waiting_revision_id
      when p.in_flight_revision_id is null and not p.bare then null else ${revision}::uuid end,
    generation = p.generation + p.changes::integer, remote_reconciled = p.remote_reconciled and not p.changes,
    version = p.version + p.changes::integer,
    updated_at = case when p.changes then ${NEXT_TIME} else p.updated_at end
  from decided p where d.id = p.id
  returning d.*, p.reasons, p.makes, p.waiting_revision_id as superseded, ${MADE_STATUS(input.revision_source ?? null)} as made_status`

/** A transaction's time is that of its start, which may lie before that of the patch it waited for: newest first is by number, too. */
const NEXT_TIME = sql`greatest(clock(), p.updated_at + interval '1 microsecond')`

const BUILDS = sources.filter(source => SOURCES[source].builds)
const MADE_STATUS = (source: string | null): SQL => sql`case
  when p.bare then 'CREATING' when p.in_flight_revision_id is not null then 'QUEUED'
  when coalesce(${source}, p.source) in ${BUILDS} then 'AWAITING_BUILD' else 'AWAITING_DEPLOY' end`

/** All but the newest waiting are skipped; there is never more than one to skip. */
const SKIPPED = sql`skipped as (
  update revisions r set status = 'SKIPPED', status_message = 'Superseded by revision ' || changed.revisions, status_since = clock(), updated_at = clock()
  from changed where changed.makes and r.id = changed.superseded)`

const madeRevision = (id: string, source: string | null): SQL => sql`revision as (
  insert into revisions (id, organization_id, tenant_id, deployment_id, number, source, source_config, source_revision_config, secrets,
    secret_references, status, reasons, actor_kind, actor_id, created_at, updated_at)
  select ${id}::uuid, organization_id, tenant_id, id, revisions, coalesce(${source}, source), source_config, source_revision_config, secrets,
    secret_references, made_status, reasons, setting('actor_kind'), current_actor(), updated_at, updated_at from changed where makes)`

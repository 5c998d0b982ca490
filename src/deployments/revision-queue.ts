// The queue of a deployment's revisions, in SQL: one enters, others leave, the one that waits takes its turn.
// Whoever uses it holds the deployment's row (`lockDeployment`), so that each sees what the one before it did.
import { type SQL, sql } from 'drizzle-orm'
import { sources } from '../protocol/parts.schema.ts'
import type { SecretVersion } from '../tables/deployments.ts'
import { inFlightStates, LISTENER_LOST, waitingStates } from './lifecycle.ts'
import type { DeploymentRow, RevisionRow } from './rows.ts'
import { SOURCE_RULES } from './source-rules.ts'

/** The tag of an image; one that is named by its digest alone has none. */
export const imageVersion = (image: SQL): SQL => sql`substring(split_part(${image}, '@', 1) from ':([^:/]+)$')`

/** The second wall's own predicate, spelt for the alias that the statements read from. */
export const isDeploymentInTenant = (id: string): SQL => sql`c.id = ${id}::uuid and c.tenant_id = current_tenant()`
export const lockDeployment = (id: string): SQL =>
  sql`select from deployments c where ${isDeploymentInTenant(id)} for update`

const BUILT_SOURCES = sources.filter(source => SOURCE_RULES[source].builds)
const startStateOf = (source: SQL): SQL =>
  sql`case when ${source} in ${BUILT_SOURCES} then 'AWAITING_BUILD' else 'AWAITING_DEPLOY' end`

// ---- entering

/** Among the reasons of one that is only recorded. */
export const HELD_BACK_REASON = 'held'

/**
 * What a revision that enters is made of, as columns of `planned` beside the deployment's own: its reasons, whether something else
 * changes (placed), and next_config, next_made_from, next_secrets, next_references, next_hold, made_source, made_commit, from_revision.
 * Where the reasons have HELD among them it takes a number for the record, and nothing else comes of it.
 */
export const decideChange = sql`decided as (
  select p.*, cardinality(reasons) > 0 and not kept as makes, (cardinality(reasons) > 0 and not kept) or placed as changes, ${isMissingArtifact()} as bare
  from (select q.*, ${HELD_BACK_REASON}::text = any(reasons) as kept from planned q) p)`

/** Still without what it is made from. */
function isMissingArtifact(): SQL {
  return sql`(made_source = 'internal_container' and next_made_from -> 'image_uri' is null)
    or (made_source = 'internal_source' and next_made_from -> 'source_tarball_path' is null)`
}

/** A transaction's time is that of its start, which may lie before that of the patch it waited for: newest first is by number, too. */
const NEXT_UPDATED_AT = sql`greatest(clock(), p.updated_at + interval '1 microsecond')`

/** The deployment as it is decided: what is wanted, and the place in the queue of the revision that this makes. */
export const updateWanted = (revision: string): SQL<DeploymentRow & { secrets: SecretVersion[] }> => sql`
  update deployments d set
    source_config = p.next_config, source_revision_config = p.next_made_from,
    image_version = ${imageVersion(sql`p.next_made_from ->> 'image_uri'`)},
    secrets = p.next_secrets, secret_references = p.next_references, hold = p.next_hold,
    status = case when p.changes and p.status = 'UNUSED' then 'READY' else p.status end,
    revisions = p.revisions + (p.makes or p.kept)::integer,
    latest_revision_id = case when p.makes then ${revision}::uuid else p.latest_revision_id end,
    in_flight_revision_id = case when p.makes and not p.bare then coalesce(p.in_flight_revision_id, ${revision}::uuid) else p.in_flight_revision_id end,
    waiting_revision_id = case when not p.makes then p.waiting_revision_id
      when p.in_flight_revision_id is null and not p.bare then null else ${revision}::uuid end,
    generation = p.generation + p.changes::integer, remote_reconciled = p.remote_reconciled and not p.changes,
    version = p.version + p.changes::integer,
    updated_at = case when p.changes then ${NEXT_UPDATED_AT} else p.updated_at end
  from decided p where d.id = p.id
  returning d.*, p.reasons, p.makes, p.kept, p.changes and p.status = 'UNUSED' as woken, p.waiting_revision_id as superseded, p.made_source, p.made_commit, p.from_revision,
    case when p.bare then 'CREATING' when p.in_flight_revision_id is not null then 'QUEUED' else ${startStateOf(sql`p.made_source`)} end as made_status`

type DeploymentCte = 'changed' | 'queued'
/** All but the newest waiting are skipped; there is never more than one to skip. */
export const supersedeWaiting = (from: DeploymentCte): SQL => sql`skipped as (
  update revisions r set status = 'SKIPPED', status_message = 'Superseded by revision ' || q.revisions, status_since = clock(), updated_at = clock()
  from ${sql.identifier(from)} q where q.makes and r.id = q.superseded returning r.*)`

export const insertRevision = (id: string, from: DeploymentCte): SQL<RevisionRow> => sql`
  insert into revisions (id, organization_id, tenant_id, deployment_id, number, source, source_config, source_revision_config, secrets,
    secret_references, status, reasons, from_revision_id, "commit", actor_kind, actor_id, created_at, updated_at)
  select ${id}::uuid, organization_id, tenant_id, id, revisions, made_source, source_config, source_revision_config, secrets,
    secret_references, made_status, reasons, from_revision, made_commit, setting('actor_kind'), current_actor(), updated_at, updated_at
  from ${sql.identifier(from)} where makes returning *`

/** How a revision begins: its first state is no move, so the event says it. */
export const revisionCreatedData = sql`json_build_object('deployment_id', deployment_id, 'status', status)`

/** What else happens when one enters: it is made (unless that is the change itself), another is skipped, the deployment wakes. */
export const enqueueEvents = (from: DeploymentCte): SQL => sql`
  ${from === 'changed' ? sql`select 'revision.created', id, ${revisionCreatedData} from revision union all` : sql``}
  select 'revision.skipped', id, json_build_object('deployment_id', deployment_id, 'message', status_message) from skipped
  union all select 'deployment.ready', id, '{}' from ${sql.identifier(from)} where woken`

// ---- moving on

/** In flight it holds the others up; otherwise, unless it waits, it has left. */
const hasLeftQueue = (state: SQL): SQL => sql`${state} not in ${[...inFlightStates, ...waitingStates]}`

/** What a data plane says of deployments besides: up to which generation it has what is wanted, and how they fare. */
const NO_REPORTS = sql`said as (select null::uuid as deployment_id, null::integer as generation, null::text as url,
  null::boolean as healthy, null::timestamptz as last_request_at, null::text as becomes where false)`

/**
 * What follows from `moves`, which names revisions (id, deployment_id, number) and what each becomes: who has left the queue, and whose
 * turn it is. A revision that enters the queue while nothing is in flight takes its turn at once.
 */
export const promoteWaiting = (said: SQL): SQL[] => [
  said,
  sql`queues as (
    select c.id, c.organization_id, c.tenant_id, case when f.id is null then c.in_flight_revision_id end as flying, case when w.id is null then c.waiting_revision_id end as waiting
    from deployments c
    left join moves f on f.id = c.in_flight_revision_id and ${hasLeftQueue(sql`f.becomes`)}
    left join moves w on w.id = c.waiting_revision_id and ${hasLeftQueue(sql`w.becomes`)}
    where c.id in (select deployment_id from moves union select deployment_id from said))`,
  sql`turns as (
    select q.*, n.id as starts, ${startStateOf(sql`n.source`)} as start_as
    from queues q left join revisions n on n.id = q.waiting and q.flying is null
      and coalesce((select m.becomes from moves m where m.id = n.id), n.status) = 'QUEUED')`,
]
export const promoteWithoutReports = promoteWaiting(NO_REPORTS)

/** The revisions that move: the change of a commit. */
export const applyMoves: SQL<RevisionRow> = sql`
  update revisions r set status = coalesce(t.start_as, m.becomes), status_message = m.message, status_since = clock(), updated_at = clock(),
    source_revision_config = r.source_revision_config::jsonb || m.resolved, "commit" = coalesce(m.made_commit, r."commit"::jsonb)
  from moves m left join (select * from turns where starts is not null) t on t.starts = m.id where r.id = m.id returning r.*`

/** The newest, lost in its listener's silence and wanted on, ends after all: nothing is in flight, and yet nothing is wanted any more. */
const endsLostRevision = sql`exists (select from moves m join revisions r on r.id = m.id where m.id = c.latest_revision_id and r.status = ${LISTENER_LOST.becomes})`

/**
 * The deployments follow, and so do those whose turn it now is. What serves is never replaced by something older, and the commit that
 * was found for the newest is the deployment's. Another revision in flight, or none any more, is another generation; whoever reported
 * the end of one without a successor has that generation already.
 */
export const applyMovesToDeployments = [
  sql`outcomes as (
    select t.*, a.id as activated, l.sha as found, s.url, s.healthy, s.last_request_at, s.becomes,
      c.generation + w.passes::integer as generation,
      case when s.generation = c.generation and t.starts is null then c.generation + w.passes::integer
        else greatest(c.acknowledged, s.generation) end as acknowledged,
      a.id is not null or l.sha is not null or s.becomes is not null or (s.url is not null and s.url is distinct from c.url) as shows
    from turns t join deployments c on c.id = t.id left join said s on s.deployment_id = t.id
    cross join lateral (select coalesce(t.flying, t.starts) is distinct from c.in_flight_revision_id or ${endsLostRevision} as passes) w
    left join lateral (
      select m.id from moves m left join revisions s on s.id = c.active_revision_id
      where m.deployment_id = t.id and m.becomes = 'DEPLOYED' and m.number > coalesce(s.number, 0)) a on true
    left join lateral (
      select m.resolved ->> 'repo_commit_sha' as sha from moves m
      where m.id = c.latest_revision_id and m.resolved ->> 'repo_commit_sha' is distinct from c.source_revision_config ->> 'repo_commit_sha') l on true)`,
  sql`freed as (
    update deployments d set
      in_flight_revision_id = coalesce(t.flying, t.starts),
      waiting_revision_id = case when t.starts is null then t.waiting end,
      active_revision_id = coalesce(t.activated, d.active_revision_id),
      source_revision_config = case when t.found is null then d.source_revision_config
        else (d.source_revision_config::jsonb || jsonb_build_object('repo_commit_sha', t.found))::json end,
      generation = t.generation, acknowledged = t.acknowledged, remote_reconciled = t.acknowledged >= t.generation,
      status = coalesce(t.becomes, d.status), url = coalesce(t.url, d.url), healthy = coalesce(t.healthy, d.healthy),
      last_request_at = greatest(d.last_request_at, t.last_request_at),
      version = d.version + t.shows::integer,
      updated_at = case when t.activated is null and t.found is null then d.updated_at else greatest(clock(), d.updated_at) end
    from outcomes t where d.id = t.id)`,
  sql`started as (
    update revisions r set status = t.start_as, status_since = clock(), updated_at = clock()
    from turns t where r.id = t.starts and r.id not in (select id from moves))`,
  sql`consequences as (
    select tenant_id, organization_id, 'revision.' || lower(start_as) as type, starts as subject_id,
      json_build_object('deployment_id', id) as data from turns where starts is not null
    union all
    select tenant_id, organization_id, 'deployment.activated', id, json_build_object('revision_id', activated)
    from outcomes where activated is not null
    union all
    select tenant_id, organization_id, 'deployment.' || lower(becomes), id, '{}' from outcomes where becomes is not null)`,
]
/** What a move brings about besides: a turn that is taken, another revision that serves. */
export const moveEvents = sql`select type, subject_id, data from consequences`

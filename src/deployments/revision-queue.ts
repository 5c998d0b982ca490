// Queues a revision: one is in flight, at most one waits. docs/design/writes.md shows the statement.
// The caller locks the deployment's row first (`lockDeployment`), so that concurrent writers take turns.
import { type SQL, sql } from 'drizzle-orm'
import { changesBetween, createdMembers } from '../kernel/recorded-changes.ts'
import { type RevisionStatus, sources } from '../protocol/parts.schema.ts'
import type { SecretVersion } from '../tables/deployments.ts'
import { type DeploymentRow, REVISION_RECORD, type RevisionRow } from './rows.ts'
import { SOURCE_RULES } from './source-rules.ts'
import { columnOf, type EventRows, insertColumns, selectColumns, selectEvents } from './sql-columns.ts'

/** The tag of an image; an image that is named by its digest alone has none. */
export const imageVersion = (image: SQL): SQL => sql`substring(split_part(${image}, '@', 1) from ':([^:/]+)$')`

/** Selects deployment `c` of the caller's workspace. */
export const isDeploymentInTenant = (id: string): SQL => sql`c.id = ${id}::uuid and c.tenant_id = current_tenant()`
export const lockDeployment = (id: string): SQL =>
  sql`select from deployments c where ${isDeploymentInTenant(id)} for update`

const DEPLOYING: RevisionStatus = 'DEPLOYING'
const BUILT_SOURCES = sources.filter(source => SOURCE_RULES[source].builds)
/** The first state of a revision of this source when its turn comes. */
export const startStateOf = (source: SQL): SQL =>
  sql`case when ${source} in ${BUILT_SOURCES} then 'AWAITING_BUILD' else 'AWAITING_DEPLOY' end`

// ---- planned: what the request asks for, decided on the locked row

/** The columns of `planned`, beside those of the deployment `c`. */
export type PlannedColumns = {
  /** Why a revision is created; empty for none. With HELD_BACK_REASON it is only recorded, as SKIPPED. */
  reasons: SQL
  /** Whether members change that need no revision. */
  changes_in_place: SQL
  next_source_config: SQL
  next_source_revision_config: SQL
  next_secrets: SQL
  next_secret_references: SQL
  next_hold: SQL
  revision_source: SQL
  revision_commit: SQL
  /** The older revision that the new one repeats. */
  from_revision_id: SQL
}

export const HELD_BACK_REASON = 'held'

/** The next configuration of a deployment that keeps its own. */
export const unchangedColumns = {
  changes_in_place: sql`false`,
  next_source_config: sql`c.source_config::jsonb`,
  next_source_revision_config: sql`c.source_revision_config::jsonb`,
  next_secrets: sql`c.secrets::jsonb`,
  next_secret_references: sql`c.secret_references::jsonb`,
  next_hold: sql`c.hold`,
  revision_source: sql`c.source`,
  revision_commit: sql`null::json`,
  from_revision_id: sql`null::uuid`,
} satisfies Partial<PlannedColumns>

type PlannedParts<More extends string> = {
  columns: PlannedColumns & Record<More, SQL>
  /** What follows `from`; it names the deployment `c`. */
  from?: SQL
  where: SQL
}
export const planChange = <More extends string = never>({
  columns,
  from = sql`deployments c`,
  where,
}: PlannedParts<More>): SQL => sql`planned as (
  select c.*,
    ${selectColumns(columns)}
  from ${from}
  where ${where})`

// ---- decided: what follows from the plan

type DecidedColumns = {
  is_held_back: SQL
  creates_revision: SQL
  /** Whether anything is another than before, for the deployment's version and generation. */
  has_changes: SQL
  /** Whether the image or the archive of the new revision is still missing. */
  lacks_artifact: SQL
  /** The revision in flight, if the new one takes its place at once: its agent has told why it is not healthy yet. */
  replaced_revision_id: SQL
}
const planned = columnOf<PlannedColumns>('p')
const decided = columnOf<PlannedColumns & DecidedColumns>('p')

const lacksArtifact = (source: SQL, config: SQL): SQL => sql`
    ${source} = 'internal_container' and ${config} -> 'image_uri' is null
    or ${source} = 'internal_source' and ${config} -> 'source_tarball_path' is null`
const LACKS_ARTIFACT = lacksArtifact(planned('revision_source'), planned('next_source_revision_config'))

const IS_HELD_BACK = sql`${HELD_BACK_REASON}::text = any(${planned('reasons')})`
const CREATES_REVISION = sql`cardinality(${planned('reasons')}) > 0 and not ${IS_HELD_BACK}`

const REPLACED_REVISION = sql`
    select r.id
    from revisions r
    where r.id = p.in_flight_revision_id
      and r.status = ${DEPLOYING}
      and r.status_message is not null
      and ${CREATES_REVISION}
      and not (${LACKS_ARTIFACT})`

export const decideChange = sql`decided as (
  select p.*,
    ${selectColumns<DecidedColumns>({
      is_held_back: IS_HELD_BACK,
      creates_revision: CREATES_REVISION,
      has_changes: sql`(${CREATES_REVISION}) or ${planned('changes_in_place')}`,
      lacks_artifact: LACKS_ARTIFACT,
      replaced_revision_id: sql`(${REPLACED_REVISION})`,
    })}
  from planned p)`

// ---- changed (or queued): the deployment's row is updated

/** What the update returns for later CTEs, beside the deployment's row. */
export type QueuedColumns = Pick<DecidedColumns, 'is_held_back' | 'creates_revision'> &
  Pick<PlannedColumns, 'reasons' | 'revision_source' | 'revision_commit' | 'from_revision_id'> & {
    revision_status: SQL
    superseded_revision_ids: SQL
    /** An UNUSED deployment becomes READY. */
    is_woken: SQL
  }

/** now() is when the transaction began, possibly before the update it waited for: times still ascend like versions. */
const NEXT_UPDATED_AT = sql`greatest(clock(), p.updated_at + interval '1 microsecond')`

const IS_WOKEN = sql`${decided('has_changes')} and p.status = 'UNUSED'`

/** The revision that stays in flight before the new one. */
const STILL_IN_FLIGHT = sql`nullif(p.in_flight_revision_id, ${decided('replaced_revision_id')})`

const CREATED_STATUS = sql`case
      when ${decided('lacks_artifact')} then 'CREATING'
      when ${STILL_IN_FLIGHT} is not null then 'QUEUED'
      else ${startStateOf(decided('revision_source'))}
    end`

const nextInFlight = (revision: SQL): SQL => sql`case
      when ${decided('creates_revision')} and not ${decided('lacks_artifact')}
        then coalesce(${STILL_IN_FLIGHT}, ${revision})
      else p.in_flight_revision_id
    end`

const nextWaiting = (revision: SQL): SQL => sql`case
      when not ${decided('creates_revision')} then p.waiting_revision_id
      when ${STILL_IN_FLIGHT} is null and not ${decided('lacks_artifact')} then null
      else ${revision}
    end`

/** Applies `decided`: the configuration, and the place of the new revision in the queue. */
export const updateWanted = (revision_id: string): SQL<DeploymentRow & { secrets: SecretVersion[] }> => {
  const revision = sql`${revision_id}::uuid`
  return sql`
  update deployments d set
    source_config = ${decided('next_source_config')},
    source_revision_config = ${decided('next_source_revision_config')},
    image_version = ${imageVersion(sql`${decided('next_source_revision_config')} ->> 'image_uri'`)},
    secrets = ${decided('next_secrets')},
    secret_references = ${decided('next_secret_references')},
    hold = ${decided('next_hold')},
    status = case when ${IS_WOKEN} then 'READY' else p.status end,
    revisions = p.revisions + (${decided('creates_revision')} or ${decided('is_held_back')})::integer,
    latest_revision_id = case when ${decided('creates_revision')} then ${revision} else p.latest_revision_id end,
    in_flight_revision_id = ${nextInFlight(revision)},
    waiting_revision_id = ${nextWaiting(revision)},
    generation = p.generation + ${decided('has_changes')}::integer,
    remote_reconciled = p.remote_reconciled and not ${decided('has_changes')},
    version = p.version + ${decided('has_changes')}::integer,
    updated_at = case when ${decided('has_changes')} then ${NEXT_UPDATED_AT} else p.updated_at end
  from decided p
  where d.id = p.id
  returning d.*,
    ${selectColumns<QueuedColumns>({
      reasons: decided('reasons'),
      creates_revision: decided('creates_revision'),
      is_held_back: decided('is_held_back'),
      is_woken: IS_WOKEN,
      superseded_revision_ids: sql`array[p.waiting_revision_id, ${decided('replaced_revision_id')}]`,
      revision_source: decided('revision_source'),
      revision_commit: decided('revision_commit'),
      from_revision_id: decided('from_revision_id'),
      revision_status: CREATED_STATUS,
    })}`
}

// ---- revision: the inserted row

/** Columns that every insert fills alike, or leaves to their default. */
type CommonColumn = 'organization_id' | 'tenant_id' | 'deployment_id' | 'actor_kind' | 'actor_id' | 'actor_name'
type RevisionColumns = Record<Exclude<keyof RevisionRow, CommonColumn | 'status_since' | 'states'>, SQL>

/** Inserts a revision of the deployment `d`, which `from` names. */
export const insertRevision = (columns: RevisionColumns, from: SQL): SQL<RevisionRow> => sql`
  insert into revisions ${insertColumns({
    organization_id: sql`d.organization_id`,
    tenant_id: sql`d.tenant_id`,
    deployment_id: sql`d.id`,
    actor_kind: sql`setting('actor_kind')`,
    actor_id: sql`current_actor()`,
    ...columns,
  })}
  from ${from}
  returning *`

/** What a revision takes over from the row of its deployment `d`. */
export const deploymentRevisionColumns = {
  number: sql`d.revisions`,
  source_config: sql`d.source_config`,
  source_revision_config: sql`d.source_revision_config`,
  secrets: sql`d.secrets`,
  secret_references: sql`d.secret_references`,
} satisfies Partial<RevisionColumns>

/** The CTE that holds the updated deployment: `changed` where `commit` journals the deployment, otherwise `queued`. */
type DeploymentCte = 'changed' | 'queued'
const queued = columnOf<QueuedColumns>('d')

export const insertQueuedRevision = (id: string, from: DeploymentCte): SQL<RevisionRow> =>
  insertRevision(
    {
      ...deploymentRevisionColumns,
      id: sql`${id}::uuid`,
      source: queued('revision_source'),
      status: queued('revision_status'),
      status_message: sql`null`,
      reasons: queued('reasons'),
      from_revision_id: queued('from_revision_id'),
      commit: queued('revision_commit'),
      created_at: sql`d.updated_at`,
      updated_at: sql`d.updated_at`,
    },
    sql`${sql.identifier(from)} d
  where ${queued('creates_revision')}`,
  )

/** Only the newest revision waits: the one that waited until now is skipped, one that was deploying interrupted. */
export const supersedeOlder = (from: DeploymentCte): SQL => sql`superseded as (
  update revisions r set
    status = case when r.status = ${DEPLOYING} then 'INTERRUPTED' else 'SKIPPED' end,
    status_message = case when r.status = 'CREATING' then 'It had no files or image yet. It was superseded by revision '
      else 'Superseded by revision ' end || d.revisions
      || case when r.status = ${DEPLOYING} then ' before it was healthy.' else '' end,
    status_since = clock(),
    updated_at = clock()
  from ${sql.identifier(from)} d
  where ${queued('creates_revision')} and r.id = any(${queued('superseded_revision_ids')})
  returning r.*)`

// ---- events

/** The first state of a revision comes with its creation; later states are events of their own. */
export const revisionCreatedData = sql`json_build_object('deployment_id', deployment_id, 'status', status)`
export const revisionCreated: EventRows = {
  type: sql`'revision.created'`,
  subject: sql`id`,
  data: revisionCreatedData,
  changes: createdMembers(REVISION_RECORD, sql`revision`),
  from: sql`revision`,
}

/** Concluded from the new row: to read the old one, every patch would have to plan a query of the table. */
const SUPERSEDED_STATUS = sql`case
        when status = 'INTERRUPTED' then ${DEPLOYING}
        when ${lacksArtifact(sql`source`, sql`source_revision_config`)} then 'CREATING'
        else 'QUEUED'
      end`

/** What else happens when a revision is queued. With `queued`, `revision.created` is the event of the write itself. */
export const enqueueEvents = (from: DeploymentCte, ...more: EventRows[]): SQL =>
  selectEvents(
    ...(from === 'changed' ? [revisionCreated] : []),
    {
      type: sql`'revision.' || lower(status)`,
      subject: sql`id`,
      data: sql`json_build_object('deployment_id', deployment_id, 'message', status_message)`,
      changes: changesBetween({ status: SUPERSEDED_STATUS }, { status: sql`status` }),
      from: sql`superseded`,
    },
    {
      type: sql`'deployment.ready'`,
      subject: sql`d.id`,
      changes: changesBetween({ status: sql`'UNUSED'` }, { status: sql`d.status` }),
      from: sql`${sql.identifier(from)} d where ${queued('is_woken')}`,
    },
    ...more,
  )

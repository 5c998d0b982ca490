// Every table. Property names are column names, as on the wire; unique constraints are named for the error they mean.
import { type SQL, sql } from 'drizzle-orm'
import {
  bigint,
  boolean,
  check,
  date,
  type ExtraConfigColumn,
  foreignKey,
  index,
  integer,
  json,
  pgTable,
  primaryKey,
  text,
  timestamp,
  unique,
  uniqueIndex,
  uuid,
} from 'drizzle-orm/pg-core'

/** A secret that is wanted, by the version that is sealed. */
export type SecretVersion = { name: string; version: number }

/** Since when and by which revision automatic deploys are held, which commit was left, and what ends it. */
export type Hold = {
  since: string
  revision_id: string
  from_commit: string | null
  until: 'released' | 'newer_commit'
}

/** Which pull request a preview is of, and until when it stays. */
export type Preview = { number: number; branch: string; head_sha: string; expires_at: string }

const instantColumn = () => timestamp({ withTimezone: true, mode: 'string' })
const idColumn = () => uuid().primaryKey().defaultRandom()
const createdAtColumn = () => instantColumn().notNull().default(sql`clock()`)
/** What a list's index ends with. Postgres puts nulls first where it sorts downwards, and an index that says otherwise serves no list. */
const newestFirstColumns = (t: Record<'created_at' | 'id', ExtraConfigColumn>) =>
  [t.created_at.desc().nullsFirst(), t.id.desc().nullsFirst()] as const
/** Whom another system knows by a name only: a git host's people. */
const actorNameColumn = () => text().default(sql`setting('actor_name')`)
/** A resource that is changed in place: its version is its ETag. */
const versionedColumns = () => ({
  version: integer().notNull().default(1),
  created_at: createdAtColumn(),
  updated_at: createdAtColumn(),
})

export const organizations = pgTable('organizations', {
  id: idColumn(),
  display_name: text().notNull(),
  rbac_enabled: boolean().notNull().default(false),
  /** Hosts of authorization servers that are taken to support PKCE with S256 though they do not say so. */
  assume_s256: text().array().notNull().default(sql`'{}'`),
  ...versionedColumns(),
})

export const workspaces = pgTable(
  'workspaces',
  {
    id: idColumn(),
    organization_id: uuid()
      .notNull()
      .references(() => organizations.id, { onDelete: 'cascade' }),
    display_name: text().notNull(),
    require_if_match: boolean().notNull().default(false),
    ...versionedColumns(),
  },
  t => [
    unique('workspace_name_taken').on(t.organization_id, t.display_name),
    index('workspaces_page').on(t.organization_id, ...newestFirstColumns(t)),
  ],
)

/** Built-in roles have no organisation and are everyone's. */
export const roles = pgTable(
  'roles',
  {
    id: idColumn(),
    organization_id: uuid().references(() => organizations.id, { onDelete: 'cascade' }),
    scope: text({ enum: ['workspace', 'organization'] }).notNull(),
    display_name: text().notNull(),
    description: text().notNull().default(''),
    permissions: text().array().notNull(),
    ...versionedColumns(),
  },
  t => [
    unique('role_name_taken').on(t.organization_id, t.display_name).nullsNotDistinct(),
    check('role_scope', sql`${t.scope} in ('workspace', 'organization')`),
  ],
)

export const members = pgTable(
  'members',
  {
    id: idColumn(),
    organization_id: uuid()
      .notNull()
      .references(() => organizations.id, { onDelete: 'cascade' }),
    email: text().notNull(),
    full_name: text(),
    role_id: uuid().notNull(),
    ...versionedColumns(),
  },
  t => [
    unique('member_exists').on(t.organization_id, t.email),
    foreignKey({ name: 'role_in_use', columns: [t.role_id], foreignColumns: [roles.id] }),
    index('members_page').on(t.organization_id, ...newestFirstColumns(t)),
    index('members_role').on(t.role_id),
  ],
)

export const workspaceMembers = pgTable(
  'workspace_members',
  {
    id: idColumn(),
    organization_id: uuid().notNull(),
    tenant_id: uuid()
      .notNull()
      .references(() => workspaces.id, { onDelete: 'cascade' }),
    member_id: uuid()
      .notNull()
      .references(() => members.id, { onDelete: 'cascade' }),
    role_id: uuid().notNull(),
    ...versionedColumns(),
  },
  t => [
    unique('workspace_member_exists').on(t.tenant_id, t.member_id),
    foreignKey({ name: 'role_in_use', columns: [t.role_id], foreignColumns: [roles.id] }),
    index('workspace_members_page').on(t.tenant_id, ...newestFirstColumns(t)),
    index('workspace_members_member').on(t.member_id),
    index('workspace_members_role').on(t.role_id),
  ],
)

/**
 * A data plane, and the lease of the agent that works for it. One without a workspace is the platform's: it serves whatever names no
 * listener, of every workspace.
 */
export const listeners = pgTable(
  'listeners',
  {
    id: idColumn(),
    organization_id: uuid()
      .notNull()
      .references(() => organizations.id, { onDelete: 'cascade' }),
    tenant_id: uuid().references(() => workspaces.id, { onDelete: 'cascade' }),
    compute_type: text({ enum: ['k8s', 'local'] }).notNull(),
    compute_id: text().notNull(),
    compute_config: json().$type<{ k8s_namespaces: string[] }>().notNull(),
    agent_id: text(),
    agent_version: text(),
    /** Counts leases: of two agents, the one with the lower number is not listened to. */
    fence: bigint({ mode: 'number' }).notNull().default(0),
    lease_expires_at: instantColumn(),
    last_seen_at: instantColumn(),
    ...versionedColumns(),
  },
  t => [
    unique('listener_exists').on(t.tenant_id, t.compute_id).nullsNotDistinct(),
    index('listeners_page').on(t.tenant_id, ...newestFirstColumns(t)),
  ],
)

/** How far the changes of a listener's deployments are numbered, and the digest of what they come to. */
export const syncCursors = pgTable('sync_cursors', {
  listener_id: uuid()
    .primaryKey()
    .references(() => listeners.id, { onDelete: 'cascade' }),
  seq: bigint({ mode: 'number' }).notNull(),
  digest: bigint({ mode: 'bigint' }).notNull(),
})

/**
 * The last change of each deployment of a listener. A table of its own, so that the index on the number leaves updates of deployments
 * heap-only. No foreign key: it outlives a deployment that went with its workspace, until the agent has removed what runs.
 */
export const syncItems = pgTable(
  'sync_items',
  {
    deployment_id: uuid().primaryKey(),
    listener_id: uuid()
      .notNull()
      .references(() => listeners.id, { onDelete: 'cascade' }),
    seq: bigint({ mode: 'number' }).notNull(),
    generation: integer().notNull(),
  },
  t => [index('sync_items_changed').on(t.listener_id, t.seq)],
)

/** A key without a workspace is an organisation key. One with a listener is its agent's. */
export const apiKeys = pgTable(
  'api_keys',
  {
    id: idColumn(),
    organization_id: uuid()
      .notNull()
      .references(() => organizations.id, { onDelete: 'cascade' }),
    tenant_id: uuid().references(() => workspaces.id, { onDelete: 'cascade' }),
    listener_id: uuid().references(() => listeners.id, { onDelete: 'cascade' }),
    description: text().notNull(),
    hint: text().notNull(),
    key_hash: text().notNull().unique('api_keys_hash'),
    role_id: uuid().notNull(),
    permissions: text().array(),
    expires_at: instantColumn(),
    revoked_at: instantColumn(),
    last_used_at: instantColumn(),
    created_by: uuid(),
    /** Whose requests are counted together; `inherit_budget()` sets it. */
    budget_id: uuid(),
    created_at: createdAtColumn(),
  },
  t => [
    foreignKey({ name: 'role_in_use', columns: [t.role_id], foreignColumns: [roles.id] }),
    index('api_keys_made_by').on(t.created_by, ...newestFirstColumns(t)),
    index('api_keys_page').on(t.organization_id, ...newestFirstColumns(t)),
    index('api_keys_page_of_workspace').on(t.tenant_id, ...newestFirstColumns(t)),
    index('api_keys_role').on(t.role_id),
  ],
)

/** A tracing project: the name's other holder. */
export const projects = pgTable(
  'projects',
  {
    id: idColumn(),
    organization_id: uuid().notNull(),
    tenant_id: uuid()
      .notNull()
      .references(() => workspaces.id, { onDelete: 'cascade' }),
    deployment_id: uuid(),
    name: text().notNull(),
    created_at: createdAtColumn(),
  },
  t => [
    unique('project_name_taken').on(t.tenant_id, t.name),
    index('projects_deployment').on(t.deployment_id),
    index('projects_page').on(t.tenant_id, ...newestFirstColumns(t)),
  ],
)

export const tagKeys = pgTable(
  'tag_keys',
  {
    id: idColumn(),
    organization_id: uuid().notNull(),
    tenant_id: uuid()
      .notNull()
      .references(() => workspaces.id, { onDelete: 'cascade' }),
    key: text().notNull(),
    created_at: createdAtColumn(),
  },
  t => [
    unique('tag_key_taken').on(t.tenant_id, t.key),
    index('tag_keys_page').on(t.tenant_id, ...newestFirstColumns(t)),
  ],
)

export const tagValues = pgTable(
  'tag_values',
  {
    id: idColumn(),
    organization_id: uuid().notNull(),
    tenant_id: uuid()
      .notNull()
      .references(() => workspaces.id, { onDelete: 'cascade' }),
    tag_key_id: uuid()
      .notNull()
      .references(() => tagKeys.id, { onDelete: 'cascade' }),
    value: text().notNull(),
    created_at: createdAtColumn(),
  },
  t => [
    unique('tag_value_taken').on(t.tag_key_id, t.value),
    index('tag_values_page').on(t.tenant_id, t.tag_key_id, ...newestFirstColumns(t)),
  ],
)

/**
 * What is wanted of a deployment, on one row: its configuration, the versions of its secrets, and the queue of its revisions, of which
 * one is in flight and at most one waits. So whatever a patch decides, it decides on a row that it holds.
 */
export const deployments = pgTable(
  'deployments',
  {
    id: idColumn(),
    organization_id: uuid().notNull(),
    tenant_id: uuid()
      .notNull()
      .references(() => workspaces.id, { onDelete: 'cascade' }),
    name: text().notNull(),
    name_fold: text().notNull().generatedAlwaysAs(sql`lower(name)`),
    source: text().notNull(),
    deployment_type: text().notNull(),
    status: text().notNull(),
    image_version: text(),
    tag_value_ids: uuid().array().notNull().default(sql`'{}'`),
    source_config: json().notNull(),
    source_revision_config: json().notNull(),
    secrets: json().$type<SecretVersion[]>().notNull(),
    secret_references: json(),
    /** Counts what is wanted and what the data plane has acknowledged of it. */
    generation: integer().notNull().default(1),
    acknowledged: integer().notNull().default(0),
    remote_reconciled: boolean().notNull().default(false),
    revisions: integer().notNull().default(1),
    latest_revision_id: uuid(),
    active_revision_id: uuid(),
    in_flight_revision_id: uuid(),
    waiting_revision_id: uuid(),
    /** Set by a rollback: pushes make no revision while it stands. */
    hold: json().$type<Hold>(),
    /** A preview's: whose it is, and of what. No foreign key: a parent that goes takes its previews along by the sweep. */
    parent_deployment_id: uuid(),
    preview: json().$type<Preview>(),
    /** The repository in one spelling, for pushes to find it; `repoKey` says the same. */
    repo_key: text().generatedAlwaysAs(
      sql`regexp_replace(regexp_replace(lower(source_config ->> 'repo_url'), '^https?://', ''), '/*(\\.git)?/*$', '')`,
    ),
    deleting_at: instantColumn(),
    /** Who runs it; null until a listener of the platform has taken it up. */
    listener_id: uuid(),
    /** What its agent says of it: where it answers, how it fares, when it was last used. */
    url: text(),
    healthy: boolean(),
    last_request_at: instantColumn(),
    /** Of its custom_url, as the trigger `custom_host_claim` writes them; null while it is being deleted. */
    custom_host: text(),
    custom_path: text(),
    ...versionedColumns(),
  },
  t => [
    index('deployments_custom_host').on(t.custom_host).where(sql`custom_host is not null`),
    // What it is of cannot be changed, so that it keeps no update from being heap-only.
    index('deployments_previews').on(t.parent_deployment_id).where(sql`parent_deployment_id is not null`),
    index('deployments_repository').on(t.repo_key).where(sql`repo_key is not null`),
    foreignKey({ name: 'listener_in_use', columns: [t.listener_id], foreignColumns: [listeners.id] }),
    // Partial, so that no list of a workspace is tempted to skip through it.
    index('deployments_served').on(t.listener_id, t.tenant_id).where(sql`listener_id is not null`),
    index('deployments_unserved').on(t.id).where(sql`listener_id is null`),
    // For the sweep: those to look at again once their listener is heard of.
    index('deployments_unheard').on(t.listener_id).where(isUnknownStatus(sql`status`)),
    // For the sweep. A BRIN index leaves updates heap-only.
    index('deployments_idle').using('brin', t.updated_at),
    // Finds a page that nothing narrows; the one that carries the filters is five times as wide. That one stands in the migration:
    // drizzle cannot say `include`.
    index('deployments_page').on(t.tenant_id, ...newestFirstColumns(t)),
    uniqueIndex('deployment_name_taken').on(t.tenant_id, t.name).where(sql`deleting_at is null`),
  ],
)

/** The workspace that owns a host of custom URLs; SQL functions of migration 0021 alone write it. */
export const customHosts = pgTable(
  'custom_hosts',
  {
    id: idColumn(),
    host: text().notNull().unique('custom_host_taken'),
    organization_id: uuid().notNull(),
    tenant_id: uuid()
      .notNull()
      .references(() => workspaces.id, { onDelete: 'cascade' }),
    /** Null: claimed, and not proved by DNS. */
    verified_at: instantColumn(),
    created_at: createdAtColumn(),
  },
  t => [index('custom_hosts_page').on(t.tenant_id, ...newestFirstColumns(t))],
)

/** The states of a revision that have a deadline: what the sweep asks of, and what its index holds. */
export const isPendingStatus = (status: SQL): SQL =>
  sql`${status} in ('CREATING', 'AWAITING_BUILD', 'BUILDING', 'AWAITING_DEPLOY', 'DEPLOYING')`
/** Spelt so that it answers the sweep alone: a list that asks for one status would read those of all workspaces by it. */
export const isUnknownStatus = (status: SQL) => sql`${status} || '' = 'UNKNOWN'`

export const revisions = pgTable(
  'revisions',
  {
    id: idColumn(),
    organization_id: uuid().notNull(),
    tenant_id: uuid().notNull(),
    deployment_id: uuid()
      .notNull()
      .references(() => deployments.id, { onDelete: 'cascade' }),
    number: integer().notNull(),
    source: text().notNull(),
    source_config: json().notNull(),
    source_revision_config: json().notNull(),
    secrets: json().$type<SecretVersion[]>().notNull(),
    secret_references: json(),
    status: text().notNull(),
    status_message: text(),
    /** Since when it is in its state: silence past the state's deadline is a failure. */
    status_since: createdAtColumn(),
    reasons: text().array().notNull(),
    from_revision_id: uuid(),
    commit: json(),
    actor_kind: text().notNull(),
    actor_id: uuid(),
    actor_name: actorNameColumn(),
    created_at: createdAtColumn(),
    updated_at: createdAtColumn(),
  },
  t => [
    unique('revisions_number').on(t.deployment_id, t.number),
    index('revisions_page').on(t.deployment_id, ...newestFirstColumns(t)),
    index('revisions_pending').on(t.status_since).where(isPendingStatus(sql`status`)),
  ],
)

/** Source archives. No foreign key: a row outlives its deployment until the sweep has removed the object it names. */
export const uploads = pgTable(
  'uploads',
  {
    id: idColumn(),
    organization_id: uuid().notNull(),
    tenant_id: uuid().notNull(),
    deployment_id: uuid().notNull(),
    object_path: text().notNull().unique('uploads_path'),
    state: text({ enum: ['offered', 'receiving', 'stored', 'removing'] })
      .notNull()
      .default('offered'),
    size: bigint({ mode: 'number' }),
    /** What it may come to while it is being received. */
    reserved: bigint({ mode: 'number' }),
    sha256: text(),
    /** Who asked for the link: what comes by it is theirs. */
    actor_kind: text().notNull().default('key'),
    actor_id: uuid(),
    expires_at: instantColumn().notNull(),
    used_at: instantColumn(),
    created_at: createdAtColumn(),
  },
  t => [index('uploads_expiry').on(t.expires_at), index('uploads_of_workspace').on(t.tenant_id, t.state)],
)

/** How much was ever written to a log: what is beyond its bounds is gone from log_lines. */
export const logs = pgTable(
  'logs',
  {
    organization_id: uuid().notNull(),
    tenant_id: uuid().notNull(),
    revision_id: uuid()
      .notNull()
      .references(() => revisions.id, { onDelete: 'cascade' }),
    kind: text({ enum: ['build', 'deploy'] }).notNull(),
    lines: integer().notNull(),
    bytes: bigint({ mode: 'number' }).notNull(),
    /** Which line the agent sends next, in a stream of its own numbering. */
    stream: uuid(),
    next_line: integer(),
  },
  t => [primaryKey({ columns: [t.revision_id, t.kind] })],
)

/** Line 0 says how many older ones were dropped. `bytes_before` is how much the log had got before the line. */
export const logLines = pgTable(
  'log_lines',
  {
    organization_id: uuid().notNull(),
    tenant_id: uuid().notNull(),
    deployment_id: uuid().notNull(),
    revision_id: uuid()
      .notNull()
      .references(() => revisions.id, { onDelete: 'cascade' }),
    kind: text({ enum: ['build', 'deploy'] }).notNull(),
    number: integer().notNull(),
    timestamp: instantColumn().notNull(),
    severity: integer().notNull(),
    message: text().notNull(),
    bytes_before: bigint({ mode: 'number' }).notNull(),
  },
  t => [
    primaryKey({ columns: [t.revision_id, t.kind, t.number] }),
    index('log_lines_of_revision').on(t.revision_id, t.kind, t.timestamp, t.number),
    index('log_lines_of_deployment').on(t.deployment_id, t.kind, t.timestamp, t.revision_id, t.number),
  ],
)

/** Sealed values, each version once; a revision pins the versions that it runs with. */
export const deploymentSecrets = pgTable(
  'deployment_secrets',
  {
    organization_id: uuid().notNull(),
    tenant_id: uuid().notNull(),
    deployment_id: uuid()
      .notNull()
      .references(() => deployments.id, { onDelete: 'cascade' }),
    name: text().notNull(),
    version: integer().notNull(),
    sealed: text().notNull(),
    created_at: createdAtColumn(),
  },
  t => [primaryKey({ columns: [t.deployment_id, t.name, t.version] })],
)

/** How a provider's client came to be. */
export type Registration = 'given' | 'metadata_document' | 'dynamic'

/**
 * An OAuth provider of an organisation, and what was learnt of its servers. Sealed members are bound to the row's id. `redirect_uri` is
 * the one that was registered; `resource` and `issuer` are kept exactly as the servers wrote them.
 */
export const oauthProviders = pgTable(
  'oauth_providers',
  {
    id: idColumn(),
    organization_id: uuid()
      .notNull()
      .references(() => organizations.id, { onDelete: 'cascade' }),
    provider_id: text().notNull(),
    name: text().notNull(),
    client_id: text().notNull(),
    client_secret: text(),
    client_secret_expires_at: instantColumn(),
    auth_url: text().notNull(),
    token_url: text().notNull(),
    revocation_url: text(),
    uses_pkce: boolean().notNull(),
    code_challenge_method: text(),
    provider_type: text(),
    mcp_server_url: text(),
    token_endpoint_auth_method: text().notNull(),
    registration: text().$type<Registration>().notNull(),
    registration_client_uri: text(),
    registration_access_token: text(),
    redirect_uri: text().notNull(),
    issuer: text(),
    /** The server says that its answers carry `iss`. */
    issuer_in_answers: boolean().notNull().default(false),
    resource: text(),
    scopes: text().array().notNull().default(sql`'{}'`),
    /** What discovery found remarkable, and every fetch that it made: without bodies, without secrets. */
    warnings: json().notNull().default(sql`'[]'`),
    trace: json().notNull().default(sql`'[]'`),
    health: text().notNull().default('healthy'),
    health_detail: text(),
    checked_at: createdAtColumn(),
    /** The workspace that may change it while no other is connected through it; null: only the organization. */
    made_by_workspace: uuid().references(() => workspaces.id, { onDelete: 'set null' }),
    /** The endpoints that `client_secret` was given for. A trigger keeps them: the secret goes to no other origin. */
    client_secret_urls: text().array().notNull().default(sql`'{}'`),
    ...versionedColumns(),
  },
  t => [
    unique('provider_id_conflict').on(t.organization_id, t.provider_id),
    index('oauth_providers_checked').on(t.checked_at),
    index('oauth_providers_made_by_workspace').on(t.made_by_workspace),
  ],
)

/** A provider_id that is being registered upstream: nothing else may take it meanwhile. */
export const oauthReservations = pgTable(
  'oauth_reservations',
  {
    id: idColumn(),
    organization_id: uuid()
      .notNull()
      .references(() => organizations.id, { onDelete: 'cascade' }),
    provider_id: text().notNull(),
    expires_at: instantColumn().notNull(),
  },
  t => [unique('oauth_reservations_one').on(t.organization_id, t.provider_id)],
)

/** A person on the way to a provider and back. The state is known by its hash and works once. */
export const oauthFlows = pgTable(
  'oauth_flows',
  {
    id: idColumn(),
    organization_id: uuid().notNull(),
    tenant_id: uuid()
      .notNull()
      .references(() => workspaces.id, { onDelete: 'cascade' }),
    provider_id: uuid()
      .notNull()
      .references(() => oauthProviders.id, { onDelete: 'cascade' }),
    user_id: text().notNull(),
    scopes: text().array().notNull(),
    state_hash: text().notNull().unique('oauth_flows_state'),
    /** The state and the PKCE verifier, sealed. */
    verifier: text(),
    /** What the provider was when it began: its answer goes to no other server. */
    bound_to: text().notNull(),
    status: text({ enum: ['pending', 'answered', 'completed', 'failed'] })
      .notNull()
      .default('pending'),
    /** A code of ours that says why it failed; never a server's words. */
    failure: text(),
    expires_at: instantColumn().notNull(),
    created_at: createdAtColumn(),
  },
  t => [index('oauth_flows_expiry').on(t.expires_at)],
)

/** What a person granted: sealed tokens, replaced under a lease and by generation, so that a rotating server is asked once. */
export const oauthTokens = pgTable(
  'oauth_tokens',
  {
    id: idColumn(),
    organization_id: uuid().notNull(),
    tenant_id: uuid()
      .notNull()
      .references(() => workspaces.id, { onDelete: 'cascade' }),
    provider_id: uuid()
      .notNull()
      .references(() => oauthProviders.id, { onDelete: 'cascade' }),
    user_id: text().notNull(),
    scopes: text().array().notNull(),
    access_token: text().notNull(),
    refresh_token: text(),
    token_type: text().notNull(),
    /** What the provider was when it gave them: they go to no other server. */
    bound_to: text().notNull(),
    expires_at: instantColumn(),
    generation: integer().notNull().default(1),
    /** Whoever refreshes it holds it until then. */
    leased_until: instantColumn(),
    /** The server no longer takes it: the person must connect again. */
    revoked_at: instantColumn(),
    created_at: createdAtColumn(),
    updated_at: createdAtColumn(),
  },
  t => [
    unique('oauth_tokens_one').on(t.tenant_id, t.provider_id, t.user_id),
    index('oauth_tokens_page').on(t.tenant_id, ...newestFirstColumns(t)),
    index('oauth_tokens_provider').on(t.provider_id),
  ],
)

/**
 * What git hosts delivered and there is something to do about. `receiver` is where it came in: the operator's App, or an integration's own
 * address. It is nobody's until the work finds whom it concerns.
 */
export const githostDeliveries = pgTable(
  'githost_deliveries',
  {
    id: idColumn(),
    receiver: text().notNull(),
    delivery_id: text().notNull(),
    event: json().notNull(),
    state: text({ enum: ['waiting', 'done', 'failed'] })
      .notNull()
      .default('waiting'),
    attempts: integer().notNull().default(1),
    /**
     * The latest attempts that began and reported no outcome: counted before the work, so that it counts when the
     * worker dies.
     */
    unfinished_attempts: integer().notNull().default(0),
    /** Whoever works on it holds it until then; after that it is anyone's again. */
    next_attempt_at: instantColumn().notNull(),
    error: text(),
    created_at: createdAtColumn(),
  },
  t => [
    unique('githost_deliveries_one').on(t.receiver, t.delivery_id),
    index('githost_deliveries_due').on(t.next_attempt_at).where(sql`state = 'waiting'`),
    index('githost_deliveries_age').on(t.created_at),
  ],
)

/** When the host was last asked where a deployment's ref is, so that an answer that is older counts no more; and a ref that is gone. */
export const deploymentHeads = pgTable('deployment_heads', {
  deployment_id: uuid()
    .primaryKey()
    .references(() => deployments.id, { onDelete: 'cascade' }),
  organization_id: uuid().notNull(),
  tenant_id: uuid().notNull(),
  asked_at: instantColumn().notNull(),
  gone_ref: text(),
})

/** Which pull requests of a deployment's repository get a preview, and what it is made of. `secrets` and `hook_secret` are sealed. */
export const previewPolicies = pgTable('preview_policies', {
  id: uuid()
    .primaryKey()
    .references(() => deployments.id, { onDelete: 'cascade' }),
  organization_id: uuid().notNull(),
  tenant_id: uuid().notNull(),
  branches: text().array().notNull(),
  ttl_seconds: integer().notNull(),
  max: integer().notNull(),
  forks: text({ enum: ['deny', 'approve'] }).notNull(),
  secrets: json().$type<{ name: string; sealed: string }[]>().notNull(),
  resource_spec: json().$type<Record<string, unknown>>(),
  on_create: text(),
  on_delete: text(),
  hook_secret: text(),
  ...versionedColumns(),
})

const previewStates = ['pending', 'awaiting_approval', 'denied', 'full', 'live', 'ended'] as const
/** A pull request of a deployment with a policy. `told` is what its host was last told of it, `comment_id` where. */
export const previews = pgTable(
  'previews',
  {
    id: idColumn(),
    organization_id: uuid().notNull(),
    tenant_id: uuid().notNull(),
    parent_id: uuid()
      .notNull()
      .references(() => deployments.id, { onDelete: 'cascade' }),
    number: integer().notNull(),
    state: text({ enum: previewStates }).notNull(),
    deployment_id: uuid(),
    branch: text().notNull(),
    head_sha: text().notNull(),
    fork: boolean().notNull(),
    approved_sha: text(),
    approved_by: uuid(),
    /** When the host changed the pull request, as the last delivery that counted had it. */
    changed_at: instantColumn().notNull(),
    expires_at: instantColumn().notNull(),
    told: text(),
    comment_id: text(),
    tell_attempts: integer().notNull().default(0),
    tell_next_at: createdAtColumn(),
    created_at: createdAtColumn(),
    updated_at: createdAtColumn(),
  },
  t => [
    unique('previews_one').on(t.parent_id, t.number),
    index('previews_child').on(t.deployment_id),
    index('previews_page').on(t.parent_id, ...newestFirstColumns(t)),
    index('previews_expiry').on(t.expires_at).where(sql`state <> 'ended'`),
  ],
)

/** What a policy's hooks are still to be told. */
export const previewHooks = pgTable(
  'preview_hooks',
  {
    id: idColumn(),
    organization_id: uuid().notNull(),
    tenant_id: uuid().notNull(),
    preview_id: uuid()
      .notNull()
      .references(() => previews.id, { onDelete: 'cascade' }),
    url: text().notNull(),
    /** The parent's, under which the hook's secret is sealed. */
    parent_id: uuid().notNull(),
    secret: text().notNull(),
    body: json().notNull(),
    attempts: integer().notNull().default(0),
    next_attempt_at: createdAtColumn(),
    error: text(),
    created_at: createdAtColumn(),
  },
  t => [index('preview_hooks_due').on(t.next_attempt_at)],
)

/** Which git host an integration is with, and what the host last said of it. */
export const githosts = ['github', 'gitea'] as const
const integrationStates = ['active', 'suspended', 'revoked'] as const

/**
 * A git host as a workspace is connected to it: an App's installation, or an account with its access token. Without `app_id` and
 * `credentials` it is an installation of the operator's own App. `credentials` is what the host was proved with and `token` what it last
 * gave for a while, each sealed and bound to the account.
 */
export const integrations = pgTable(
  'integrations',
  {
    id: idColumn(),
    organization_id: uuid().notNull(),
    tenant_id: uuid()
      .notNull()
      .references(() => workspaces.id, { onDelete: 'cascade' }),
    host: text({ enum: githosts }).notNull(),
    base_url: text().notNull(),
    app_id: text(),
    installation_id: text().notNull(),
    /** The account that it is of, by the host's id, which a new installation keeps; `name` is what the account is called. */
    account_id: text().notNull(),
    name: text().notNull(),
    state: text({ enum: integrationStates }).notNull().default('active'),
    credentials: text(),
    token: text(),
    token_expires_at: instantColumn(),
    created_by: uuid(),
    ...versionedColumns(),
  },
  t => [
    // An installation is one workspace's, until its host has revoked it; an account may serve several, each with a token of its own.
    uniqueIndex('integration_taken')
      .on(t.tenant_id, t.host, t.base_url, t.installation_id)
      .where(sql`state <> 'revoked'`),
    uniqueIndex('integration_claimed')
      .on(t.base_url, t.installation_id)
      .where(sql`host = 'github' and state <> 'revoked'`),
    index('integrations_page').on(t.tenant_id, ...newestFirstColumns(t)),
  ],
)

/** What an integration's host last listed, page by page with the ETags: asked again, it need only say that nothing changed. */
export const integrationListings = pgTable('integration_listings', {
  integration_id: uuid()
    .primaryKey()
    .references(() => integrations.id, { onDelete: 'cascade' }),
  organization_id: uuid().notNull(),
  tenant_id: uuid().notNull(),
  pages: json().notNull(),
  fetched_at: instantColumn().notNull(),
})

/** Somebody on the way to install the operator's App: the state that they carry names it and works once. */
export const integrationInstalls = pgTable(
  'integration_installs',
  {
    id: idColumn(),
    organization_id: uuid().notNull(),
    tenant_id: uuid()
      .notNull()
      .references(() => workspaces.id, { onDelete: 'cascade' }),
    actor_id: uuid(),
    expires_at: instantColumn().notNull(),
    created_at: createdAtColumn(),
  },
  t => [index('integration_installs_expiry').on(t.expires_at)],
)

/** One counter a scope (a workspace, or an organisation as a whole): it gives events their order. */
export const journals = pgTable('journals', {
  scope_id: uuid().primaryKey(),
  organization_id: uuid().notNull(),
  seq: bigint({ mode: 'number' }).notNull(),
  /** How many events the day has had. */
  day: date(),
  today: bigint({ mode: 'number' }).notNull().default(0),
})

/** Append-only: the app's role may insert and select, nothing else. */
export const events = pgTable(
  'events',
  {
    scope_id: uuid().notNull(),
    seq: bigint({ mode: 'number' }).notNull(),
    organization_id: uuid().notNull(),
    tenant_id: uuid(),
    type: text().notNull(),
    subject_id: uuid().notNull(),
    actor_kind: text().notNull(),
    actor_id: uuid(),
    actor_name: actorNameColumn(),
    request_id: text().notNull(),
    data: json().notNull(),
    created_at: createdAtColumn(),
  },
  t => [primaryKey({ columns: [t.scope_id, t.seq] }), index('events_age').using('brin', t.created_at)],
)

export const idempotencyKeys = pgTable(
  'idempotency_keys',
  {
    actor_id: uuid().notNull(),
    key: text().notNull(),
    fingerprint: text().notNull(),
    result: json().notNull(),
    created_at: createdAtColumn(),
  },
  t => [primaryKey({ columns: [t.actor_id, t.key] }), index('idempotency_keys_age').on(t.created_at)],
)

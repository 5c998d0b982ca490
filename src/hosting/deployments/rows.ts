// Converts rows of deployments and revisions to the wire format, with every member present.
import { completeMembers, pickColumns, toIsoTime } from '../../kernel/db/rows.ts'
import { etagState, etagVersion } from '../../kernel/http/routes.ts'
import { DEFAULT_REQUEST_LOGS } from '../../protocol/defaults.ts'
import { MASK, SourceConfig, SourceRevisionConfig } from '../../protocol/parts.schema.ts'
import { OPEN_TO_EVERYONE } from '../../protocol/protection.schema.ts'
import type { Serving } from './revisions.schema.ts'
import { progressOf, revisionRolloutToWire, rolloutToWire } from './rollout-progress.ts'
import type { Deployment, DeploymentHealth, Revision } from './schema.ts'
import type { DeploymentSummary } from './summary.schema.ts'
import { summaryToWire } from './summary.ts'
import { deployments, type Hold, type revisions, type SecretVersion } from './tables.ts'
import { settingsOf, sharesOf } from './traffic-shares.ts'

export const wireColumns = pickColumns(deployments, [
  'id',
  'tenant_id',
  'name',
  'source',
  'source_config',
  'source_revision_config',
  'secrets',
  'secret_references',
  'status',
  'health',
  'health_since',
  'health_reason',
  'health_processes',
  'image_version',
  'hold',
  'latest_revision_id',
  'active_revision_id',
  'parent_deployment_id',
  'preview',
  'url',
  'local_url',
  'owner',
  'protection',
  'request_logs',
  'traffic',
  'applied_traffic',
  'rollout',
  'rollout_secret',
  'created_at',
  'updated_at',
  'version',
])
export type DeploymentRow = Pick<typeof deployments.$inferSelect, keyof typeof wireColumns> & {
  summary?: DeploymentSummary
}
export type RevisionRow = typeof revisions.$inferSelect

// ---- the wire

export const servingOf = (row: Pick<DeploymentRow, 'active_revision_id' | 'latest_revision_id'>): Serving => {
  if (row.active_revision_id === null) return 'none'
  return row.active_revision_id === row.latest_revision_id ? 'current' : 'previous'
}

const UNSERVED = 'No revision serves yet. `explain` tells why.'
/** Null if it is not known: its listener is silent. A stored answer of an earlier release has no health. */
function healthOf({ health, health_since, health_reason, health_processes }: DeploymentRow): Deployment['health'] {
  if (health == null || health_since == null) return null
  const reason = health === 'nothing_serves' ? UNSERVED : health === 'healthy' ? null : health_reason
  const known = health === 'nothing_serves' ? null : health_processes
  const processes = (known ?? []).map(({ name, state, reason = null, copies }) => {
    return { name, state, reason, ...(copies && { copies }) }
  })
  return { state: health as DeploymentHealth, since: toIsoTime(health_since), reason, processes }
}

const memberNames = (schema: { shape: object }) => Object.keys(schema.shape)
const [CONFIG, REVISION_CONFIG] = [memberNames(SourceConfig), memberNames(SourceRevisionConfig)]
const LISTENER_CONFIG = ['k8s_namespace']

export function configToWire(stored: unknown): Deployment['source_config'] {
  const config = completeMembers(CONFIG, stored)
  if (config.listener_config) config.listener_config = completeMembers(LISTENER_CONFIG, config.listener_config)
  return config as Deployment['source_config']
}
export const revisionConfigToWire = (stored: unknown) =>
  completeMembers(REVISION_CONFIG, stored) as Deployment['source_revision_config']

const describeProcesses = ({ health_processes }: DeploymentRow) =>
  health_processes ? JSON.stringify(health_processes) : ''

export const holdToWire = (hold: Hold) => {
  return { ...hold, since: toIsoTime(hold.since), reason: hold.reason ?? ('rolled_back' as const) }
}

/** Its numbers move without a new version. */
const describeProgress = (progress: Deployment['rollout_progress']) => (progress ? JSON.stringify(progress) : '')

export function deploymentToWire(row: DeploymentRow): Deployment & { [etagVersion]: number; [etagState]: string } {
  const health = healthOf(row)
  const progress = progressOf(row)
  return {
    id: row.id,
    tenant_id: row.tenant_id,
    name: row.name,
    source: row.source as Deployment['source'],
    source_config: configToWire(row.source_config),
    source_revision_config: revisionConfigToWire(row.source_revision_config),
    secrets: (row.secrets as SecretVersion[]).map(({ name }) => ({ name, value: MASK })),
    secret_fingerprints: Object.fromEntries(
      (row.secrets as SecretVersion[]).map(({ name, version }) => [name, String(version)]),
    ),
    secret_references: row.secret_references as Deployment['secret_references'],
    status: row.status as Deployment['status'],
    serving: servingOf(row),
    health,
    image_version: row.image_version,
    hold: row.hold && holdToWire(row.hold),
    latest_revision_id: row.latest_revision_id,
    active_revision_id: row.active_revision_id,
    parent_deployment_id: row.parent_deployment_id,
    preview: row.preview && {
      kind: 'pull_request',
      ...row.preview,
      expires_at: toIsoTime(row.preview.expires_at),
      database_copy: row.preview.database_copy
        ? { ...row.preview.database_copy, copied_at: toIsoTime(row.preview.database_copy.copied_at) }
        : null,
    },
    url: row.url,
    // A stored answer of an earlier release has none.
    local_url: row.local_url ?? null,
    owner: row.owner,
    protection: row.protection ?? OPEN_TO_EVERYONE,
    request_logs: row.request_logs ?? DEFAULT_REQUEST_LOGS,
    traffic: sharesOf(row),
    traffic_settings: settingsOf(row),
    rollout: rolloutToWire(row),
    rollout_progress: progress,
    created_at: toIsoTime(row.created_at),
    updated_at: toIsoTime(row.updated_at),
    ...(row.summary && { summary: summaryToWire(row.summary) }),
    [etagVersion]: row.version,
    [etagState]: `${health?.since} ${health?.reason}${describeProcesses(row)}${describeProgress(progress)}`,
  }
}

/** A revision that last moved before states were recorded has only its current one. */
const statesToWire = ({ states, status, status_since }: RevisionRow): Revision['states'] =>
  (states ?? [{ status, since: status_since }]).map(({ status, since }, i, all) => {
    const next = all[i + 1]
    return {
      status: status as Revision['status'],
      since: toIsoTime(since),
      seconds: next ? (Date.parse(toIsoTime(next.since)) - Date.parse(toIsoTime(since))) / 1000 : null,
    }
  })

export const revisionToWire = (row: RevisionRow): Revision => ({
  id: row.id,
  deployment_id: row.deployment_id,
  number: row.number,
  source: row.source as Revision['source'],
  source_config: configToWire(row.source_config),
  source_revision_config: revisionConfigToWire(row.source_revision_config),
  secrets: row.secrets.map(({ name, version }) => ({ name, version })),
  secret_references: row.secret_references as Revision['secret_references'],
  status: row.status as Revision['status'],
  status_message: row.status_message,
  actor: { kind: row.actor_kind, id: row.actor_id, name: row.actor_name } as Revision['actor'],
  commit: row.commit as Revision['commit'],
  reasons: row.reasons,
  build_plan: row.build_plan as Revision['build_plan'],
  from_revision_id: row.from_revision_id,
  states: statesToWire(row),
  rollout: revisionRolloutToWire(row.rollout),
  created_at: toIsoTime(row.created_at),
  updated_at: toIsoTime(row.updated_at),
})

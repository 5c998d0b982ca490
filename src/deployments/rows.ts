// From rows to the wire: deployments, with every member there, and revisions.
import { version } from '../kernel/routes.ts'
import { iso } from '../kernel/rows.ts'
import type { deployments, revisions, SecretVersion } from '../tables.ts'
import { MASK, SourceConfig, SourceRevisionConfig } from './parts.schema.ts'
import type { Deployment, Revision } from './schema.ts'

export type DeploymentRow = typeof deployments.$inferSelect
export type RevisionRow = typeof revisions.$inferSelect

const members = (schema: { shape: object }) => Object.keys(schema.shape)
const [CONFIG, REVISION_CONFIG] = [members(SourceConfig), members(SourceRevisionConfig)]
const NAMESPACE = ['k8s_namespace']

/** What is unset is told as null, so that a client finds every member. */
const whole = (names: string[], stored: unknown) =>
  Object.fromEntries(names.map(name => [name, (stored as Record<string, unknown>)[name] ?? null]))

export function deploymentToWire(row: DeploymentRow): Deployment & { [version]: number } {
  const config = whole(CONFIG, row.source_config)
  if (config.listener_config) config.listener_config = whole(NAMESPACE, config.listener_config)
  return {
    id: row.id,
    tenant_id: row.tenant_id,
    name: row.name,
    source: row.source as Deployment['source'],
    source_config: config as Deployment['source_config'],
    source_revision_config: whole(REVISION_CONFIG, row.source_revision_config) as Deployment['source_revision_config'],
    secrets: (row.secrets as SecretVersion[]).map(({ name }) => ({ name, value: MASK })),
    secret_references: row.secret_references as Deployment['secret_references'],
    status: row.status as Deployment['status'],
    image_version: row.image_version,
    hold: row.hold && { ...row.hold, since: iso(row.hold.since) },
    latest_revision_id: row.latest_revision_id,
    active_revision_id: row.active_revision_id,
    url: row.url,
    created_at: iso(row.created_at),
    updated_at: iso(row.updated_at),
    [version]: row.version,
  }
}

export const revisionToWire = (row: RevisionRow): Revision => ({
  id: row.id,
  deployment_id: row.deployment_id,
  number: row.number,
  source: row.source as Revision['source'],
  source_revision_config: whole(REVISION_CONFIG, row.source_revision_config) as Revision['source_revision_config'],
  status: row.status as Revision['status'],
  status_message: row.status_message,
  actor: { kind: row.actor_kind, id: row.actor_id } as Revision['actor'],
  commit: row.commit as Revision['commit'],
  reasons: row.reasons,
  from_revision_id: row.from_revision_id,
  created_at: iso(row.created_at),
  updated_at: iso(row.updated_at),
})

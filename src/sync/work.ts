// From what is stored to work: everything that an agent needs of one deployment, its secrets sealed to the agent's key.
import { type SQL, sql } from 'drizzle-orm'
import { DEADLINES } from '../deployments/lifecycle.ts'
import type { Ctx } from '../kernel/context.ts'
import type { RevisionStatus, Source } from '../protocol/parts.schema.ts'
import {
  type DeploymentType,
  hasDatabase,
  partsOf,
  type ResourceSpec,
  withDefaults,
} from '../protocol/resources.schema.ts'
import type { RevisionWork, Work } from '../protocol/work.schema.ts'
import { createArchiveLink } from './archive-download.ts'
import type { Seal } from './envelope.ts'

type StoredConfig = {
  resource_spec?: ResourceSpec
  install_command?: string
  build_command?: string
  template_id?: string
  repo_url?: string
  listener_config?: { k8s_namespace?: string }
}
type StoredRevisionConfig = {
  repo_ref?: string
  repo_commit_sha?: string
  platform_config_path?: string
  image_uri?: string
}
type StoredRevision = {
  id: string
  number: number
  status: RevisionStatus
  status_since: string
  source: Source
  source_config: StoredConfig
  source_revision_config: StoredRevisionConfig
  secret_references: RevisionWork['secret_references'] | null
  sealed: { name: string; sealed: string }[] | null
  archive: { id: string; size: number; sha256: string } | null
}
export type StoredWork = {
  deployment_id: string
  generation: number
  seq: number
  deployment: {
    tenant_id: string
    name: string
    deployment_type: DeploymentType
    source_config: StoredConfig
    /** Null as long as it must not be served. */
    custom_url: string | null
    absent: boolean
  } | null
  revision: StoredRevision | null
  serving: StoredRevision | null
}

/** A revision with the sealed values of the versions that it pins, as one JSON value. */
export const revisionJson = (r: SQL): SQL => sql`case when ${r}.id is not null then json_build_object(
  'id', ${r}.id, 'number', ${r}.number, 'status', ${r}.status, 'status_since', ${r}.status_since, 'source', ${r}.source,
  'source_config', ${r}.source_config, 'source_revision_config', ${r}.source_revision_config, 'secret_references', ${r}.secret_references,
  'sealed', (select json_agg(json_build_object('name', s.name, 'sealed', s.sealed))
    from json_to_recordset(${r}.secrets) w(name text, version integer)
    join deployment_secrets s on s.deployment_id = ${r}.deployment_id and s.name = w.name and s.version = w.version),
  'archive', (select json_build_object('id', u.id, 'size', u.size, 'sha256', u.sha256) from uploads u
    where u.object_path = ${r}.source_revision_config ->> 'source_tarball_path' and u.tenant_id = ${r}.tenant_id and u.state = 'stored')) end`

const ABSENT_MEMBERS = {
  ...{ tenant_id: null, name: null, deployment_type: null, custom_url: null, k8s_namespace: null },
  ...{ needs_database: false, revision: null, serving: null },
}

type WorkContext = { ctx: Ctx; listener_id: string; seal: Seal }

export async function toWork(
  context: WorkContext,
  { deployment_id, generation, deployment, ...stored }: StoredWork,
): Promise<Work> {
  // Gone with its workspace, or being deleted: either way nothing of it is wanted any more.
  if (!deployment || deployment.absent) return { deployment_id, generation, wanted: 'absent', ...ABSENT_MEMBERS }
  const { tenant_id, name, deployment_type, source_config, custom_url } = deployment
  const revision = (one: StoredRevision | null) =>
    one && toRevisionWork(context, { deployment_id, tenant_id, deployment_type }, one)
  return {
    ...{ deployment_id, generation, wanted: 'present', tenant_id, name, deployment_type },
    custom_url,
    k8s_namespace: source_config.listener_config?.k8s_namespace ?? null,
    needs_database: hasDatabase(source_config.resource_spec),
    revision: await revision(stored.revision),
    serving: await revision(stored.serving),
  }
}

type WorkDeployment = { deployment_id: string; tenant_id: string; deployment_type: DeploymentType }

async function toRevisionWork(
  { ctx, listener_id, seal }: WorkContext,
  of: WorkDeployment,
  stored: StoredRevision,
): Promise<RevisionWork> {
  const { id, number, status, source, source_config: config, source_revision_config: from } = stored
  const place = (what: string) => [listener_id, of.deployment_id, id, what].join('/')
  return {
    ...{ id, number, status, source },
    platform_config_path: from.platform_config_path ?? null,
    image_uri: from.image_uri ?? null,
    template_id: source === 'internal_template' ? (config.template_id ?? null) : null,
    git: source === 'githost' ? toGitWork(config, from) : null,
    archive:
      source === 'internal_source' && stored.archive
        ? await createArchiveLink(ctx, of.tenant_id, stored.archive)
        : null,
    install_command: config.install_command ?? null,
    build_command: config.build_command ?? null,
    resource_spec: withDefaults(config.resource_spec ?? {}, of.deployment_type),
    parts: partsOf(config.resource_spec ?? {}),
    secrets: stored.sealed && (await seal(await openSecrets(ctx, of.deployment_id, stored.sealed), place('secrets'))),
    secret_references: stored.secret_references ?? [],
    deadline: deadlineOf(stored),
  }
}

/** Without a credential: that is asked for when it is needed (credentials.ts). */
const toGitWork = (
  { repo_url = '' }: StoredConfig,
  { repo_ref = '', repo_commit_sha }: StoredRevisionConfig,
): RevisionWork['git'] => ({
  ...{ url: repo_url, ref: repo_ref, commit_sha: repo_commit_sha ?? null },
})

const openSecrets = async ({ sealer }: Ctx, deployment: string, sealed: { name: string; sealed: string }[]) =>
  Object.fromEntries(
    await Promise.all(sealed.map(async one => [one.name, await sealer.open(one.sealed, deployment, one.name)])),
  )

function deadlineOf({ status, status_since }: StoredRevision): string | null {
  const deadline = DEADLINES[status]
  return deadline ? new Date(Date.parse(status_since) + deadline.after).toISOString() : null
}

// Converts stored rows to work: all that an agent needs of a deployment, with secrets sealed to the agent's key.

import { createApplicationKey } from '../../kernel/crypto/application-keys.ts'
import type { Ctx } from '../../kernel/http/context.ts'
import { VERSION } from '../../kernel/version.ts'
import { DEFAULT_REQUEST_LOGS } from '../../protocol/defaults.ts'
import type { RevisionStatus, Source } from '../../protocol/parts.schema.ts'
import type { WorkProtection } from '../../protocol/protection.schema.ts'
import type { RequestLogs } from '../../protocol/request-logs.schema.ts'
import {
  type DeploymentType,
  hasDatabase,
  inTenthsOfCores,
  type Part,
  partsOf,
  type ResourceSpec,
  withDefaults,
  withScale,
  withScaleMetric,
} from '../../protocol/resources.schema.ts'
import type { WorkTraffic } from '../../protocol/traffic.schema.ts'
import { compareVersions, parseAgentVersion, parseVersion } from '../../protocol/versions.ts'
import type { RevisionWork, Work } from '../../protocol/work.schema.ts'
import { DEADLINES } from '../deployments/lifecycle.ts'
import { createArchiveLink } from './archive-download.ts'
import type { Seal } from './envelope.ts'
import { makeTracing, type TracedDeployment } from './tracing.ts'

type StoredConfig = {
  resource_spec?: ResourceSpec
  root_directory?: string
  install_command?: string
  build_command?: string
  template_id?: string
  tracing?: boolean
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
/** A row of `read_changes()`. */
export type StoredWork = {
  deployment_id: string
  generation: number
  seq: number
  deployment: {
    tenant_id: string
    name: string
    deployment_type: DeploymentType
    source_config: StoredConfig
    /** Null while its host must not be served. */
    custom_url: string | null
    trace_key_version: number
    dormant_parts?: Part[] | null
    cleared_stores: string[]
    database_copy?: { from_deployment_id: string; from_name: string; copied_at: string | null } | null
    protection: WorkProtection | null
    request_logs?: RequestLogs | null
    host_labels?: { label: string; revision_id: string | null }[] | null
    traffic?: WorkTraffic | null
    absent: boolean
  } | null
  revision: StoredRevision | null
  serving: StoredRevision | null
  beside?: StoredRevision | null
}

const ABSENT_MEMBERS = {
  tenant_id: null,
  name: null,
  deployment_type: null,
  custom_url: null,
  k8s_namespace: null,
  needs_database: false,
  cleared_stores: [],
  database_copy: null,
  protection: null,
  request_logs: null,
  host_labels: [],
  revision: null,
  serving: null,
  beside: null,
  traffic: null,
}

/** `tracesUrl` is this API as applications reach it, or null if they cannot or must not send traces. */
type WorkContext = {
  ctx: Ctx
  listener_id: string
  seal: Seal
  tracesUrl: string | null
  /** The version of the agent. */
  version: string | null | undefined
}

/** Later agents take thousandths of cores. An agent refuses all its work for one number that it does not take. */
const LAST_WITH_TENTHS = parseVersion('0.2.0-rc.1')!
export function takesTenthsOnly(version: string | null | undefined, controlPlane = VERSION): boolean {
  const agent = parseAgentVersion(version)
  return agent !== undefined && version !== controlPlane && compareVersions(agent, LAST_WITH_TENTHS) <= 0
}

export async function toWork(
  context: WorkContext,
  { deployment_id, generation, deployment, ...stored }: StoredWork,
): Promise<Work> {
  const copy = deployment?.database_copy
  const database_copy = copy
    ? { from_deployment_id: copy.from_deployment_id, from_name: copy.from_name, copied: copy.copied_at !== null }
    : null
  // It was deleted with its workspace, or is being deleted.
  if (!deployment || deployment.absent)
    return { deployment_id, generation, wanted: 'absent', ...ABSENT_MEMBERS, database_copy }
  const {
    tenant_id,
    name,
    deployment_type,
    source_config,
    custom_url,
    trace_key_version,
    dormant_parts,
    cleared_stores,
    protection,
    host_labels,
    traffic,
    request_logs,
  } = deployment
  const workOf = (revision: StoredRevision | null) =>
    revision &&
    toRevisionWork(
      context,
      {
        deployment_id,
        tenant_id,
        name,
        deployment_type,
        trace_key_version,
        resources: source_config.resource_spec,
        dormant_parts: dormant_parts ?? [],
      },
      revision,
    )
  return {
    deployment_id,
    generation,
    wanted: 'present',
    tenant_id,
    name,
    deployment_type,
    custom_url,
    k8s_namespace: source_config.listener_config?.k8s_namespace ?? null,
    needs_database: hasDatabase(source_config.resource_spec),
    cleared_stores,
    database_copy,
    protection,
    request_logs: request_logs?.mode === 'off' ? null : (request_logs ?? DEFAULT_REQUEST_LOGS),
    host_labels: host_labels ?? [],
    revision: await workOf(stored.revision),
    serving: await workOf(stored.serving),
    beside: await workOf(stored.beside ?? null),
    // Without its revision there is nothing to split.
    traffic: traffic && [stored.revision?.id, stored.beside?.id].includes(traffic.revision_id) ? traffic : null,
  }
}

type WorkDeployment = TracedDeployment & {
  tenant_id: string
  deployment_type: DeploymentType
  /** Its scale is that of all its revisions. */
  resources: ResourceSpec | undefined
  dormant_parts: Part[]
}

async function toRevisionWork(
  { ctx, listener_id, seal, tracesUrl, version }: WorkContext,
  deployment: WorkDeployment,
  stored: StoredRevision,
): Promise<RevisionWork> {
  const { id, number, status, source, source_config: config, source_revision_config: revisionConfig } = stored
  const asked = withScale(config.resource_spec ?? {}, deployment.resources ?? {})
  const resources = withScaleMetric(asked, withDefaults(asked, deployment.deployment_type))
  const placeOf = (what: string) => [listener_id, deployment.deployment_id, id, what].join('/')
  return {
    id,
    number,
    status,
    source,
    platform_config_path: revisionConfig.platform_config_path ?? null,
    image_uri: revisionConfig.image_uri ?? null,
    template_id: source === 'internal_template' ? (config.template_id ?? null) : null,
    git: source === 'githost' ? toGitWork(config, revisionConfig) : null,
    archive:
      source === 'internal_source' && stored.archive
        ? await createArchiveLink(ctx, deployment.tenant_id, stored.archive)
        : null,
    root_directory: config.root_directory ?? null,
    install_command: config.install_command ?? null,
    build_command: config.build_command ?? null,
    resource_spec: takesTenthsOnly(version) ? inTenthsOfCores(resources) : resources,
    parts: partsOf(config.resource_spec ?? {}).filter(part => !deployment.dormant_parts.includes(part)),
    secrets:
      stored.sealed &&
      (await seal(await openSecrets(ctx, deployment.deployment_id, stored.sealed), placeOf('secrets'))),
    secret_references: stored.secret_references ?? [],
    tracing:
      tracesUrl !== null && config.tracing !== false
        ? await seal(await makeTracing(ctx.config, deployment, tracesUrl, id), placeOf('tracing'))
        : null,
    application_key: IMAGE_SOURCES.includes(source)
      ? null
      : await seal(
          await createApplicationKey(ctx.config, {
            deployment_id: deployment.deployment_id,
            version: deployment.trace_key_version,
          }),
          placeOf('application_key'),
        ),
    deadline: deadlineOf(stored),
  }
}

/** No plan of theirs says that they serve graphs. */
const IMAGE_SOURCES: Source[] = ['internal_container', 'external_container']

/** It has no credential: an agent requests one when it needs it (credentials.ts). */
const toGitWork = (
  { repo_url = '' }: StoredConfig,
  { repo_ref = '', repo_commit_sha }: StoredRevisionConfig,
): RevisionWork['git'] => ({
  url: repo_url,
  ref: repo_ref,
  commit_sha: repo_commit_sha ?? null,
})

const openSecrets = async ({ sealer }: Ctx, deployment: string, sealed: { name: string; sealed: string }[]) =>
  Object.fromEntries(
    await Promise.all(
      sealed.map(async secret => [secret.name, await sealer.open(secret.sealed, deployment, secret.name)]),
    ),
  )

function deadlineOf({ status, status_since }: StoredRevision): string | null {
  const deadline = DEADLINES[status]
  return deadline ? new Date(Date.parse(status_since) + deadline.after).toISOString() : null
}

// Translates the wire's work of a deployment into what the plan, the builds and the engines take.
import { createHash } from 'node:crypto'
import { findExclusiveDisk, withSourceDisks } from '../../protocol/disks.ts'
import type { Report } from '../../protocol/report.schema.ts'
import { withDefaults } from '../../protocol/resources.schema.ts'
import type { RevisionWork, Tracing, Work } from '../../protocol/work.schema.ts'
import type { BuildRecord } from '../builds/builds.ts'
import type { BuildSource } from '../builds/source-tree.ts'
import type { GitCredential } from '../control-plane/credentials.ts'
import type { AgentKeys } from '../control-plane/envelope.ts'
import { PermanentError, type RevisionRef, type RevisionSpec } from '../engine.ts'
import { servesGraphs } from '../engines/graph-variables.ts'
import type { Wanted } from './plan.ts'

export type SecretAccess = {
  keys: AgentKeys
  listener: string
  /** Fetches the credential for the repository of a revision. */
  credential: (ref: RevisionRef, signal: AbortSignal) => Promise<GitCredential | null>
  modelsUrl: string | null
}

const ABSENT: Wanted = { present: false, target: null, serving: null, database: false }

export function wantedOf(work: Work | undefined, engine = ''): Wanted {
  if (work?.wanted !== 'present') return ABSENT
  const { revision, serving, needs_database, beside } = work
  const isSplit = isHeldBack(work)
  return {
    present: true,
    target: revision?.id ?? null,
    serving: serving?.id ?? null,
    database: needs_database,
    beside: beside?.id ?? null,
    isSplit,
    replaces: !isSplit && revision !== null && findExclusiveDisk(revision.resource_spec, engine) !== undefined,
  }
}

/** The revision in flight runs beside the serving one, and does not take its place yet. */
const isHeldBack = ({ revision, traffic }: Work): boolean =>
  traffic != null && traffic.revision_id === revision?.id && traffic.share < 100

/** With what the plans of its sources ask for: disks, and the database of a graph application. */
export function withPlanned(work: Work, readRecord: (id: string) => BuildRecord | undefined): Work {
  const artifactOf = (revision: RevisionWork | null) => {
    const record = revision && readRecord(revision.id)
    return record?.state === 'built' ? record.artifact : undefined
  }
  const withDisks = (revision: RevisionWork | null) =>
    revision && {
      ...revision,
      resource_spec: withSourceDisks(revision.resource_spec, artifactOf(revision)?.build_plan?.disks),
    }
  const servesAnyGraphs = [work.revision, work.serving].some(revision => {
    const artifact = artifactOf(revision)
    return artifact !== undefined && servesGraphs(artifact)
  })
  return {
    ...work,
    needs_database: work.needs_database || servesAnyGraphs,
    revision: withDisks(work.revision),
    serving: withDisks(work.serving),
    ...(work.beside && { beside: withDisks(work.beside) }),
  }
}

export const revisionOf = (work: Work | undefined, id: string): RevisionWork | undefined =>
  [work?.revision, work?.serving, work?.beside].find(revision => revision?.id === id) ?? undefined

export const openSecrets = (
  { deployment_id }: Work,
  { id, secrets }: RevisionWork,
  { keys, listener }: Pick<SecretAccess, 'keys' | 'listener'>,
): Record<string, string> => (secrets === null ? {} : keys.open(secrets, `${listener}/${deployment_id}/${id}/secrets`))

export const openTracing = (
  { deployment_id }: Work,
  { id, tracing }: RevisionWork,
  { keys, listener }: Pick<SecretAccess, 'keys' | 'listener'>,
): Tracing | null => (tracing == null ? null : keys.open(tracing, `${listener}/${deployment_id}/${id}/tracing`))

export const openApplicationKey = (
  { deployment_id }: Work,
  { id, application_key: key }: RevisionWork,
  { keys, listener }: Pick<SecretAccess, 'keys' | 'listener'>,
): string | null => (key == null ? null : keys.open(key, `${listener}/${deployment_id}/${id}/application_key`))

export function revisionSpecOf(work: Work, revision: RevisionWork, access: SecretAccess): RevisionSpec {
  const { id, number, source, image_uri, secret_references } = revision
  return {
    deployment_id: work.deployment_id,
    revision_id: id,
    number,
    source,
    image_uri,
    secret_references,
    name: work.name!,
    tenant_id: work.tenant_id!,
    namespace: work.k8s_namespace,
    custom_url: work.custom_url,
    ...(work.protection !== undefined && { protection: work.protection }),
    request_logs: work.request_logs ?? null,
    host_labels: work.host_labels ?? [],
    needs_database: work.needs_database,
    has_copied_database: work.database_copy != null,
    resources: withDefaults(revision.resource_spec, work.deployment_type ?? 'dev'),
    parts: revision.parts,
    secrets: openSecrets(work, revision, access),
    tracing: openTracing(work, revision, access),
    application_key: openApplicationKey(work, revision, access),
    models_url: access.modelsUrl,
  }
}

export function buildSourceOf(work: Work, revision: RevisionWork, { credential }: SecretAccess): BuildSource {
  const { git, archive, template_id, platform_config_path, root_directory, install_command, build_command } = revision
  const ref = { deployment_id: work.deployment_id, revision_id: revision.id }
  if (revision.source === 'githost' && !git)
    throw new PermanentError(
      'The repository of this revision is no longer available. Check the integration of the deployment, then redeploy.',
    )
  if (revision.source === 'internal_source' && !archive)
    throw new PermanentError('The archive of this revision no longer exists. Upload it again, then redeploy.')
  return {
    git: git && { ...git, credential: (signal: AbortSignal) => credential(ref, signal) },
    archive,
    template_id,
    platform_config_path,
    root_directory: root_directory ?? null,
    install_command,
    build_command,
  }
}

/** The work after an accepted report. The next poll may not repeat it, because the control plane has it already. */
export function workAfterReport({ revision_id, state }: Report, work: Work): Work {
  const { revision } = work
  if (!revision || revision_id !== revision.id) return work
  if (state === 'deployed') return { ...work, serving: revision, revision: null, traffic: null }
  return state === 'failed' ? { ...work, revision: null, traffic: null } : work
}

/** Does not depend on the order of the deployments. */
export function digestGenerations(deployments: Map<string, { generation: number }>): string {
  let digest = 0n
  for (const [id, { generation }] of deployments)
    digest ^= createHash('sha256').update(`${id}:${generation}`).digest().readBigUInt64BE()
  return digest.toString(16).padStart(16, '0')
}

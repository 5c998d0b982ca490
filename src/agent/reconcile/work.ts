// What is wanted of a deployment, as the control plane says it and as the plan, the builds and the engines take it.
import { createHash } from 'node:crypto'
import type { Report } from '../../protocol/report.schema.ts'
import { withDefaults } from '../../protocol/resources.schema.ts'
import type { RevisionWork, Work } from '../../protocol/work.schema.ts'
import type { BuildRecord, Builds } from '../builds/builds.ts'
import type { GitCredential } from '../builds/git-checkout.ts'
import type { BuildSource } from '../builds/source-tree.ts'
import type { AgentKeys } from '../control-plane/envelope.ts'
import { type EngineObservation, PermanentError, type RevisionRef, type RevisionSpec } from '../engines/engine.ts'
import { stripControlCharacters } from '../redaction/last-lines.ts'
import { type Observed, type Phase, reportedStateOf, type Wanted } from './plan.ts'

const ABSENT: Wanted = { present: false, target: null, serving: null, database: false }

export const wantedOf = (work: Work | undefined): Wanted =>
  work?.wanted === 'present'
    ? {
        present: true,
        target: work.revision?.id ?? null,
        serving: work.serving?.id ?? null,
        database: work.needs_database,
      }
    : ABSENT

export const revisionOf = (work: Work | undefined, id: string): RevisionWork | undefined =>
  [work?.revision, work?.serving].find(one => one?.id === id) ?? undefined

export type SecretAccess = {
  keys: AgentKeys
  listener: string
  /** For a revision from a repository. */
  credential: (of: RevisionRef, signal: AbortSignal) => Promise<GitCredential | null>
}

export const openSecrets = (
  { deployment_id }: Work,
  { id, secrets }: RevisionWork,
  { keys, listener }: Pick<SecretAccess, 'keys' | 'listener'>,
): Record<string, string> => (secrets === null ? {} : keys.open(secrets, `${listener}/${deployment_id}/${id}/secrets`))

export function unitOf(work: Work, revision: RevisionWork, opening: SecretAccess): RevisionSpec {
  const { deployment_id } = work
  const { id, number, source, image_uri, secret_references } = revision
  return {
    ...{ deployment_id, revision_id: id, number, source, image_uri, secret_references },
    name: work.name!,
    tenant_id: work.tenant_id!,
    namespace: work.k8s_namespace,
    custom_url: work.custom_url,
    needs_database: work.needs_database,
    resources: withDefaults(revision.resource_spec, work.deployment_type ?? 'dev'),
    parts: revision.parts,
    secrets: openSecrets(work, revision, opening),
  }
}

export function buildSourceOf(work: Work, revision: RevisionWork, { credential }: SecretAccess): BuildSource {
  const { git, archive, template_id, platform_config_path, install_command, build_command } = revision
  const of = { deployment_id: work.deployment_id, revision_id: revision.id }
  if (revision.source === 'githost' && !git)
    throw new PermanentError('Its repository is not known any more: see its integration, and redeploy it.')
  if (revision.source === 'internal_source' && !archive)
    throw new PermanentError('Its archive is not there any more: upload it again, and redeploy it.')
  return {
    git: git && { ...git, credential: (signal: AbortSignal) => credential(of, signal) },
    archive,
    template_id,
    platform_config_path,
    install_command,
    build_command,
  }
}

/** What is there, from the builds and from the world; and why each revision is not well, where it is not. */
export type Observation = {
  observed: Observed
  reasons: Map<string, string>
  records: Map<string, BuildRecord>
  url: string | null
  last_request_at?: string | undefined
  /** Why its database is not there, where that is known. */
  databaseFailure: string | null
}

const RUNNING_PHASES: Phase[] = ['starting', 'healthy', 'unhealthy']

export async function observeDeployment(id: string, builds: Builds, seen: EngineObservation): Promise<Observation> {
  const revisions: Record<string, Phase> = {}
  const reasons = new Map<string, string>()
  const made = new Map<string, BuildRecord>()
  for (const revision_id of builds.revisions(id)) {
    const ref = { deployment_id: id, revision_id }
    const record = builds.isBuilding(ref) ? undefined : builds.readRecord(ref)
    if (record) made.set(revision_id, record)
    if (builds.isBuilding(ref)) revisions[revision_id] = 'building'
    else if (record?.state === 'broken') {
      revisions[revision_id] = 'broken'
      reasons.set(revision_id, record.reason)
    } else if (record) {
      revisions[revision_id] = record.given_up ? 'failed' : 'built'
      if (record.given_up) reasons.set(revision_id, record.given_up)
    }
  }
  for (const { revision_id, phase, reason } of seen.running) {
    // It was given up, and its copies are still to be ended.
    const givenUp = revisions[revision_id] === 'failed' && seen.routed !== revision_id && RUNNING_PHASES.includes(phase)
    revisions[revision_id] = givenUp ? 'failing' : phase
    if (reason && !reasons.has(revision_id)) reasons.set(revision_id, reason)
  }
  const { database } = seen
  return {
    observed: {
      revisions,
      routed: seen.routed,
      database: database === null ? 'none' : database.ready ? 'ready' : database.hopeless ? 'failing' : 'coming',
      hasRemains: seen.hasRemains || builds.hasFiles(id),
    },
    reasons,
    records: made,
    url: seen.url,
    last_request_at: seen.last_request_at,
    databaseFailure:
      database && !database.ready ? `It has no database. ${database.reason ?? 'It does not come in time.'}` : null,
  }
}

const MAX_MESSAGE_LENGTH = 2000
const BUILT_SOURCES = ['githost', 'internal_source']

/**
 * What there is to tell of it now, its message as long as it is and with whatever is in it; null while there is
 * nothing. A later report makes an earlier one needless.
 */
export function composeReport(work: Work, generation: number, found: Observation, databaseTold = true): Report | null {
  const { observed, reasons, records: made, url, last_request_at } = found
  const about = { deployment_id: work.deployment_id, generation }
  const revisions = Object.entries(observed.revisions)
  if (work.wanted === 'absent') {
    return observed.hasRemains || revisions.length > 0 ? null : { ...about, state: 'removed' }
  }
  const { revision, serving } = work
  // Nothing that follows says it as well: it is told before anything else.
  if (work.needs_database && observed.database === 'ready' && !databaseTold)
    return { ...about, state: 'database_ready' }
  if (revision && revision.id !== serving?.id) {
    const state = reportedStateOf(revision.id, { builds: BUILT_SOURCES.includes(revision.source), observed })
    if (!state) return null
    const record = made.get(revision.id)
    const commit = record?.state === 'built' ? record.artifact.commit : null
    const image =
      record?.state === 'built' && !record.artifact.location.startsWith('/') ? record.artifact.location : null
    return {
      ...about,
      revision_id: revision.id,
      state,
      ...(commit && { commit }),
      ...(image && { image_uri: image }),
      ...(state === 'failed' && { message: reasons.get(revision.id) ?? 'It failed without a reason.' }),
      ...(state === 'deployed' && { healthy: true, url }),
    }
  }
  const busy = revisions.some(
    ([id, phase]) => id !== serving?.id && ['building', 'starting', 'failing'].includes(phase),
  )
  if (busy || (serving && !observed.revisions[serving.id])) return null
  const phase = serving && observed.revisions[serving.id]
  const healthy = serving ? phase === 'healthy' : null
  const unexplained = phase === 'starting' ? 'It is starting.' : 'It is not healthy.'
  const message = serving && !healthy ? (reasons.get(serving.id) ?? unexplained) : null
  return {
    ...about,
    state: 'serving',
    revision_id: observed.routed,
    url: observed.routed ? url : null,
    healthy,
    message,
    ...(last_request_at && { last_request_at }),
  }
}

/** What it says, whichever generation it is about. */
export const serializeReportFacts = (report: Report) => JSON.stringify({ ...report, generation: 0 })

/** What of a report whoever looks on wants to read; null where it is a step on the way. */
export function describeOutcome(
  work: Work,
  { state, revision_id, url, message, healthy }: Report,
  { wasUnhealthy = false } = {},
): string | null {
  const revision = `revision ${revisionOf(work, revision_id ?? work.serving?.id ?? '')?.number}`
  const recovered = state === 'serving' && healthy === true && wasUnhealthy
  if (state === 'deployed' || recovered) return `${revision} serves at ${url}`
  const why = message?.replaceAll('\n', '\n  ')
  if (state === 'failed') return `${revision} failed: ${why}`
  if (state === 'serving' && healthy === false) return `${revision}: ${why}`
  return state === 'removed' ? 'removed' : null
}

/** What is wanted when a report was accepted: the control plane knows it as well as we do, and a poll may bring no more than that. */
export function workAfterReport({ revision_id, state }: Report, work: Work): Work {
  const { revision } = work
  if (!revision || revision_id !== revision.id) return work
  if (state === 'deployed') return { ...work, serving: revision, revision: null }
  return state === 'failed' ? { ...work, revision: null } : work
}

/** The sentence at the beginning and the newest lines at the end are what counts. */
export function cutMessage(text: string): string {
  const message = stripControlCharacters(text)
  if (message.length <= MAX_MESSAGE_LENGTH) return message
  return `${message.slice(0, 900)}\n…\n${message.slice(-1000)}`.toWellFormed()
}

/** Of all that is known: their order does not matter. */
export function digestGenerations(known: Map<string, { generation: number }>): string {
  let all = 0n
  for (const [id, { generation }] of known)
    all ^= createHash('sha256').update(`${id}:${generation}`).digest().readBigUInt64BE()
  return all.toString(16).padStart(16, '0')
}

// Observes a deployment: what its builds and the engine have, as the plan takes it, with the reasons of failures.
import type { Report } from '../../protocol/report.schema.ts'
import type { ReportedRollout } from '../../protocol/rollout.schema.ts'
import type { BuildRecord, Builds } from '../builds/builds.ts'
import type { Condition, EngineObservation } from '../engine.ts'
import type { Observed, Phase } from './plan.ts'
import { awaitsRelease, type Releases } from './releases.ts'

export type Observation = {
  observed: Observed
  reasons: Map<string, string>
  conditions: Map<string, Condition>
  records: Map<string, BuildRecord>
  url: string | null
  local_url?: string | undefined
  custom_host?: EngineObservation['custom_host']
  split?: EngineObservation['split']
  /** `failed` ends the revision in flight; `told` is the last look at its step. */
  rollout?: { failed: Pick<Report, 'message' | 'traffic'> | null; told: ReportedRollout | undefined }
  last_request_at?: string | undefined
  /** The reason why the database is not ready; null when it is, or when none is wanted. */
  databaseFailure: string | null
}

const BEFORE_START = new Set<Phase | undefined>(['unreleased', 'releasing'])
const RUNNING_PHASES: Phase[] = ['starting', 'healthy', 'unhealthy']

export async function observeDeployment(
  id: string,
  builds: Builds,
  engine: EngineObservation,
  releases?: Pick<Releases, 'isRunning'>,
): Promise<Observation> {
  const { revisions, reasons, records } = observeBuilds(id, builds, releases)
  const conditions = new Map<string, Condition>()
  for (const { revision_id, phase, reason, condition } of engine.running) {
    // A release command runs with objects of its revision, which are left when it is not started.
    if (phase === 'drained' && BEFORE_START.has(revisions[revision_id])) continue
    if (condition) conditions.set(revision_id, condition)
    // A revision that was given up and still has replicas: they have to be stopped.
    const isLeftover =
      revisions[revision_id] === 'failed' && engine.routed !== revision_id && RUNNING_PHASES.includes(phase)
    revisions[revision_id] = isLeftover ? 'failing' : phase
    if (reason && !reasons.has(revision_id)) reasons.set(revision_id, reason)
  }
  return {
    observed: {
      revisions,
      routed: engine.routed,
      database: databasePhase(engine.database),
      hasRemains: engine.hasRemains || builds.hasFiles(id),
    },
    reasons,
    conditions,
    records,
    url: engine.url,
    local_url: engine.local_url,
    custom_host: engine.custom_host,
    split: engine.split,
    last_request_at: engine.last_request_at,
    databaseFailure: describeDatabaseFailure(engine.database),
  }
}

function observeBuilds(id: string, builds: Builds, releases: Pick<Releases, 'isRunning'> | undefined) {
  const revisions: Record<string, Phase> = {}
  const reasons = new Map<string, string>()
  const records = new Map<string, BuildRecord>()
  for (const revision_id of builds.revisions(id)) {
    const ref = { deployment_id: id, revision_id }
    if (builds.isBuilding(ref)) {
      revisions[revision_id] = 'building'
      continue
    }
    const record = builds.readRecord(ref)
    if (!record) continue
    records.set(revision_id, record)
    const failure = record.state === 'broken' ? record.reason : record.given_up
    if (failure) reasons.set(revision_id, failure)
    if (record.state === 'broken') revisions[revision_id] = 'broken'
    else if (releases?.isRunning(ref)) revisions[revision_id] = 'releasing'
    else if (awaitsRelease(record) && !record.given_up) revisions[revision_id] = 'unreleased'
    else revisions[revision_id] = record.given_up ? 'failed' : 'built'
  }
  return { revisions, reasons, records }
}

function databasePhase(database: EngineObservation['database']): Observed['database'] {
  if (database === null) return 'none'
  if (database.ready) return 'ready'
  return database.hopeless ? 'failing' : 'coming'
}

function describeDatabaseFailure(database: EngineObservation['database']): string | null {
  if (!database || database.ready) return null
  return `The deployment has no database yet. ${database.reason ?? 'It did not start in time. Redeploy to try again.'}`
}

// Composes the report of a deployment from its observation, and the lines of it in the operator's log. Pure.
import type { Report } from '../../protocol/report.schema.ts'
import type { Work } from '../../protocol/work.schema.ts'
import { servesGraphs } from '../engines/graph-variables.ts'
import type { Observation } from './observe.ts'
import { type Phase, reportedStateOf } from './plan.ts'
import { revisionOf } from './work.ts'

type ReportSubject = Pick<Report, 'deployment_id' | 'generation'>

const BUILT_SOURCES = ['githost', 'internal_source']
const BUSY_PHASES: Phase[] = ['building', 'starting', 'failing']
const UNKNOWN_FAILURE = 'The revision failed for an unknown reason. Read its build and deploy logs, then redeploy.'
const UNEXPLAINED_FAULT = 'The application is not healthy. Read its deploy log.'

/** The newest report of a deployment, which replaces all earlier ones; null while there is nothing to report. */
export function composeReport(
  work: Work,
  generation: number,
  observation: Observation,
  isDatabaseReported = true,
): Report | null {
  const { observed } = observation
  const subject = { deployment_id: work.deployment_id, generation }
  if (work.wanted === 'absent') {
    const isGone = !observed.hasRemains && Object.keys(observed.revisions).length === 0
    return isGone ? { ...subject, state: 'removed' } : null
  }
  // No later report implies it, so it goes first.
  if (work.needs_database && observed.database === 'ready' && !isDatabaseReported)
    return { ...subject, state: 'database_ready' }
  const failed = observation.rollout?.failed
  if (failed && observed.revisions[work.revision!.id] !== 'failed')
    return { ...subject, revision_id: work.revision!.id, state: 'failed', ...failed }
  const isRolledOut = !work.revision || work.revision.id === work.serving?.id
  const report = isRolledOut
    ? composeServingReport(work, subject, observation)
    : composeRolloutReport(work, subject, observation)
  return (
    report && {
      ...report,
      ...describeServing(work, report, observation),
      ...describeSplit(work, report, observation),
      ...(observation.custom_host && { custom_host: observation.custom_host }),
    }
  )
}

const SPLIT_STATES: Report['state'][] = ['deploying', 'serving']
const FAILED_PHASES: Phase[] = ['broken', 'failed']

/** Nothing is said of a revision that has not been healthy yet. */
function describeSplit({ traffic }: Work, { state }: Report, { observed, reasons, split, rollout }: Observation) {
  const id = traffic?.revision_id
  const phase = id === undefined ? undefined : observed.revisions[id]
  if (id === undefined || phase === undefined || !SPLIT_STATES.includes(state)) return {}
  const share = split?.revision_id === id ? split.share : 0
  const told = rollout?.told && { rollout: rollout.told }
  if (phase === 'healthy') return split?.revision_id === id ? { traffic: { revision_id: id, share, ...told } } : {}
  if (phase !== 'unhealthy' && !FAILED_PHASES.includes(phase)) return {}
  return { traffic: { revision_id: id, share, problem: reasons.get(id) ?? UNEXPLAINED_FAULT, ...told } }
}

/** The serving revision keeps its health while another one is in progress. */
function describeServing({ serving }: Work, { state, revision_id }: Report, { observed, conditions }: Observation) {
  const id = state === 'deployed' ? revision_id : serving?.id
  const condition = id && observed.routed === id ? conditions.get(id) : undefined
  if (!condition) return {}
  const { health, incidents } = condition
  return { health, ...(incidents.length > 0 && { incidents }) }
}

function composeRolloutReport(
  { revision }: Work,
  subject: ReportSubject,
  { observed, reasons, records, url, local_url }: Observation,
): Report | null {
  const { id, source } = revision!
  const state = reportedStateOf(id, { builds: BUILT_SOURCES.includes(source), observed })
  if (!state) return null
  const record = records.get(id)
  const artifact = record?.state === 'built' ? record.artifact : undefined
  const isImage = artifact && !artifact.location.startsWith('/')
  return {
    ...subject,
    revision_id: id,
    state,
    ...(artifact?.commit && { commit: artifact.commit }),
    ...(isImage && { image_uri: artifact.location }),
    ...(artifact?.build_plan && { build_plan: artifact.build_plan }),
    ...(artifact?.version && { application_version: artifact.version }),
    ...(state === 'deploying' && reasons.has(id) && { message: reasons.get(id) }),
    ...(state === 'failed' && { message: reasons.get(id) ?? UNKNOWN_FAILURE }),
    ...(state === 'deployed' && { healthy: true, url, ...(local_url && { local_url }) }),
    ...(artifact && servesGraphs(artifact) && observed.database !== 'ready' && { awaits_database: true }),
  }
}

function composeServingReport(
  { serving }: Work,
  subject: ReportSubject,
  { observed, reasons, url, local_url, last_request_at, databaseFailure }: Observation,
): Report | null {
  const isBusy = Object.entries(observed.revisions).some(
    ([id, phase]) => id !== serving?.id && BUSY_PHASES.includes(phase),
  )
  const phase = serving && observed.revisions[serving.id]
  if (isBusy || (serving && !phase)) return null
  const healthy = serving ? phase === 'healthy' : null
  const unexplained = phase === 'starting' ? 'The application is starting.' : UNEXPLAINED_FAULT
  return {
    ...subject,
    state: 'serving',
    revision_id: observed.routed,
    url: observed.routed ? url : null,
    ...(observed.routed && local_url && { local_url }),
    healthy,
    message: serving && !healthy ? (reasons.get(serving.id) ?? databaseFailure ?? unexplained) : null,
    ...(last_request_at && { last_request_at }),
  }
}

/** The content of a report without its generation. Reports with the same facts are the same. */
export const serializeReportFacts = (report: Report) => JSON.stringify({ ...report, generation: 0 })

type OutcomeEvent = { event: string; fields: Record<string, string | number | null | undefined> }

/** The event that an operator reads about an accepted report; null for a step in between. */
export function describeOutcome(
  work: Work,
  { state, revision_id, url, message, healthy }: Report,
  { wasUnhealthy = false } = {},
): OutcomeEvent | null {
  if (state === 'removed') return { event: 'deployment removed', fields: {} }
  const revision = revisionOf(work, revision_id ?? work.serving?.id ?? '')?.number
  const hasRecovered = state === 'serving' && healthy === true && wasUnhealthy
  if (state === 'deployed' || hasRecovered) return { event: 'revision serving', fields: { revision, url } }
  if (state === 'failed') return { event: 'revision failed', fields: { revision, reason: message } }
  if (state === 'serving' && healthy === false)
    return { event: 'revision unhealthy', fields: { revision, reason: message } }
  return null
}

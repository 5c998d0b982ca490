// Marks of the slider: the creation and the end of revisions, and the in-place changes and states of a deployment
// (pure).
import type { Reply } from '../../../client/client.ts'
import { describeReasons } from '../../format/reasons.ts'
import { describeActor } from '../../format/source.ts'
import { type Revision, type State, stateOfRevision } from '../../format/state.ts'

export type Event = Reply<'GET /v2/events'>['resources'][number]
export type Mark = {
  key: string
  /** In milliseconds. */
  at: number
  title: string
  detail: string | undefined
  by: string
  state: State
}

const QUIET = { tone: 'idle', shape: 'ring' } as const
const EVENTS: Record<string, Omit<State, 'word'> & { title: string }> = {
  'deployment.created': { title: 'Created', ...QUIET },
  'deployment.patched': { title: 'Changed in place', tone: 'busy', shape: 'diamond' },
  'deployment.hold_released': { title: 'Hold released', tone: 'idle', shape: 'held' },
  'deployment.unknown': { title: 'Listener went silent', tone: 'warn', shape: 'triangle' },
  'deployment.ready': { title: 'Ready', ...QUIET },
  'deployment.unhealthy': { title: 'Became unhealthy', tone: 'bad', shape: 'octagon' },
  'deployment.healthy': { title: 'Healthy again', tone: 'ok', shape: 'check' },
  'deployment.crash_looping': { title: 'Crash loop began', tone: 'bad', shape: 'octagon' },
  'deployment.degraded': { title: 'Fewer copies healthy', tone: 'warn', shape: 'triangle' },
  'deployment.health_flapping': { title: 'Health flaps', tone: 'warn', shape: 'triangle' },
  'deployment.restarted': { title: 'Restarted', tone: 'warn', shape: 'ring' },
  'deployment.out_of_memory': { title: 'Killed for its memory', tone: 'bad', shape: 'octagon' },
  'deployment.scaled': { title: 'Copies changed', ...QUIET },
  'deployment.disk_full': { title: 'Disk full', tone: 'bad', shape: 'octagon' },
  'deployment.request_logs_changed': { title: 'Request log changed', ...QUIET },
  'deployment.logs_expired': { title: 'Old log lines deleted', ...QUIET },
  'deployment.revisions_expired': { title: 'Old revisions deleted', ...QUIET },
  'deployment.unused': { title: 'Became unused', ...QUIET },
  'deployment.database_copied': { title: 'Database copied', ...QUIET },
  'deployment.located': { title: 'URL changed', ...QUIET },
  'deployment.ref_gone': { title: 'Branch deleted', tone: 'warn', shape: 'triangle' },
  'deployment.ref_found': { title: 'Branch restored', ...QUIET },
  'deployment.repository_moved': { title: 'Repository renamed', ...QUIET },
  'deployment.deleted': { title: 'Deleted', tone: 'idle', shape: 'minus' },
}

type MarkedRevision = Pick<Revision, 'id' | 'number' | 'created_at' | 'reasons' | 'actor' | 'commit' | 'states'> &
  Pick<Revision, 'status' | 'status_message'>

/** Oldest first. */
export function listMarks(revisions: MarkedRevision[], events: Event[]): Mark[] {
  const created = new Set(revisions.map(({ created_at }) => Date.parse(created_at)))
  // The change that a revision is made of is shown with the revision.
  const ownEvents = events.filter(
    ({ type, created_at }) =>
      EVENTS[type] &&
      !(['deployment.patched', 'deployment.created'].includes(type) && created.has(Date.parse(created_at))),
  )
  const marks = [...revisions.flatMap(marksOfRevision), ...ownEvents.map(markOfEvent)]
  return marks.sort((a, b) => a.at - b.at || a.key.localeCompare(b.key))
}

function marksOfRevision({ number, ...revision }: MarkedRevision): Mark[] {
  const { id, created_at, reasons, commit, states, status, status_message } = revision
  const by = describeActor(revision.actor)
  const isRollback = reasons.includes('rolled_back')
  const wanted: Mark = {
    key: `${id} created`,
    at: Date.parse(created_at),
    title: isRollback ? `Rolled back as r${number}` : `r${number} desired`,
    detail: commit?.message?.split('\n', 1)[0] ?? describeReasons(reasons),
    by,
    state: isRollback
      ? { word: 'Rollback', tone: 'warn', shape: 'held' }
      : { word: 'Desired', tone: 'busy', shape: 'queued' },
  }
  const last = states.at(-1)
  const state = stateOfRevision({ status })
  // A revision in progress has no end yet. A skipped revision was never desired.
  if (!last || state.tone === 'busy') return [wanted]
  const end: Mark = {
    key: `${id} ended`,
    at: Date.parse(last.since),
    title: status === 'DEPLOYED' ? `r${number} serves` : `r${number}: ${state.word.toLowerCase()}`,
    detail: status_message ?? undefined,
    by,
    state,
  }
  return states.length === 1 && status === 'SKIPPED' ? [end] : [wanted, end]
}

function markOfEvent({ number, type, created_at, actor, changes }: Event): Mark {
  const { title, ...look } = EVENTS[type]!
  const members = changes.map(({ path }) => path.split('.').at(-1))
  return {
    key: `event ${number}`,
    at: Date.parse(created_at),
    title,
    detail: type === 'deployment.patched' ? members.join(', ') || undefined : undefined,
    by: describeEventActor(actor),
    state: { word: title, ...look },
  }
}

/** Journals also know operators and visitors, which revisions do not. */
const describeEventActor = ({ kind, id, name }: Event['actor']): string =>
  kind === 'operator' ? 'the operator' : describeActor({ kind: kind as Revision['actor']['kind'], id, name })

/** The nearest mark before or after a moment. */
export function findMark(marks: Mark[], at: number, direction: 1 | -1): Mark | undefined {
  return direction === 1 ? marks.find(mark => mark.at > at) : marks.findLast(mark => mark.at < at)
}

// ---- marks of all deployments

const WORKSPACE_EVENTS: Record<string, Omit<State, 'word'> & { verb: string }> = {
  'revision.deployed': { verb: 'serves a new revision', tone: 'ok', shape: 'check' },
  'revision.build_failed': { verb: 'failed to build', tone: 'bad', shape: 'octagon' },
  'revision.deploy_failed': { verb: 'failed to deploy', tone: 'bad', shape: 'octagon' },
  'revision.create_failed': { verb: 'failed to fetch the source', tone: 'bad', shape: 'octagon' },
  'deployment.created': { verb: 'was created', ...QUIET },
  'deployment.patched': { verb: 'was changed', tone: 'busy', shape: 'diamond' },
  'deployment.rolled_back': { verb: 'was rolled back', tone: 'warn', shape: 'held' },
  'deployment.trace_key_rotated': { verb: 'got a new trace key', ...QUIET },
  'deployment.hold_released': { verb: 'was released from its hold', tone: 'idle', shape: 'held' },
  'deployment.unknown': { verb: 'lost its listener', tone: 'warn', shape: 'triangle' },
  'deployment.unhealthy': { verb: 'became unhealthy', tone: 'bad', shape: 'octagon' },
  'deployment.healthy': { verb: 'is healthy again', tone: 'ok', shape: 'check' },
  'deployment.crash_looping': { verb: 'is in a crash loop', tone: 'bad', shape: 'octagon' },
  'deployment.out_of_memory': { verb: 'was killed for its memory', tone: 'bad', shape: 'octagon' },
  'deployment.disk_full': { verb: 'filled its disk', tone: 'bad', shape: 'octagon' },
  'deployment.deleted': { verb: 'was deleted', tone: 'idle', shape: 'minus' },
}
/** For the filter of the list of events. */
export const MARKED_TYPES = Object.keys(WORKSPACE_EVENTS)

/** Oldest first. */
export const listWorkspaceMarks = (events: Event[], names: ReadonlyMap<string, string>): Mark[] =>
  events.toReversed().map(({ number, type, created_at, actor, subject, data, changes }) => {
    const { verb, ...look } = WORKSPACE_EVENTS[type]!
    const deployment = subject.type === 'deployment' ? subject.id : String(data.deployment_id)
    // The event of the deletion has the name of a deleted deployment.
    const gone = changes.find(({ path }) => path === 'name')
    const name = names.get(deployment) ?? gone?.before ?? gone?.after ?? 'A deleted deployment'
    return {
      key: `event ${number}`,
      at: Date.parse(created_at),
      title: `${name} ${verb}`,
      detail: typeof data.message === 'string' ? data.message : undefined,
      by: describeEventActor(actor),
      state: { word: verb, ...look },
    }
  })

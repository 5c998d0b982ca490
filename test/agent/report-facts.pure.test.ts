// The report of a deployment, as a pure function of its work and of what the agent observes.
import { expect, test } from 'vitest'
import type { Observation } from '../../src/agent/reconcile/observe.ts'
import { composeReport, describeOutcome, serializeReportFacts } from '../../src/agent/reconcile/report.ts'
import type { Report } from '../../src/protocol/report.schema.ts'
import type { Work } from '../../src/protocol/work.schema.ts'

const URL = 'http://app.localhost'
const present = { deployment_id: 'd', wanted: 'present', needs_database: false, revision: null, serving: null }
const revision = { id: 'new', number: 2, source: 'githost' }
const serving = { id: 'old', number: 1, source: 'githost' }
type Parts = Omit<Partial<Observation>, 'observed'> & { observed?: Partial<Observation['observed']> }
const observation = ({ observed, ...parts }: Parts = {}): Observation => ({
  observed: { revisions: {}, routed: null, database: 'none', hasRemains: false, ...observed },
  reasons: new Map(),
  conditions: new Map(),
  records: new Map(),
  url: URL,
  databaseFailure: null,
  ...parts,
})
const compose = (work: object, parts?: Parts, isDatabaseReported?: boolean) =>
  composeReport({ ...present, ...work } as Work, 7, observation(parts), isDatabaseReported)
const inPhase = (phase: string, routed: string | null = null, more: object = {}): Parts =>
  ({ observed: { revisions: { new: phase }, routed }, ...more }) as Parts
const recordOf = (artifact: object, state = 'built') => ({ records: new Map([['new', { state, artifact }]]) })
const because = (id: string) => ({ reasons: new Map([[id, 'why']]) })
const subject = { deployment_id: 'd', generation: 7 }
const SOME_TEXT = expect.stringMatching(/\S/)

const rollout = (state: string, more: object = {}) => ({ ...subject, revision_id: 'new', state, ...more })
const inService = (more: object) => ({ ...subject, state: 'serving', url: null, message: null, ...more })

test.each<[string, object, Parts | undefined, object | null]>([
  ['a deployment that is gone', { wanted: 'absent' }, {}, { ...subject, state: 'removed' }],
  ['with remains', { wanted: 'absent' }, { observed: { hasRemains: true } }, null],
  ['with a revision', { wanted: 'absent' }, inPhase('draining'), null],
  ['a revision that is not built yet', { revision }, {}, null],
  ['that builds', { revision }, inPhase('building'), rollout('building')],
  ['of a source without a build', { revision: { ...revision, source: 'x' } }, inPhase('built'), rollout('deploying')],
  ['of an archive', { revision: { ...revision, source: 'internal_source' } }, inPhase('built'), rollout('built')],
  [
    'with the commit and image of its build',
    { revision },
    inPhase('built', null, recordOf({ location: 'app@sha256:1', commit: { sha: 'c' } })),
    rollout('built', { commit: { sha: 'c' }, image_uri: 'app@sha256:1' }),
  ],
  ['with files of this machine', { revision }, inPhase('built', null, recordOf({ location: '/a/' })), rollout('built')],
  [
    'with a build that failed',
    { revision },
    inPhase('broken', null, { ...recordOf({ location: 'app' }, 'failed'), ...because('new') }),
    rollout('failed', { message: 'why' }),
  ],
  ['failed for no known reason', { revision }, inPhase('failed'), rollout('failed', { message: SOME_TEXT })],
  ['not healthy yet', { revision }, inPhase('starting'), rollout('deploying')],
  [
    'with the reason why it is not healthy yet',
    { revision },
    inPhase('starting', null, because('new')),
    rollout('deploying', { message: 'why' }),
  ],
  [
    'healthy without requests',
    { revision },
    inPhase('healthy', 'old', because('new')),
    {
      ...rollout('deploying', { message: 'why' }),
    },
  ],
  ['that gets the requests', { revision }, inPhase('healthy', 'new'), rollout('deployed', { healthy: true, url: URL })],
  ['with a reason of earlier', { revision }, inPhase('building', null, because('new')), rollout('building')],
  ['nothing', {}, {}, inService({ revision_id: null, healthy: null })],
  ['a serving revision that is not there', { serving }, {}, null],
  [
    'that is healthy',
    { serving },
    { observed: { revisions: { old: 'healthy' }, routed: 'old' }, last_request_at: 'then' },
    inService({ revision_id: 'old', url: URL, healthy: true, last_request_at: 'then' }),
  ],
  [
    'that is the wanted one',
    { serving, revision: serving },
    { observed: { revisions: { old: 'healthy' }, routed: 'old' } },
    inService({ revision_id: 'old', url: URL, healthy: true }),
  ],
  [
    'whose database has lost its data',
    { serving },
    { observed: { revisions: { old: 'built' }, routed: null }, databaseFailure: 'Restore it.' },
    inService({ revision_id: null, healthy: false, message: 'Restore it.' }),
  ],
  [
    'that is not healthy',
    { serving },
    { observed: { revisions: { old: 'unhealthy' }, routed: 'old' }, ...because('old') },
    inService({ revision_id: 'old', url: URL, healthy: false, message: 'why' }),
  ],
  ...(['building', 'starting', 'failing'] as const).map((phase): [string, object, Parts, null] => [
    `while another is ${phase}`,
    { serving },
    { observed: { revisions: { old: 'healthy', other: phase }, routed: 'old' } },
    null,
  ]),
  [
    'while another ends',
    { serving },
    { observed: { revisions: { old: 'healthy', other: 'draining' }, routed: 'old' } },
    inService({ revision_id: 'old', url: URL, healthy: true }),
  ],
])('the report of %s', (_, work, parts, expected) => {
  expect(compose(work, parts)).toEqual(expected)
})

test('a serving revision that starts, and one that fails for no known reason, have different messages', () => {
  const messageIn = (phase: 'starting' | 'failing') =>
    compose({ serving }, { observed: { revisions: { old: phase }, routed: 'old' } })!.message
  expect(messageIn('starting')).toEqual(SOME_TEXT)
  expect(messageIn('failing')).toEqual(SOME_TEXT)
  expect(messageIn('starting')).not.toBe(messageIn('failing'))
})

test('a database that is ready is reported once, before the revision', () => {
  const work = { revision, needs_database: true }
  const ready: Parts = { observed: { revisions: { new: 'building' }, database: 'ready' } }
  const report = { ...subject, state: 'database_ready' }
  expect(compose(work, ready, false)).toEqual(report)
  expect(compose(work, ready, true)).toMatchObject({ state: 'building' })
  expect(compose(work, ready)).toMatchObject({ state: 'building' })
  expect(compose({ revision }, ready, false)).toMatchObject({ state: 'building' })
  expect(compose(work, { observed: { ...ready.observed, database: 'coming' } }, false)).toMatchObject({
    state: 'building',
  })
})

test('reports of different generations state the same facts', () => {
  const report = compose({ serving }, { observed: { revisions: { old: 'healthy' }, routed: 'old' } })!
  expect(serializeReportFacts(report)).toBe(serializeReportFacts({ ...report, generation: 8 }))
  expect(serializeReportFacts(report)).not.toBe(serializeReportFacts({ ...report, healthy: false }))
})

test('the log has removed deployments and revisions that are no longer known', () => {
  const gone = { revision: null, serving: null } as Work
  expect(describeOutcome(gone, { state: 'removed' } as Report)).toEqual({ event: 'deployment removed', fields: {} })
  expect(describeOutcome(gone, { state: 'failed', message: 'why' } as Report)).toEqual({
    event: 'revision failed',
    fields: { revision: undefined, reason: 'why' },
  })
})

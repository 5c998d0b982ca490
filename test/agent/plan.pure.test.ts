// The agent's plan: its actions for a wanted and an observed state, and the state that it reports.
import { describe, expect, test } from 'vitest'
import {
  type Action,
  type Observed,
  type Phase,
  plan,
  reportedStateOf,
  type Wanted,
} from '../../src/agent/reconcile/plan.ts'

const wanted = (target: string | null, serving: string | null): Wanted => ({
  present: true,
  target,
  serving,
  database: false,
})
const gone: Wanted = { present: false, target: null, serving: null, database: false }
const observed = (revisions: Record<string, Phase>, routed: string | null = null, hasRemains = true): Observed => ({
  revisions,
  routed,
  hasRemains,
  database: 'none',
})
/** The target has a disk of one writer. */
const replacing: Wanted = { ...wanted('new', 'old'), replaces: true }
/** The target gets a share of the requests. */
const splitting: Wanted = { ...wanted('new', 'old'), isSplit: true }
const formatActions = (actions: Action[]) =>
  actions.map(action => ('revision' in action ? `${action.do} ${action.revision}` : action.do))

test.each<[string, Wanted, Observed, string[]]>([
  ['a first revision is built', wanted('new', null), observed({}, null, false), ['build new']],
  ['a running build is not started again', wanted('new', null), observed({ new: 'building' }), []],
  ['a built revision is started', wanted('new', null), observed({ new: 'built' }), ['start new']],
  ['a starting revision is not started again', wanted('new', null), observed({ new: 'starting' }), []],
  ['a healthy revision receives the requests', wanted('new', null), observed({ new: 'healthy' }), ['switch new']],
  [
    'a healthy revision that receives the requests needs no action',
    wanted('new', null),
    observed({ new: 'healthy' }, 'new'),
    [],
  ],

  ['a replacing revision is built beside the old one', replacing, observed({ old: 'healthy' }, 'old'), ['build new']],
  [
    'a revision with a disk of one writer is not started before the old one has ended',
    replacing,
    observed({ old: 'healthy', new: 'built' }, 'old'),
    ['drain old'],
  ],
  ['nor while it drains', replacing, observed({ old: 'draining', new: 'built' }), []],
  ['the drained one is stopped first', replacing, observed({ old: 'drained', new: 'built' }), ['stop old']],
  ['its release command waits, too', replacing, observed({ old: 'healthy', new: 'unreleased' }, 'old'), ['drain old']],
  ['it starts once nothing else runs', replacing, observed({ old: 'built', new: 'built' }), ['start new']],
  ['the old one is not started beside it', replacing, observed({ old: 'built', new: 'starting' }), []],
  ['the old one comes back if it fails', replacing, observed({ old: 'built', new: 'failed' }), ['start old']],
  [
    'a revision with a share is started like any',
    splitting,
    observed({ old: 'healthy', new: 'built' }, 'old'),
    ['start new'],
  ],
  ['it does not take all requests', splitting, observed({ old: 'healthy', new: 'healthy' }, 'old'), []],
  ['not even from one that is not healthy', splitting, observed({ old: 'unhealthy', new: 'healthy' }, 'old'), []],
  ['it gives them back', splitting, observed({ old: 'healthy', new: 'healthy' }, 'new'), ['switch old']],
  ['it fails like any', splitting, observed({ old: 'healthy', new: 'failing' }, 'old'), ['give_up new']],
  [
    'an earlier revision beside the serving one is kept',
    { ...wanted(null, 'new'), beside: 'old' },
    observed({ old: 'healthy', new: 'healthy', other: 'healthy' }, 'new'),
    ['drain other'],
  ],
  [
    'it is built again, and given up if it fails',
    { ...wanted(null, 'new'), beside: 'old' },
    observed({ new: 'healthy' }, 'new'),
    ['build old'],
  ],
  [
    'a new revision is built beside the old one',
    wanted('new', 'old'),
    observed({ old: 'healthy' }, 'old'),
    ['build new'],
  ],
  [
    'a new revision is started beside the old one',
    wanted('new', 'old'),
    observed({ old: 'healthy', new: 'built' }, 'old'),
    ['start new'],
  ],
  [
    'the old revision keeps serving until the new one is healthy',
    wanted('new', 'old'),
    observed({ old: 'healthy', new: 'starting' }, 'old'),
    [],
  ],
  [
    'a healthy new revision receives the requests',
    wanted('new', 'old'),
    observed({ old: 'healthy', new: 'healthy' }, 'old'),
    ['switch new'],
  ],
  [
    'the old revision keeps running until the control plane has confirmed the new one',
    wanted('new', 'old'),
    observed({ old: 'healthy', new: 'healthy' }, 'new'),
    [],
  ],
  [
    'the old revision is drained once the control plane has confirmed the new one',
    wanted('new', 'new'),
    observed({ old: 'healthy', new: 'healthy' }, 'new'),
    ['drain old'],
  ],
  [
    'a draining revision is not stopped yet',
    wanted('new', 'new'),
    observed({ old: 'draining', new: 'healthy' }, 'new'),
    [],
  ],
  [
    'a drained revision is stopped',
    wanted('new', 'new'),
    observed({ old: 'drained', new: 'healthy' }, 'new'),
    ['stop old'],
  ],
  [
    'a stopped revision is forgotten',
    wanted('new', 'new'),
    observed({ old: 'built', new: 'healthy' }, 'new'),
    ['forget old'],
  ],
  [
    'an unhealthy old revision is drained too',
    wanted('new', 'new'),
    observed({ old: 'unhealthy', new: 'healthy' }, 'new'),
    ['drain old'],
  ],
  [
    'a failing old revision is stopped, as its replicas may still run',
    wanted('new', 'new'),
    observed({ old: 'failing', new: 'healthy' }, 'new'),
    ['stop old'],
  ],

  [
    'a failed build leaves the old revision unchanged',
    wanted('new', 'old'),
    observed({ old: 'healthy', new: 'broken' }, 'old'),
    [],
  ],
  [
    'a revision that never becomes healthy is given up',
    wanted('new', 'old'),
    observed({ old: 'healthy', new: 'failing' }, 'old'),
    ['give_up new'],
  ],
  [
    'a revision that was given up is not started again',
    wanted('new', 'old'),
    observed({ old: 'healthy', new: 'failed' }, 'old'),
    [],
  ],
  [
    'failed revisions are forgotten when the next one is built',
    wanted('next', 'old'),
    observed({ old: 'healthy', new: 'failed', older: 'broken' }, 'old'),
    ['build next', 'forget new', 'forget older'],
  ],

  [
    'the build of a superseded revision is interrupted',
    wanted(null, 'old'),
    observed({ old: 'healthy', new: 'building' }, 'old'),
    ['interrupt new'],
  ],
  [
    'a superseded revision that is starting is stopped',
    wanted(null, 'old'),
    observed({ old: 'healthy', new: 'starting' }, 'old'),
    ['stop new'],
  ],
  [
    'a rollout superseded after the switch routes requests back to the old revision',
    wanted(null, 'old'),
    observed({ old: 'healthy', new: 'healthy' }, 'new'),
    ['switch old'],
  ],
  [
    'a superseded revision without requests is drained',
    wanted(null, 'old'),
    observed({ old: 'healthy', new: 'healthy' }, 'old'),
    ['drain new'],
  ],
  [
    'a first revision that is superseded after the switch is drained',
    wanted(null, null),
    observed({ new: 'healthy' }, 'new'),
    ['drain new'],
  ],

  ['a lost serving revision is built again', wanted(null, 'old'), observed({}, null, false), ['build old']],
  [
    'a lost serving revision is built again during a rollout',
    wanted('new', 'old'),
    observed({ new: 'starting' }),
    ['build old'],
  ],
  ['a serving revision is never given up', wanted(null, 'old'), observed({ old: 'failing' }, 'old'), []],
  ['the newest revision is not given up once it serves', wanted('old', 'old'), observed({ old: 'failing' }, 'old'), []],
  [
    'a serving revision that was given up is started again',
    wanted(null, 'old'),
    observed({ old: 'failed' }, 'old'),
    ['start old'],
  ],
  [
    'a healthy serving revision without a route receives the requests',
    wanted(null, 'old'),
    observed({ old: 'healthy' }),
    ['switch old'],
  ],
  [
    'an unhealthy revision keeps its requests until another one is ready',
    wanted('new', null),
    observed({ x: 'unhealthy', new: 'built' }, 'x'),
    ['start new'],
  ],
  [
    'requests return to the old revision if the new one fails right after the switch',
    wanted('new', 'old'),
    observed({ old: 'healthy', new: 'unhealthy' }, 'new'),
    ['switch old'],
  ],
  [
    'a drained revision that is wanted again is stopped first',
    wanted(null, 'old'),
    observed({ old: 'drained' }),
    ['stop old'],
  ],

  [
    'a deletion drains the serving revision and interrupts builds first',
    gone,
    observed({ old: 'healthy', new: 'building' }, 'old'),
    ['drain old', 'interrupt new'],
  ],
  [
    'a deletion stops drained and starting revisions',
    gone,
    observed({ old: 'drained', new: 'starting' }),
    ['stop old', 'stop new'],
  ],
  [
    'a deletion forgets stopped revisions and failed builds',
    gone,
    observed({ old: 'built', new: 'broken' }),
    ['forget old', 'forget new'],
  ],
  ['a deletion removes the deployment once it has no revisions', gone, observed({}), ['remove']],
  ['a completed deletion needs no action', gone, observed({}, null, false), []],
])('%s', (_, wanted, observed, actions) => expect(formatActions(plan(wanted, observed))).toEqual(actions))

test('a revision whose other processes start after the switch keeps the requests, until they fail', () => {
  const wish = wanted('b', 'a')
  expect(plan(wish, observed({ a: 'healthy', b: 'starting' }, 'b'))).toEqual([])
  expect(plan(wish, observed({ a: 'healthy', b: 'failing' }, 'b'))).toEqual([
    { do: 'switch', revision: 'a' },
    { do: 'give_up', revision: 'b' },
  ])
})

describe('a release command', () => {
  const wanted: Wanted = { present: true, target: 'b', serving: 'a', database: false }
  const world = (phase: Phase, more: Partial<Observed> = {}): Observed => ({
    revisions: { a: 'healthy', b: phase },
    routed: 'a',
    database: 'none',
    hasRemains: true,
    ...more,
  })

  test('runs before the start, waits for the database, and ends with a revision that is not wanted', () => {
    expect(plan(wanted, world('unreleased'))).toEqual([{ do: 'release', revision: 'b' }])
    expect(plan(wanted, world('releasing'))).toEqual([])
    expect(plan({ ...wanted, database: true }, world('unreleased', { database: 'coming' }))).toEqual([])
    expect(plan({ ...wanted, target: null }, world('releasing'))).toEqual([{ do: 'interrupt', revision: 'b' }])
  })

  test('waits until the release command of another revision has ended', () => {
    const revisions = { a: 'healthy', b: 'releasing', c: 'unreleased' } as const
    const actions = plan({ ...wanted, target: 'c' }, world('releasing', { revisions }))
    expect(actions).toEqual([{ do: 'interrupt', revision: 'b' }])
  })
})

type Failures = { build?: 'broken'; start?: 'failing' }
/** Applies the plan until it is empty. Every action succeeds unless `failures` names it. */
function runToCompletion(wanted: Wanted, world: Observed, failures: Failures = {}) {
  const applied: string[] = []
  for (let turn = 0; turn < 50; turn++) {
    const actions = plan(wanted, world)
    applied.push(...formatActions(actions))
    const hasChanged = applyActions(world, actions) || completePhase(world, failures)
    if (!hasChanged) return applied
  }
  throw new Error(`The plan never completes: ${applied.join(', ')}`)
}

function applyActions(world: Observed, actions: Action[]): boolean {
  for (const action of actions) {
    if (action.do === 'remove') world.hasRemains = false
    else if ('revision' in action) {
      const { revision } = action
      if (action.do === 'switch') world.routed = revision
      else if (action.do === 'forget' || action.do === 'interrupt') delete world.revisions[revision]
      else {
        if (action.do === 'drain' && world.routed === revision) world.routed = null
        const nextPhases = {
          build: 'building',
          release: 'releasing',
          start: 'starting',
          drain: 'draining',
          stop: 'built',
          give_up: 'failed',
        } as const
        world.revisions[revision] = nextPhases[action.do]
        world.hasRemains = true
      }
    }
  }
  return actions.length > 0
}

function completePhase(world: Observed, { build, start }: Failures): boolean {
  for (const [id, phase] of Object.entries(world.revisions)) {
    const next = { building: build ?? 'built', starting: start ?? 'healthy', draining: 'drained' }[phase as 'building']
    if (next) {
      world.revisions[id] = next as Phase
      return true
    }
  }
  return false
}

test.each<[Observed['database'], string[]]>([
  ['none', ['provide']],
  ['coming', []],
  ['failing', ['give_up new']],
  ['ready', ['start new']],
])('a built revision whose database is %s leads to the actions %j', (database, actions) => {
  const target = { ...wanted('new', null), database: true }
  expect(formatActions(plan(target, { ...observed({ new: 'built' }), database }))).toEqual(actions)
})

test('a deployment without a revision gets no database', () => {
  expect(plan({ ...wanted(null, null), database: true }, observed({}))).toEqual([])
})

test('a serving revision is never given up for its database, and a new revision is built meanwhile', () => {
  const failing = (revisions: Record<string, Phase>) => ({ ...observed(revisions), database: 'failing' as const })
  expect(formatActions(plan({ ...wanted(null, 'old'), database: true }, failing({ old: 'built' })))).toEqual([])
  expect(formatActions(plan({ ...wanted('new', null), database: true }, failing({})))).toEqual(['build new'])
})

describe('the plan, applied until it is empty, completes', () => {
  test('a rollout', () => {
    const world = observed({ old: 'healthy' }, 'old')
    expect(runToCompletion(wanted('new', 'old'), world)).toEqual(['build new', 'start new', 'switch new'])
    expect(runToCompletion(wanted('new', 'new'), world)).toEqual(['drain old', 'stop old', 'forget old'])
    expect(world).toEqual(observed({ new: 'healthy' }, 'new'))
  })

  test.each(['build', 'start'] as const)('a rollout whose %s fails', step => {
    const world = observed({ old: 'healthy' }, 'old')
    runToCompletion(wanted('new', 'old'), world, step === 'build' ? { build: 'broken' } : { start: 'failing' })
    expect(world.revisions).toEqual({ old: 'healthy', new: step === 'build' ? 'broken' : 'failed' })
    expect(world.routed).toBe('old')
  })

  test('a deletion from any state', () => {
    const phases: Phase[] = [
      'building',
      'built',
      'broken',
      'starting',
      'healthy',
      'unhealthy',
      'failing',
      'failed',
      'draining',
      'drained',
    ]
    for (const first of phases)
      for (const second of phases) {
        const world = observed({ first, second }, 'first')
        runToCompletion(gone, world)
        expect([world.revisions, world.hasRemains], `${first}, ${second}`).toEqual([{}, false])
      }
  })
})

test.each<[Phase | undefined, string | null, string | null, string | null]>([
  // phase, reported while another revision is routed, while it is routed, from a source without a build
  [undefined, null, null, null],
  ['building', 'building', 'building', 'deploying'],
  ['built', 'built', 'built', 'deploying'],
  ['broken', 'failed', 'failed', 'failed'],
  ['starting', 'deploying', 'deploying', 'deploying'],
  ['healthy', 'deploying', 'deployed', 'deploying'],
  ['unhealthy', 'deploying', null, 'deploying'],
  ['failing', 'deploying', 'deploying', 'deploying'],
  ['failed', 'failed', 'failed', 'failed'],
])('phase %s is reported as %s, if routed as %s, without a build as %s', (phase, unrouted, routed, withoutBuild) => {
  const revisions: Record<string, Phase> = phase ? { new: phase } : {}
  expect(reportedStateOf('new', { builds: true, observed: { revisions, routed: 'old' } })).toBe(unrouted)
  expect(reportedStateOf('new', { builds: true, observed: { revisions, routed: 'new' } })).toBe(routed)
  expect(reportedStateOf('new', { builds: false, observed: { revisions, routed: 'old' } })).toBe(withoutBuild)
})

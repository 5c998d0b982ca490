// The plan of the agent: the actions for a wanted and an observed state, and the state that is reported.
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
const observed = (revisions: Record<string, Phase>, routed: string | null = null, left = true): Observed => ({
  revisions,
  routed,
  hasRemains: left,
  database: 'none',
})
const told = (actions: Action[]) =>
  actions.map(action => ('revision' in action ? `${action.do} ${action.revision}` : action.do))

test.each<[string, Wanted, Observed, string[]]>([
  ['a first revision is built', wanted('new', null), observed({}, null, false), ['build new']],
  ['a build is waited for', wanted('new', null), observed({ new: 'building' }), []],
  ['a built revision is started', wanted('new', null), observed({ new: 'built' }), ['start new']],
  ['health is waited for', wanted('new', null), observed({ new: 'starting' }), []],
  ['a healthy revision gets the requests', wanted('new', null), observed({ new: 'healthy' }), ['switch new']],
  ['a routed revision is left alone', wanted('new', null), observed({ new: 'healthy' }, 'new'), []],

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
    'a healthy new revision gets the requests',
    wanted('new', 'old'),
    observed({ old: 'healthy', new: 'healthy' }, 'old'),
    ['switch new'],
  ],
  [
    'the old revision is kept until the control plane knows about the new one',
    wanted('new', 'old'),
    observed({ old: 'healthy', new: 'healthy' }, 'new'),
    [],
  ],
  [
    'then the old revision is drained',
    wanted('new', 'new'),
    observed({ old: 'healthy', new: 'healthy' }, 'new'),
    ['drain old'],
  ],
  ['draining is waited for', wanted('new', 'new'), observed({ old: 'draining', new: 'healthy' }, 'new'), []],
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
    'a broken build leaves the old revision alone',
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
    'an interrupted build ends',
    wanted(null, 'old'),
    observed({ old: 'healthy', new: 'building' }, 'old'),
    ['interrupt new'],
  ],
  [
    'an interrupted start ends',
    wanted(null, 'old'),
    observed({ old: 'healthy', new: 'starting' }, 'old'),
    ['stop new'],
  ],
  [
    'a rollout interrupted after the switch goes back to the old revision first',
    wanted(null, 'old'),
    observed({ old: 'healthy', new: 'healthy' }, 'new'),
    ['switch old'],
  ],
  [
    'then the new revision is drained',
    wanted(null, 'old'),
    observed({ old: 'healthy', new: 'healthy' }, 'old'),
    ['drain new'],
  ],
  [
    'the first revision is drained if it is interrupted after the switch',
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
    'a serving revision without a route gets the requests',
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
    'the requests go back to the old revision if the new one fails right after the switch',
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
    'a deletion drains first',
    gone,
    observed({ old: 'healthy', new: 'building' }, 'old'),
    ['drain old', 'interrupt new'],
  ],
  ['a deletion stops what is drained', gone, observed({ old: 'drained', new: 'starting' }), ['stop old', 'stop new']],
  ['a deletion forgets what is stopped', gone, observed({ old: 'built', new: 'broken' }), ['forget old', 'forget new']],
  ['a deletion removes what is left', gone, observed({}), ['remove']],
  ['a completed deletion needs no action', gone, observed({}, null, false), []],
])('%s', (_, wanted, observed, actions) => expect(told(plan(wanted, observed))).toEqual(actions))

/** Every action succeeds and every wait ends. */
function settle(want: Wanted, world: Observed, fate: { build?: 'broken'; start?: 'failing' } = {}) {
  const seen: string[] = []
  for (let turn = 0; turn < 50; turn++) {
    const actions = plan(want, world)
    seen.push(...told(actions))
    const moved = apply(world, actions, fate) || wait(world, fate)
    if (!moved) return seen
  }
  throw new Error(`It never settles: ${seen.join(', ')}`)
}

function apply(world: Observed, actions: Action[], _fate: object): boolean {
  for (const action of actions) {
    if (action.do === 'remove') world.hasRemains = false
    else if ('revision' in action) {
      const { revision } = action
      if (action.do === 'switch') world.routed = revision
      else if (action.do === 'forget' || action.do === 'interrupt') delete world.revisions[revision]
      else {
        if (action.do === 'drain' && world.routed === revision) world.routed = null
        const becomes = {
          build: 'building',
          start: 'starting',
          drain: 'draining',
          stop: 'built',
          give_up: 'failed',
        } as const
        world.revisions[revision] = becomes[action.do]
        world.hasRemains = true
      }
    }
  }
  return actions.length > 0
}

function wait(world: Observed, { build, start }: { build?: 'broken'; start?: 'failing' }): boolean {
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
])('the next action with a database that is %s', (database, actions) => {
  const want = { ...wanted('new', null), database: true }
  expect(told(plan(want, { ...observed({ new: 'built' }), database }))).toEqual(actions)
})

test('a deployment without a revision gets no database', () => {
  expect(plan({ ...wanted(null, null), database: true }, observed({}))).toEqual([])
})

test('a serving revision waits for its database without limit, and a new revision is still built', () => {
  const failing = (revisions: Record<string, Phase>) => ({ ...observed(revisions), database: 'failing' as const })
  expect(told(plan({ ...wanted(null, 'old'), database: true }, failing({ old: 'built' })))).toEqual([])
  expect(told(plan({ ...wanted('new', null), database: true }, failing({})))).toEqual(['build new'])
})

describe('repeated until nothing is left to do, the plan completes', () => {
  test('a rollout', () => {
    const world = observed({ old: 'healthy' }, 'old')
    expect(settle(wanted('new', 'old'), world)).toEqual(['build new', 'start new', 'switch new'])
    expect(settle(wanted('new', 'new'), world)).toEqual(['drain old', 'stop old', 'forget old'])
    expect(world).toEqual(observed({ new: 'healthy' }, 'new'))
  })

  test.each(['build', 'start'] as const)('a rollout whose %s fails', step => {
    const world = observed({ old: 'healthy' }, 'old')
    settle(wanted('new', 'old'), world, step === 'build' ? { build: 'broken' } : { start: 'failing' })
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
    for (const one of phases)
      for (const other of phases) {
        const world = observed({ one, other }, 'one')
        settle(gone, world)
        expect([world.revisions, world.hasRemains], `${one}, ${other}`).toEqual([{}, false])
      }
  })
})

test.each<[Phase | undefined, string | null, string | null, string | null]>([
  // phase, routed elsewhere and builds; routed to it; a source without a build
  [undefined, null, null, null],
  ['building', 'building', 'building', 'deploying'],
  ['built', 'built', 'built', 'deploying'],
  ['broken', 'failed', 'failed', 'failed'],
  ['starting', 'deploying', 'deploying', 'deploying'],
  ['healthy', 'deploying', 'deployed', 'deploying'],
  ['unhealthy', 'deploying', null, 'deploying'],
  ['failing', 'deploying', 'deploying', 'deploying'],
  ['failed', 'failed', 'failed', 'failed'],
])('%s is reported as %s, if routed as %s, without a build as %s', (phase, elsewhere, routed, imaged) => {
  const revisions: Record<string, Phase> = phase ? { new: phase } : {}
  expect(reportedStateOf('new', { builds: true, observed: { revisions, routed: 'old' } })).toBe(elsewhere)
  expect(reportedStateOf('new', { builds: true, observed: { revisions, routed: 'new' } })).toBe(routed)
  expect(reportedStateOf('new', { builds: false, observed: { revisions, routed: 'old' } })).toBe(imaged)
})

// The agent's plan: from what is wanted and what is there to what is done now, and what is told.
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
  ['what is built is started', wanted('new', null), observed({ new: 'built' }), ['start new']],
  ['health is waited for', wanted('new', null), observed({ new: 'starting' }), []],
  ['what is healthy gets the requests', wanted('new', null), observed({ new: 'healthy' }), ['switch new']],
  ['what has them is left alone', wanted('new', null), observed({ new: 'healthy' }, 'new'), []],

  ['the new is built beside the old', wanted('new', 'old'), observed({ old: 'healthy' }, 'old'), ['build new']],
  ['and started', wanted('new', 'old'), observed({ old: 'healthy', new: 'built' }, 'old'), ['start new']],
  ['the old serves meanwhile', wanted('new', 'old'), observed({ old: 'healthy', new: 'starting' }, 'old'), []],
  ['then the new does', wanted('new', 'old'), observed({ old: 'healthy', new: 'healthy' }, 'old'), ['switch new']],
  [
    'the old is kept until the control plane knows',
    wanted('new', 'old'),
    observed({ old: 'healthy', new: 'healthy' }, 'new'),
    [],
  ],
  ['then drained', wanted('new', 'new'), observed({ old: 'healthy', new: 'healthy' }, 'new'), ['drain old']],
  ['which is waited for', wanted('new', 'new'), observed({ old: 'draining', new: 'healthy' }, 'new'), []],
  ['then stopped', wanted('new', 'new'), observed({ old: 'drained', new: 'healthy' }, 'new'), ['stop old']],
  ['then forgotten', wanted('new', 'new'), observed({ old: 'built', new: 'healthy' }, 'new'), ['forget old']],
  [
    'an old one that is unhealthy goes the same way',
    wanted('new', 'new'),
    observed({ old: 'unhealthy', new: 'healthy' }, 'new'),
    ['drain old'],
  ],

  ['a broken build leaves the old', wanted('new', 'old'), observed({ old: 'healthy', new: 'broken' }, 'old'), []],
  [
    'what never gets healthy is given up',
    wanted('new', 'old'),
    observed({ old: 'healthy', new: 'failing' }, 'old'),
    ['give_up new'],
  ],
  ['and stays that', wanted('new', 'old'), observed({ old: 'healthy', new: 'failed' }, 'old'), []],
  [
    'files of failures go when the next comes',
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
    'interrupted after the switch: back to the old first',
    wanted(null, 'old'),
    observed({ old: 'healthy', new: 'healthy' }, 'new'),
    ['switch old'],
  ],
  ['then the new goes', wanted(null, 'old'), observed({ old: 'healthy', new: 'healthy' }, 'old'), ['drain new']],
  [
    'the first ever, interrupted after the switch, goes',
    wanted(null, null),
    observed({ new: 'healthy' }, 'new'),
    ['drain new'],
  ],

  ['after a loss of everything, what serves comes back', wanted(null, 'old'), observed({}, null, false), ['build old']],
  ['also beside one that is on its way', wanted('new', 'old'), observed({ new: 'starting' }), ['build old']],
  ['what serves is never given up', wanted(null, 'old'), observed({ old: 'failing' }, 'old'), []],
  ['nor when it is the newest', wanted('old', 'old'), observed({ old: 'failing' }, 'old'), []],
  ['a mark of failure does not keep it down', wanted(null, 'old'), observed({ old: 'failed' }, 'old'), ['start old']],
  ['no route: what serves gets it', wanted(null, 'old'), observed({ old: 'healthy' }), ['switch old']],
  [
    'an unhealthy one keeps its requests while another is on its way',
    wanted('new', null),
    observed({ x: 'unhealthy', new: 'built' }, 'x'),
    ['start new'],
  ],
  [
    'the new one falls over before it is known: back to the old',
    wanted('new', 'old'),
    observed({ old: 'healthy', new: 'unhealthy' }, 'new'),
    ['switch old'],
  ],
  ['a drained one that is wanted again starts over', wanted(null, 'old'), observed({ old: 'drained' }), ['stop old']],

  [
    'deleting: out of the traffic',
    gone,
    observed({ old: 'healthy', new: 'building' }, 'old'),
    ['drain old', 'interrupt new'],
  ],
  ['stopped', gone, observed({ old: 'drained', new: 'starting' }), ['stop old', 'stop new']],
  ['forgotten', gone, observed({ old: 'built', new: 'broken' }), ['forget old', 'forget new']],
  ['removed', gone, observed({}), ['remove']],
  ['gone', gone, observed({}, null, false), []],
])('%s', (_, wanted, observed, actions) => expect(told(plan(wanted, observed))).toEqual(actions))

/** A world in which every action succeeds, and every wait ends. */
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
])('with a database that is %s', (database, actions) => {
  const want = { ...wanted('new', null), database: true }
  expect(told(plan(want, { ...observed({ new: 'built' }), database }))).toEqual(actions)
})

test('where nothing is to come, not even a database does', () => {
  expect(plan({ ...wanted(null, null), database: true }, observed({}))).toEqual([])
})

test('what serves waits for its database, however long, and what builds is built', () => {
  const failing = (revisions: Record<string, Phase>) => ({ ...observed(revisions), database: 'failing' as const })
  expect(told(plan({ ...wanted(null, 'old'), database: true }, failing({ old: 'built' })))).toEqual([])
  expect(told(plan({ ...wanted('new', null), database: true }, failing({})))).toEqual(['build new'])
})

describe('followed to its end', () => {
  test('a rollout', () => {
    const world = observed({ old: 'healthy' }, 'old')
    expect(settle(wanted('new', 'old'), world)).toEqual(['build new', 'start new', 'switch new'])
    expect(settle(wanted('new', 'new'), world)).toEqual(['drain old', 'stop old', 'forget old'])
    expect(world).toEqual(observed({ new: 'healthy' }, 'new'))
  })

  test.each(['build', 'start'] as const)('a %s that fails', step => {
    const world = observed({ old: 'healthy' }, 'old')
    settle(wanted('new', 'old'), world, step === 'build' ? { build: 'broken' } : { start: 'failing' })
    expect(world.revisions).toEqual({ old: 'healthy', new: step === 'build' ? 'broken' : 'failed' })
    expect(world.routed).toBe('old')
  })

  test('a deletion, from wherever', () => {
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
])('%s is told as %s, with the requests %s, without a build %s', (phase, elsewhere, routed, imaged) => {
  const revisions: Record<string, Phase> = phase ? { new: phase } : {}
  expect(reportedStateOf('new', { builds: true, observed: { revisions, routed: 'old' } })).toBe(elsewhere)
  expect(reportedStateOf('new', { builds: true, observed: { revisions, routed: 'new' } })).toBe(routed)
  expect(reportedStateOf('new', { builds: false, observed: { revisions, routed: 'old' } })).toBe(imaged)
})

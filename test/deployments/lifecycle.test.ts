import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  DEADLINES,
  deploymentStatus,
  firstStep,
  inFlightStates,
  interruptibleStates,
  LISTENER_SILENT_AFTER,
  mayFollow,
  next,
  overdue,
  settle,
  terminalStates,
  UNUSED_AFTER,
  waitingStates,
} from '../../src/deployments/lifecycle.ts'
import {
  deploymentStatuses,
  type RevisionStatus,
  revisionStatuses,
  type Source,
  sources,
} from '../../src/deployments/parts.schema.ts'

const built: Source[] = ['githost', 'internal_source']
const LEGAL_BUILT = [
  'CREATING>QUEUED CREATING>CREATE_FAILED CREATING>SKIPPED CREATING>INTERRUPTED',
  'QUEUED>AWAITING_BUILD QUEUED>SKIPPED QUEUED>INTERRUPTED',
  'AWAITING_BUILD>BUILDING AWAITING_BUILD>BUILD_FAILED AWAITING_BUILD>INTERRUPTED',
  'BUILDING>AWAITING_DEPLOY BUILDING>BUILD_FAILED BUILDING>INTERRUPTED',
  'AWAITING_DEPLOY>DEPLOYING AWAITING_DEPLOY>DEPLOY_FAILED AWAITING_DEPLOY>INTERRUPTED',
  'DEPLOYING>DEPLOYED DEPLOYING>DEPLOY_FAILED DEPLOYING>INTERRUPTED DEPLOYING>UNKNOWN',
  'UNKNOWN>DEPLOYED UNKNOWN>DEPLOY_FAILED',
].flatMap(line => line.split(' '))
const LEGAL_UNBUILT = LEGAL_BUILT.filter(step => !step.includes('BUILD')).concat('QUEUED>AWAITING_DEPLOY')

describe.each(sources)('a revision from %s', source => {
  const legal = built.includes(source) ? LEGAL_BUILT : LEGAL_UNBUILT
  it.each(revisionStatuses)('moves on from %s as it may, and no other way', from => {
    for (const to of revisionStatuses) expect(mayFollow(source, from, to), to).toBe(legal.includes(`${from}>${to}`))
  })

  it('reaches an end from everywhere, and never comes back', () => {
    const walk = fc.array(fc.nat(), { minLength: 20, maxLength: 20 })
    fc.assert(
      fc.property(walk, choices => {
        const seen: RevisionStatus[] = ['CREATING']
        for (const choice of choices) {
          const open = next(source, seen.at(-1)!)
          if (open.length > 0) seen.push(open[choice % open.length]!)
        }
        expect(new Set(seen).size).toBe(seen.length)
        expect(terminalStates).toContain(seen.at(-1))
      }),
    )
  })

  it('takes a first step that is legal', () => {
    expect(mayFollow(source, 'QUEUED', firstStep(source))).toBe(true)
  })
})

it('every state is waiting, in flight, at its end, or unknown', () => {
  expect([...waitingStates, ...inFlightStates, ...terminalStates, 'UNKNOWN'].sort()).toEqual(
    [...revisionStatuses].sort(),
  )
  expect([...interruptibleStates].sort()).toEqual([...waitingStates, ...inFlightStates].sort())
})

describe('deadlines', () => {
  const now = 1_800_000_000_000
  it.each([
    ['CREATING', 24 * 60, 'CREATE_FAILED'],
    ['AWAITING_BUILD', 10, 'BUILD_FAILED'],
    ['BUILDING', 30, 'BUILD_FAILED'],
    ['AWAITING_DEPLOY', 15, 'DEPLOY_FAILED'],
    ['DEPLOYING', 15, 'DEPLOY_FAILED'],
  ] as const)('%s lasts %i minutes and becomes %s', (state, minutes, becomes) => {
    const since = now - minutes * 60_000
    const late = overdue(state, { since, now, listenerSeen: now })
    expect(late).toMatchObject({ becomes, message: expect.stringMatching(/\S/) })
    expect(overdue(state, { since: since + 1, now, listenerSeen: now })).toBeNull()
    expect(sources.some(source => mayFollow(source, state, becomes))).toBe(true)
  })

  it('hold for everything in flight, and for nothing at its end', () => {
    expect(Object.keys(DEADLINES).sort()).toEqual(['CREATING', ...inFlightStates].sort())
    for (const state of [...terminalStates, 'QUEUED', 'UNKNOWN'] as const) {
      expect(overdue(state, { since: 0, now, listenerSeen: 0 })).toBeNull()
    }
  })

  it('what a silent listener was deploying is unknown, anything else has failed', () => {
    const silent = { since: 0, now, listenerSeen: now - LISTENER_SILENT_AFTER }
    expect(overdue('DEPLOYING', silent)?.becomes).toBe('UNKNOWN')
    expect(overdue('DEPLOYING', { ...silent, listenerSeen: silent.listenerSeen + 1 })?.becomes).toBe('DEPLOY_FAILED')
    expect(overdue('DEPLOYING', { ...silent, listenerSeen: null })?.becomes).toBe('DEPLOY_FAILED')
    expect(overdue('BUILDING', silent)?.becomes).toBe('BUILD_FAILED')
  })
})

const row = (...states: RevisionStatus[]) => states.map((status, i) => ({ number: i + 1, status }))
const numbers = (list: { number: number }[]) => list.map(one => one.number).sort((a, b) => a - b)

describe('settle', () => {
  it.each<[string, RevisionStatus[], number | null, number[]]>([
    ['nothing', [], null, []],
    ['the only one starts', ['QUEUED'], 1, []],
    ['one still being created waits', ['CREATING'], null, []],
    ['the newest starts, the others are skipped', ['QUEUED', 'QUEUED', 'QUEUED'], 3, [1, 2]],
    ['one in flight: the newest waits', ['BUILDING', 'QUEUED'], null, []],
    ['one in flight: all but the newest are skipped', ['DEPLOYING', 'QUEUED', 'QUEUED'], null, [2]],
    ['the artifact came with a newer one', ['CREATING', 'QUEUED'], 2, [1]],
    ['a newer one without its artifact skips nobody', ['QUEUED', 'CREATING'], 1, []],
    ['a failed one frees the queue', ['BUILD_FAILED', 'QUEUED'], 2, []],
    ['a newer failed one too', ['QUEUED', 'CREATE_FAILED'], 1, []],
    ['an unknown one too', ['UNKNOWN', 'QUEUED'], 2, []],
    ['never back to before what serves', ['QUEUED', 'DEPLOYED'], null, [1]],
    ['never back to before what is in flight', ['CREATING', 'AWAITING_DEPLOY'], null, [1]],
    ['nothing to do', ['DEPLOYED', 'SKIPPED', 'INTERRUPTED'], null, []],
  ])('%s', (_, states, start, skip) => {
    const settled = settle(row(...states))
    expect(settled.start?.number ?? null).toBe(start)
    expect(numbers(settled.skip)).toEqual(skip)
  })

  it('whatever there is: at most one in flight, at most one waiting, in any order, and then it rests', () => {
    const revisions = fc
      .array(fc.constantFrom(...revisionStatuses), { maxLength: 12 })
      .filter(states => states.filter(state => inFlightStates.includes(state)).length <= 1)
      .map(states => row(...states))
    const shuffled = revisions.chain(list =>
      fc.tuple(fc.constant(list), fc.shuffledSubarray(list, { minLength: list.length })),
    )
    fc.assert(
      fc.property(shuffled, ([list, mixed]) => {
        const { start, skip } = settle(mixed)
        expect(start).toEqual(settle(list).start)
        const after = list.map(one => ({
          ...one,
          status: one === start ? ('AWAITING_BUILD' as const) : skip.includes(one) ? ('SKIPPED' as const) : one.status,
        }))
        const inFlight = after.filter(one => inFlightStates.includes(one.status))
        const queued = after.filter(one => one.status === 'QUEUED')
        expect(inFlight.length).toBeLessThanOrEqual(1)
        expect(queued.length).toBeLessThanOrEqual(1)
        if (inFlight.length === 0) expect(queued).toEqual([])
        for (const one of [...inFlight, ...queued]) {
          if (one.number === start?.number) expect(skip.every(other => other.number < one.number)).toBe(true)
        }
        expect(settle(after)).toEqual({ start: null, skip: [] })
      }),
    )
  })
})

describe('a deployment', () => {
  const now = 1_800_000_000_000
  const fine = { now, deleting: false, databaseReady: true, listenerSeen: now, lastActive: now }
  const silent = { listenerSeen: now - LISTENER_SILENT_AFTER }
  const idle = { lastActive: now - UNUSED_AFTER }
  it.each([
    ['READY', {}],
    ['READY', { databaseReady: null, listenerSeen: null }],
    ['READY', { listenerSeen: silent.listenerSeen + 1, lastActive: idle.lastActive + 1 }],
    ['AWAITING_DATABASE', { databaseReady: false }],
    ['AWAITING_DATABASE', { databaseReady: false, ...silent, ...idle }],
    ['UNKNOWN', silent],
    ['UNKNOWN', { ...silent, ...idle }],
    ['UNUSED', idle],
    ['UNUSED', { ...idle, listenerSeen: null }],
    ['READY', { lastActive: null }],
    ['AWAITING_DELETE', { deleting: true }],
    ['AWAITING_DELETE', { deleting: true, databaseReady: false, ...silent, ...idle }],
  ] as const)('is %s given %o', (status, facts) => {
    expect(deploymentStatus({ ...fine, ...facts })).toBe(status)
    expect(deploymentStatuses).toContain(status)
  })

  it('idles for 28 days before it is unused', () => {
    expect(UNUSED_AFTER).toBe(28 * 24 * 3_600_000)
  })
})

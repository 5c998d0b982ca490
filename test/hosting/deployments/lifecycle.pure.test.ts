import { describe, expect, it } from 'vitest'
import {
  canFollow,
  DEADLINES,
  inFlightStates,
  LISTENER_LOST,
  LISTENER_SILENT_AFTER,
  nextStates,
  startState,
  terminalStates,
  UNUSED_AFTER,
  waitingStates,
} from '../../../src/hosting/deployments/lifecycle.ts'
import { type RevisionStatus, revisionStatuses, type Source, sources } from '../../../src/protocol/parts.schema.ts'
import * as fc from '../../support/seeded-fast-check.ts'

const builtSources: Source[] = ['githost', 'internal_source']
const STEPS_WITH_BUILD = [
  'CREATING>QUEUED CREATING>CREATE_FAILED CREATING>SKIPPED CREATING>INTERRUPTED',
  'QUEUED>AWAITING_BUILD QUEUED>SKIPPED QUEUED>INTERRUPTED',
  'AWAITING_BUILD>BUILDING AWAITING_BUILD>BUILD_FAILED AWAITING_BUILD>INTERRUPTED',
  'BUILDING>AWAITING_DEPLOY BUILDING>BUILD_FAILED BUILDING>INTERRUPTED',
  'AWAITING_DEPLOY>DEPLOYING AWAITING_DEPLOY>DEPLOY_FAILED AWAITING_DEPLOY>INTERRUPTED',
  'DEPLOYING>DEPLOYED DEPLOYING>DEPLOY_FAILED DEPLOYING>INTERRUPTED DEPLOYING>UNKNOWN',
  'UNKNOWN>DEPLOYED UNKNOWN>DEPLOY_FAILED',
].flatMap(line => line.split(' '))
const STEPS_WITHOUT_BUILD = STEPS_WITH_BUILD.filter(step => !step.includes('BUILD')).concat('QUEUED>AWAITING_DEPLOY')

describe.each(sources)('a revision of source %s', source => {
  const allowed = builtSources.includes(source) ? STEPS_WITH_BUILD : STEPS_WITHOUT_BUILD
  it.each(revisionStatuses)('moves from %s only to the allowed states', from => {
    for (const to of revisionStatuses) expect(canFollow(source, from, to), to).toBe(allowed.includes(`${from}>${to}`))
  })

  it('reaches a terminal state on every path, without passing a state twice', () => {
    const walk = fc.array(fc.nat(), { minLength: 20, maxLength: 20 })
    fc.assert(
      fc.property(walk, choices => {
        const visited: RevisionStatus[] = ['CREATING']
        for (const choice of choices) {
          const next = nextStates(source, visited.at(-1)!)
          if (next.length > 0) visited.push(next[choice % next.length]!)
        }
        expect(new Set(visited).size).toBe(visited.length)
        expect(terminalStates).toContain(visited.at(-1))
      }),
    )
  })

  it('starts in a state that can follow QUEUED', () => {
    expect(canFollow(source, 'QUEUED', startState(source))).toBe(true)
  })
})

it('every state is waiting, in flight, terminal or UNKNOWN', () => {
  expect([...waitingStates, ...inFlightStates, ...terminalStates, 'UNKNOWN'].sort()).toEqual(
    [...revisionStatuses].sort(),
  )
})

describe('deadlines', () => {
  it.each([
    ['CREATING', 24 * 60, 'CREATE_FAILED'],
    ['AWAITING_BUILD', 10, 'BUILD_FAILED'],
    ['BUILDING', 30, 'BUILD_FAILED'],
    ['AWAITING_DEPLOY', 15, 'DEPLOY_FAILED'],
    ['DEPLOYING', 15, 'DEPLOY_FAILED'],
  ] as const)('end %s after %i minutes with %s', (state, minutes, becomes) => {
    expect(DEADLINES[state]).toEqual({ after: minutes * 60_000, becomes, message: expect.stringMatching(/\S/) })
    expect(sources.some(source => canFollow(source, state, becomes))).toBe(true)
  })

  it('exist for CREATING and for every state in flight', () => {
    expect(Object.keys(DEADLINES).sort()).toEqual(['CREATING', ...inFlightStates].sort())
  })

  it('let a listener be silent for less time than a deploy, and an unused deployment run for 28 days', () => {
    expect(canFollow('githost', 'DEPLOYING', LISTENER_LOST.becomes)).toBe(true)
    expect(LISTENER_SILENT_AFTER).toBe(5 * 60_000)
    expect(LISTENER_SILENT_AFTER).toBeLessThan(DEADLINES.DEPLOYING!.after)
    expect(UNUSED_AFTER).toBe(28 * 24 * 3_600_000)
  })
})

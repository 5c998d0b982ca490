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
} from '../../src/deployments/lifecycle.ts'
import { type RevisionStatus, revisionStatuses, type Source, sources } from '../../src/protocol/parts.schema.ts'
import * as fc from '../support/seeded-fast-check.ts'

const builtSources: Source[] = ['githost', 'internal_source']
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
  const legal = builtSources.includes(source) ? LEGAL_BUILT : LEGAL_UNBUILT
  it.each(revisionStatuses)('moves from %s only to the allowed states', from => {
    for (const to of revisionStatuses) expect(canFollow(source, from, to), to).toBe(legal.includes(`${from}>${to}`))
  })

  it('can end from every state, and then stays ended', () => {
    const walk = fc.array(fc.nat(), { minLength: 20, maxLength: 20 })
    fc.assert(
      fc.property(walk, choices => {
        const seen: RevisionStatus[] = ['CREATING']
        for (const choice of choices) {
          const open = nextStates(source, seen.at(-1)!)
          if (open.length > 0) seen.push(open[choice % open.length]!)
        }
        expect(new Set(seen).size).toBe(seen.length)
        expect(terminalStates).toContain(seen.at(-1))
      }),
    )
  })

  it('starts in an allowed state', () => {
    expect(canFollow(source, 'QUEUED', startState(source))).toBe(true)
  })
})

it('every state is waiting, in flight, ended or unknown', () => {
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
  ] as const)('%s lasts %i minutes and becomes %s', (state, minutes, becomes) => {
    expect(DEADLINES[state]).toEqual({ after: minutes * 60_000, becomes, message: expect.stringMatching(/\S/) })
    expect(sources.some(source => canFollow(source, state, becomes))).toBe(true)
  })

  it('exist for every state in flight, and for no state that has ended', () => {
    expect(Object.keys(DEADLINES).sort()).toEqual(['CREATING', ...inFlightStates].sort())
  })

  it('a deploy can be lost with its listener, and a deployment is unused after 28 idle days', () => {
    expect(canFollow('githost', 'DEPLOYING', LISTENER_LOST.becomes)).toBe(true)
    expect(LISTENER_SILENT_AFTER).toBeLessThan(DEADLINES.DEPLOYING!.after)
    expect(UNUSED_AFTER).toBe(28 * 24 * 3_600_000)
  })
})

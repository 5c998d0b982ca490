import { describe, expect, it } from 'vitest'
import {
  DEADLINES,
  inFlightStates,
  LISTENER_LOST,
  LISTENER_SILENT_AFTER,
  terminalStates,
  UNUSED_AFTER,
  waitingStates,
} from '../../../src/hosting/deployments/lifecycle.ts'
import { revisionStatuses, sources } from '../../../src/protocol/parts.schema.ts'
import { canFollow } from '../../support/revision-steps.ts'

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

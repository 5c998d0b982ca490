import { describe, expect, it } from 'vitest'
import { canFollow } from '../../src/deployments/lifecycle.ts'
import { type RevisionStatus, revisionStatuses, sources } from '../../src/protocol/parts.schema.ts'
import { findTransitionPath, type MovingState, movingStates, TRANSITIONS } from '../../src/sync/revision-transitions.ts'

describe('findTransitionPath()', () => {
  it.each([
    ['AWAITING_BUILD', 'building', ['BUILDING']],
    ['AWAITING_BUILD', 'deployed', ['BUILDING', 'AWAITING_DEPLOY', 'DEPLOYING', 'DEPLOYED']],
    ['BUILDING', 'built', ['AWAITING_DEPLOY']],
    ['DEPLOYING', 'building', []],
    ['DEPLOYED', 'deployed', []],
    ['DEPLOYED', 'failed', null],
    ['BUILDING', 'failed', ['BUILD_FAILED']],
    ['AWAITING_DEPLOY', 'failed', ['DEPLOY_FAILED']],
    ['BUILD_FAILED', 'failed', []],
    ['BUILD_FAILED', 'deployed', null],
    ['UNKNOWN', 'deployed', ['DEPLOYED']],
    ['UNKNOWN', 'deploying', []],
    ['UNKNOWN', 'failed', ['DEPLOY_FAILED']],
    ['INTERRUPTED', 'deployed', null],
    ['SKIPPED', 'building', null],
    ['QUEUED', 'building', null],
  ] as [RevisionStatus, MovingState, RevisionStatus[] | null][])(
    'leads from %s by a report of %s through %j',
    (from, state, expected) => {
      expect(findTransitionPath('githost', from, state)).toEqual(expected)
    },
  )

  it('skips the build for sources that are not built', () => {
    expect(findTransitionPath('internal_container', 'AWAITING_DEPLOY', 'built')).toEqual([])
    expect(findTransitionPath('internal_container', 'AWAITING_DEPLOY', 'deployed')).toEqual(['DEPLOYING', 'DEPLOYED'])
  })

  it('takes only steps that the lifecycle allows, for every source, status and report', () => {
    expect(TRANSITIONS.length).toBeGreaterThan(100)
    for (const { source, status, path } of TRANSITIONS)
      for (const [i, to] of path.entries()) {
        // No revision of a source without a build has these statuses.
        if (status === 'AWAITING_BUILD' || status === 'BUILDING') continue
        expect(canFollow(source, i ? path[i - 1]! : status, to), `${source} ${status} ${path}`).toBe(true)
      }
    for (const source of sources)
      for (const status of revisionStatuses)
        for (const state of movingStates)
          expect(findTransitionPath(source, status, state)?.includes(status) ?? false).toBe(false)
  })
})

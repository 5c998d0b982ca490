// The consequence of a failed reconciliation, by its error, its work and its duration.
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { PermanentError, TransientError } from '../../src/agent/engine.ts'
import { FailurePolicy } from '../../src/agent/reconcile/failure-policy.ts'
import { RETRY_MS, StopFailed } from '../../src/agent/reconcile/steps.ts'
import type { Work } from '../../src/protocol/work.schema.ts'

const MINUTE = 60_000
const revision = { id: 'new' }
const rollout = { revision, serving: { id: 'old' } } as Work
const served = { revision: null, serving: { id: 'old' } } as Work
const permanent = new PermanentError('It cannot work.')
const transient = new TransientError('The engine is away.')
const stopFailure = new StopFailed('It did not stop.', { cause: permanent })

beforeEach(() => void vi.useFakeTimers({ toFake: ['performance'] }))
afterEach(() => void vi.useRealTimers())

function makePolicy({ hasRecord = false, isBuilding = false, give_up_ms }: Record<string, unknown> = {}) {
  const calls: unknown[][] = []
  const record =
    (name: string) =>
    (...values: unknown[]) =>
      void calls.push([name, ...values])
  const policy = new FailurePolicy({
    builds: {
      readRecord: () => (hasRecord ? { state: 'built' } : undefined),
      isBuilding: () => isBuilding,
      giveUp: record('giveUp'),
      recordFailure: record('recordFailure'),
    } as never,
    log: record('log'),
    ...(give_up_ms !== undefined && { give_up_ms: give_up_ms as number }),
  })
  const fail = (error: Error, work?: Work, after = 0) => {
    vi.advanceTimersByTime(after)
    return policy.handleFailure('d', work, error)
  }
  return { calls, fail, policy }
}
const ref = (revision_id: string) => ({ deployment_id: 'd', revision_id })
const retry = { retryMs: RETRY_MS }
const failureWith = (message: string) => ({ ...retry, failure: { revision_id: 'new', state: 'failed', message } })

describe('a permanent failure', () => {
  test('gives up a new revision, with the reason', () => {
    const { calls, fail } = makePolicy()
    expect(fail(permanent, rollout)).toEqual(failureWith(permanent.message))
    expect(calls).toEqual([['recordFailure', ref('new'), permanent.message]])
  })

  test('keeps the record of the build of a revision that was built', () => {
    const { calls, fail } = makePolicy({ hasRecord: true })
    fail(permanent, rollout)
    expect(calls).toEqual([['giveUp', ref('new'), permanent.message]])
  })

  test('while its revision builds is logged and retried', () => {
    const { calls, fail } = makePolicy({ isBuilding: true })
    expect(fail(permanent, rollout)).toEqual(retry)
    expect(calls).toEqual([['log', ref('new'), permanent.message, 'WARNING']])
  })

  test('is logged once and retried less often for the serving revision', () => {
    const { calls, fail } = makePolicy()
    expect(fail(permanent, served)).toEqual({ retryMs: 30_000 })
    fail(permanent, served)
    expect(calls).toEqual([['log', ref('old'), permanent.message, 'WARNING']])
    fail(new PermanentError('Another one.'), served)
    expect(calls).toHaveLength(2)
  })

  test('is not logged for a deployment without work, which has no revision', () => {
    const { calls, fail } = makePolicy()
    expect(fail(permanent)).toEqual({ retryMs: 30_000 })
    expect(fail(permanent, { revision: null, serving: null } as Work)).toEqual({ retryMs: 30_000 })
    expect(calls).toEqual([])
  })

  test('to stop an old revision does not fail the new one', () => {
    const { calls, fail } = makePolicy()
    expect(fail(stopFailure, rollout, 20 * MINUTE)).toEqual(retry)
    expect(calls).toEqual([['log', ref('new'), stopFailure.message, 'WARNING']])
    expect(fail(new StopFailed('Later.', { cause: transient }), served)).toEqual(retry)
  })
})

describe('a failure that may pass', () => {
  test('is retried, logged after half a minute, and gives the revision up after ten', () => {
    const { calls, fail } = makePolicy()
    expect(fail(transient, rollout)).toEqual(retry)
    expect(fail(transient, rollout, 29_999)).toEqual(retry)
    expect(calls).toEqual([])
    fail(transient, rollout, 1)
    expect(calls).toEqual([['log', ref('new'), transient.message, 'WARNING']])
    expect(fail(transient, rollout, 10 * MINUTE - 30_001)).toEqual(retry)
    const { failure } = fail(transient, rollout, 1)
    expect(failure).toMatchObject({ state: 'failed', message: expect.stringMatching(/ 10 min .*: The engine is away/) })
    expect(calls).toHaveLength(2)
  })

  test('has a reason that says at least a minute', () => {
    const { fail } = makePolicy({ give_up_ms: 1000 })
    fail(transient, rollout)
    expect(fail(transient, rollout, 999).failure).toBeUndefined()
    expect(fail(transient, rollout, 1).failure?.message).toMatch(/ 1 min /)
  })

  test('never gives up the serving revision', () => {
    const { fail } = makePolicy()
    fail(transient, served)
    expect(fail(transient, served, 30 * MINUTE)).toEqual(retry)
  })

  test('lasts from the first failure until a success or another revision', () => {
    const { calls, fail, policy } = makePolicy()
    fail(transient, rollout)
    policy.clear('d')
    expect(fail(transient, rollout, 10 * MINUTE)).toEqual(retry)
    fail(transient, { ...rollout, revision: { id: 'newer' } } as Work, 10 * MINUTE)
    expect(calls).toEqual([])
  })
})

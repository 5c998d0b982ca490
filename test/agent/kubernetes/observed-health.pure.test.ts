// The health of a revision that serves, from the objects of its processes.
import type { V1Deployment, V1Pod } from '@kubernetes/client-node'
import { expect, test } from 'vitest'
import { COMPONENT_LABEL, REVISION_LABEL } from '../../../src/agent/engines/kubernetes/names.ts'
import { nextStartDeadline, observeCondition } from '../../../src/agent/engines/kubernetes/observed-status.ts'

const now = new Date('2026-11-29T12:00:00Z')
const progress = { now, progress_seconds: 120 }
const labels = (name: string) => ({ [REVISION_LABEL]: 'r', [COMPONENT_LABEL]: name })
const makeDeployment = (name: string, replicas: number, availableReplicas: number, more: object = {}): V1Deployment =>
  ({
    metadata: { labels: labels(name) },
    spec: { replicas },
    status: { availableReplicas, ...more },
  }) as unknown as V1Deployment
type PodState = { ready?: boolean; age?: number; restartCount?: number; waiting?: string }
const makePod = (name: string, { ready = false, age = 10, restartCount = 0, waiting }: PodState = {}): V1Pod =>
  ({
    metadata: { labels: labels(name), creationTimestamp: new Date(now.getTime() - age * 1000) },
    status: {
      conditions: [{ type: 'Ready', status: ready ? 'True' : 'False' }],
      containerStatuses: [{ name: 'app', restartCount, state: waiting ? { waiting: { reason: waiting } } : {} }],
    },
  }) as unknown as V1Pod
const READY = { ready: true, age: 999 }
const healthOf = (
  deployments: V1Deployment[],
  pods: V1Pod[],
  phase: 'healthy' | 'unhealthy' | 'starting' = 'healthy',
) => observeCondition('r', { deployments, pods }, phase, null, progress).health

test.each<[string, V1Pod[], string]>([
  ['a copy that was added', [makePod('web', READY), makePod('web')], 'healthy'],
  ['one that is not created yet', [makePod('web', READY)], 'healthy'],
  ['one that pulls its image', [makePod('web', READY), makePod('web', { waiting: 'ContainerCreating' })], 'healthy'],
  ['one past its deadline', [makePod('web', READY), makePod('web', { age: 130 })], 'degraded'],
  ['one that has ended', [makePod('web', READY), makePod('web', { restartCount: 1 })], 'degraded'],
  ['one without an image', [makePod('web', READY), makePod('web', { waiting: 'ImagePullBackOff' })], 'degraded'],
])('with 1 of 2 copies up and %s, it is as it should be: %#', (_, pods, state) => {
  expect(healthOf([makeDeployment('web', 2, 1)], pods).state).toBe(state)
})

test('a copy that a quota refuses is missing', () => {
  const refused = { conditions: [{ type: 'ReplicaFailure', status: 'True' }] }
  expect(healthOf([makeDeployment('web', 2, 1, refused)], [makePod('web', READY)]).state).toBe('degraded')
})

test('processes are told apart, and a process without copies is healthy', () => {
  const looping = makePod('worker', { restartCount: 5, waiting: 'CrashLoopBackOff' })
  const deployments = [makeDeployment('web', 1, 1), makeDeployment('worker', 1, 0), makeDeployment('beat', 0, 0)]
  const health = healthOf(deployments, [makePod('web', READY), looping])
  expect(health.state).toBe('degraded')
  expect(health.processes?.map(({ name, state }) => `${name} ${state}`)).toEqual([
    'web healthy',
    'worker crash_looping',
    'beat healthy',
  ])
  expect(healthOf([makeDeployment('web', 0, 0)], [])).toEqual({ state: 'healthy', reason: null })
})

test('a worker that starts with its revision is no fault, but a copy that should listen and does not is one', () => {
  const deployments = [makeDeployment('web', 1, 1), makeDeployment('worker', 1, 0)]
  expect(healthOf(deployments, [makePod('web', READY), makePod('worker')], 'starting').state).toBe('healthy')
  expect(healthOf([makeDeployment('web', 1, 0)], [makePod('web')], 'unhealthy').state).toBe('unhealthy')
})

test('the next deadline of a copy that starts is known, because nothing else reports it', () => {
  const pods = [makePod('web', READY), makePod('web', { age: 20 }), makePod('web', { age: 100 })]
  expect(nextStartDeadline('r', pods, progress)).toBe(now.getTime() + 20_000)
  expect(nextStartDeadline('r', [makePod('web', READY)], progress)).toBeNull()
})

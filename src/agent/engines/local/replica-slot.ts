// The place of a replica in its pool, which stays when the replica is started again.
import { OutputLog } from './output-log.ts'
import type { Replica } from './replica.ts'
import type { Target } from './router.ts'

export type ReplicaSlot = {
  replica: Replica | undefined
  /** When it was added; null for a copy of an earlier agent. */
  addedAt: number | null
  launching: Promise<void> | undefined
  launchedAt: number
  isHealthy: boolean
  /** Undefined unless the replica is healthy and listens. */
  target: Target | undefined
  failures: number
  crashes: number
  restartAt: number
  healthySince: number
  probedAt: number
  launches: number
  /** The CPU time of its former replicas. */
  pastCpuMs: number
  memory: { now: number; most: number } | undefined
  probing: boolean
  output: OutputLog
}

export const emptySlot = (replica?: Replica): ReplicaSlot => ({
  replica,
  addedAt: replica ? null : Date.now(),
  launching: undefined,
  launchedAt: 0,
  isHealthy: false,
  target: undefined,
  failures: 0,
  crashes: 0,
  restartAt: 0,
  healthySince: 0,
  probedAt: 0,
  launches: replica ? 1 : 0,
  pastCpuMs: 0,
  memory: undefined,
  probing: false,
  output: new OutputLog(),
})

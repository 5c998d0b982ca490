// A replica as the pool that keeps it sees it: a process, containers, or the files of a site.
import type { LogLevel } from '../../engine.ts'
import type { Process } from '../../system/processes.ts'
import type { Target } from './router.ts'

/** `target`: null for a process that does not listen. */
export type Health = { ok: true; target: Target | null } | Unhealthy
/** `about`: nothing listens on its port; it listens on another one, which waiting does not change. */
export type Unhealthy = { ok: false; reason: string; about?: 'no_listener' | 'other_port' }

/** CPU time since its start, and memory now. Null: not visible. After its end, the last that was seen. */
export type ReplicaUsage = { cpu_ms: number | null; memory_bytes: number | null }

/** A line that an application wrote; `isError`: to its standard error. */
export type OutputLine = { text: string; level: LogLevel; isError: boolean }

export interface Replica {
  readonly lastLines: string[]
  /** A verb phrase such as "exited with code 1"; undefined while it runs. */
  readonly endReason: string | undefined
  /** The kernel or the engine killed it for its memory. */
  readonly isOutOfMemory?: boolean
  /** The pool killed it and has already logged why. */
  hasKillReason: boolean
  /** Called once, after it ended by itself or was killed. */
  onExit: () => void
  /** Undefined for an engine that enforces memory limits itself. */
  pids?(list: () => Process[]): number[]
  usage(list: () => Process[]): Promise<ReplicaUsage>
  probe(path: string | null, timeout: number): Promise<Health>
  /** For a replica whose exit is not reported by an event. */
  checkExit?(): void
  /** The whole lines since the last call; with `final`, an unfinished line too. */
  readLines(final?: boolean): OutputLine[]
  /** The beginning of the next line of a stream. Undefined for an engine that sees whole lines only. */
  unfinishedLine?(isError: boolean): string
  kill(): void
  /** Asks it to end, and kills it after the grace period. */
  end(grace: number): Promise<void>
  /** Stops it in place, with its memory. Absent: it cannot be, or has nothing to stop. */
  freeze?(): Promise<void>
  /** Idempotent. */
  thaw?(): Promise<void>
  /** Removes what a replica that has ended leaves behind. */
  forget(): void
  /** Leaves it running for the next agent. */
  release(): void
}

// The timeouts and limits of the local engines. Tests use smaller ones.
import { SCALE_TIMES } from '../../../protocol/scaling.ts'

export const DEFAULT_LIMITS = {
  /** The most replicas that a revision may require. */
  copies: 32,
  /** The time from the start to the first healthy probe, with restarts. */
  ready_ms: 120_000,
  /** After this time, the log of a start says what it waits for. */
  slow_ms: 10_000,
  /** After this time on another port than its own, too. */
  wrong_port_ms: 2_000,
  /** After this time, a database that is not ready is a failure. */
  database_ms: 300_000,
  /** This many crashes are a crash loop, unless the replica was healthy for `calm_ms` in between. */
  crashes: 3,
  calm_ms: 60_000,
  /** The pause before the first restart. It doubles up to the longest. */
  backoff_ms: 250,
  longest_backoff_ms: 60_000,
  /** A process that does not listen is healthy once it has run this long. */
  settle_ms: 3_000,
  /** The probe interval before and after the first healthy probe. */
  starting_probe_ms: 100,
  probe_ms: 5_000,
  /** While requests wait for the first copy after a sleep. */
  waking_probe_ms: 10,
  probe_timeout_ms: 5_000,
  /** Consecutive failed probes before a restart. */
  patience: 3,
  tick_ms: 100,
  /** An unfinished line of an application, like a prompt, is logged after this time. */
  unfinished_line_ms: 1_000,
  memory_ms: 1_000,
  disk_ms: 30_000,
  disk_mb: 2_048,
  /** The largest disk that a deployment may ask for, in GiB. Null: what its file system has. */
  disk_gi: null as number | null,
  space_ms: 1_000,
  /** With less free space, disks that take more than their share end their copies. */
  reserve_mb: 512,
  /** The interval at which the WAL of databases is stored. */
  backup_ms: 10_000,
  /** Among containers, where each look takes a command in one. */
  container_backup_ms: 60_000,
  /** The most WAL files of a database, of 4 MiB or less, that wait until they can be stored. */
  waiting_wal: 256,
  /** A backup that fails for so long is part of the health of its deployment. */
  backup_patience_ms: 600_000,
  /** The interval at which copies are scaled, and put to sleep. */
  scale_ms: 1_000,
  scale: SCALE_TIMES,
  /** After an answer that it may not sleep, an application is asked again. */
  sleep_ask_ms: 5_000,
  /** An application that asked to be awake at a time is woken so long before: its first copy has to start. */
  wake_ahead_ms: 10_000,
  /** It does not sleep for less time than this. */
  least_sleep_ms: 30_000,
  /** The interval at which the agent reads the last requests from the router and reports them. */
  usage_poll_ms: 10_000,
  usage_report_ms: 3_600_000,
  /** The time for requests in flight to end, if the deployment has none of its own; then for the replicas to end. */
  drain_ms: 30_000,
  stop_ms: 10_000,
}
export type Limits = typeof DEFAULT_LIMITS

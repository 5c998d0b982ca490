// How long and how much: the local engines' numbers, which tests make smaller.

export const DEFAULT_LIMITS = {
  /** From its start to its first health, all restarts included. */
  ready_ms: 120_000,
  /** A start that takes longer says in its log what it waits for. */
  slow_ms: 10_000,
  /** How long a database may take to come before that is a failure, too. */
  database_ms: 300_000,
  /** So many crashes before the first health are a loop; later, they are one when they follow each other this fast. */
  crashes: 3,
  calm_ms: 60_000,
  /** Before it is started again; twice that after the next crash, and so on to the most. */
  backoff_ms: 250,
  longest_backoff_ms: 60_000,
  /** How often it is looked at: while it starts, and later. */
  starting_probe_ms: 100,
  probe_ms: 5_000,
  probe_timeout_ms: 5_000,
  /** Failed health checks in a row after which it is started again. */
  patience: 3,
  tick_ms: 100,
  memory_ms: 1_000,
  disk_ms: 30_000,
  disk_mb: 2_048,
  /** How often the router is asked who was used, and how much later a use has to be to be told again. */
  asked_ms: 10_000,
  used_ms: 3_600_000,
  /** How long what is being answered may take before the old copies are told to end, and those to end. */
  drain_ms: 30_000,
  stop_ms: 10_000,
}
export type Limits = typeof DEFAULT_LIMITS

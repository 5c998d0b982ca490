// Defaults of members that may be left out, for schemas, and for pages, which load no zod.
export const DEFAULT_DISK_GI = 10

/** Resources of a deployment that nobody asks for long: it sleeps after a quarter of an hour. */
export const SLEEPING = { min_scale: 0, idle_seconds: 900 } as const

/** Members of a schedule. */
export const TIMING_DEFAULTS = {
  time_zone: 'UTC',
  timeout_seconds: 3600,
  overlap: 'skip',
  jitter_seconds: 0,
  retries: 0,
  deadline_seconds: 3600,
} as const

/** Members of the steps and the gates of a rollout. */
export const STEP_DEFAULTS = { minutes: 5, requests: 0 } as const
export const GATE_DEFAULTS = {
  errors: { margin: 0.01, alpha: 0.001 },
  latency: { margin: 0.02, alpha: 0.001 },
  restarts: { most: 0 },
  scores: { margin: 0.05, least: 20, alpha: 0.001 },
} as const

/** Members of the request log. */
export const DEFAULT_REQUEST_LOGS = {
  mode: 'sampled',
  rate: 2,
  slow_ms: 1_000,
  client_address: 'truncated',
} as const

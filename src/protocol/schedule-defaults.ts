// The members of a schedule that may be left out, for pages and for schemas.
export const TIMING_DEFAULTS = {
  time_zone: 'UTC',
  timeout_seconds: 3600,
  overlap: 'skip',
  jitter_seconds: 0,
  retries: 0,
  deadline_seconds: 3600,
} as const

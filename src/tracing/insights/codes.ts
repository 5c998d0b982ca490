// Error codes of insights.
import type { ErrorCodes } from '../../protocol/error-codes.ts'

export const insightsCodes = {
  insight_job_not_found: {
    status: 404,
    title: 'Insights job not found',
    problem: 'This project has no such insights job.',
    remedy: 'GET /sessions/{session_id}/insights lists the jobs.',
  },
  insight_cluster_not_found: {
    status: 404,
    title: 'Cluster not found',
    problem: 'This insights job has no such cluster.',
    remedy: 'GET /sessions/{session_id}/insights/{job_id} shows the clusters.',
  },
  insight_config_not_found: {
    status: 404,
    title: 'Insights config not found',
    problem: 'This project has no such config of insights.',
    remedy: 'GET /sessions/{session_id}/insights/configs lists the configs.',
  },
  schedule_too_frequent: {
    status: 422,
    title: 'Schedule too frequent',
    problem: 'The cron fires more often than insights jobs may start.',
    remedy: 'Choose a cron that fires less often, or have the operator lower CLIO_SCHEDULE_MIN_INTERVAL_SECONDS.',
  },
} as const satisfies ErrorCodes

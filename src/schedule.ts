// The scheduled work of a control plane: what is due is done, what expires is deleted. The names are shown in metrics.
import type { Services } from './kernel/http/routes.ts'

/** A host runs each of them every minute. */
export const createSweeps = (services: Services) => ({
  requests: async () => (await import('./kernel/db/sweep.ts')).sweepExpiredRows(services),
  sessions: async () => (await import('./people/sign-in/sweep.ts')).sweepSessions(services),
  api_keys: async () => (await import('./people/access/sweep.ts')).sweepEndedKeys(services),
  audit_log: async () => (await import('./people/audit/sweep.ts')).sweepAuditLog(services),
  overdue_revisions: async () => (await import('./hosting/deployments/sweep.ts')).sweepRevisions(services),
  old_revisions: async () => (await import('./hosting/deployments/revision-retention.ts')).sweepOldRevisions(services),
  rollouts: async () => (await import('./hosting/rollouts/sweep.ts')).sweepRollouts(services),
  jobs: async () => (await import('./hosting/jobs/sweep.ts')).sweepJobs(services),
  snapshots: async () => (await import('./hosting/snapshots/sweep.ts')).sweepSnapshots(services),
  bypasses: async () => (await import('./hosting/protection/sweep.ts')).sweepBypasses(services),
  uploads: async () => (await import('./hosting/uploads/sweep.ts')).sweepUploads(services),
  tunnels: async () => (await import('./hosting/relay/sweep.ts')).sweepTunnels(services),
  attachments: async () => (await import('./tracing/datasets/sweep.ts')).sweepAttachments(services),
  logs: async () => (await import('./hosting/logs/sweep.ts')).sweepLogs(services),
  metrics: async () => (await import('./hosting/metrics/sweep.ts')).sweepMetrics(services),
  oauth_flows: async () => (await import('./connect/oauth/sweep.ts')).sweepFlows(services),
  installs: async () => (await import('./hosting/git-hosts/sweep.ts')).sweepInstalls(services),
  oauth_providers: async () => (await import('./connect/oauth/sweep.ts')).sweepProviders(services),
  webhooks: async () => (await import('./connect/webhooks/sweep.ts')).sweepWebhooks(services),
  channels: async () => (await import('./connect/channels/sweep.ts')).sweepChannels(services),
  alerts: async () => (await import('./hosting/alerts/sweep.ts')).sweepAlerts(services),
  drains: async () => (await import('./hosting/drains/sweep.ts')).sweepDrains(services),
  rules: async () => (await import('./tracing/rules/sweep.ts')).sweepRules(services),
  insights: async () => (await import('./tracing/insights/sweep.ts')).sweepInsights(services),
  traces: () => services.traces.expire(services),
  feedback: async () => (await import('./tracing/feedback/sweep.ts')).sweepFeedback(services),
  annotation_queues: async () => (await import('./tracing/queues/sweep.ts')).sweepQueues(services),
  deleted_deployments: async () => (await import('./monitoring/sweep-runs.ts')).sweepDeletedDeployments(services),
  model_usage: async () => (await import('./connect/models/sweep.ts')).sweepModelUsage(services),
  pushes: async () => {
    await (await import('./hosting/pushes/sweep.ts')).sweepDeliveries(services)
    await (await import('./hosting/previews/sweep.ts')).sweepPreviews(services)
  },
  commit_statuses: async () => (await import('./hosting/pushes/commit-statuses.ts')).sweepCommitStatuses(services),
  repositories: async () => (await import('./hosting/pushes/repository-sweep.ts')).sweepRepositories(services),
})

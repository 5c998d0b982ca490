// The map of the API: the middleware of every request, one line per slice, and the scheduled work.
import { HonoBase } from 'hono/hono-base'
import { sweepEndedKeys } from './access/key-retention.ts'
import { accessPolicyRoutes } from './access/policies.routes.ts'
import { organizationRoutes, workspaceRoutes } from './access/routes.ts'
import { serveDocsPages } from './api-docs/docs-page.ts'
import { createAttemptLog } from './audit/attempts.ts'
import { sweepAuditLog } from './audit/retention.ts'
import { auditRoutes } from './audit/routes.ts'
import { serveClientLinks } from './dashboard/client-links.ts'
import { serveDashboard } from './dashboard/shell.ts'
import { sweepAttachments } from './datasets/attachments.ts'
import { comparisonRoutes } from './datasets/comparisons.routes.ts'
import { exampleRoutes } from './datasets/examples.routes.ts'
import { datasetRoutes } from './datasets/routes.ts'
import { shareRoutes } from './datasets/shares.routes.ts'
import { customHostRoutes } from './deployments/custom-hosts.routes.ts'
import { logRoutes } from './deployments/logs.routes.ts'
import { sweepMetrics } from './deployments/metric-points.ts'
import { metricRoutes } from './deployments/metrics.routes.ts'
import { registryRoutes } from './deployments/registry.routes.ts'
import { sweepOldRevisions } from './deployments/revision-retention.ts'
import { deploymentRoutes } from './deployments/routes.ts'
import { sweepRevisions } from './deployments/sweep.ts'
import { tagRoutes } from './deployments/tags.routes.ts'
import { uploadRoutes } from './deployments/uploads.routes.ts'
import { sweepUploads } from './deployments/uploads.ts'
import { workspaceTagRoutes } from './deployments/workspace-tags.routes.ts'
import type { Config } from './env.ts'
import { eventRoutes } from './events/routes.ts'
import { insightRoutes } from './insights/routes.ts'
import { sweepInstalls } from './integrations/install.ts'
import { integrationRoutes } from './integrations/routes.ts'
import type { ApiOf } from './kernel/api-types.ts'
import { createSealer } from './kernel/crypto.ts'
import { connect, type DriverFetch } from './kernel/db.ts'
import { healthRoutes } from './kernel/health.ts'
import { cors, notFound, respondWithError, wrapRequest } from './kernel/middleware.ts'
import { buildOpenApi, documentRoutes } from './kernel/openapi.ts'
import { resolvePath } from './kernel/path-aliases.ts'
import type { AppEnv, Operation, Services } from './kernel/routes.ts'
import { openS3Bucket } from './kernel/s3.ts'
import { SegmentRouter } from './kernel/segment-router.ts'
import { mountOperations } from './kernel/serve-routes.ts'
import { createBucketStorage } from './kernel/storage.ts'
import { runSweeps, sweepExpiredRows } from './kernel/sweep.ts'
import { listenerRoutes } from './listeners/routes.ts'
import { serveMetricsPage } from './metrics/metrics-page.ts'
import { createProcessCounters } from './metrics/process-counters.ts'
import { modelProxyRoutes } from './models/proxy.routes.ts'
import { modelRoutes } from './models/routes.ts'
import { signingKeyRoutes } from './models/signing-keys.routes.ts'
import { sweepModelUsage } from './models/usage.ts'
import { identityRoutes } from './oauth/client-document.routes.ts'
import { flowRoutes } from './oauth/flow.routes.ts'
import { sweepFlows } from './oauth/flow.ts'
import { sweepProviders } from './oauth/provider-recheck.ts'
import { providerRoutes } from './oauth/routes.ts'
import { sweepDeliveries } from './pushes/deliveries.ts'
import { sweepPreviews } from './pushes/preview-sweep.ts'
import { deliveryRoutes, previewRoutes } from './pushes/routes.ts'
import { queueItemRoutes } from './queues/items.routes.ts'
import { queueRoutes } from './queues/routes.ts'
import { sweepQueues } from './queues/upkeep.ts'
import { onlineEvaluatorRoutes } from './rules/online-evaluators.routes.ts'
import { ruleRoutes } from './rules/routes.ts'
import { deviceRoutes } from './sign-in/device.routes.ts'
import { serveSignInPages } from './sign-in/pages.ts'
import { signInRoutes } from './sign-in/routes.ts'
import { sweepSessions } from './sign-in/sessions.ts'
import { syncRoutes } from './sync/routes.ts'
import { clickHouseTraceStore } from './traces/clickhouse/store.ts'
import { feedbackRoutes } from './traces/feedback.routes.ts'
import { sweepFeedback } from './traces/feedback-sweep.ts'
import { ingestionRoutes } from './traces/ingestion.routes.ts'
import { otlpRoutes } from './traces/otlp/otlp.routes.ts'
import { postgresTraceStore } from './traces/postgres/store.ts'
import { runRoutes } from './traces/runs.routes.ts'
import { sessionRoutes } from './traces/sessions.routes.ts'
import { runShareRoutes } from './traces/shares.routes.ts'
import { threadRoutes } from './traces/threads.routes.ts'
import { ttlSettingsRoutes } from './traces/ttl-settings.routes.ts'
import { v2Routes } from './traces/v2.routes.ts'
import { createEventDeliverer, sweepWebhooks } from './webhooks/deliverer.ts'
import { webhookRoutes } from './webhooks/routes.ts'

const slices = [
  deploymentRoutes,
  customHostRoutes,
  tagRoutes,
  workspaceTagRoutes,
  uploadRoutes,
  registryRoutes,
  logRoutes,
  metricRoutes,
  integrationRoutes,
  listenerRoutes,
  syncRoutes,
  runRoutes,
  runShareRoutes,
  threadRoutes,
  v2Routes,
  providerRoutes,
  flowRoutes,
  identityRoutes,
  signingKeyRoutes,
  modelRoutes,
  previewRoutes,
  deliveryRoutes,
  eventRoutes,
  webhookRoutes,
  ingestionRoutes,
  sessionRoutes,
  feedbackRoutes,
  ttlSettingsRoutes,
  datasetRoutes,
  exampleRoutes,
  comparisonRoutes,
  shareRoutes,
  queueRoutes,
  queueItemRoutes,
  ruleRoutes,
  onlineEvaluatorRoutes,
  insightRoutes,
  otlpRoutes,
  modelProxyRoutes,
  organizationRoutes,
  workspaceRoutes,
  accessPolicyRoutes,
  signInRoutes,
  deviceRoutes,
  healthRoutes,
] as const
const audit = auditRoutes(slices.flatMap(slice => slice.operations))
const sliceOperations = [...slices, audit].flatMap(slice => slice.operations)

/** Every route that takes a key, as clients call it. */
export type Api = ApiOf<(typeof slices)[number] | typeof audit>

export const operations: Operation[] = [...sliceOperations, ...documentRoutes(sliceOperations).operations]

/** Pages of any origin send feedback by links. */
const FEEDBACK_LINK_PATH = '/feedback/tokens/'

export function createApp(settings: Config, inProcess?: DriverFetch) {
  const uploads = settings.s3 ? createBucketStorage(openS3Bucket(settings.s3)) : settings.uploads
  const config = { ...settings, uploads }
  const counters = createProcessCounters()
  const database = connect(config, inProcess, counters.countTrip)
  for (const notice of config.notices) config.log({ level: 'warn', notice })
  const app = new HonoBase<AppEnv>({ router: new SegmentRouter(), getPath: resolvePath })
  app.use(wrapRequest(config, counters.countRequest))
  app.use(cors(config.corsOrigins, FEEDBACK_LINK_PATH))
  app.onError((error, c) => respondWithError(c, error, config))
  app.notFound(notFound)
  serveDocsPages(app, () => buildOpenApi(operations))
  serveSignInPages(app, config)
  serveDashboard(app, config)
  serveClientLinks(app)
  const services: Services = {
    config,
    database,
    sealer: createSealer(config.sealingKeys),
    traces: config.clickHouse ? clickHouseTraceStore(config.clickHouse) : postgresTraceStore,
  }
  serveMetricsPage(app, services, counters)
  services.deliverEvents = createEventDeliverer(services)
  mountOperations(app, operations, services, createAttemptLog(services))
  services.onSweep = counters.countSwept
  const sweeps = {
    requests: () => sweepExpiredRows(services),
    sessions: () => sweepSessions(services),
    api_keys: () => sweepEndedKeys(services),
    audit_log: () => sweepAuditLog(services),
    overdue_revisions: () => sweepRevisions(services),
    old_revisions: () => sweepOldRevisions(services),
    uploads: () => sweepUploads(services),
    attachments: () => sweepAttachments(services),
    metrics: () => sweepMetrics(services),
    oauth_flows: () => sweepFlows(services),
    installs: () => sweepInstalls(services),
    oauth_providers: () => sweepProviders(services),
    webhooks: () => sweepWebhooks(services),
    rules: () => import('./rules/evaluate.ts').then(({ sweepRules }) => sweepRules(services)),
    insights: () => import('./insights/scheduled-jobs.ts').then(({ sweepInsights }) => sweepInsights(services)),
    traces: () => services.traces.expire(services),
    feedback: () => sweepFeedback(services),
    annotation_queues: () => sweepQueues(services),
    model_usage: () => sweepModelUsage(services),
    pushes: () => sweepDeliveries(services).then(() => sweepPreviews(services)),
  }
  const housekeep = () => runSweeps(sweeps, counters.countSweep)
  return Object.assign(app, { config, database, housekeep, sweeps, traces: services.traces })
}

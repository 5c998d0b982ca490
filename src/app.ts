// The map of the API: the middleware of every request, and one line per slice.
import { HonoBase } from 'hono/hono-base'
import type { Config } from './env.ts'
import { openLogStore } from './hosting/logs/store/open.ts'
import { createSealer } from './kernel/crypto/crypto.ts'
import { openS3Bucket } from './kernel/db/s3.ts'
import type { Trip } from './kernel/db/statement.ts'
import { createBucketStorage } from './kernel/db/storage.ts'
import type { ApiOf } from './kernel/http/api-types.ts'
import { acceptWords } from './kernel/http/contract-words.ts'
import { loadOnce } from './kernel/http/load-once.ts'
import { cors, notFound, respondWithError, wrapRequest } from './kernel/http/middleware.ts'
import { beginsWith, mountOnDemand } from './kernel/http/mount-on-demand.ts'
import { createMounter } from './kernel/http/mount-operations.ts'
import { resolvePath } from './kernel/http/path-aliases.ts'
import { type AppEnv, listOperations, type Operation, type Services } from './kernel/http/routes.ts'
import { SegmentRouter } from './kernel/http/segment-router.ts'
import { createShareGroups } from './kernel/limits/share-groups.ts'
import { createProcessCounters } from './monitoring/process-counters.ts'
import type { SweepRun } from './monitoring/sweep-runs.ts'
import type { Platform } from './platform.ts'
import { createSweeps } from './schedule.ts'
import { withWarnings } from './tracing/ingest/long-texts.ts'
import { clickHouseTraceStore } from './tracing/store/clickhouse/store.ts'
import { postgresTraceStore } from './tracing/store/postgres/store.ts'

/** Slices by the starts of their paths, where `*` is any segment: the first request to one imports the slice. */
export const slices = {
  '/v2/deployments /v2/deployment-counts /v2/templates': () => import('./hosting/deployments/routes.ts'),
  '/v2/deployments/*/revisions /v2/deployments/*/rollback /v2/deployments/*/hold': () =>
    import('./hosting/deployments/revisions.routes.ts'),
  '/v2/deployments/*/explain /v2/deployments/*/state /v2/deployment-states': () =>
    import('./hosting/deployments/history.routes.ts'),
  '/v2/custom-hosts': () => import('./hosting/custom-hosts/custom-hosts.routes.ts'),
  '/v2/deployments/*/tags /v2/tag-keys /v2/tag-values': () => import('./hosting/tags/tags.routes.ts'),
  '/workspaces/current/tag-keys /workspaces/current/tags /workspaces/current/taggings': () =>
    import('./hosting/tags/workspace-tags.routes.ts'),
  '/v2/deployments/*/upload-url /v2/uploads': () => import('./hosting/uploads/uploads.routes.ts'),
  '/v2/deployments/*/push-token /v2/push-tokens /v2/registry': () => import('./hosting/registry/registry.routes.ts'),
  '/v2/deployments/*/terminals /v2/deployments/*/forwards /v2/tunnels /v1/sync/tunnels': () =>
    import('./hosting/relay/relay.routes.ts'),
  '/v2/deployments/*/logs /v1/projects': () => import('./hosting/logs/logs.routes.ts'),
  '/v2/logs': () => import('./hosting/logs/search.routes.ts'),
  '/v2/deployments/*/log-archives /v2/deployments/*/log-archive-settings /v2/log-archive-settings': () =>
    import('./hosting/logs/archive.routes.ts'),
  '/v2/deployments/*/deploy-hooks /v2/deploy-hooks': () => import('./hosting/deploy-hooks/routes.ts'),
  '/v2/deployments/*/jobs': () => import('./hosting/jobs/routes.ts'),
  '/v2/deployments/*/schedules /v2/schedules': () => import('./hosting/jobs/schedules.routes.ts'),
  '/v2/deployments/*/snapshots /v2/deployments/*/restores /v2/snapshots': () => import('./hosting/snapshots/routes.ts'),
  '/v2/deployments/*/protection /v2/deployments/*/bypasses /v2/deployments/*/access-grants': () =>
    import('./hosting/protection/routes.ts'),
  '/v2/deployments/*/request-logs': () => import('./hosting/request-logs/routes.ts'),
  '/v2/deployments/*/traffic': () => import('./hosting/traffic/routes.ts'),
  '/v2/deployments/*/rollout': () => import('./hosting/rollouts/routes.ts'),
  '/v2/deployments/*/metrics': () => import('./hosting/metrics/metrics.routes.ts'),
  '/v1/integrations/forge/githost': () => import('./hosting/git-hosts/routes.ts'),
  '/v2/listeners': () => import('./hosting/listeners/routes.ts'),
  '/v1/sync': () => import('./hosting/sync/routes.ts'),
  '/runs/*': () => import('./tracing/runs/runs.routes.ts'),
  '/runs/*/share /runs/delete /public': () => import('./tracing/shares/shares.routes.ts'),
  '/runs/group /runs/threads': () => import('./tracing/threads/threads.routes.ts'),
  '/v2/runs /v2/traces /v2/threads /v2/sessions /v2/public': () => import('./tracing/runs/v2.routes.ts'),
  '/v2/auth/providers': () => import('./connect/oauth/routes.ts'),
  '/v2/auth/authenticate /v2/auth/wait /v2/auth/callback /v2/auth/tokens': () =>
    import('./connect/oauth/flow.routes.ts'),
  '/.well-known/oauth-client.json': () => import('./connect/oauth/client-document.routes.ts'),
  '/.well-known/jwks.json': () => import('./connect/models/signing-keys.routes.ts'),
  '/v1/model-configurations /v1/model-usage /v1/model-budgets /orgs/current/model-proxy': () =>
    import('./connect/models/routes.ts'),
  '/workspaces/current/secrets': () => import('./connect/models/secrets.routes.ts'),
  '/v2/deployments/*/preview-policy /v2/deployments/*/previews /v2/previews': () =>
    import('./hosting/previews/previews.routes.ts'),
  '/v1/integrations/forge/githost/webhook /v1/integrations/forge/githost/*/webhook': () =>
    import('./hosting/pushes/githost-deliveries.routes.ts'),
  '/v2/admin/fleet /v2/admin/installation /orgs/current/usage': () => import('./monitoring/fleet.routes.ts'),
  '/v2/events': () => import('./people/events/routes.ts'),
  '/v2/alert-rules /v2/alert-settings /v2/incidents /v2/alert-mutes': () => import('./hosting/alerts/routes.ts'),
  '/v2/drains': () => import('./hosting/drains/routes.ts'),
  '/v2/webhooks /.well-known/webhook-keys': () => import('./connect/webhooks/routes.ts'),
  '/v2/channels /channel-links': () => import('./connect/channels/routes.ts'),
  '/info /runs': () => import('./tracing/ingest/ingestion.routes.ts'),
  '/sessions': () => import('./tracing/projects/projects.routes.ts'),
  '/feedback /feedback-configs': () => import('./tracing/feedback/feedback.routes.ts'),
  '/ttl-settings /workspaces/current/ttl-settings /orgs/ttl-settings': () =>
    import('./tracing/retention/ttl-settings.routes.ts'),
  '/datasets': () => import('./tracing/datasets/routes.ts'),
  '/v2/datasets': () => import('./tracing/datasets/v2.routes.ts'),
  '/examples /v1/platform/datasets /v1/platform/attachments': () => import('./tracing/datasets/examples.routes.ts'),
  '/datasets/comparative /datasets/*/comparative': () => import('./tracing/datasets/comparisons.routes.ts'),
  '/datasets/*/share /public/*/datasets /public/*/examples': () => import('./tracing/datasets/shares.routes.ts'),
  '/annotation-queues /v1/platform/annotation-queues': () => import('./tracing/queues/routes.ts'),
  '/annotation-queues/* /v1/platform/annotation-queues': () => import('./tracing/queues/items.routes.ts'),
  '/runs/rules /v2/runs/rules': () => import('./tracing/rules/routes.ts'),
  '/v1/platform/evaluators': () => import('./tracing/rules/online-evaluators.routes.ts'),
  '/sessions/*/insights': () => import('./tracing/insights/routes.ts'),
  '/otel': () => import('./tracing/ingest/otlp/otlp.routes.ts'),
  '/v1/model-proxy': () => import('./connect/models/proxy.routes.ts'),
  '/orgs/current /workspaces': () => import('./people/access/routes.ts'),
  '/v1/platform/orgs/current/access-policies': () => import('./people/access/policies.routes.ts'),
  '/v2/me /sign-in /orgs/current/members/*/sign-in-links': () => import('./people/sign-in/routes.ts'),
  '/device /v2/me/device-requests /v2/me/api-key': () => import('./people/sign-in/device.routes.ts'),
  '/oauth /.well-known/oauth-authorization-server /.well-known/oauth-protected-resource': () =>
    import('./people/authorization-server/routes.ts'),
  '/v2/me/authorization-request /v2/me/authorizations': () =>
    import('./people/authorization-server/authorization.routes.ts'),
  '/v2/trusted-issuers': () => import('./people/authorization-server/trusted-issuers.routes.ts'),
  '/schemas': () => import('./api-docs/declaration-schema.routes.ts'),
  '/healthz /readyz': () => import('./kernel/http/health.routes.ts'),
}

/** Slices that list the operations of all others. */
const overviews = {
  '/v1/audit-logs': loadOnce(async () => {
    const { auditRoutes } = await import('./people/audit/routes.ts')
    return { auditRoutes: auditRoutes(await loadOperationsOf(slices)) }
  }),
  '/openapi.json': loadOnce(async () => {
    const { documentRoutes } = await import('./kernel/http/openapi.ts')
    return { documentRoutes: documentRoutes(buildDocument) }
  }),
  '/mcp': loadOnce(async () => {
    const { mcpRoutes } = await import('./connect/mcp/routes.ts')
    return { mcpRoutes: mcpRoutes({ loadAll: loadOperations, load: loadOperation }) }
  }),
}

/** Finds an operation by method and path, such as `GET /v2/me`. Imports the slices that may serve the path. */
export async function loadOperation(route: string): Promise<Operation | undefined> {
  const [method, path] = route.split(' ') as [string, string]
  const segments = path.split('/')
  const serves = (starts: string) => starts.split(' ').some(start => beginsWith(segments, start.split('/')))
  const files = Object.fromEntries(Object.entries(slices).filter(([starts]) => serves(starts)))
  const operations = await loadOperationsOf(files)
  return operations.find(one => one.path === path && one.method.toUpperCase() === method)
}

type Pause = () => Promise<unknown>
async function loadOperationsOf(files: Record<string, () => Promise<object>>, pause?: Pause): Promise<Operation[]> {
  const operations: Operation[] = []
  for (const load of Object.values(files)) {
    await pause?.()
    operations.push(...listOperations(await load()))
  }
  return operations
}

/** Imports all slices, one after the other. */
export const loadOperations = (pause?: Pause): Promise<Operation[]> =>
  loadOperationsOf({ ...slices, ...overviews }, pause)

async function buildDocument() {
  const { buildOpenApi } = await import('./kernel/http/openapi.ts')
  return buildOpenApi(await loadOperations())
}

type SliceFile = Awaited<ReturnType<(typeof slices)[keyof typeof slices] | (typeof overviews)['/v1/audit-logs']>>
type SlicesOf<File> = File extends unknown ? File[keyof File] : never
/** Every route that takes a key, as clients call it. */
export type Api = ApiOf<SlicesOf<SliceFile>>

/** Tables of the words of vendors. */
const translators = {
  langgraph: loadOnce(async () => (await import('./connect/words/langgraph.ts')).translate),
}

/** Pages of any origin send feedback by links. */
const FEEDBACK_LINK_PATH = '/feedback/tokens/'

/** A host serves `fetch`, and calls `housekeep` every minute, and `look` every ten seconds. */
export function createApp(config: Config, runtime: Platform) {
  const storage = config.s3 ? createBucketStorage(openS3Bucket(config.s3, runtime.storageFetch)) : runtime.storage
  const platform: Platform = { ...runtime, storage }
  const counters = createProcessCounters()
  const connect = loadOnce(async () =>
    (await import('./kernel/db/db.ts')).connect(config, platform.databaseConnections, counters.countTrip),
  )
  const trip: Trip = async (...input) => (await connect())(...input)
  const systemTrip: Trip = async (...input) => (await connect()).asSystem(...input)
  const database = Object.assign(trip, { asSystem: systemTrip })
  for (const notice of config.notices) platform.log({ level: 'warn', notice })
  const createBase = () => {
    const base = new HonoBase<AppEnv>({ router: new SegmentRouter(), getPath: resolvePath })
    base.use(wrapRequest({ config, platform }, counters.countRequest))
    base.use(cors(config.corsOrigins, FEEDBACK_LINK_PATH))
    base.onError((error, c) => respondWithError(c, error, { config, platform }))
    base.notFound(notFound)
    return base
  }
  const app = createBase()
  const services: Services = {
    config,
    platform,
    database,
    sealer: createSealer(config.sealingKeys),
    shareGroups: createShareGroups(platform.clock.now),
    traces: withWarnings(config.clickHouse ? clickHouseTraceStore(config.clickHouse) : postgresTraceStore),
    logs: openLogStore(config.clickHouse, () => platform.clock.now()),
    storeLines: waitUntil => waitUntil?.(loadLineStorer().then(start => start(waitUntil))),
    onSweep: counters.countSwept,
    deliverEvents: async tenant => (await loadDeliverer())(tenant),
    deliverNotices: async tenant => (await loadNoticeDeliverer())(tenant),
    lookAtAlerts: async points => (await loadAlertLooker())(points),
    notifyGitHosts: async ids =>
      (await import('./hosting/previews/git-host-notifier.ts')).notifyGitHosts(services, ids),
    compareRepository: async id => (await import('./hosting/pushes/look-now.ts')).compareNow(services, id),
    compareRepositories: async integration_id =>
      (await import('./hosting/pushes/repository-sweep.ts')).sweepRepositories(services, { integration_id }),
    answerInProcess: (request, env, execution) => answerInOwnWords(request, env as object, execution as never),
  }
  const loadLineStorer = loadOnce(async () => {
    const { createLineStorer } = await import('./hosting/logs/queued-lines.ts')
    return createLineStorer(services)
  })
  const loadDeliverer = loadOnce(async () => {
    const { createEventDeliverer } = await import('./connect/webhooks/delivery-worker.ts')
    const deliver = createEventDeliverer(services)
    return async (tenant: string) => {
      await Promise.all([deliver(tenant), services.deliverNotices!(tenant)])
    }
  })
  const loadNoticeDeliverer = loadOnce(async () => {
    const { createNoticeDeliverer } = await import('./connect/channels/notice-worker.ts')
    return createNoticeDeliverer(services)
  })
  const loadAlertLooker = loadOnce(async () => {
    const { createAlertLooker } = await import('./hosting/alerts/arrivals.ts')
    return createAlertLooker(services)
  })
  const look = async () => (await import('./hosting/alerts/sweep.ts')).lookAtAlerts(services)
  const loadHandler = loadOnce(async () => {
    const { createHandler } = await import('./kernel/http/serve-routes.ts')
    const { createAttemptLog } = await import('./people/audit/attempts.ts')
    return createHandler(services, createAttemptLog(services))
  })
  const mountOperations = createMounter(app, services, loadHandler)
  const pages = {
    '/docs': () => import('./api-docs/docs-page.ts').then(file => file.serveDocsPages(app, buildDocument)),
    '/sign-in /device': () => import('./people/sign-in/pages.ts').then(file => file.serveSignInPages(app, config)),
    '/oauth/authorize': () =>
      import('./people/authorization-server/consent-page.ts').then(file => file.serveConsentPage(app)),
    '/ /ui': () => import('./dashboard/served/shell.ts').then(file => file.serveDashboard(app, platform)),
    '/o /public': () => import('./dashboard/served/client-links.ts').then(file => file.serveClientLinks(app)),
    '/metrics': () =>
      import('./monitoring/metrics-page.ts').then(file => file.serveMetricsPage(app, services, counters)),
  }
  const answerFailing = (error: unknown) =>
    createBase().all('*', () => {
      throw error
    })
  mountOnDemand(
    app,
    [
      ...Object.entries<() => Promise<object>>({ ...slices, ...overviews }).map(([starts, load]) => ({
        starts: starts.split(' '),
        mount: async () => mountOperations(listOperations(await load())),
      })),
      ...Object.entries(pages).map(([starts, mount]) => ({ starts: starts.split(' '), mount })),
    ],
    answerFailing,
  )
  const answerInOwnWords = app.fetch
  app.fetch = acceptWords(answerInOwnWords, config.contractWords, translators, error => answerFailing(error).fetch)
  const sweeps = createSweeps(services)
  const housekeep = async () => {
    const { runSweeps } = await import('./kernel/db/sweep.ts')
    const { recordSweepRuns } = await import('./monitoring/sweep-runs.ts')
    const runs: SweepRun[] = []
    const onRun = (...run: SweepRun) => {
      counters.countSweep(...run)
      runs.push(run)
    }
    await runSweeps(sweeps, onRun).finally(() => recordSweepRuns(services, runs))
  }
  const { traces, logs, shareGroups } = services
  return Object.assign(app, {
    config,
    platform,
    database,
    housekeep,
    look,
    sweeps,
    traces,
    logs,
    shareGroups,
    services,
  })
}

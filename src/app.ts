// The map of the API: what surrounds a request, and one line per slice.
import { HonoBase } from 'hono/hono-base'
import { organizationRoutes, workspaceRoutes } from './access/routes.ts'
import { docsPages } from './dashboard/docs.ts'
import { customHostRoutes } from './deployments/custom-hosts.routes.ts'
import { logRoutes } from './deployments/logs.routes.ts'
import { registryRoutes } from './deployments/registry.routes.ts'
import { deploymentRoutes } from './deployments/routes.ts'
import { sweepRevisions } from './deployments/sweep.ts'
import { tagRoutes } from './deployments/tags.routes.ts'
import { uploadRoutes } from './deployments/uploads.routes.ts'
import { sweepUploads } from './deployments/uploads.ts'
import type { Config } from './env.ts'
import { sweepInstalls } from './integrations/install.ts'
import { integrationRoutes } from './integrations/routes.ts'
import { sealer } from './kernel/crypto.ts'
import { connect } from './kernel/db.ts'
import { cors, edge, failed, notFound } from './kernel/edge.ts'
import { healthRoutes } from './kernel/health.ts'
import { documentRoutes, openApi } from './kernel/openapi.ts'
import { SegmentRouter } from './kernel/router.ts'
import { type Edge, mount, type Operation } from './kernel/routes.ts'
import { storageOf } from './kernel/storage.ts'
import { sweep } from './kernel/sweep.ts'
import { listenerRoutes } from './listeners/routes.ts'
import { flowRoutes } from './oauth/flow.routes.ts'
import { sweepFlows } from './oauth/flow.ts'
import { identityRoutes } from './oauth/identity.routes.ts'
import { sweepProviders } from './oauth/recheck.ts'
import { providerRoutes } from './oauth/routes.ts'
import { sweepDeliveries } from './pushes/deliveries.ts'
import { deliveryRoutes, previewRoutes } from './pushes/routes.ts'
import { sweepPreviews } from './pushes/sweep.ts'
import { syncRoutes } from './sync/routes.ts'

const slices = [
  deploymentRoutes,
  customHostRoutes,
  tagRoutes,
  uploadRoutes,
  registryRoutes,
  logRoutes,
  integrationRoutes,
  listenerRoutes,
  syncRoutes,
  providerRoutes,
  flowRoutes,
  identityRoutes,
  previewRoutes,
  deliveryRoutes,
  organizationRoutes,
  workspaceRoutes,
  healthRoutes,
]
const described = slices.flatMap(slice => slice.operations)

/** Every route, those of the document itself included. */
export const operations: Operation[] = [...described, ...documentRoutes(described).operations]

export function createApp(given: Config, inProcess?: typeof fetch) {
  const config = { ...given, uploads: storageOf(given) }
  const database = connect(config, inProcess)
  for (const notice of config.notices) config.log({ level: 'warn', notice })
  const app = new HonoBase<Edge>({ router: new SegmentRouter() })
  app.use(edge(config))
  app.use(cors(config.corsOrigins))
  app.onError((error, c) => failed(c, error, config))
  app.notFound(notFound)
  docsPages(app, () => openApi(operations))
  const services = { config, database, sealer: sealer(config.sealingKeys) }
  mount(app, operations, services)
  /** The scheduled work, every minute. */
  const housekeep = async () => {
    await Promise.all([
      sweep(database),
      sweepRevisions(services),
      sweepUploads(services),
      sweepFlows(services),
      sweepInstalls(services),
      sweepProviders(services),
      sweepDeliveries(services).then(() => sweepPreviews(services)),
    ])
  }
  return Object.assign(app, { config, database, housekeep })
}

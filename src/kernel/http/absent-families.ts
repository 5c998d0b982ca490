// Families of operations of the reference that are not here, so that a client of it is told which one it asked for.
import { beginsWith } from './mount-on-demand.ts'

/** The families by the starts of their paths. docs/reference/clients.md says why each is absent. */
const FAMILIES: Record<string, string> = {
  '/repos /commits /likes /comments /settings /prompt-webhooks /prompts /v1/platform/hub': 'prompt hub',
  '/v2/sandboxes': 'sandboxes',
  '/agents /v1/fleet': 'agents apart from deployments',
  '/v2/sql': 'queries in SQL',
  '/v2/ai-search': 'search by a model',
  '/v1/platform/issues': 'issues',
  '/v1/platform/product-feedbacks': 'feedback to its makers',
  '/annotation-queues/*/export': 'exports of annotation queues',
  '/v1/platform/annotation-queues/*/items/*/finals': 'final answers of annotation queues',
  '/runs/rules/decision-models': 'decision models',
  '/charts /org-charts': 'charts',
  '/bulk-exports': 'bulk exports',
  '/v1/platform/alerts': 'alerts',
  '/playground-settings': 'playground',
}
const STARTS = Object.entries(FAMILIES).flatMap(([starts, name]) =>
  starts.split(' ').map(start => [start.split('/'), name] as const),
)

export function describeAbsentFamily(path: string): string | undefined {
  const segments = path.split('/')
  const name = STARTS.find(([start]) => beginsWith(segments, start))?.[1]
  return name && `Slipway has no ${name}. /openapi.json and /docs list all paths.`
}

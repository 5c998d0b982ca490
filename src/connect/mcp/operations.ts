// The operations of the API, which the app knows.
import type { Operation } from '../../kernel/http/routes.ts'

export type Operations = {
  loadAll: () => Promise<Operation[]>
  /** By its method and path, such as `GET /v2/deployments/{deployment_id}`. Imports the slices of that path alone. */
  load: (route: string) => Promise<Operation | undefined>
}

// The database of a preview: none, an empty one, or a copy of that of another deployment.
import { type DeploymentType, hasDatabase, type ResourceSpec, withDefaults } from '../../protocol/resources.schema.ts'
import type { Preview } from '../deployments/tables.ts'
import type { PreviewDatabase, previews } from '../pushes/tables.ts'
import type { PolicyRow } from './preview-policy.ts'

type PreviewRow = typeof previews.$inferSelect
/** The deployment whose database a copy is of. */
export type CopySource = {
  id: string
  name: string
  deployment_type: DeploymentType
  resource_spec: ResourceSpec | null
}

/** A request decides for itself. A fork's code never gets the data of another deployment, approved or not. */
export function databaseOf({ fork, request }: PreviewRow, policy: PolicyRow | null): PreviewDatabase | null {
  const database = request?.database === undefined ? (policy?.database ?? null) : request.database
  return fork && database?.mode === 'copy' ? { mode: 'empty' } : database
}

/** The member `database_copy` of the preview of a deployment. */
export const describeCopy = (
  database: PreviewDatabase | null,
  source: CopySource | null,
): Pick<Preview, 'database_copy'> =>
  database?.mode === 'copy' && source
    ? { database_copy: { from_deployment_id: source.id, from_name: source.name, copied_at: null } }
    : {}

const SMALL_DATABASE = { db_storage_gi: 1 } as const

export function applyDatabase(
  spec: ResourceSpec | undefined,
  database: PreviewDatabase | null,
  source: CopySource | null,
): ResourceSpec | undefined {
  if (database === null) return spec
  if (database.mode === 'none')
    return Object.fromEntries(Object.entries(spec ?? {}).filter(([name]) => !name.startsWith('db_'))) as ResourceSpec
  if (database.mode === 'empty' || !source) return hasDatabase(spec) ? spec : { ...spec, ...SMALL_DATABASE }
  // It has room for what it begins with.
  const needed = withDefaults(source.resource_spec ?? {}, source.deployment_type).db_storage_gi
  return { ...spec, db_storage_gi: Math.max(spec?.db_storage_gi ?? 1, needed) }
}

// The environment of an application: its own variables and the documented ones, nothing of the agent's.
import { join } from 'node:path'
import type { RevisionRef } from '../../engine.ts'
import { DEFAULT_PATH } from '../../system/search-path.ts'

export const environmentOf = (
  { deployment_id, revision_id, name, secrets }: RevisionRef & { name: string; secrets: Record<string, string> },
  configured: Record<string, string>,
  {
    folder,
    port,
    database,
    path = DEFAULT_PATH,
  }: { folder: string; port: number; database: string | null; path?: string },
): Record<string, string> => ({
  LANG: 'C.UTF-8',
  ...configured,
  ...secrets,
  PATH: path,
  HOME: join(folder, 'home'),
  TMPDIR: join(folder, 'tmp'),
  PORT: String(port),
  ...(database !== null && { DATABASE_URI: database }),
  SLIPWAY_DEPLOYMENT_ID: deployment_id,
  SLIPWAY_DEPLOYMENT_NAME: name,
  SLIPWAY_REVISION_ID: revision_id,
})

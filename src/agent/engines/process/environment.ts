// The environment of an application: its own variables and the documented ones, nothing of the agent's.
import { join } from 'node:path'
import type { RevisionRef, RevisionSpec } from '../../engine.ts'
import { DEFAULT_PATH } from '../../system/search-path.ts'
import { modelVariables } from '../model-variables.ts'
import { urlAliases } from '../store-variables.ts'
import { tracingVariables } from '../tracing-variables.ts'

export const environmentOf = (
  spec: Pick<RevisionSpec, keyof RevisionRef | 'name' | 'secrets' | 'secret_references' | 'tracing' | 'models_url'>,
  configured: Record<string, string>,
  {
    folder,
    port,
    role,
    database,
    redis = null,
    disks = {},
    tokenFile,
    path = DEFAULT_PATH,
  }: {
    folder: string
    port: number | null
    role: string
    database: string | null
    redis?: string | null
    /** The variables of its disks. */
    disks?: Record<string, string>
    tokenFile: string
    path?: string
  },
): Record<string, string> => ({
  LANG: 'C.UTF-8',
  // Compiled code of Node for the next copies of the revision. It counts to the limit of its folders, and goes with it.
  ...(port !== null && { NODE_COMPILE_CACHE: join(folder, 'home', '.cache', 'node-compile') }),
  ...(database !== null && urlAliases({ DATABASE_URI: database })),
  ...(redis !== null && urlAliases({ REDIS_URI: redis })),
  ...tracingVariables(spec, configured),
  ...configured,
  ...spec.secrets,
  PATH: path,
  HOME: join(folder, 'home'),
  TMPDIR: join(folder, 'tmp'),
  ...(port !== null && { PORT: String(port) }),
  ...(database !== null && { DATABASE_URI: database }),
  ...(redis !== null && { REDIS_URI: redis }),
  ...modelVariables(spec, tokenFile),
  ...disks,
  SLIPWAY_ROLE: role,
  SLIPWAY_DEPLOYMENT_ID: spec.deployment_id,
  SLIPWAY_DEPLOYMENT_NAME: spec.name,
  SLIPWAY_REVISION_ID: spec.revision_id,
})

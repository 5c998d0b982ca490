// What an application sees in its environment: its own, and the few variables that README.md documents. Nothing of ours.
import { dirname, join } from 'node:path'
import type { RevisionRef } from '../engine.ts'

/** The programs of the system, and the Node that runs us with the npm beside it, unless that is in another folder. */
export const searchPath = (bin = dirname(process.execPath)) => [bin, '/usr/local/bin', '/usr/bin', '/bin'].join(':')
export const DEFAULT_PATH = searchPath()

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

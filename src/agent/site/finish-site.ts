// The artifact of a static site: what its build made, in a folder of the agent's own beside the tree.
import { dirname, join } from 'node:path'
import type { Site } from '../../build-plan/build-plan.ts'
import type { Artifact, BuildTask } from '../engine.ts'
import { removeRecursively, stampFolder } from '../system/files.ts'
import type { User } from '../system/users.ts'
import { copySite, MAX_SITE_FILES } from './copy-site.ts'

type FinishOptions = { task: BuildTask; user?: User | undefined; disk_mb: number }

/** `site.folder` is relative to the tree, which is not needed afterwards. */
export async function finishSite(
  tree: string,
  { folder, fallback }: Site,
  { task, user, disk_mb }: FinishOptions,
): Promise<Pick<Artifact, 'location' | 'start_command' | 'health_path' | 'stamp' | 'site'>> {
  const location = join(dirname(tree), 'site')
  try {
    await copySite({ tree, folder, fallback, user }, location, task, { files: MAX_SITE_FILES, megabytes: disk_mb })
  } catch (error) {
    await removeRecursively(location)
    throw error
  }
  const site = { folder: location, fallback }
  return { location, start_command: null, health_path: null, stamp: await stampFolder(location), site }
}

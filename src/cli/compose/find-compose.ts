// Decides whether a deploy is of a compose file: it is named, or its folder cannot be deployed by itself.
import { statSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { COMPOSE_FILES } from '../../build-plan/providers/container-files.ts'
import { listFiles } from '../archive.ts'
import type { SourceFlags } from '../deploy-plan.ts'
import { usageError } from '../failure.ts'
import { tryToPlan } from '../folder-plan.ts'

const statOf = (path: string) => statSync(path, { throwIfNoEntry: false })

/** `given`: a file, or a folder. */
export function findComposeFile(given: string, flags: SourceFlags): string | undefined {
  const found = findFile(given, flags)
  if (found !== undefined && (flags.attachDatabase ?? flags.database ?? flags.redis ?? flags.disk) !== undefined)
    throw usageError('A compose file names its own databases and disks. Remove the options that ask for them.')
  return found
}

function findFile(given: string, { image, repo, branch, template, root }: SourceFlags): string | undefined {
  if ([image, repo, branch, template].some(one => one !== undefined)) return undefined
  if (statOf(given)?.isFile()) {
    if (!/\.ya?ml$/i.test(given)) return undefined
    if (root !== undefined) throw usageError('A compose file names the folders of its services. Remove --root.')
    return given
  }
  if (root !== undefined) return undefined
  const name = COMPOSE_FILES.find(file => statOf(join(given, file))?.isFile())
  if (name === undefined) return undefined
  const folder = resolve(given)
  return 'refusal' in tryToPlan(folder, { files: listFiles(folder) }) ? join(given, name) : undefined
}

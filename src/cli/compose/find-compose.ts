// Decides whether a deploy is of a compose file: it is named, or its folder cannot be deployed by itself.
import { statSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { COMPOSE_FILES } from '../../build-plan/providers/container-files.ts'
import { listFiles } from '../archive.ts'
import { tryToPlan } from '../folder-plan.ts'

const statOf = (path: string) => statSync(path, { throwIfNoEntry: false })

/** `given`: a file, or a folder. */
export function findComposeFile(given: string): string | undefined {
  if (statOf(given)?.isFile()) return /\.ya?ml$/i.test(given) ? given : undefined
  const name = COMPOSE_FILES.find(file => statOf(join(given, file))?.isFile())
  if (name === undefined) return undefined
  const folder = resolve(given)
  return 'refusal' in tryToPlan(folder, { files: listFiles(folder) }) ? join(given, name) : undefined
}

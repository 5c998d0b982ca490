// A folder with a langgraph.json: the folders beside it that its archive needs, and the variables that it names.
import { existsSync, readFileSync, realpathSync, statSync } from 'node:fs'
import { homedir } from 'node:os'
import { join, relative, resolve, sep } from 'node:path'
import { GRAPH_FILE, listNeededFolders, readGraphEnvironment } from '../build-plan/providers/graphs/graph-file.ts'
import type { Variable } from './deploy-source.ts'
import { usageError } from './failure.ts'
import type { Output } from './output.ts'
import { toVariables } from './variables.ts'

type GraphFolder = {
  /** The folder that is packed: the one that all needed folders have in common. */
  root: string
  /** The needed folders in it. Empty: all of it. */
  only: string[]
  /** The path of the file in it. Null: it is found without. */
  platform_config_path: string | null
}

export function findGraphFolder(folder: string): GraphFolder {
  const alone = { root: folder, only: [], platform_config_path: null }
  const text = readGraphText(folder)
  const needed = (text === null ? null : listNeededFolders(text))?.map(path => resolve(folder, path)) ?? []
  const outside = needed.filter(path => !isIn(folder, path) && existsSync(path))
  if (outside.length === 0) return alone
  let root = folder
  while (!outside.every(path => isIn(root, path))) root = resolve(root, '..')
  const foreign = outside.find(path => isForeign(folder, path))
  if (foreign !== undefined)
    throw usageError(
      `${GRAPH_FILE} needs ${foreign}, which is not of its project. Remove it from the file, or deploy another folder.`,
    )
  const inRoot = (path: string) => relative(root, path).replaceAll(sep, '/')
  const only = [folder, ...outside].map(inRoot)
  return {
    root,
    only: only.includes('') ? [] : only,
    platform_config_path: [inRoot(folder), GRAPH_FILE].join('/'),
  }
}

const isIn = (folder: string, path: string) =>
  path === folder || path.startsWith(folder.endsWith(sep) ? folder : folder + sep)

/** The file may be written by somebody else, and name folders of this machine that no project has. */
function isForeign(folder: string, path: string): boolean {
  if (isIn(path, homedir())) return true
  const parents = folder.split(sep).map((_, i, names) => names.slice(0, i + 1).join(sep) || sep)
  const repository = parents.findLast(parent => !isIn(parent, homedir()) && existsSync(join(parent, '.git')))
  if (repository !== undefined) return !isIn(repository, path)
  return relative(folder, path)
    .split(sep)
    .some(name => name.startsWith('.') && name !== '..')
}

/** Leaves out those of the platform. A file of them is not in the archive, so that they become secrets. */
export function readGraphVariables(folder: string, out: Pick<Output, 'note'>): Variable[] {
  if (readGraphText(folder) === null) return []
  // A link may lead out of the folder, such as to the credentials of another program.
  const read = (path: string) => {
    const file = join(folder, path)
    return isFile(file) && isIn(realpathSync(folder), realpathSync(file)) ? readFileSync(file, 'utf8') : null
  }
  const { file, variables, reserved } = readGraphEnvironment({ read }, GRAPH_FILE)
  const names = Object.keys(variables)
  if (reserved.length > 0) out.note(`Left out, as the platform sets it: ${reserved.join(', ')}`)
  if (names.length > 0) out.note(`Set as secrets, from ${file ?? `\`env\` of ${GRAPH_FILE}`}: ${names.join(', ')}`)
  return toVariables(variables)
}

const isFile = (path: string) => statSync(path, { throwIfNoEntry: false })?.isFile() === true

const readGraphText = (folder: string): string | null => {
  const file = join(folder, GRAPH_FILE)
  return isFile(file) ? readFileSync(file, 'utf8') : null
}

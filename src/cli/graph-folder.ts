// A folder with a langgraph.json: the folders beside it that its archive needs, and the variables that it names.
import { existsSync, readFileSync, statSync } from 'node:fs'
import { join, relative, resolve, sep } from 'node:path'
import { GRAPH_FILE, listNeededFolders, readGraphEnvironment } from '../build-plan/providers/graphs/graph-file.ts'
import type { Variable } from './deploy-source.ts'
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
  const outside = needed.filter(path => path !== folder && !path.startsWith(folder + sep) && existsSync(path))
  if (outside.length === 0) return alone
  let root = folder
  while (!outside.every(path => path === root || path.startsWith(root === '/' ? root : root + sep)))
    root = resolve(root, '..')
  const inRoot = (path: string) => relative(root, path).replaceAll(sep, '/')
  const only = [folder, ...outside].map(inRoot)
  return {
    root,
    only: only.includes('') ? [] : only,
    platform_config_path: [inRoot(folder), GRAPH_FILE].join('/'),
  }
}

/** Leaves out those of the platform. A file of them is not in the archive, so that they become secrets. */
export function readGraphVariables(folder: string, out: Pick<Output, 'note'>): Variable[] {
  if (readGraphText(folder) === null) return []
  const read = (path: string) => (isFile(join(folder, path)) ? readFileSync(join(folder, path), 'utf8') : null)
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

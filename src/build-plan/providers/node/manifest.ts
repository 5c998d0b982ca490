// package.json, with only those members that have the type that they should have.
import type { Folder } from '../../source-files.ts'

export type Manifest = {
  name: string | null
  scripts: Record<string, string>
  /** All kinds of them. */
  dependencies: Record<string, string>
  packageManager: string | null
  engines: Record<string, string>
  main: string | null
  workspaces: string[]
}

export function readManifest(folder: Folder): Manifest | null {
  if (!folder.has('package.json')) return null
  const value = folder.readJson('package.json') ?? {}
  const { name, packageManager, main, workspaces } = value
  const patterns = Array.isArray(workspaces) ? workspaces : Object(workspaces).packages
  return {
    name: toText(name),
    scripts: toTexts(value.scripts),
    dependencies: {
      ...toTexts(value.devDependencies),
      ...toTexts(value.optionalDependencies),
      ...toTexts(value.dependencies),
    },
    packageManager: toText(packageManager),
    engines: toTexts(value.engines),
    main: toText(main),
    workspaces: Array.isArray(patterns) ? patterns.filter(pattern => typeof pattern === 'string') : [],
  }
}

const toText = (value: unknown) => (typeof value === 'string' && value !== '' ? value : null)
const toTexts = (value: unknown): Record<string, string> =>
  Object.fromEntries(
    Object.entries(Object(value)).filter((entry): entry is [string, string] => typeof entry[1] === 'string'),
  )

// The packages of a workspace: which of them is the application, and what has to be built before it.
import type { Folder } from '../../source-files.ts'
import { matchPatterns } from '../../workspace-patterns.ts'
import { findFramework, hasConfiguration } from './frameworks.ts'
import { type Manifest, readManifest } from './manifest.ts'

export type Package = { folder: Folder; manifest: Manifest }

/** Empty unless the folder is the root of a workspace. */
export function listPackages(root: Folder): Package[] {
  const patterns = [...(readManifest(root)?.workspaces ?? []), ...readPnpmPatterns(root)]
  if (patterns.length === 0) return []
  const isMember = matchPatterns(patterns)
  return root.all().flatMap((file): Package[] => {
    const path = /^(.+)\/package\.json$/.exec(file)?.[1]
    if (path === undefined || /(^|\/)node_modules\//.test(path) || !isMember(path)) return []
    const folder = root.folder(path)
    const manifest = readManifest(folder)
    return manifest ? [{ folder, manifest }] : []
  })
}

/** The list `packages:` of pnpm-workspace.yaml. */
function readPnpmPatterns(root: Folder): string[] {
  const lines = (root.read('pnpm-workspace.yaml') ?? '').split(/\r?\n/)
  const begin = lines.findIndex(line => line.startsWith('packages:')) + 1
  const end = lines.findIndex((line, i) => i >= begin && /^[^\s#-]/.test(line))
  const items = begin === 0 ? [] : lines.slice(begin, end < 0 ? undefined : end).map(line => line.trim())
  return items
    .filter(item => item.startsWith('-'))
    .map(item => item.slice(1).split(' #', 1)[0]!.trim().replace(/^['"]/, '').replace(/['"]$/, ''))
}

/** Packages that could be deployed: they have a start script, or a framework. */
export function findApplications(root: Folder, packages: Package[]): Package[] {
  const shared = readManifest(root)?.dependencies ?? {}
  return packages.filter(
    ({ folder, manifest }) =>
      manifest.scripts.start !== undefined ||
      findFramework(manifest) !== undefined ||
      (hasConfiguration(folder) && findFramework({ ...manifest, dependencies: shared }) !== undefined),
  )
}

/** Packages with a build that the application depends on, in the order in which they are built. */
export function findBuiltBefore(app: Manifest, packages: Package[]): Package[] {
  const byName = new Map(packages.map(entry => [entry.manifest.name, entry]))
  const ordered = new Set<Package>()
  const seen = new Set<string>()
  const visit = (manifest: Manifest) => {
    for (const name of Object.keys(manifest.dependencies)) {
      const found = byName.get(name)
      if (!found || seen.has(name)) continue
      seen.add(name)
      visit(found.manifest)
      ordered.add(found)
    }
  }
  visit(app)
  return [...ordered].filter(({ manifest }) => manifest.scripts.build !== undefined && manifest !== app)
}

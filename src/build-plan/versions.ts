// The versions of tools that a source names: in files of one tool, and in those of version managers.
import { type Tool, type ToolName, toolNames } from './build-plan.ts'
import type { Folder } from './source-files.ts'
import { readToml } from './toml.ts'

/** The names that version managers have for tools that we call otherwise. */
const OTHER_NAMES: Partial<Record<ToolName, string[]>> = { node: ['nodejs'], go: ['golang'], rust: ['rust'] }

/** A file with a version and nothing else, outwards from the application, then the files of mise and asdf. */
export function findVersion(app: Folder, name: ToolName, files: string[] = []): Tool {
  for (const folder of app.outwards()) {
    for (const file of files) {
      const version = /^[ \t]*v?([^\s#]+)/m.exec(folder.read(file) ?? '')?.[1]
      if (version) return { name, version, from: file }
    }
    for (const [file, version] of managedVersions(folder, name)) if (version) return { name, version, from: file }
  }
  return { name, version: null, from: null }
}

/** Tools besides the known ones that the files of version managers list. */
export const findExtraTools = (app: Folder, known: Tool[]): Tool[] =>
  toolNames
    .filter(name => !known.some(tool => tool.name === name))
    .map(name => findVersion(app, name))
    .flatMap(tool => (tool.version === null ? [] : { ...tool, isExtra: true as const }))

function managedVersions(folder: Folder, name: ToolName): [string, string | undefined][] {
  const names = [name, ...(OTHER_NAMES[name] ?? [])]
  const mise = ['mise.toml', '.mise.toml'].flatMap((file): [string, string | undefined][] => {
    const { tools } = readToml(folder, file) ?? {}
    return names.map(key => [file, versionOf(Object(tools)[key])])
  })
  const versions = folder.parse('.tool-versions', readLines)
  return [...mise, ...names.map((key): [string, string | undefined] => ['.tool-versions', versions?.get(key)])]
}

/** A name and a version on each line. The first of a name counts. */
function readLines(text: string): Map<string, string> {
  const versions = new Map<string, string>()
  for (const line of text.split('\n')) {
    const [name = '', version] = line.trim().split(/\s+/, 2)
    if (version !== undefined && !versions.has(name)) versions.set(name, version)
  }
  return versions
}

function versionOf(value: unknown): string | undefined {
  if (typeof value === 'string') return value
  if (Array.isArray(value)) return versionOf(value[0])
  const { version } = Object(value)
  return typeof version === 'string' ? version : undefined
}

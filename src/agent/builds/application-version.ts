// Finds the version that a source gives itself outside of the runtime configuration. A file that cannot be read has
// none: a version is no reason to fail a build.
import { join } from 'node:path'
import { readInside } from '../system/files.ts'

const MAX_BYTES = 256_000
/** The versions that a report takes. */
const VERSION = /^[!-~]{1,128}$/
const TAG = /^refs\/tags\/(.+)$/

export function findApplicationVersion(folder: string, root: string, ref: string | undefined): string | null {
  const found = [
    readPackageVersion(readInside(folder, join(root, 'package.json'), MAX_BYTES)?.text),
    readProjectVersion(readInside(folder, join(root, 'pyproject.toml'), MAX_BYTES)?.text),
    TAG.exec(ref ?? '')?.[1],
  ]
  return found.find(version => version !== undefined && VERSION.test(version)) ?? null
}

function readPackageVersion(text: string | undefined): string | undefined {
  try {
    const { version } = JSON.parse(text ?? '{}') as { version?: unknown }
    return typeof version === 'string' ? version : undefined
  } catch {
    return undefined
  }
}

const TABLE = /^\s*\[([^[\]]+)\]/
const VERSION_LINE = /^\s*version\s*=\s*["']([^"']*)["']/

/** Reads one line, so it needs no parser of TOML: `version` of `[project]` or `[tool.poetry]`. */
function readProjectVersion(text: string | undefined): string | undefined {
  let table = ''
  for (const line of text?.split('\n') ?? []) {
    table = TABLE.exec(line)?.[1]?.trim() ?? table
    const version = VERSION_LINE.exec(line)?.[1]
    if (version !== undefined && (table === 'project' || table === 'tool.poetry')) return version
  }
  return undefined
}

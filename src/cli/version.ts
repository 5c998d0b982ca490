// The version of this command line, and its User-Agent.
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** Reads the package.json beside the bundle, or that of the repository. */
function readVersion(): string {
  for (let folder = dirname(fileURLToPath(import.meta.url)); ; folder = dirname(folder)) {
    const file = join(folder, 'package.json')
    if (existsSync(file)) return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version
    if (folder === dirname(folder)) return 'unknown'
  }
}

export const VERSION = readVersion()
export const USER_AGENT = `slipway-cli/${VERSION} node/${process.versions.node}`

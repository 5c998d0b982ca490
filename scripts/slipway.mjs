#!/usr/bin/env node
// `npx slipway` in a checkout: runs the bundled command line, and bundles it first if its source is newer.
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const BUNDLE = join(ROOT, 'dist/cli/slipway.mjs')
const modifiedAt = path => (existsSync(path) ? statSync(path).mtimeMs : 0)

const sources = ['src/cli', 'src/client', 'src/protocol', 'package.json', 'scripts/cli-package.ts']
  .map(path => join(ROOT, path))
  .flatMap(path => [path, ...(path.endsWith('.ts') || path.endsWith('.json') ? [] : listFiles(path))])
const newest = Math.max(...sources.map(modifiedAt))

function listFiles(folder) {
  return readdirSync(folder, { recursive: true }).map(name => join(folder, name))
}

if (newest > modifiedAt(BUNDLE)) {
  // This Node may be too old for TypeScript; the project brings one that is not.
  const own = join(ROOT, 'node_modules/node/bin/node')
  const script = join(ROOT, 'scripts/cli-package.ts')
  const { status } = spawnSync(existsSync(own) ? own : process.execPath, [script], { stdio: ['ignore', 'ignore', 2] })
  if (status !== 0 && !existsSync(BUNDLE)) {
    console.error(`The command line could not be bundled. Run \`npm ci\` in ${ROOT} first.`)
    process.exit(1)
  }
}
// For the next command that an error names.
if (process.env.npm_command === 'exec')
  process.env.SLIPWAY_COMMAND = process.cwd().startsWith(ROOT) ? 'npx slipway' : `npx --yes ${ROOT}`
await import(pathToFileURL(BUNDLE).href)

// The server of graphs as a folder that applications can read and start: its sources, the packages that it imports and
// a program `slipway-graphs`. The executor of JavaScript has packages of its own, which npm installs by a lock file.
import { createHash } from 'node:crypto'
import * as fs from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { PermanentError } from '../engine.ts'
import { readJson } from '../system/files.ts'

const SOURCES = fileURLToPath(new URL('../../graphs/', import.meta.url))
const LAUNCHER = fileURLToPath(new URL('./graph-launcher.ts', import.meta.url))
/** Packages of this installation, with all that they depend on. */
const PACKAGES = ['@hono/node-server', 'hono', 'pg', 'zod']
/** The folder of the packages of JavaScript, in that of the server. */
export const JAVASCRIPT_RUNTIME = 'graphs/runtimes/javascript'
export const INSTALL_RUNTIME = 'npm ci --ignore-scripts --no-audit --no-fund --omit=dev'

const launcher = (host: string) => `#!/bin/sh
# slipway-graphs FILE: serves the graphs of the file. A process of the type queue runs them, and listens on nothing.
if [ "$SLIPWAY_ROLE" = queue ]; then export GRAPHS_ROLE=worker; fi
folder=$(dirname "$(dirname "$(readlink -f "$0")")")
export GRAPHS_RUNTIME="$folder/graphs/runtimes" HOST="\${HOST:-${host}}"
exec node "$folder/launcher.ts" "$@"
`

/** `host`: the address on which it listens. */
export function copyGraphServer(folder: string, host: string): void {
  fs.cpSync(SOURCES, join(folder, 'graphs'), { recursive: true, filter: path => !path.includes('/node_modules') })
  fs.copyFileSync(LAUNCHER, join(folder, 'launcher.ts'))
  for (const [name, from] of findPackages())
    fs.cpSync(from, join(folder, 'node_modules', name), {
      recursive: true,
      dereference: true,
      filter: path => !path.slice(from.length).includes('/node_modules'),
    })
  fs.writeFileSync(join(folder, 'package.json'), '{"private": true, "type": "module"}\n')
  fs.mkdirSync(join(folder, 'bin'), { recursive: true })
  fs.writeFileSync(join(folder, 'bin/slipway-graphs'), launcher(host), { mode: 0o755 })
  makeReadable(folder)
}

/** Another release of the server is another folder. */
export function hashGraphServer(): string {
  const hash = createHash('sha256')
  const files = fs
    .readdirSync(SOURCES, { recursive: true, encoding: 'utf8' })
    .filter(path => !path.includes('node_modules'))
  for (const path of files.sort()) {
    const file = join(SOURCES, path)
    if (fs.statSync(file).isFile()) hash.update(path).update(fs.readFileSync(file))
  }
  hash.update(launcher('')).update(fs.readFileSync(LAUNCHER))
  for (const name of PACKAGES) hash.update(versionOf(findPackage(name, SOURCES)))
  return hash.digest('hex').slice(0, 16)
}

const versionOf = (folder: string) => readJson<{ version: string }>(join(folder, 'package.json'))!.version

type Manifest = { dependencies?: object; optionalDependencies?: object }

function findPackages(): Map<string, string> {
  const found = new Map<string, string>()
  const add = (name: string, from: string) => {
    if (found.has(name)) return
    const folder = findPackage(name, from)
    found.set(name, folder)
    const { dependencies = {} } = readJson<Manifest>(join(folder, 'package.json'))!
    for (const dependency of Object.keys(dependencies)) add(dependency, folder)
  }
  for (const name of PACKAGES) add(name, SOURCES)
  return found
}

function findPackage(name: string, from: string): string {
  for (let at = from; ; at = dirname(at)) {
    const folder = join(at, 'node_modules', name)
    if (fs.existsSync(join(folder, 'package.json'))) return folder
    if (at === dirname(at)) throw new PermanentError(`This agent was installed without \`${name}\`. Install it again.`)
  }
}

function makeReadable(path: string): void {
  const stat = fs.lstatSync(path)
  if (stat.isSymbolicLink()) return
  fs.chmodSync(path, stat.mode | (stat.isDirectory() ? 0o555 : 0o444))
  if (stat.isDirectory()) for (const name of fs.readdirSync(path)) makeReadable(join(path, name))
}

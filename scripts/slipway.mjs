#!/usr/bin/env node
// `npx slipway` in a checkout: the programs of an installation that src/host/commands.json lists, and the command line.
import { spawn, spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const BUNDLE = join(ROOT, 'dist/cli/slipway.mjs')
const BUNDLER = join(ROOT, 'node_modules/esbuild')
// This Node may be too old for TypeScript; the project brings one that is not.
const OWN_NODE = join(ROOT, 'node_modules/node/bin/node')
const NODE = existsSync(OWN_NODE) ? OWN_NODE : process.execPath

const programs = JSON.parse(readFileSync(join(ROOT, 'src/host/commands.json'), 'utf8'))
if (Object.hasOwn(programs, process.argv[2] ?? '')) runProgram()
else await runCommandLine()

/** After the help of the command line, which does not know them. */
function listPrograms() {
  const lines = Object.entries(programs).map(([name, { about }]) => `  ${name.padEnd(46)}${about}`)
  console.log(`\nRun an installation, in this checkout:\n${lines.join('\n')}`)
}

function runProgram() {
  const options = process.argv[2] === 'start' ? ['--max-semi-space-size=16'] : []
  const main = join(ROOT, 'src/host/main.mjs')
  const child = spawn(NODE, [...options, main, ...process.argv.slice(2)], { stdio: 'inherit' })
  // A terminal sends Ctrl-C to both; a service manager may send its signal to this process alone.
  process.on('SIGINT', () => {})
  for (const signal of ['SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal))
  child.on('exit', (code, signal) => process.exit(code ?? (signal === 'SIGINT' ? 130 : 143)))
}

/** Bundles it first if its source is newer than the bundle. */
async function runCommandLine() {
  // `npm prune --omit=dev` removes what bundles it, and leaves the bundle.
  if (existsSync(BUNDLER) && newestSource() > modifiedAt(BUNDLE))
    spawnSync(NODE, [join(ROOT, 'scripts/cli-package.ts')], { stdio: ['ignore', 'ignore', 2] })
  if (!existsSync(BUNDLE)) {
    console.error(`The command line is not bundled. Run \`npm ci && npm run cli:package\` in ${ROOT} first.`)
    process.exit(1)
  }
  // For the next command that an error names.
  if (process.env.npm_command === 'exec')
    process.env.SLIPWAY_COMMAND = process.cwd().startsWith(ROOT)
      ? 'npx slipway'
      : `npx --yes ${ROOT.replace(/\/$/, '')}`
  if (process.argv.length === 3 && ['--help', '-h', 'help'].includes(process.argv[2])) process.on('exit', listPrograms)
  await import(pathToFileURL(BUNDLE).href)
}

function newestSource() {
  const sources = [
    'src/cli',
    'src/client',
    'src/build-plan',
    'src/protocol',
    'package.json',
    'scripts/cli-package.ts',
    'scripts/npm-package.ts',
  ]
    .map(path => join(ROOT, path))
    .flatMap(path => [path, ...(path.endsWith('.ts') || path.endsWith('.json') ? [] : listFiles(path))])
  return Math.max(...sources.map(modifiedAt))
}

function modifiedAt(path) {
  return existsSync(path) ? statSync(path).mtimeMs : 0
}

function listFiles(folder) {
  return readdirSync(folder, { recursive: true }).map(name => join(folder, name))
}

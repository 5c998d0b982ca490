// `npm start` runs the bundle of the server while that is current, in a project with a server of a few lines.
import { spawnSync } from 'node:child_process'
import * as fs from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'

const ROOT = join(import.meta.dirname, '../..')
const COPIED = [
  'scripts/server-build.mjs',
  'src/host/require-node.cjs',
  'src/host/require-packages.cjs',
  'src/host/require-version.cjs',
  'src/host/resolve-drizzle-once.ts',
  'src/host/start-node.mjs',
]
const SERVER = `import { fail } from './fail.ts'

type Kind = 'sources' | 'bundle'
const kind: Kind = import.meta.filename.endsWith('.ts') ? 'sources' : 'bundle'
console.log(kind, import.meta.main ?? false)
fail()
`
const FAIL =
  'export interface Thrown extends Error {}\n\nexport function fail(): never {\n  throw new TypeError("no")\n}\n'

const folder = fs.mkdtempSync(join(tmpdir(), 'slipway-bundle-'))
const inFolder = (path: string) => join(folder, path)
const write = (path: string, text: string) => fs.writeFileSync(inFolder(path), text)
const run = (file: string, ...args: string[]) =>
  spawnSync(process.execPath, [inFolder(file), ...args], { cwd: folder, encoding: 'utf8' })
const build = () => run('scripts/server-build.mjs')
const start = () => run('src/host/start-node.mjs')
const touch = (path: string, seconds: number) => {
  const time = fs.statSync(inFolder('dist/server/node.mjs')).mtimeMs / 1000 + seconds
  fs.utimesSync(inFolder(path), time, time)
}

beforeAll(() => {
  for (const file of COPIED) {
    fs.mkdirSync(dirname(inFolder(file)), { recursive: true })
    fs.copyFileSync(join(ROOT, file), inFolder(file))
  }
  fs.symlinkSync(join(ROOT, 'node_modules'), inFolder('node_modules'))
  for (const name of ['package.json', 'package-lock.json']) write(name, '{ "type": "module" }\n')
})
beforeEach(() => {
  // Each is older than the next build: a test may have dated it into the future.
  write('src/host/node.ts', SERVER)
  write('src/host/fail.ts', FAIL)
  expect(build().status).toBe(0)
})
afterAll(() => fs.rmSync(folder, { recursive: true }))

test('the bundle runs, is not the main module, and names the sources in stacks', () => {
  const { stdout, stderr } = start()
  expect(stdout).toBe('bundle false\n')
  expect(stderr).toContain(`TypeError: no\n    at fail (file://${fs.realpathSync(inFolder('src/host/fail.ts'))}:4:`)
  expect(stderr).toContain(`${fs.realpathSync(inFolder('src/host/node.ts'))}:6:1`)
})

test('a stack names the bundle if its map is gone', () => {
  fs.rmSync(inFolder('dist/server/node.mjs.map'))
  expect(start().stderr).toContain('at fail (file://')
})

test.each(['src/host/fail.ts', 'src/host/node.ts'])('a newer %s: the sources run', file => {
  touch(file, 0)
  expect(start().stdout).toMatch(/^bundle/)
  touch(file, 1)
  expect(start().stdout).toMatch(/^sources/)
})

test('other packages: the sources run', () => {
  touch('package-lock.json', 1)
  expect(start().stdout).toMatch(/^bundle/)
  write('package-lock.json', '{ "lockfileVersion": 3 }\n')
  expect(start().stdout).toMatch(/^sources/)
})

test('a source or the bundle is gone: the sources run', () => {
  write('src/host/fail.ts', `export * from './other.ts'\n`)
  write('src/host/other.ts', FAIL)
  build()
  fs.rmSync(inFolder('src/host/other.ts'))
  expect(start().stdout + start().stderr).not.toMatch(/^bundle/)
  write('src/host/fail.ts', FAIL)
  fs.rmSync(inFolder('dist'), { recursive: true })
  expect(start().stdout).toMatch(/^sources/)
})

test('the bundle of an image, which has no list of sources, runs', () => {
  touch('src/host/fail.ts', 1)
  fs.rmSync(inFolder('dist/server/inputs.json'))
  expect(start().stdout).toMatch(/^bundle/)
})

test('an installation without a bundler succeeds, and `npm run build:server` says why it does not', () => {
  fs.renameSync(inFolder('node_modules'), inFolder('others'))
  const [optional, required] = [run('scripts/server-build.mjs', '--if-possible'), build()]
  fs.renameSync(inFolder('others'), inFolder('node_modules'))
  expect([optional.status, required.status]).toEqual([0, 1])
  expect(required.stderr).toContain('esbuild')
})

// Packages are installed, reused by a second build with the same lock file, and built: with npm, without a network.
import { createHash, randomUUID } from 'node:crypto'
import * as fs from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { packTar } from 'modern-tar'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { buildVariables } from '../../src/agent/builds/build-variables.ts'
import { withModuleCache } from '../../src/agent/builds/module-cache.ts'
import { planSource } from '../../src/agent/builds/source-plan.ts'
import type { BuildTask } from '../../src/agent/engine.ts'
import { prepare } from '../../src/agent/engines/process/prepare.ts'
import { planBuild } from '../../src/build-plan/plan-build.ts'
import { makeUnit, makeTempFolder as newFolder } from '../support/process-engine.ts'

let home: string
let lines: string[]
let task: BuildTask
let builds = 0
beforeEach(() => {
  home = newFolder()
  lines = []
  const log = (message: string) => void lines.push(message)
  task = { log, signal: new AbortController().signal, cache: join(home, 'cache'), runningFolder: join(home, 'running') }
})
afterEach(() => fs.rmSync(home, { recursive: true, force: true }))

/** Writes an application that depends on a package in its own folder, with a lock file in npm's format. */
async function writeSource(code: string, more: { package?: object; lock?: object } = {}): Promise<string> {
  const folder = join(home, `tree-${++builds}`)
  fs.mkdirSync(folder)
  const file = (name: string, body: string) => ({
    header: { name, size: Buffer.byteLength(body), type: 'file' as const, mtime: new Date(0) },
    body,
  })
  const dependencyManifest = '{"name": "dep", "version": "1.0.0"}'
  const packed = gzipSync(
    await packTar([file('package/package.json', dependencyManifest), file('package/index.js', code)]),
  )
  const integrity = `sha512-${createHash('sha512').update(packed).digest('base64')}`
  const manifest = { name: 'shop', version: '1.0.0', dependencies: { dep: 'file:dep.tgz' }, ...more.package }
  const dep = { version: '1.0.0', resolved: 'file:dep.tgz', integrity, ...more.lock }
  const lock = { ...manifest, lockfileVersion: 3, requires: true, packages: { '': manifest, 'node_modules/dep': dep } }
  fs.writeFileSync(join(folder, 'dep.tgz'), packed)
  fs.writeFileSync(join(folder, 'package.json'), JSON.stringify(manifest))
  fs.writeFileSync(join(folder, 'package-lock.json'), JSON.stringify(lock))
  return folder
}

const treeOf = (folder: string, build_command: string | null, env = {}) => ({
  folder,
  env,
  build_command,
  install_command: null,
  start_command: 'node .',
  commit: null,
  version: null,
  configuration_path: null,
  health_path: null,
})
async function build(folder: string, build_command: string | null = null, env = {}) {
  lines.length = 0
  const unit = makeUnit({ deployment_id: randomUUID(), revision_id: randomUUID() })
  await prepare(unit, treeOf(folder, build_command, env), task, { disk_mb: 64, toolsFolder: join(home, 'tools') })
  const code = fs.readFileSync(join(folder, 'node_modules/dep/index.js'), 'utf8').trim()
  return { code, isReused: lines.some(line => line.startsWith('Reusing node_modules')) }
}

test('node_modules of an earlier build are reused unless the lock file or the environment changed', async () => {
  const modify = 'echo modified > node_modules/dep/index.js'
  expect(await build(await writeSource('one'), modify)).toEqual({ code: 'modified', isReused: false })
  expect(await build(await writeSource('one'), modify)).toEqual({ code: 'modified', isReused: true })
  expect(await build(await writeSource('one'))).toEqual({ code: 'one', isReused: true })
  expect(await build(await writeSource('one'), null, { NODE_ENV: 'production' })).toEqual({
    code: 'one',
    isReused: false,
  })
  expect(await build(await writeSource('two'))).toEqual({ code: 'two', isReused: false })
  expect(await build(await writeSource('two'))).toEqual({ code: 'two', isReused: true })
  expect(fs.readdirSync(join(task.cache, 'modules'))).toHaveLength(1)
})

test('a build script has the development dependencies, also in production, unless it is switched off', async () => {
  const scripts = { build: 'echo built > node_modules/dep/index.js' }
  const manifest = { dependencies: {}, devDependencies: { dep: 'file:dep.tgz' }, scripts }
  const folder = await writeSource('one', { package: manifest, lock: { dev: true } })
  expect(planSource(treeOf(folder, ''), false, task)).toMatchObject({ build: null })
  expect(await build(folder, null, { NODE_ENV: 'production' })).toEqual({ code: 'built', isReused: false })
  const steps = lines.filter(line => /^(Install|Build)ing/.test(line))
  expect(steps).toEqual(['Installing: npm ci --include=dev', 'Building: npm run build'])
})

test('a missing or incomplete module cache is ignored', async () => {
  await build(await writeSource('one'))
  const modules = join(task.cache, 'modules')
  const [cacheKey = ''] = fs.readdirSync(modules)
  fs.renameSync(join(modules, cacheKey), join(modules, '123'))
  expect(await build(await writeSource('one'))).toEqual({ code: 'one', isReused: false })
  fs.rmSync(join(modules, cacheKey, 'node_modules'), { recursive: true })
  expect(await build(await writeSource('one'))).toEqual({ code: 'one', isReused: false })
})

test('development dependencies that are included are cached apart', async () => {
  const folder = await writeSource('one')
  const [all, some] = await Promise.all(
    ['npm ci --include=dev', 'npm ci'].map(install =>
      withModuleCache(install, { folder, cache: '/c', otherInputs: {} }),
    ),
  )
  expect(all).toContain('\n  npm ci --include=dev ||')
  expect(all!.split('\n')[0]).not.toBe(some!.split('\n')[0])
})

describe('the module cache is not used with', () => {
  const command = (folder: string, installCommand = 'npm ci') =>
    withModuleCache(installCommand, { folder, cache: '/c', otherInputs: {} })
  test.each<[string, Parameters<typeof writeSource>[1]]>([
    ['an install script', { package: { scripts: { postinstall: 'node make.js' } } }],
    ['workspaces', { package: { workspaces: ['a'] } }],
    ['a module that is a link', { lock: { link: true } }],
    ['a module from a folder', { lock: { integrity: undefined } }],
  ])('%s', async (_, more) => expect(await command(await writeSource('one', more))).toBe('npm ci'))

  test('another install command, another kind of lock file, or no lock file', async () => {
    const folder = await writeSource('one')
    expect(await command(folder, 'npm install')).toBe('npm install')
    expect(await command(folder)).not.toContain('npm rebuild')
    expect(await command(folder, 'npm ci --omit=dev')).toBe('npm ci --omit=dev')
    expect(await command(await writeSource('one', { lock: { hasInstallScript: true } }))).toContain('&& npm rebuild')
    fs.writeFileSync(join(folder, 'npm-shrinkwrap.json'), '{}')
    expect(await command(folder)).toBe('npm ci')
    expect(await command(home)).toBe('npm ci')
  })
})

test('npm runs install scripts, unless the source lists those that may', () => {
  const paths = new Set(['package.json'])
  const isAllowed = (manifest: object) => {
    const text = JSON.stringify(manifest)
    fs.writeFileSync(join(home, 'package.json'), text)
    const plan = planBuild({ paths, read: () => text }, { buildsImages: true })
    const variables = buildVariables(plan, { source: home, cache: '/cache', runtime: '/runtime' }, {})
    return variables.npm_config_dangerously_allow_all_scripts === 'true'
  }
  const scripts = { start: 'node server.js' }
  expect([isAllowed({ scripts }), isAllowed({ scripts, allowScripts: { esbuild: true } })]).toEqual([true, false])
})

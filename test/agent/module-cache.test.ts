// A second build with the same lock file reuses node_modules of the first: with the real npm, without a network.
import { createHash, randomUUID } from 'node:crypto'
import * as fs from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { packTar } from 'modern-tar'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { withModuleCache } from '../../src/agent/builds/module-cache.ts'
import type { BuildTask } from '../../src/agent/engine.ts'
import { prepare } from '../../src/agent/engines/process/prepare.ts'
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

/** An application that depends on a package beside it, with a lock file as npm writes it. */
async function source(code: string, more: { package?: object; lock?: object } = {}): Promise<string> {
  const folder = join(home, `tree-${++builds}`)
  fs.mkdirSync(folder)
  const file = (name: string, body: string) => ({
    ...{ header: { name, size: Buffer.byteLength(body), type: 'file' as const, mtime: new Date(0) }, body },
  })
  const manifest = '{"name": "dep", "version": "1.0.0"}'
  const packed = gzipSync(await packTar([file('package/package.json', manifest), file('package/index.js', code)]))
  const integrity = `sha512-${createHash('sha512').update(packed).digest('base64')}`
  const asked = { name: 'shop', version: '1.0.0', dependencies: { dep: 'file:dep.tgz' } }
  const dep = { version: '1.0.0', resolved: 'file:dep.tgz', integrity, ...more.lock }
  const lock = { ...asked, lockfileVersion: 3, requires: true, packages: { '': asked, 'node_modules/dep': dep } }
  fs.writeFileSync(join(folder, 'dep.tgz'), packed)
  fs.writeFileSync(join(folder, 'package.json'), JSON.stringify({ ...asked, ...more.package }))
  fs.writeFileSync(join(folder, 'package-lock.json'), JSON.stringify(lock))
  return folder
}

async function built(folder: string, build_command: string | null = null, env = {}) {
  lines.length = 0
  const of = makeUnit({ deployment_id: randomUUID(), revision_id: randomUUID() })
  const tree = { ...{ folder, env, build_command, start_command: 'node .' }, commit: null, health_path: null }
  await prepare(of, { ...tree, install_command: null }, task, { disk_mb: 64 })
  const code = fs.readFileSync(join(folder, 'node_modules/dep/index.js'), 'utf8').trim()
  return { code, kept: lines.some(line => line.startsWith('Reusing node_modules')) }
}

test('node_modules are reused unchanged, and installed again if the lock file or the environment changed', async () => {
  const spoil = 'echo spoilt > node_modules/dep/index.js'
  expect(await built(await source('one'), spoil)).toEqual({ code: 'spoilt', kept: false })
  expect(await built(await source('one'), spoil)).toEqual({ code: 'spoilt', kept: true })
  expect(await built(await source('one'))).toEqual({ code: 'one', kept: true })
  expect(await built(await source('one'), null, { NODE_ENV: 'production' })).toEqual({ code: 'one', kept: false })
  expect(await built(await source('two'))).toEqual({ code: 'two', kept: false })
  expect(await built(await source('two'))).toEqual({ code: 'two', kept: true })
  expect(fs.readdirSync(join(task.cache, 'modules'))).toHaveLength(1)
}, 120_000)

test('an incomplete or missing cache is ignored', async () => {
  await built(await source('one'))
  const modules = join(task.cache, 'modules')
  const [whole = ''] = fs.readdirSync(modules)
  fs.renameSync(join(modules, whole), join(modules, '123'))
  expect(await built(await source('one'))).toEqual({ code: 'one', kept: false })
  fs.rmSync(join(modules, whole, 'node_modules'), { recursive: true })
  expect(await built(await source('one'))).toEqual({ code: 'one', kept: false })
}, 120_000)

describe('the cache is not used with', () => {
  const command = (folder: string, asked = 'npm ci') => withModuleCache(asked, { folder, cache: '/c', otherInputs: {} })
  test.each<[string, Parameters<typeof source>[1]]>([
    ['an install script', { package: { scripts: { postinstall: 'node make.js' } } }],
    ['workspaces', { package: { workspaces: ['a'] } }],
    ['a link', { lock: { link: true } }],
    ['a module from a folder', { lock: { integrity: undefined } }],
  ])('%s', async (_, more) => expect(await command(await source('one', more))).toBe('npm ci'))

  test('another command, another lock file, or no lock file', async () => {
    const folder = await source('one')
    expect(await command(folder, 'npm install')).toBe('npm install')
    expect(await command(folder)).not.toContain('npm rebuild')
    expect(await command(await source('one', { lock: { hasInstallScript: true } }))).toContain('&& npm rebuild')
    fs.writeFileSync(join(folder, 'npm-shrinkwrap.json'), '{}')
    expect(await command(folder)).toBe('npm ci')
    expect(await command(home)).toBe('npm ci')
  })
})

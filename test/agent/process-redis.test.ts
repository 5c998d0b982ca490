// Redis of the process engine, on the Valkey or Redis of this machine if it has one.
import * as fs from 'node:fs'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { RevisionRef } from '../../src/agent/engine.ts'
import { readRedisMemory } from '../../src/agent/engines/local/redis-memory.ts'
import { findRedisProgram } from '../../src/agent/engines/process/redis-servers.ts'
import type { ProcessEngine } from '../../src/agent/engines/process.ts'
import { withDefaults } from '../../src/protocol/resources.schema.ts'
import { waitFor } from '../support/commands.ts'
import {
  closeEngines,
  makeRevisionRef,
  makeServerCode,
  makeTempFolder,
  makeUnit,
  openEngine,
  requestRouter,
  writeApplication,
} from '../support/process-engine.ts'

const PATH = process.env.PATH!
const hasRedis = findRedisProgram(PATH) !== undefined

let home: string
let ref: RevisionRef
beforeEach(() => {
  home = makeTempFolder()
  ref = makeRevisionRef()
})
afterEach(async () => {
  await closeEngines()
  fs.rmSync(home, { recursive: true, force: true })
})

const makeUnitWithRedis = (revision: RevisionRef, redis_memory_mb = 64) =>
  makeUnit(revision, { parts: ['redis'], resources: withDefaults({ redis_memory_mb }, 'dev') })
const open = async (machinePath = PATH) => (await openEngine(home, { machinePath })).engine
const provide = async (engine: ProcessEngine, unit = makeUnitWithRedis(ref)) => {
  await engine.provide(unit)
  await waitFor(async () => (await engine.observe(ref.deployment_id)).database?.ready)
}
const CODE = "require('node:http').createServer((_, res) => res.end(process.env.REDIS_URL)).listen(process.env.PORT)"
async function start(engine: ProcessEngine, revision = ref, unit = makeUnitWithRedis(revision)): Promise<string> {
  await engine.start(unit, writeApplication(home, 'app', CODE))
  const isHealthy = async () =>
    (await engine.observe(ref.deployment_id)).running.some(
      ({ revision_id, phase }) => revision_id === revision.revision_id && phase === 'healthy',
    )
  await waitFor(isHealthy)
  await engine.route(unit)
  return (await requestRouter((await engine.observe(ref.deployment_id)).url!)).body
}

/** Sends the commands, and resolves with all that is answered. */
function ask(uri: string, ...commands: string[]): Promise<string> {
  const { port, password } = new URL(uri)
  return new Promise((resolve, reject) => {
    const socket = connect({ host: '127.0.0.1', port: Number(port) })
    let text = ''
    socket.on('data', chunk => (text += chunk))
    socket.on('close', () => resolve(text))
    socket.on('error', reject)
    socket.write([`AUTH ${password}`, ...commands, 'QUIT', ''].join('\r\n'))
  })
}
const folderOf = (...rest: string[]) => join(home, 'process', ref.deployment_id, ...rest)

test('a machine without Valkey and Redis refuses it by name, and does not declare it', async () => {
  const engine = await open('/nonexistent-folder')
  expect(engine.refusalReason(makeUnitWithRedis(ref))).toContain('valkey')
  expect(engine.policy.features).not.toContain('redis')
  expect(engine.refusalReason(makeUnit(ref))).toBeNull()
})

describe.skipIf(!hasRedis)('a Redis', () => {
  test('is of one deployment, with a password, and keeps its data while server and agent end', async () => {
    const first = await open()
    expect(first.policy.features).toContain('redis')
    expect(first.refusalReason(makeUnitWithRedis(ref))).toBeNull()
    await provide(first)
    const uri = await start(first)
    expect(await ask(uri, 'SET a 1')).toContain('+OK')
    expect(await ask(uri.replace(/:[^:@]+@/, ':wrong@'), 'GET a')).toMatch(/WRONGPASS|invalid/i)
    const { store, connect: reach } = await first.openForward(ref, { store: 'redis' })
    expect(`redis://default:${store!.password}@`).toBe(uri.slice(0, uri.indexOf('@') + 1))
    const forwarded = await reach()
    expect((forwarded as Socket).remotePort).toBe(Number(new URL(uri).port))
    forwarded.destroy()
    const amounts = { deployment_id: ref.deployment_id, store: 'redis', bytes: expect.toSatisfy(Number.isInteger) }
    await waitFor(() => first.storeUsage().length > 0)
    expect(first.storeUsage()).toEqual([amounts])
    // It may not write files elsewhere, nor end the server.
    expect(await ask(uri, 'CONFIG SET dir /tmp', 'SHUTDOWN')).toMatch(/NOPERM.*NOPERM/s)
    expect(fs.statSync(folderOf('redis.conf')).mode & 0o777).toBe(0o600)

    const { pid } = JSON.parse(fs.readFileSync(folderOf('redis-process', 'identity.json'), 'utf8'))
    process.kill(-pid, 'SIGKILL')
    await waitFor(() =>
      ask(uri, 'GET a').then(
        text => text.includes('$1\r\n1'),
        () => false,
      ),
    )

    await first.close({ stop: false })
    const second = await open()
    await waitFor(async () => (await second.observe(ref.deployment_id)).database?.ready)
    expect(await ask(uri, 'GET a')).toContain('$1\r\n1')
    await second.close({ stop: true })
    await expect(ask(uri, 'GET a')).rejects.toThrow()
    const third = await open()
    await waitFor(async () => (await third.observe(ref.deployment_id)).database?.ready)
    expect(await ask(uri, 'GET a')).toContain('$1\r\n1')
  })

  test('stops when no revision asks for it, keeps its data, and ends with the deployment', async () => {
    const engine = await open()
    await provide(engine)
    const uri = await start(engine)
    await ask(uri, 'SET a 1')
    const without = { ...ref, revision_id: makeRevisionRef().revision_id }
    await engine.start(makeUnit(without), writeApplication(home, 'plain', makeServerCode('plain')))
    await engine.stop(ref)
    await expect(ask(uri, 'GET a')).rejects.toThrow()
    const again = { ...ref, revision_id: makeRevisionRef().revision_id }
    const unit = makeUnitWithRedis(again, 128)
    await provide(engine, unit)
    const later = await start(engine, again, unit)
    const answer = await ask(later, 'GET a', 'CONFIG GET maxmemory')
    expect(answer).toContain('$1\r\n1')
    // Four fifths of 128 MB, in whole ones.
    expect(answer).toContain(String(102 * 2 ** 20))
    await engine.remove(ref.deployment_id)
    await expect(ask(later, 'GET a')).rejects.toThrow()
    expect(fs.existsSync(folderOf())).toBe(false)
  })

  test('has snapshots, which are restored, and does not miss a write that was answered before one', async () => {
    const engine = await open()
    await provide(engine)
    const uri = await start(engine)
    expect(await ask(uri, 'SET a 1', 'RPUSH queue x y')).toContain('+OK')
    expect(await engine.listStores(ref.deployment_id)).toEqual(['redis'])
    const folder = fs.mkdtempSync(join(home, 'snapshot-'))
    const signal = new AbortController().signal
    await engine.takeSnapshot(ref.deployment_id, 'redis', folder, signal)
    expect(await ask(uri, 'SET a 2', 'DEL queue')).toContain('+OK')
    await engine.restoreSnapshot(makeUnitWithRedis(ref), 'redis', { folder }, signal)
    expect(await ask(uri, 'GET a', 'LLEN queue')).toMatch(/\r\n1\r\n:2\r\n/)
    const at = { deployment_id: ref.deployment_id, at: new Date() }
    await expect(engine.restoreSnapshot(makeUnitWithRedis(ref), 'redis', at, signal)).rejects.toThrow(/no history/)
  })
})

test('a Redis that refuses connections does not end the measuring of the others', async () => {
  expect(await readRedisMemory(() => Promise.reject(new Error('refused')), 'password')).toBeUndefined()
})

// The copies of one revision, with none of any engine.
import { expect, test } from 'vitest'
import { LIMITS } from '../../src/agent/engines/local/limits.ts'
import { type Copy, Pool } from '../../src/agent/engines/local/pool.ts'
import { eventually } from '../support/commands.ts'
import { QUICK } from '../support/engine.ts'

const idle = { last: [], ending: undefined, blamed: false, onExit: () => {}, end: async () => {} }
const still = { lines: () => [], kill() {}, look() {}, forget() {}, release() {} }

test('that it fails is news once', async () => {
  let changes = 0
  const pool = new Pool({ ...LIMITS, ...QUICK, ready_ms: 20 }, { changed: () => void changes++, log: () => {} })
  await eventually(() => pool.tick() ?? pool.phase() === 'failing')
  for (let i = 0; i < 10; i++) pool.tick()
  expect(changes).toBe(1)
})

test('a start that takes long says once what it waits for, and one that has come says nothing', async () => {
  const said: string[] = []
  const begin = (probe: Copy['probe'], slow_ms: number) => {
    const limits = { ...LIMITS, ...QUICK, starting_probe_ms: 1, slow_ms }
    const pool = new Pool(limits, { changed() {}, log: (line, level) => said.push(`${level} ${line}`) })
    pool.start({ launch: () => ({ ...idle, ...still, probe }), health_path: null, copies: 1, memory_mb: 64 })
    return pool
  }
  const waiting = begin(async () => ({ ok: false, reason: 'nothing listens' }), 1)
  await eventually(() => waiting.tick() ?? said.length > 0)
  waiting.tick()
  const well = begin(async () => ({ ok: true, target: { host: '127.0.0.1', port: 1 } }), 0)
  await eventually(() => well.tick() ?? well.phase() === 'healthy')
  well.tick()
  expect(said).toEqual([expect.stringMatching(/^WARNING .*nothing listens/)])
})

test('a copy that is not well gets no more requests, also where it cannot be killed at once', async () => {
  let well = true
  let kills = 0
  const copy: Copy = {
    ...idle,
    ...still,
    probe: async () =>
      well ? { ok: true, target: { host: '127.0.0.1', port: 1 } } : { ok: false, reason: 'nothing listens' },
    kill: () => void kills++,
  }
  let changes = 0
  const pool = new Pool({ ...LIMITS, ...QUICK, probe_ms: 1 }, { changed: () => void changes++, log: () => {} })
  pool.start({ launch: () => copy, health_path: null, copies: 1, memory_mb: 64 })
  const until = (phase: string) => eventually(() => pool.tick() ?? pool.phase() === phase)
  await until('healthy')
  well = false
  const before = changes
  await until('unhealthy')
  expect([pool.targets(), kills, changes > before]).toEqual([[], 1, true])
  expect(pool.reason()).toContain('nothing listens')
})

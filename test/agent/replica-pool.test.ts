// The copies of one revision, with none of any engine.
import { expect, test } from 'vitest'
import { DEFAULT_LIMITS } from '../../src/agent/engines/local/limits.ts'
import { type Replica, ReplicaPool } from '../../src/agent/engines/local/replica-pool.ts'
import { waitFor } from '../support/commands.ts'
import { FAST_LIMITS } from '../support/process-engine.ts'

const idle = { lastLines: [], endReason: undefined, hasKillReason: false, onExit: () => {}, end: async () => {} }
const still = { readLines: () => [], kill() {}, checkExit() {}, forget() {}, release() {} }

test('a failing revision is reported once', async () => {
  let changes = 0
  const pool = new ReplicaPool(
    { ...DEFAULT_LIMITS, ...FAST_LIMITS, ready_ms: 20 },
    { changed: () => void changes++, log: () => {} },
  )
  await waitFor(() => pool.tick() ?? pool.phase() === 'failing')
  for (let i = 0; i < 10; i++) pool.tick()
  expect(changes).toBe(1)
})

test('a slow start logs once what it waits for', async () => {
  const said: string[] = []
  const begin = (probe: Replica['probe'], slow_ms: number) => {
    const limits = { ...DEFAULT_LIMITS, ...FAST_LIMITS, starting_probe_ms: 1, slow_ms }
    const pool = new ReplicaPool(limits, { changed() {}, log: (line, level) => said.push(`${level} ${line}`) })
    pool.start({ launch: () => ({ ...idle, ...still, probe }), health_path: null, copies: 1, memory_mb: 64 })
    return pool
  }
  const waiting = begin(async () => ({ ok: false, reason: 'nothing listens' }), 1)
  await waitFor(() => waiting.tick() ?? said.length > 0)
  waiting.tick()
  const well = begin(async () => ({ ok: true, target: { host: '127.0.0.1', port: 1 } }), 0)
  await waitFor(() => well.tick() ?? well.phase() === 'healthy')
  well.tick()
  expect(said).toEqual([expect.stringMatching(/^WARNING .*nothing listens/)])
})

test('a slow start tells its reason, its last lines and its deadline, and tells a new reason again', async () => {
  let changes = 0
  let reason = 'nothing listens'
  const limits = { ...DEFAULT_LIMITS, ...FAST_LIMITS, starting_probe_ms: 1, slow_ms: 0 }
  const pool = new ReplicaPool(limits, { changed: () => void changes++, log() {} })
  const probe: Replica['probe'] = async () => ({ ok: false, reason })
  const launch = () => ({ ...idle, ...still, probe, lastLines: ['cannot reach the queue'] })
  pool.start({ launch, health_path: null, copies: 1, memory_mb: 64 })
  expect(pool.reason()).toBeNull()
  const reasonWith = (text: string) => waitFor(() => pool.tick() ?? pool.reason()?.includes(text))
  await reasonWith('nothing listens')
  expect(pool.phase()).toBe('starting')
  expect(pool.reason()).toMatch(/\d\d:\d\d:\d\d UTC[^]*cannot reach the queue/)
  for (let i = 0; i < 10; i++) pool.tick()
  expect(changes).toBe(1)
  reason = 'GET /health answers 500'
  await reasonWith('answers 500')
  expect(changes).toBe(2)
})

test('the reason of a kill is logged once, and does not apply to the next replica', async () => {
  const lines: string[] = []
  const log = (message: string) => void lines.push(message)
  const pool = new ReplicaPool({ ...DEFAULT_LIMITS, ...FAST_LIMITS }, { changed() {}, log })
  const probe: Replica['probe'] = async () => ({ ok: true, target: { host: '127.0.0.1', port: 1 } })
  pool.start({ launch: () => ({ ...idle, ...still, probe }), health_path: null, copies: 1, memory_mb: 64 })
  const running = () => waitFor(() => pool.tick() ?? pool.replicas()[0])
  const first = await running()
  // However long it takes to end.
  for (const _ of [1, 2]) pool.killAllForReason('it wrote too much', [first])
  first.onExit()
  const next = await running()
  // It was measured while the first one was there.
  pool.killAllForReason('it wrote too much', [first])
  expect([lines, next.hasKillReason]).toEqual([['Killed: it wrote too much.'], false])
})

test('an unhealthy replica receives no more requests, even if it cannot be killed at once', async () => {
  let well = true
  let kills = 0
  const copy: Replica = {
    ...idle,
    ...still,
    probe: async () =>
      well ? { ok: true, target: { host: '127.0.0.1', port: 1 } } : { ok: false, reason: 'nothing listens' },
    kill: () => void kills++,
  }
  let changes = 0
  const pool = new ReplicaPool(
    { ...DEFAULT_LIMITS, ...FAST_LIMITS, probe_ms: 1 },
    { changed: () => void changes++, log: () => {} },
  )
  pool.start({ launch: () => copy, health_path: null, copies: 1, memory_mb: 64 })
  const until = (phase: string) => waitFor(() => pool.tick() ?? pool.phase() === phase)
  await until('healthy')
  well = false
  const before = changes
  await until('unhealthy')
  expect([pool.targets(), kills, changes > before]).toEqual([[], 1, true])
  expect(pool.reason()).toContain('nothing listens')
})

// The replicas of one revision, without an engine.
import { expect, onTestFinished, test, vi } from 'vitest'
import { DEFAULT_LIMITS } from '../../src/agent/engines/local/limits.ts'
import type { Replica } from '../../src/agent/engines/local/replica.ts'
import { ReplicaPool } from '../../src/agent/engines/local/replica-pool.ts'
import { waitFor } from '../support/commands.ts'
import { FAST_LIMITS } from '../support/process-engine.ts'

const IDLE = { lastLines: [], endReason: undefined, hasKillReason: false, onExit: () => {}, end: async () => {} }
const settledLength = (text: string) => text.length
const usage = async () => ({ cpu_ms: null, memory_bytes: null })
const NO_OPERATIONS = { usage, readLines: () => [], kill() {}, checkExit() {}, forget() {}, release() {} }

test('a revision that starts to fail is reported as changed once', async () => {
  let changes = 0
  const pool = new ReplicaPool(
    { ...DEFAULT_LIMITS, ...FAST_LIMITS, ready_ms: 20 },
    { changed: () => void changes++, log: () => {}, settledLength },
  )
  await waitFor(() => pool.tick() ?? pool.phase() === 'failing')
  for (let i = 0; i < 10; i++) pool.tick()
  expect(changes).toBe(1)
})

test('a slow start logs the reason of the failed health check once', async () => {
  const lines: string[] = []
  const startPool = (probe: Replica['probe'], slow_ms: number) => {
    const limits = { ...DEFAULT_LIMITS, ...FAST_LIMITS, starting_probe_ms: 1, slow_ms }
    const pool = new ReplicaPool(limits, {
      changed() {},
      log: (line, level) => lines.push(`${level} ${line}`),
      settledLength,
    })
    pool.start({ launch: () => ({ ...IDLE, ...NO_OPERATIONS, probe }), health_path: null, copies: 1, memory_mb: 64 })
    return pool
  }
  const slowPool = startPool(async () => ({ ok: false, reason: 'nothing listens' }), 1)
  await waitFor(() => slowPool.tick() ?? lines.length > 0)
  slowPool.tick()
  const healthyPool = startPool(async () => ({ ok: true, target: { host: '127.0.0.1', port: 1 } }), 0)
  await waitFor(() => healthyPool.tick() ?? healthyPool.phase() === 'healthy')
  healthyPool.tick()
  expect(lines).toEqual([expect.stringMatching(/^WARNING .*nothing listens/)])
})

test('a slow start is reported with its reason, last lines and deadline, and again with a new reason', async () => {
  let changes = 0
  let reason = 'nothing listens'
  const limits = { ...DEFAULT_LIMITS, ...FAST_LIMITS, starting_probe_ms: 1, slow_ms: 0 }
  const pool = new ReplicaPool(limits, { changed: () => void changes++, log() {}, settledLength })
  const probe: Replica['probe'] = async () => ({ ok: false, reason })
  const launch = () => ({ ...IDLE, ...NO_OPERATIONS, probe, lastLines: ['cannot reach the queue'] })
  pool.start({ launch, health_path: null, copies: 1, memory_mb: 64 })
  expect(pool.reason()).toBeNull()
  const reasonWith = (text: string) => waitFor(() => pool.tick() ?? pool.reason()?.includes(text))
  await reasonWith('nothing listens')
  expect(pool.phase()).toBe('starting')
  expect(pool.reason()).toMatch(/\d\d:\d\d:\d\d UTC.*cannot reach the queue/s)
  for (let i = 0; i < 10; i++) pool.tick()
  expect(changes).toBe(1)
  reason = 'GET /health answers 500'
  await reasonWith('answers 500')
  expect(changes).toBe(2)
})

test('the reason for killing a replica is logged once, and does not apply to the next replica', async () => {
  const lines: string[] = []
  const log = (message: string) => void lines.push(message)
  const pool = new ReplicaPool({ ...DEFAULT_LIMITS, ...FAST_LIMITS }, { changed() {}, log, settledLength })
  const probe: Replica['probe'] = async () => ({ ok: true, target: { host: '127.0.0.1', port: 1 } })
  pool.start({ launch: () => ({ ...IDLE, ...NO_OPERATIONS, probe }), health_path: null, copies: 1, memory_mb: 64 })
  const waitForReplica = () => waitFor(() => pool.tick() ?? pool.replicas()[0])
  const first = await waitForReplica()
  // The second measurement comes before the replica has ended.
  for (const _ of [1, 2]) pool.killAllForReason('it wrote too much', [first])
  first.onExit()
  const next = await waitForReplica()
  // This measurement began while the first replica still ran.
  pool.killAllForReason('it wrote too much', [first])
  expect([lines, next.hasKillReason]).toEqual([['Killed: it wrote too much.'], false])
})

test('an unhealthy replica receives no requests, even while it has not ended yet', async () => {
  let isHealthy = true
  let kills = 0
  const replica: Replica = {
    ...IDLE,
    ...NO_OPERATIONS,
    probe: async () =>
      isHealthy ? { ok: true, target: { host: '127.0.0.1', port: 1 } } : { ok: false, reason: 'nothing listens' },
    kill: () => void kills++,
  }
  let changes = 0
  const pool = new ReplicaPool(
    { ...DEFAULT_LIMITS, ...FAST_LIMITS, probe_ms: 1 },
    { changed: () => void changes++, log: () => {}, settledLength },
  )
  pool.start({ launch: () => replica, health_path: null, copies: 1, memory_mb: 64 })
  const waitForPhase = (phase: string) => waitFor(() => pool.tick() ?? pool.phase() === phase)
  await waitForPhase('healthy')
  isHealthy = false
  const changesBefore = changes
  await waitForPhase('unhealthy')
  expect([pool.targets(), kills, changes > changesBefore]).toEqual([[], 1, true])
  expect(pool.reason()).toContain('nothing listens')
})

test('the settled part of an unfinished line is logged once a second, and the rest with its end', async () => {
  vi.useFakeTimers({ toFake: ['Date'] })
  onTestFinished(() => void vi.useRealTimers())
  const logged: string[] = []
  let [lines, unfinished, held] = [[] as string[], '', 0]
  const pool = new ReplicaPool(DEFAULT_LIMITS, {
    changed() {},
    log: (message, _, shownLength = 0) =>
      void logged.push(`${message.slice(0, shownLength)}|${message.slice(shownLength)}`),
    settledLength: text => text.length - held,
  })
  const replica: Replica = {
    ...IDLE,
    ...NO_OPERATIONS,
    probe: async () => ({ ok: true, target: { host: '127.0.0.1', port: 1 } }),
    readLines: () => lines.splice(0).map(text => ({ text, level: 'INFO' as const, isError: false })),
    unfinishedLine: isError => (isError ? '' : unfinished),
  }
  pool.start({ launch: () => replica, health_path: null, copies: 1, memory_mb: 64 })
  await waitFor(() => pool.tick() ?? pool.replicas()[0])
  const after = (ms: number, rest: string, ...ended: string[]) => {
    vi.setSystemTime(Date.now() + ms)
    unfinished = rest
    lines = ended
    pool.tick()
    return logged.splice(0)
  }

  expect(after(0, '10 %')).toEqual([])
  expect(after(999, '10 %')).toEqual([])
  expect(after(1, '10 % 20 %\r')).toEqual(['|10 % 20 %'])
  expect(after(5_000, '10 % 20 %\r')).toEqual([])
  held = 5
  expect(after(1_000, '10 % 20 %\r 30 % hun')).toEqual(['10 % 20 %|\r 30 '])
  held = 0
  expect(after(0, '', '10 % 20 %\r 30 % hunter2')).toEqual(['10 % 20 %\r 30 |% hunter2'])
  expect(after(0, '')).toEqual([])

  // A line that is complete when it ends, and one whose rest was lost.
  expect(after(0, 'done')).toEqual([])
  expect(after(1_000, 'done')).toEqual(['|done'])
  expect(after(0, 'next', 'done', '')).toEqual(['|'])
  expect(after(1_000, 'next')).toEqual(['|next'])
  expect(after(0, '', 'Lines were dropped.', 'last')).toEqual(['|Lines were dropped.', '|last'])
})

test('copies that keep ending are a crash loop until one was calm; restarts and memory kills are counted', async () => {
  vi.useFakeTimers({ toFake: ['Date'] })
  onTestFinished(() => void vi.useRealTimers())
  let changes = 0
  const limits = { ...DEFAULT_LIMITS, ...FAST_LIMITS, starting_probe_ms: 0, crashes: 3, calm_ms: 60_000 }
  const pool = new ReplicaPool(limits, { changed: () => void changes++, log() {}, settledLength })
  const probe: Replica['probe'] = async () => ({ ok: true, target: { host: '127.0.0.1', port: 1 } })
  pool.start({ launch: () => ({ ...IDLE, ...NO_OPERATIONS, probe }), health_path: null, copies: 2, memory_mb: 64 })
  const state = () => pool.condition().health.state
  const tick = (ms: number) => {
    vi.advanceTimersByTime(ms)
    pool.tick()
  }
  const waitForState = (wanted: string) => waitFor(() => tick(100) ?? state() === wanted)
  await waitForState('healthy')
  const crash = async (place: number) => {
    Object.assign(pool.replicas()[place]!, { endReason: 'ended with code 1', isOutOfMemory: true })
    pool.replicas()[place]!.onExit()
  }
  await crash(0)
  expect(pool.condition().health).toMatchObject({ state: 'degraded', reason: expect.stringContaining('1 of 2') })
  await waitForState('healthy')
  for (const _ of [1, 2, 3])
    for (const place of [1, 0]) {
      await waitFor(() => tick(1000) ?? pool.targets().length === 2)
      await crash(place)
    }
  expect(state()).toBe('crash_looping')
  // Copies that answer for a moment have not ended it.
  await waitFor(() => tick(1000) ?? pool.targets().length === 2)
  expect(state()).toBe('crash_looping')
  vi.advanceTimersByTime(61_000)
  const before = changes
  pool.tick()
  expect([state(), changes > before]).toEqual(['healthy', true])
  const counts = pool.condition().incidents.map(({ kind, count }) => [kind, count])
  expect(counts).toEqual([
    ['out_of_memory', 7],
    ['restarted', 7],
  ])
})

test('a copy that is added is no fault until its deadline, unless it ends; no copies at all are healthy', async () => {
  vi.useFakeTimers({ toFake: ['Date'] })
  onTestFinished(() => void vi.useRealTimers())
  let changes = 0
  const limits = { ...DEFAULT_LIMITS, ...FAST_LIMITS, starting_probe_ms: 0, ready_ms: 60_000, crashes: 9 }
  const pool = new ReplicaPool(limits, { changed: () => void changes++, log() {}, settledLength })
  let answers = true
  const launch = (): Replica => ({
    ...IDLE,
    ...NO_OPERATIONS,
    probe: async () => (answers ? { ok: true, target: { host: '127.0.0.1', port: 1 } } : { ok: false, reason: 'late' }),
  })
  const scale = (copies: number) => pool.start({ launch, health_path: null, copies, memory_mb: 64 })
  const state = () => pool.condition().health.state
  scale(1)
  // Requests fail until the first one answers.
  expect(state()).toBe('unhealthy')
  await waitFor(() => pool.tick() ?? state() === 'healthy')
  answers = false
  scale(3)
  await waitFor(() => pool.tick() ?? pool.replicas().length === 3)
  expect(state()).toBe('healthy')
  const added = pool.replicas()[2]!
  Object.assign(added, { endReason: 'ended with code 1' })
  added.onExit()
  expect(state()).toBe('degraded')
  scale(2)
  expect(state()).toBe('healthy')
  vi.advanceTimersByTime(61_000)
  const before = changes
  pool.tick()
  expect([state(), changes > before]).toEqual(['degraded', true])
  scale(0)
  expect(state()).toBe('healthy')
})

test('a later template begins with the copies that are there, between its least and its most', () => {
  const pool = new ReplicaPool({ ...DEFAULT_LIMITS, ...FAST_LIMITS }, { changed() {}, log() {}, settledLength })
  const probe: Replica['probe'] = async () => ({ ok: true, target: { host: '127.0.0.1', port: 1 } })
  const launch = () => ({ ...IDLE, ...NO_OPERATIONS, probe })
  const wantedWith = (copies: number, most?: number) => {
    pool.start({ launch, health_path: null, copies, ...(most && { most }), memory_mb: 64 })
    return pool.copies.wanted
  }
  expect([wantedWith(3), wantedWith(0, 8), wantedWith(1, 2), wantedWith(5), wantedWith(0, 8)]).toEqual([3, 3, 2, 5, 5])
})

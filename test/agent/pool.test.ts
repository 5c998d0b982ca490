// The copies of one revision, with none of any engine.
import { expect, test } from 'vitest'
import { LIMITS } from '../../src/agent/engines/local/limits.ts'
import { type Copy, Pool } from '../../src/agent/engines/local/pool.ts'
import { eventually } from '../support/commands.ts'
import { QUICK } from '../support/engine.ts'

const copyOf = (more: Partial<Copy> = {}): Copy => ({
  ...{ last: [], ending: undefined, blamed: false, onExit: () => {} },
  probe: async () => ({ ok: true, target: { host: '127.0.0.1', port: 1 } }),
  lines: () => [],
  kill() {},
  end: async () => {},
  look() {},
  forget() {},
  release() {},
  ...more,
})

test('what a copy is killed for is told once, and is not the next one’s', async () => {
  const lines: string[] = []
  const log = (message: string) => void lines.push(message)
  const pool = new Pool({ ...LIMITS, ...QUICK }, { changed: () => {}, log })
  pool.start({ launch: () => copyOf(), health_path: null, copies: 1, memory_mb: 64 })
  const running = () => eventually(() => pool.tick() ?? pool.copies()[0])
  const first = await running()
  // However long it takes to end.
  for (const _ of [1, 2]) pool.blameAll('it wrote too much', [first])
  first.onExit()
  const next = await running()
  // It was measured while the first one was there.
  pool.blameAll('it wrote too much', [first])
  expect([lines, next.blamed]).toEqual([['Killed: it wrote too much.'], false])
})

test('a copy that is not well gets no more requests, also where it cannot be killed at once', async () => {
  let well = true
  let kills = 0
  const copy = copyOf({
    probe: async () =>
      well ? { ok: true, target: { host: '127.0.0.1', port: 1 } } : { ok: false, reason: 'nothing listens' },
    kill: () => void kills++,
  })
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

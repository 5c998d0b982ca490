// The copies of one revision, with none of any engine.
import { expect, test } from 'vitest'
import { LIMITS } from '../../src/agent/engines/local/limits.ts'
import { type Copy, Pool } from '../../src/agent/engines/local/pool.ts'
import { eventually } from '../support/commands.ts'
import { QUICK } from '../support/engine.ts'

test('that it fails is news once', async () => {
  let changes = 0
  const pool = new Pool({ ...LIMITS, ...QUICK, ready_ms: 20 }, { changed: () => void changes++, log: () => {} })
  await eventually(() => pool.tick() ?? pool.phase() === 'failing')
  for (let i = 0; i < 10; i++) pool.tick()
  expect(changes).toBe(1)
})

test('a copy that is not well gets no more requests, also where it cannot be killed at once', async () => {
  let well = true
  let kills = 0
  const copy: Copy = {
    ...{ last: [], ending: undefined, blamed: false, onExit: () => {} },
    probe: async () =>
      well ? { ok: true, target: { host: '127.0.0.1', port: 1 } } : { ok: false, reason: 'nothing listens' },
    lines: () => [],
    kill: () => void kills++,
    end: async () => {},
    look() {},
    forget() {},
    release() {},
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

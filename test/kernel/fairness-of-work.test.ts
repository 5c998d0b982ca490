// A hostile tenant beside a quiet one: work in the background, and entries of shared maps.
import { sql } from 'drizzle-orm'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { listInTurns } from '../../src/kernel/db/outbox.ts'
import { workInTurns } from '../../src/kernel/db/worker-pool.ts'
import { createAddressLimits } from '../../src/kernel/limits/address-limits.ts'
import { createBackgroundCpu, type SlicedWork } from '../../src/kernel/limits/background-cpu.ts'
import { createExpiringMap } from '../../src/kernel/limits/expiring-map.ts'
import { getApp } from '../support/app.ts'

const SLICE = 2_000_000
const HOSTILE = 'hostile'
const QUIET = 'quiet'

/** Time passes in pauses, and when work says so. Paused code continues in the order of time. */
function createVirtualTime() {
  let now = 0
  const waiting: { at: number; go: () => void }[] = []
  return {
    now: () => now,
    advance: (ms: number) => {
      now += ms
    },
    pause: (ms: number) => new Promise<void>(go => void waiting.push({ at: now + ms, go })),
    async runUntil(isOver: () => boolean): Promise<number> {
      for (;;) {
        // Everything that can go on without a pause has gone on.
        await new Promise(resolve => setImmediate(resolve))
        if (isOver()) return now
        const next = waiting.reduce((first, one) => (one.at < first.at ? one : first))
        waiting.splice(waiting.indexOf(next), 1)
        now = Math.max(now, next.at)
        next.go()
      }
    },
  }
}

describe('computations in slices', () => {
  async function timeOf(hostileJobs: number): Promise<{ ms: number; hostileSlices: number }> {
    const time = createVirtualTime()
    const cpu = createBackgroundCpu(time)
    let hostileSlices = 0
    function* work(slices: number, onSlice: () => void): SlicedWork<void> {
      for (let i = 0; i < slices; i++) {
        onSlice()
        time.advance(10)
        yield SLICE
      }
    }
    for (let i = 0; i < hostileJobs; i++)
      void cpu.run(
        HOSTILE,
        work(10_000, () => void hostileSlices++),
      )
    let isDone = false
    void cpu
      .run(
        QUIET,
        work(50, () => {}),
      )
      .then(() => {
        isDone = true
      })
    return { ms: await time.runUntil(() => isDone), hostileSlices }
  }

  it('for one workspace take as long beside a hundred jobs of another as beside one', async () => {
    const [alone, besideOne, besideMany] = [await timeOf(0), await timeOf(1), await timeOf(100)]
    // Half of the time is left for requests.
    expect(alone.ms).toBeGreaterThanOrEqual(50 * 2 * 10)
    // Both workspaces share that half. At times, the end of another one's slice is added.
    for (const { ms } of [besideOne, besideMany]) expect(ms).toBeLessThanOrEqual(2.5 * alone.ms)
    // Each of the hundred has a first slice soon. After that they together have what one has.
    expect(besideMany.hostileSlices).toBeLessThanOrEqual(besideOne.hostileSlices + 100)
  })

  it('keep a lease while they rest, end with an error of their work, and are forgotten', async () => {
    const time = createVirtualTime()
    const cpu = createBackgroundCpu(time)
    let leases = 0
    let failure: unknown
    function* fail(): SlicedWork<void> {
      for (let i = 0; i < 10_000; i++) yield SLICE
      throw new Error('broken')
    }
    const keepLease = async () => void leases++
    void cpu.run(HOSTILE, fail(), keepLease).catch(error => {
      failure = error
    })
    const ms = await time.runUntil(() => failure !== undefined)
    expect(leases).toBe(Math.floor(ms / 60_000))
    expect(failure).toEqual(new Error('broken'))
    let isDone = false
    const startedAt = time.now()
    function* once(): SlicedWork<void> {
      yield SLICE
    }
    void cpu.run(QUIET, once()).then(() => {
      isDone = true
    })
    expect((await time.runUntil(() => isDone)) - startedAt).toBe(10)
  })
})

describe('stored work', () => {
  it('for one workspace never has all workers, so work for another one begins at once', async () => {
    const [begun, unblock] = [[] as string[], Promise.withResolvers<void>()]
    const due = [
      ...Array.from({ length: 100 }, (_, i) => ({ id: `${HOSTILE} ${i}`, workspace: HOSTILE })),
      ...[1, 2].map(i => ({ id: `${QUIET} ${i}`, workspace: QUIET })),
    ]
    const quietDone = Promise.withResolvers<void>()
    const done = workInTurns(due, {
      maxConcurrent: 8,
      work: async ({ id, workspace }) => {
        begun.push(id)
        if (workspace === HOSTILE) await unblock.promise
        if (id === `${QUIET} 2`) quietDone.resolve()
      },
    })
    await quietDone.promise
    expect(begun.filter(id => id.startsWith(HOSTILE))).toHaveLength(6)
    unblock.resolve()
    await done
    expect(begun.toSorted()).toEqual(due.map(({ id }) => id).toSorted())
  })

  it('is listed in turns: later work of one workspace does not wait for all work of another', async () => {
    const due = sql`
      select i::text as id, case when i <= 1000 then ${HOSTILE} else ${QUIET} end as workspace, i as due_at
      from generate_series(1, 1002) i`
    const [rows] = await getApp().database.asSystem([listInTurns(due)])
    const ids = (rows as [string, string][]).map(([id]) => id)
    expect(ids.slice(0, 5)).toEqual(['1', '1001', '2', '1002', '3'])
    expect(ids).toHaveLength(200)
  })

  it('goes on after one item failed, and reports it', async () => {
    const done: string[] = []
    const due = ['a', 'b', 'c'].map(id => ({ id, workspace: id }))
    const working = workInTurns(due, {
      maxConcurrent: 2,
      work: async ({ id }) => {
        if (id === 'a') throw new Error('broken')
        done.push(id)
      },
    })
    await expect(working).rejects.toThrow('broken')
    expect(done).toEqual(['b', 'c'])
  })
})

describe('entries of a shared map', () => {
  it('that a quiet tenant has set stay, however many another one sets', () => {
    const map = createExpiringMap<number>(100, () => 0)
    for (let i = 0; i < 10; i++) map.set(`${QUIET} ${i}`, i, 1000, QUIET)
    for (let i = 0; i < 1000; i++) map.set(`${HOSTILE} ${i}`, i, 1000, HOSTILE)
    expect(Array.from({ length: 10 }, (_, i) => map.get(`${QUIET} ${i}`))).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    expect([map.size(), map.get(`${HOSTILE} 999`), map.get(`${HOSTILE} 0`)]).toEqual([100, 999, undefined])
  })

  it('are those of a plain model: the group that has most loses the entry that it set first', () => {
    const step = fc.record({ key: fc.nat(12), group: fc.nat(3), isDeleted: fc.boolean() })
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), steps => {
        let now = 0
        const map = createExpiringMap<number>(6, () => (now += 1000))
        const model: { key: string; group: string }[] = []
        for (const { key: number, group: name, isDeleted } of steps) {
          const [key, group] = [String(number), String(name)]
          const at = model.findIndex(one => one.key === key)
          if (at >= 0) model.splice(at, 1)
          if (isDeleted) {
            map.delete(key)
            continue
          }
          model.push({ key, group })
          map.set(key, number, 1e9, group)
          if (model.length <= 6) continue
          const sizeOf = (one: string) => model.filter(entry => entry.group === one).length
          const most = Math.max(...model.map(one => sizeOf(one.group)))
          const evicted = model.findIndex(one => sizeOf(one.group) === most && map.get(one.key) === undefined)
          expect(evicted).toBeGreaterThanOrEqual(0)
          expect(model.findIndex(one => one.group === model[evicted]!.group)).toBe(evicted)
          model.splice(evicted, 1)
        }
        for (const { key } of model) expect(map.get(key)).toBe(Number(key))
        expect(map.size()).toBe(model.length)
      }),
    )
  })

  it('about failed attempts of a client stay, however many addresses a site has', () => {
    const limits = createAddressLimits(
      1,
      () => 0,
      () => {},
    )
    const fail = (address: string) => limits.begin('key', address).fail(undefined)
    fail('192.0.2.1')
    fail('2001:db8:1:1::1')
    for (let i = 0; i < 12_000; i++) fail(`2001:db8:2:${i.toString(16)}::1`)
    expect(() => fail('192.0.2.1')).toThrow()
    expect(() => fail('2001:db8:1:1::1')).toThrow()
  })
})

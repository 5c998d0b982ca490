// Jobs run under a lease, step by step, once.
import { sql } from 'drizzle-orm'
import { describe, expect, it } from 'vitest'
import { actAsJob, claimJob, LeaseLostError } from '../../../src/tracing/insights/claimed-job.ts'
import { storeClusters } from '../../../src/tracing/insights/job-results.ts'
import { storeStep } from '../../../src/tracing/insights/model-state.ts'
import { takeSample } from '../../../src/tracing/insights/select-runs.ts'
import { getServices, withClockAhead, wrapTrips } from '../../support/app.ts'
import { insertJob, newAskedTenant, readStoredJob, work } from '../../support/insights.ts'

const MINUTE = 60_000
/** The first centroids follow from the id of a job. */
const SEED = '00000000-0000-4000-8000-0000000000c1'
const isJob = (id: string) => sql`j.id = ${id}::uuid`

describe('a job', () => {
  it('selects the runs that match, groups them, and ends', async () => {
    const { tenant, session_id, ids } = await newAskedTenant()
    const job = await insertJob(tenant, session_id, { hierarchy: [3] }, 'lexical', SEED)
    await work(tenant)
    const stored = await readStoredJob(job)
    expect(stored.job).toMatchObject({ status: 'success', num_runs: ids.length, attempts: 0, error: null })
    expect(stored.runs.map(({ run_id }) => run_id)).toEqual(ids)
    expect(stored.clusters.map(({ num_runs }) => num_runs)).toEqual([3, 3, 3])
    expect(stored.clusters[0]!.stats).toMatchObject({ num_runs: 3, error_rate: 0, latency_p50: expect.any(Number) })
    expect(stored.clusters.map(({ name }) => name.split(', ')[0]).sort()).toEqual(['invoice', 'parcel', 'password'])
  })

  it('has no clusters where no run matches', async () => {
    const { tenant, session_id } = await newAskedTenant()
    const job = await insertJob(tenant, session_id, { filter: 'eq(name, "nothing")' })
    await work(tenant)
    const { job: stored, clusters } = await readStoredJob(job)
    expect([stored.status, stored.num_runs, clusters]).toEqual(['success', 0, []])
  })

  it.each([
    [0.5, 5],
    [4, 4],
    [500, 9],
  ])('takes a sample of %s, which depends on the ids alone', async (sample, count) => {
    const { tenant, session_id, ids } = await newAskedTenant()
    const job = await insertJob(tenant, session_id, { sample })
    await work(tenant)
    const { runs } = await readStoredJob(job)
    expect(runs).toHaveLength(count)
    expect(runs.map(({ run_id }) => run_id)).toEqual(takeSample(job, ids, sample))
  })

  it('is claimed by one worker', async () => {
    const { tenant, session_id } = await newAskedTenant()
    const id = await insertJob(tenant, session_id)
    const claims = await Promise.all(Array.from({ length: 5 }, () => claimJob(getServices(), isJob(id))))
    expect(claims.filter(Boolean)).toHaveLength(1)
  })

  it('takes nothing from a worker that lost its lease', async () => {
    const { tenant, session_id } = await newAskedTenant()
    const id = await insertJob(tenant, session_id)
    const late = (await claimJob(getServices(), isJob(id)))!
    const ctx = actAsJob(getServices(), late)
    const next = await withClockAhead(4 * MINUTE, () => claimJob(getServices(), isJob(id)))
    expect(next?.lease).toBe(late.lease + 1)
    const progress = { phase: 'report', done: 1, total: 1 } as const
    const step = { state: 'answered', answer: {} } as const
    const write = storeStep(ctx, late, { key: 'report', step, completion: null, progress })
    await expect(write).rejects.toBeInstanceOf(LeaseLostError)
    await expect(storeClusters(ctx, late, [], new Map())).rejects.toBeInstanceOf(LeaseLostError)
    expect((await readStoredJob(id)).job.metadata).toEqual({})
  })

  it('resumes after its worker died at any of its trips, and ends the same', async () => {
    const { tenant, session_id, ids } = await newAskedTenant()
    let [dyingTrip, trips] = [0, 0]
    do {
      dyingTrip++
      const id = await insertJob(tenant, session_id, { hierarchy: [3] })
      trips = 0
      const services = getServices()
      const dying = wrapTrips(services.database, trip => async statements => {
        trips++
        if (trips >= dyingTrip) throw new Error('the worker died')
        return trip(statements)
      })
      await work(tenant, { ...services, database: dying }).catch(() => {})
      await withClockAhead(4 * MINUTE, () => work(tenant))
      const { job, clusters, runs } = await readStoredJob(id)
      expect([job.status, job.num_runs, runs.length], String(dyingTrip)).toEqual(['success', ids.length, ids.length])
      expect(clusters.map(({ num_runs }) => num_runs).reduce((sum, n) => sum + n)).toBe(ids.length)
      expect(runs.every(({ cluster_id }) => cluster_id)).toBe(true)
    } while (trips >= dyingTrip)
    expect(dyingTrip).toBeGreaterThan(5)
  })

  it('is given up after five attempts that stored nothing, and after half an hour', async () => {
    const { tenant, session_id } = await newAskedTenant()
    const id = await insertJob(tenant, session_id)
    const services = getServices()
    const broken = { ...services, traces: { ...services.traces, query: () => Promise.reject(new Error('broken')) } }
    for (let attempt = 0; attempt < 6; attempt++) await withClockAhead(attempt * 9 * MINUTE, () => work(tenant, broken))
    const { job } = await readStoredJob(id)
    expect([job.status, typeof job.error]).toEqual(['error', 'string'])
    expect(job.error).not.toContain('broken')
    const late = await insertJob(tenant, session_id)
    await claimJob(services, isJob(late))
    await withClockAhead(31 * MINUTE, () => work(tenant))
    expect((await readStoredJob(late)).job.status).toBe('error')
  })
})

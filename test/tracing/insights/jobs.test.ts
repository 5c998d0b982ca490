// The API of insights jobs: what creates them, what they show, and who may.
import { sql } from 'drizzle-orm'
import { describe, expect, it } from 'vitest'
import { finishPendingWork } from '../../../src/host/pending-work.ts'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { newLimitedCaller } from '../../support/access-policies.ts'
import { getApp, unusedId } from '../../support/app.ts'
import { appendQuestions, newAskedTenant, setUpModel } from '../../support/insights.ts'

/** A job that has ended. */
async function newEndedJob(body: object = {}) {
  const asked = await newAskedTenant()
  const path = `/sessions/${asked.session_id}/insights`
  const created = await asked.tenant.post(path, { model: 'none', name: 'Questions', ...body })
  expect(created.status).toBe(200)
  await finishPendingWork()
  const job = (await asked.tenant.get(`${path}/${created.body.id}`)).body
  return { ...asked, path, created: created.body, job }
}

describe('a job', () => {
  it('starts at once, and shows its clusters from the broadest level down', async () => {
    const { created, job, path, tenant, ids } = await newEndedJob({ hierarchy: [4, 2] })
    expect(created).toEqual({ id: job.id, name: 'Questions', status: 'queued', error: null })
    expect(job).toMatchObject({
      status: 'success',
      error: null,
      config_id: null,
      report: null,
      metadata: { method: 'lexical', num_runs: ids.length },
    })
    const levels: number[] = job.clusters.map(({ level }: { level: number }) => level)
    expect(levels).toEqual(levels.toSorted((a, b) => b - a))
    expect(job.shape).toEqual({ 0: levels.filter(n => n === 0).length, 1: levels.filter(n => n === 1).length })
    for (const { level, parent_id, parent_name } of job.clusters) {
      const parent = job.clusters.find(({ id }: { id: string }) => id === parent_id)
      expect([parent?.level, parent?.name ?? null]).toEqual([level === 0 ? 1 : undefined, parent_name])
    }
    const [listed] = (await tenant.get(path)).body.clustering_jobs
    expect(listed).toEqual(Object.fromEntries(Object.keys(listed).map(name => [name, job[name]])))
    const [top] = job.clusters
    const { body: cluster } = await tenant.get(`${path}/${job.id}/clusters/${top.id}`)
    const children = job.clusters.filter(({ parent_id }: { parent_id: string }) => parent_id === top.id)
    expect(cluster).toEqual({
      id: top.id,
      parent_id: null,
      level: 1,
      name: top.name,
      description: top.description,
      num_children: children.length,
    })
  })

  it('lists the runs of a cluster and of those below it, in pages', async () => {
    const { tenant, path, job, ids } = await newEndedJob({ hierarchy: [4, 2] })
    const listAll = async (query: string) => {
      const found: string[] = []
      let offset: number | null = 0
      while (offset !== null) {
        const { body } = await tenant.get(`${path}/${job.id}/runs?limit=2&offset=${offset}${query}`)
        found.push(...body.runs.map(({ id }: { id: string }) => id))
        offset = body.offset
      }
      return found
    }
    expect(await listAll('')).toEqual(ids)
    for (const { id, num_runs } of job.clusters) expect(await listAll(`&cluster_id=${id}`), id).toHaveLength(num_runs)
    const [run] = (await tenant.get(`${path}/${job.id}/runs?limit=1`)).body.runs
    expect(run).toMatchObject({
      id: ids[0],
      name: 'chat',
      status: 'success',
      summary: null,
      cluster_name: expect.any(String),
    })
    expect((await tenant.get(`${path}/${job.id}/runs?cluster_id=${unusedId()}`)).body.code).toBe(
      'insight_cluster_not_found',
    )
  })

  it('lists runs in the order of an attribute, those without it last', async () => {
    const { tenant, path, job, ids } = await newEndedJob()
    const values = [{ score: 10 }, { score: 9 }, {}, { score: 100 }, { tone: 'angry' }, { tone: 'calm' }]
    for (const [i, attributes] of values.entries())
      await runAsSystem(
        getApp().database,
        sql`
          update insight_runs
          set attributes = ${JSON.stringify(attributes)}::json
          where job_id = ${job.id}::uuid and run_id = ${ids[i]}::uuid`,
      )
    const listFirst = async (key: string, order: string) =>
      (await tenant.get(`${path}/${job.id}/runs?attribute_sort_key=${key}&attribute_sort_order=${order}`)).body.runs
        .slice(0, 3)
        .map(({ id }: { id: string }) => ids.indexOf(id))
    expect(await listFirst('score', 'asc')).toEqual([1, 0, 3])
    expect(await listFirst('score', 'desc')).toEqual([3, 0, 1])
    expect(await listFirst('tone', 'desc')).toEqual([5, 4, 0])
  })

  it('is renamed and deleted', async () => {
    const { tenant, path, job } = await newEndedJob()
    expect((await tenant.patch(`${path}/${job.id}`, { name: 'May' })).body).toEqual({ name: 'May', status: 'success' })
    expect((await tenant.get(`${path}/${job.id}`)).body.name).toBe('May')
    expect((await tenant.delete(`${path}/${job.id}`)).body.id).toBe(job.id)
    expect((await tenant.get(`${path}/${job.id}`)).body.code).toBe('insight_job_not_found')
    expect((await tenant.get(path)).body.clustering_jobs).toEqual([])
  })

  it('is about the runs of its time', async () => {
    const { tenant, session_id } = await newAskedTenant()
    const path = `/sessions/${session_id}/insights`
    const countRuns = async (body: object) => {
      const { body: created } = await tenant.post(path, { model: 'none', ...body })
      await finishPendingWork()
      return (await tenant.get(`${path}/${created.id}`)).body.metadata.num_runs
    }
    const hourAgo = new Date(Date.now() - 3_600_000).toISOString()
    expect(await countRuns({ last_n_hours: 1 })).toBe(9)
    expect(await countRuns({ end_time: hourAgo })).toBe(0)
    expect(await countRuns({ start_time: hourAgo, filter: 'search("invoice")' })).toBe(3)
  })

  it('takes absent members from its config', async () => {
    const { tenant, session_id } = await newAskedTenant()
    const path = `/sessions/${session_id}/insights`
    const config = { model: 'none', hierarchy: [3], sample: 5, name: 'From the config' }
    const { body: saved } = await tenant.post(`${path}/configs`, { name: 'Saved', config })
    const { body: created } = await tenant.post(path, { config_id: saved.id, sample: 6, name: null })
    await finishPendingWork()
    const job = (await tenant.get(`${path}/${created.id}`)).body
    expect(job).toMatchObject({ name: 'From the config', config_id: saved.id, metadata: { num_runs: 6 } })
    expect((await tenant.get(`${path}?config_id=${saved.id}`)).body.clustering_jobs).toHaveLength(1)
    expect((await tenant.get(`${path}?config_id=${unusedId()}`)).body.clustering_jobs).toEqual([])
    expect((await tenant.post(path, { config_id: unusedId() })).body.code).toBe('insight_config_not_found')
  })

  it('is refused with all faults of its request at once, and nothing is stored', async () => {
    const { tenant, session_id } = await newAskedTenant()
    const path = `/sessions/${session_id}/insights`
    const faults = await tenant.post(path, {
      model: 'none',
      filter: 'eq(',
      summary_prompt: '{{run.secret}}',
      attribute_schemas: { a: { type: 'string' } },
      start_time: '2026-02-02',
      end_time: '2026-01-01',
      last_n_hours: 1,
    })
    expect([faults.status, faults.body.code]).toEqual([422, 'invalid_request'])
    expect(faults.body.errors.map(({ loc }: { loc: string[] }) => loc.at(-1)).sort()).toEqual([
      'attribute_schemas',
      'end_time',
      'filter',
      'last_n_hours',
      'summary_prompt',
    ])
    for (const body of [
      { sample: 0 },
      { sample: 1001 },
      { sample: 2.5 },
      { hierarchy: [] },
      { hierarchy: [0] },
      { last_n_hours: 0 },
      { partitions: Object.fromEntries(Array.from({ length: 11 }, (_, i) => [`p${i}`, ''])) },
      { attribute_schemas: { a: { type: 'number', filter_by: true } } },
      { name: 'a\0b' },
    ])
      expect((await tenant.post(path, { model: 'none', ...body })).status, JSON.stringify(body)).toBe(422)
    expect((await tenant.post(path, { model: 'none', filter: 'eq(' })).body.code).toBe('filter_invalid')
    expect((await tenant.get(path)).body.clustering_jobs).toEqual([])
  })

  it('needs a model configuration, which it finds by provider, name, id or model', async () => {
    const { tenant, session_id } = await newAskedTenant()
    const path = `/sessions/${session_id}/insights`
    const start = async (body: object) => (await tenant.post(path, body)).body
    expect((await start({})).code).toBe('model_required')
    const id = await setUpModel(tenant, { name: 'House model', provider: 'openai_compatible', model: 'small-1' })
    for (const body of [{}, { model: 'openai' }, { model: 'house MODEL' }, { model: id }, { model: 'small-1' }])
      expect((await start(body)).status, JSON.stringify(body)).toBe('queued')
    expect((await start({ model: 'anthropic' })).code).toBe('model_required')
    expect((await start({ summary_model: 'other' })).code).toBe('model_required')
    expect((await start({ model: 'anthropic', validate_model_secrets: false })).status).toBe('queued')
    await finishPendingWork()
    const [last] = (await tenant.get(path)).body.clustering_jobs
    expect([last.status, typeof last.error]).toEqual(['error', 'string'])
  })

  it('needs the permissions to read the runs and to call models', async () => {
    const { tenant, session_id } = await newAskedTenant()
    await setUpModel(tenant)
    const path = `/sessions/${session_id}/insights`
    const may = ['projects:read', 'rules:create'] as const
    const [neither, reader, caller] = [
      await newLimitedCaller(tenant, [...may], []),
      await newLimitedCaller(tenant, [...may, 'runs:read'], []),
      await newLimitedCaller(tenant, [...may, 'runs:read', 'models:invoke'], []),
    ]
    const start = async (one: typeof caller, model: string) => (await one.post(path, { model })).body.code ?? 'started'
    expect(await start(neither, 'none')).toBe('permission_missing')
    expect([await start(reader, 'none'), await start(reader, 'openai')]).toEqual(['started', 'permission_missing'])
    expect(await start(caller, 'openai')).toBe('started')
    // A caller who lets a schedule start it needs the same.
    const config = await tenant.post(`${path}/configs`, { name: 'Manual', config: { model: 'openai' } })
    const schedule = async (one: typeof caller) =>
      (await one.patch(`${path}/configs/${config.body.id}`, { schedule_cron: '0 0 1 1 *' })).body.code ?? 'scheduled'
    expect(await schedule(neither)).toBe('permission_missing')
    expect([await schedule(reader), await schedule(caller)]).toEqual(['permission_missing', 'scheduled'])
  })

  it('says nothing of runs whose trace is deleted', async () => {
    const { tenant, path, job, ids, session_id } = await newEndedJob()
    await tenant.post('/runs/delete/traces', { trace_ids: [ids[0]], session_id })
    const { body } = await tenant.get(`${path}/${job.id}/runs`)
    expect(body.runs.map(({ id }: { id: string }) => id)).toEqual(ids.slice(1))
  })

  it('is deleted with its project', async () => {
    const { tenant, path, job, session_id } = await newEndedJob()
    await tenant.delete(`/sessions/${session_id}`)
    expect((await tenant.get(`${path}/${job.id}`)).body.code).toBe('insight_job_not_found')
    await appendQuestions(tenant, ['again'])
  })
})

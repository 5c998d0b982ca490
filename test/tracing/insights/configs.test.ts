// Saved configs of insights, and the jobs that their schedules start.
import { sql } from 'drizzle-orm'
import { describe, expect, it } from 'vitest'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { startScheduledJobs } from '../../../src/tracing/insights/sweep.ts'
import { clock, getServices, send, startApp, type Tenant, unusedId, withClockAhead } from '../../support/app.ts'
import { newAskedTenant, work } from '../../support/insights.ts'

const HOUR = 3_600_000
const DAILY = '0 8 * * *'
const HOURLY = '0 * * * *'
const CONFIG = { model: 'none', last_n_hours: 24 }

async function newConfigTenant(options: Parameters<typeof newAskedTenant>[0] = {}) {
  const asked = await newAskedTenant(options)
  const path = `/sessions/${asked.session_id}/insights`
  const save = async (body: object = {}) =>
    (await asked.tenant.post(`${path}/configs`, { name: 'Daily', config: CONFIG, ...body })).body
  const listJobs = async () => (await asked.tenant.get(path)).body.clustering_jobs
  return { ...asked, path, save, listJobs }
}

const start = ({ tenant_id }: Tenant, services = getServices()) =>
  startScheduledJobs(services, sql`c.tenant_id = ${tenant_id}::uuid`)

/** The shift of the clock to a minute past the next start. */
const toStart = ({ next_start_at }: { next_start_at: string }) =>
  Date.parse(next_start_at) - Date.now() - clock.ahead + 60_000

describe('a config', () => {
  it('is saved, listed, changed and deleted', async () => {
    const { tenant, path, save } = await newConfigTenant()
    const saved = await save({ description: 'For the team', config: { ...CONFIG, hierarchy: [5, 2] } })
    expect(saved).toMatchObject({ name: 'Daily', prebuilt: false, schedule_cron: null, next_start_at: null })
    expect(saved.config).toEqual({ ...CONFIG, hierarchy: [5, 2] })
    expect((await tenant.get(`${path}/configs`)).body.configs).toEqual([saved])
    const one = `${path}/configs/${saved.id}`
    const { body: changed } = await tenant.patch(one, { description: null, schedule_cron: DAILY })
    expect(changed).toMatchObject({ name: 'Daily', description: null, schedule_cron: DAILY, schedule_note: null })
    expect(changed.next_start_at).toMatch(/T08:00:00\.000Z$/)
    expect((await tenant.patch(one, { schedule_cron: '' })).body).toMatchObject({
      schedule_cron: null,
      next_start_at: null,
    })
    expect((await tenant.delete(one)).body.id).toBe(saved.id)
    expect((await tenant.patch(one, { name: 'x' })).body.code).toBe('insight_config_not_found')
  })

  it('is listed with the prebuilt ones if they are asked for', async () => {
    const { tenant, path } = await newConfigTenant()
    const { configs } = (await tenant.get(`${path}/configs?include_prebuilts=true`)).body
    expect(configs.length).toBeGreaterThan(1)
    for (const { prebuilt, config } of configs) {
      expect(prebuilt).toBe(true)
      const reply = await tenant.post(path, { ...config, validate_model_secrets: false })
      expect(reply.status).toBe(200)
    }
  })

  it('is refused with the place of its fault', async () => {
    const { tenant, path } = await newConfigTenant()
    const refuse = async (body: object) =>
      (await tenant.post(`${path}/configs`, { name: 'x', config: CONFIG, ...body })).body
    expect((await refuse({ config: { summary_prompt: '{{x}}' } })).errors[0].loc).toEqual([
      'body',
      'config',
      'summary_prompt',
    ])
    expect((await refuse({ schedule_cron: '0 25 * * *' })).errors[0].loc).toEqual(['body', 'schedule_cron'])
    expect((await refuse({ config: { filter: 'eq(' } })).code).toBe('filter_invalid')
  })

  it('may not start jobs more often than the installation allows', async () => {
    const { tenant, path, save } = await newConfigTenant()
    const refused = await save({ schedule_cron: '0,30 * * * *' })
    expect([refused.status, refused.code]).toEqual([422, 'schedule_too_frequent'])
    for (const seconds of [1800, 3600]) expect(refused.detail).toContain(String(seconds))
    const { id } = await save({ schedule_cron: HOURLY })
    const changed = await tenant.patch(`${path}/configs/${id}`, { schedule_cron: '*/10 * * * *' })
    expect(changed.body.code).toBe('schedule_too_frequent')
  })
})

describe('a schedule', () => {
  it('starts one job at each firing, of several workers', async () => {
    const { tenant, save, listJobs } = await newConfigTenant()
    const saved = await save({ schedule_cron: DAILY })
    await start(tenant)
    expect(await listJobs()).toEqual([])
    await withClockAhead(toStart(saved), async () => {
      await Promise.all(Array.from({ length: 5 }, () => start(tenant)))
      const jobs = await listJobs()
      expect(jobs).toMatchObject([{ config_id: saved.id, name: 'Daily', status: 'queued' }])
      await work(tenant)
      await start(tenant)
      expect(await listJobs()).toHaveLength(1)
    })
    await withClockAhead(toStart(saved) + 24 * HOUR, async () => {
      await start(tenant)
      expect(await listJobs()).toHaveLength(2)
    })
  })

  it('makes up for missed firings by one job, and waits for a job that runs', async () => {
    const { tenant, save, listJobs } = await newConfigTenant()
    const saved = await save({ schedule_cron: HOURLY })
    await withClockAhead(toStart(saved) + 50 * HOUR, async () => {
      await start(tenant)
      await start(tenant)
      expect(await listJobs()).toHaveLength(1)
    })
    await withClockAhead(toStart(saved) + 52 * HOUR, async () => {
      await start(tenant)
      expect(await listJobs()).toHaveLength(1)
      await work(tenant)
    })
    await withClockAhead(toStart(saved) + 54 * HOUR, async () => {
      await start(tenant)
      expect(await listJobs()).toHaveLength(2)
    })
  })

  it('runs at the pace of the installation if that became slower, and shows it', async () => {
    const { tenant, path, save, listJobs } = await newConfigTenant()
    const saved = await save({ schedule_cron: HOURLY })
    const slower = startApp({ settings: { CLIO_SCHEDULE_MIN_INTERVAL_SECONDS: '10800' } })
    const services = getServices(slower)
    const starts: number[] = []
    for (let hour = 0; hour < 9; hour++)
      await withClockAhead(toStart(saved) + hour * HOUR, async () => {
        await start(tenant, services)
        await work(tenant)
        starts.push((await listJobs()).length)
      })
    expect(starts).toEqual([1, 1, 1, 2, 2, 2, 3, 3, 3])
    const headers = { 'X-Api-Key': tenant.key }
    const [shown] = (await send('GET', `${path}/configs`, { headers, app: slower })).body.configs
    for (const seconds of ['3600', '10800']) expect(shown.schedule_note).toContain(seconds)
    expect(Date.parse(shown.next_start_at)).toBeGreaterThan(Date.parse(saved.next_start_at))
  })

  it('starts a job that fails without a model', async () => {
    const { tenant, save, listJobs } = await newConfigTenant()
    const saved = await save({ schedule_cron: DAILY, config: { model: 'anthropic' } })
    await withClockAhead(toStart(saved), async () => {
      await start(tenant)
      await work(tenant)
    })
    expect(await listJobs()).toMatchObject([{ status: 'error', config_id: saved.id }])
  })

  it('ends with its config, whose jobs stay', async () => {
    const { tenant, path, save, listJobs } = await newConfigTenant()
    const saved = await save({ schedule_cron: DAILY })
    await withClockAhead(toStart(saved), async () => {
      await start(tenant)
      await work(tenant)
      await tenant.delete(`${path}/configs/${saved.id}`)
    })
    await withClockAhead(toStart(saved) + 48 * HOUR, () => start(tenant))
    expect(await listJobs()).toMatchObject([{ config_id: null }])
    expect((await tenant.delete(`${path}/configs/${unusedId()}`)).body.code).toBe('insight_config_not_found')
  })
})

it('the schedules of one workspace do not hold back those of another', async () => {
  const [many, one] = [await newConfigTenant(), await newConfigTenant()]
  const projects = [many.session_id]
  for (const name of ['second', 'third']) projects.push((await many.tenant.post('/sessions', { name })).body.id)
  const { id } = await one.save({ schedule_cron: DAILY })
  const { organization_id, tenant_id } = many.tenant
  // They have just started, so that each only waits for its next time.
  const insert = sql`
    insert into insight_configs (
      organization_id, tenant_id, session_id, name, config, schedule_cron, next_start_at, last_started_at
    )
    select ${organization_id}::uuid, ${tenant_id}::uuid, p::uuid, 'Many', '{"model": "none"}', ${HOURLY},
      clock() - interval '1 day', clock()
    from unnest(${sql.param(projects)}::text[]) p
    cross join generate_series(1, 70)`
  const due = sql`update insight_configs set next_start_at = clock() where id = ${id}::uuid`
  await runAsSystem(getServices().database, insert, due)
  await startScheduledJobs(getServices(), sql`c.tenant_id in (${tenant_id}::uuid, ${one.tenant.tenant_id}::uuid)`)
  expect(await one.listJobs()).toHaveLength(1)
})

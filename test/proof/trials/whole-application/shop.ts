// The deployment of the application: how it is made, changed and looked at.
import { cpSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { check, note, PATIENCE_MS, skipped } from '../../support/trial.ts'
import { until } from '../../support/two-hosts.ts'
import type { Installation, Job } from './installation.ts'
import { type Report, readJson } from './use.ts'

const SHOP = join(import.meta.dirname, 'shop')
/** A revision may fail while its parts are killed. Then the one before it goes on, and the change is made again. */
export const ATTEMPTS = 4
const MIGRATION = `from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [('shop', '0001_initial')]
    operations = [migrations.RunSQL("alter table shop_row add column note text not null default ''")]
`
const STORES = { db_max_connections: 60, redis_memory_mb: 64 }
/** A cluster has to make it, and needs a size for that. */
const diskOn = (engine: Installation['engine']) => ({
  volumes: [
    { name: 'media', persistentVolumeClaim: { claimName: 'media', ...(engine === 'kubernetes' && { storage_gi: 1 }) } },
  ],
  volume_mounts: [{ name: 'media', mountPath: '/app/media' }],
})

export type Shop = { id: string; hasDisk: boolean }

/** The folder of a release of the application. The second has one more migration. */
export function writeRelease(folder: string, release: 1 | 2): string {
  const path = join(folder, `release-${release}`)
  cpSync(SHOP, path, { recursive: true, filter: name => !name.includes('__pycache__') })
  writeFileSync(join(path, 'RELEASE'), `${release}\n`)
  if (release === 2) writeFileSync(join(path, 'shop/migrations/0002_note.py'), MIGRATION)
  return path
}

export async function createShop({ api, engine }: Installation, name: string): Promise<Shop> {
  const create = (resource_spec: object) =>
    api('POST', '/v2/deployments', {
      name,
      source: 'internal_source',
      source_config: { resource_spec },
      source_revision_config: {},
      secrets: [{ name: 'SECRET_KEY', value: `the key of ${name}` }],
    })
  const withDisk = await create({ ...STORES, ...diskOn(engine) })
  if (withDisk.status === 201) return { id: withDisk.body.id, hasDisk: true }
  skipped(`files on a disk: ${withDisk.body.detail}`)
  const { status, body } = await create(STORES)
  if (status !== 201) throw new Error(`The deployment was refused: ${JSON.stringify(body)}`)
  return { id: body.id, hasDisk: false }
}

export async function change({ slipway }: Installation, what: string, args: string[]): Promise<void> {
  const started = performance.now()
  const isJob = args[0] === 'snapshots'
  for (let attempt = 1; ; attempt++) {
    const { code, lines, errors } = await slipway([
      ...args,
      '--yes',
      ...(isJob ? [] : ['--timeout', String(PATIENCE_MS / 1000)]),
    ])
    const took = `${((performance.now() - started) / 1000).toFixed(1)} s`
    if (code === 0) {
      check(what, true)
      return note(`${took}${attempt > 1 ? `, in attempt ${attempt}` : ''}`)
    }
    const reason = `${JSON.stringify(lines.at(-1))} ${errors.trim().split('\n').at(-1)}`.slice(0, 800)
    if (attempt === ATTEMPTS) return check(what, false, reason)
    note(`${what}, attempt ${attempt} ended with ${code} after ${took}: ${reason}`)
  }
}

export async function listJobs({ api }: Installation, { id }: Shop): Promise<Job[]> {
  const { body } = await api('GET', `/v2/deployments/${id}/jobs?limit=100`)
  return body.resources as Job[]
}
export const isOpen = ({ status }: Pick<Job, 'status'>): boolean => status === 'QUEUED' || status === 'RUNNING'

/** Waits until nothing is open any more, and returns what is there then. */
export async function readWhenCalm(installation: Installation, shop: Shop, url: string): Promise<Report> {
  const started = performance.now()
  const isHealthy = async () => {
    const { body } = await installation.api('GET', `/v2/deployments/${shop.id}`)
    return body.health?.state === 'healthy'
  }
  const calm = until(
    'everything is healthy, and done',
    async () => {
      await delay(1000)
      const report = await readJson<Report>(url, '/report')
      const jobs = await listJobs(installation, shop)
      const isDone = report.open.length === 0 && !jobs.some(isOpen)
      return isDone && (await isHealthy()) ? report : undefined
    },
    PATIENCE_MS,
  )
  const report = await calm.catch(() => undefined)
  check('it is healthy by itself, and has done everything', report !== undefined)
  note(`${((performance.now() - started) / 1000).toFixed(1)} s after the last kill`)
  if (report) return report
  for (const path of ['', '/explain']) {
    const { body } = await installation.api('GET', `/v2/deployments/${shop.id}${path}`)
    note(JSON.stringify(path === '' ? body.health : body).slice(0, 2000))
  }
  return readJson<Report>(url, '/report')
}

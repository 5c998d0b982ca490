// Snapshots of what lasts, taken in use, and brought into a new deployment.
import { check, note, PATIENCE_MS, skipped } from '../../support/trial.ts'
import { until } from '../../support/two-hosts.ts'
import type { Installation } from './installation.ts'
import { ATTEMPTS, change, createShop, isOpen, readWhenCalm, type Shop } from './shop.ts'
import type { Use } from './use.ts'
import { checkFiles, checkRows } from './verify.ts'

const MEDIA = 'disk:media'

export function newBackup(installation: Installation, shop: Shop, use: Use) {
  const { api, slipway } = installation
  const before = use.acknowledged()
  const snapshots = new Map<string, string>()
  const stores = ['database', ...(shop.hasDisk ? [MEDIA] : [])]

  async function takeOne(store: string): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      const { status, body } = await api('POST', `/v2/deployments/${shop.id}/snapshots`, { store })
      if (status !== 202) return skipped(`a snapshot of ${store}: ${body.detail ?? status}`)
      const readEnd = async () => {
        const { body: now } = await api('GET', `/v2/deployments/${shop.id}/jobs/${body.id}`)
        return isOpen(now) ? undefined : now
      }
      const job = await until(`the snapshot of ${store} ends`, readEnd, PATIENCE_MS)
      if (job.status === 'SUCCEEDED') break
      note(`the snapshot of ${store}, attempt ${attempt}: ${job.status}, ${job.reason}`)
      if (attempt === ATTEMPTS) return check(`a snapshot of ${store} is taken in use`, false)
    }
    check(`a snapshot of ${store} is taken in use`, true)
    const { body } = await api('GET', `/v2/snapshots?deployment_id=${shop.id}&store=${store}&limit=100`)
    snapshots.set(store, body.resources.find(({ reason }) => reason === 'manual')!.id)
  }

  return {
    async take(): Promise<void> {
      Object.assign(before, use.acknowledged())
      for (const store of stores) await takeOne(store)
    },
    async restore(source: string): Promise<void> {
      if (snapshots.size === 0) return skipped('a restore into a new deployment: there is no backup')
      const copy = await createShop(installation, 'restored')
      await change(installation, 'a new deployment is made', ['deploy', source, '--name', 'restored'])
      for (const [store, id] of snapshots)
        await change(installation, `the snapshot of ${store} is restored`, ['snapshots', 'restore', 'restored', id])
      const url = await installation.readUrl(copy.id)
      const report = await readWhenCalm(installation, copy, url)
      if (snapshots.has('database')) checkRows('restored', report, before)
      if (snapshots.has(MEDIA)) checkFiles('restored', report, before)
      await slipway(['delete', 'restored', '--yes'])
    },
  }
}

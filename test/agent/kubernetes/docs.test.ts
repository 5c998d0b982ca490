// docs/operate/kubernetes.md lists every setting and every member of resource_spec, and its Role is sufficient and
// minimal.
import { randomUUID } from 'node:crypto'
import * as fs from 'node:fs'
import { join } from 'node:path'
import { loadYaml } from '@kubernetes/client-node'
import { expect, test } from 'vitest'
import { NO_EVENTS, type RevisionSpec } from '../../../src/agent/engine.ts'
import { readSettings } from '../../../src/agent/engines/kubernetes/settings.ts'
import { KubernetesEngine } from '../../../src/agent/engines/kubernetes.ts'
import { ResourceSpec } from '../../../src/protocol/resources.schema.ts'
import { KubernetesApi, type Rule, toPlural } from '../../support/kubernetes-api.ts'
import {
  DEPLOYMENT_ID,
  makeArtifact,
  makeKubernetesSettings,
  makeKubernetesUnit,
  makeRevisionId,
} from '../../support/kubernetes-fixtures.ts'
import {
  bringUpAutomatically,
  endJob,
  makeRunningStatus,
  putPod,
  reconcileUntilStable,
  setUnavailable,
} from '../../support/kubernetes-pods.ts'

const page = fs.readFileSync(join(import.meta.dirname, '../../../docs/operate/kubernetes.md'), 'utf8')

test('the page lists every member of resource_spec', () => {
  const rows = page.slice(page.indexOf('| member of `resource_spec`')).split('\n\n')[0]!
  for (const member of Object.keys(ResourceSpec.shape)) expect(rows, member).toContain(`\`${member}\``)
})

test('the page lists every setting with its default', () => {
  const rows = [...page.matchAll(/^\| `(K8S_\w+)` \| (.*?) \|/gm)]
  const documented = Object.fromEntries(rows.map(([, name, value]) => [name, /^`(.*)`$/.exec(value!)?.[1]]))
  const defaults = Object.fromEntries(Object.entries(documented).filter(([, value]) => value !== undefined))
  const K8S_NAMESPACES = 'apps'
  expect(readSettings({ K8S_NAMESPACES, ...(defaults as Record<string, string>) })).toEqual(
    readSettings({ K8S_NAMESPACES }),
  )
  expect(Object.keys(documented)).toHaveLength(Object.keys(makeKubernetesSettings()).length)
  expect(() => readSettings({ K8S_ROUTES: 'gateway', K8S_DRAIN_SECONDS: 'x' })).toThrow(
    /K8S_NAMESPACES.*K8S_DRAIN_SECONDS/s,
  )
})

/** Takes, restores and removes those of a database and of a disk. */
async function useSnapshots(engine: KubernetesEngine, unit: RevisionSpec): Promise<void> {
  const { signal } = new AbortController()
  const { snapshotHolder: holder } = engine
  const { deployment_id } = unit
  for (const store of ['database', 'disk:media']) {
    const id = randomUUID()
    const snapshot = { id, deployment_id, store, reason: 'manual' as const, taken_at: new Date().toISOString() }
    await holder.add(snapshot, to => engine.takeSnapshot(deployment_id, store, to, signal))
    await engine.restoreSnapshot(unit, store, { folder: id }, signal)
    await holder.remove(id)
  }
  await holder.refresh()
}

test('the Role on the page is sufficient and grants nothing unused', async () => {
  const { rules } = loadYaml<{ rules: Rule[] }>(/```yaml\n(.*?)```/s.exec(page)![1]!)
  const api = await new KubernetesApi().open()
  api.rules = rules
  api.missingGroups.clear()
  api.snapshotClasses = [{ metadata: { name: 'fast' } }]
  bringUpAutomatically(api)
  api.listeners.add(({ type, object: { kind, metadata } }) => {
    if (type !== 'ADDED') return
    if (kind === 'Job' && !metadata.name.includes('-run-')) queueMicrotask(() => endJob(api, metadata.name))
    if (kind === 'VolumeSnapshot')
      queueMicrotask(() => api.status(kind, metadata.name, { readyToUse: true, restoreSize: '1Gi' }))
    if (kind === 'PersistentVolumeClaim') queueMicrotask(() => api.status(kind, metadata.name, { phase: 'Bound' }))
  })
  for (const [i, more] of [{ K8S_ROUTES: 'ingress' }, { K8S_ROUTES: 'gateway', K8S_GATEWAY: 'infra/main' }].entries()) {
    const settings = makeKubernetesSettings({ K8S_DOMAIN: 'apps.example.com', K8S_OWNER: `o${i}`, ...more })
    const engine = new KubernetesEngine({ settings, config: api.config, pause_ms: 2 })
    await engine.open(NO_EVENTS)
    await expect.poll(() => api.watchCount).toBe(6)
    const volumes = [{ name: 'm', persistentVolumeClaim: { claimName: 'media', storage_gi: 1 } }]
    const process_scaling = { queue: { min_scale: 0, max_scale: 3, scale_metric: 'queue' } }
    const spec = { db_cpu: 1, redis_cpu: 1, queue_cpu: 1, max_scale: 3, process_scaling, volumes }
    const units = [1, 2].map(number =>
      makeKubernetesUnit({ number, spec, secrets: { A: 'b' }, custom_url: 'https://a.example.com' }),
    )
    await reconcileUntilStable(engine, { target: makeRevisionId(1) }, units)
    await reconcileUntilStable(engine, { target: makeRevisionId(2), serving: makeRevisionId(1) }, units)
    setUnavailable(api, 'shop-aaaaaaaa00-r2', makeRunningStatus('app', false))
    await engine.observe(DEPLOYMENT_ID)
    await engine.deployments()
    await reconcileUntilStable(engine, { serving: makeRevisionId(2) }, units)
    await useSnapshots(engine, units[1]!)
    const once = { id: makeRevisionId(9), command: 'migrate', timeout_seconds: 60 }
    const running = engine.runOnce(units[1]!, makeArtifact(), once, () => {}, new AbortController().signal)
    await expect.poll(() => api.all('Job')).toHaveLength(1)
    const job = api.all('Job')[0]!
    putPod(api, job, makeRunningStatus('app'))
    api.writeLog(`${job.metadata.name}-0`, 'migrated')
    api.status('Job', job.metadata.name, { conditions: [{ type: 'Complete', status: 'True' }] })
    expect(await running).toEqual({ exit_code: 0, reason: null })
    await engine.forgetRun(DEPLOYMENT_ID, once.id)
    await reconcileUntilStable(engine, { present: false }, units)
    expect(api.all()).toEqual([])
    await engine.close()
    await expect.poll(() => api.watchCount).toBe(0)
  }
  const used = new Set(api.requests.map(({ kind, verb }) => `${toPlural(kind)} ${verb}`))
  await api.close()
  const granted = rules.flatMap(({ resources, verbs }) =>
    resources.flatMap(resource => verbs.map(verb => `${resource} ${verb}`)),
  )
  expect(granted.map(grant => grant.replace(/pods\/\w+/, 'pods')).filter(grant => !used.has(grant))).toEqual([])
})

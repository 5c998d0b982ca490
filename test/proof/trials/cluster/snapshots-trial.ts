// Dumps of databases and VolumeSnapshots of disks on a real API server. Nothing is in them: the trial plays the driver
// of the storage, and the stages of kwok play the pods.
import { BACKUP_OF_LABEL, COMPONENT_LABEL } from '../../../../src/agent/engines/kubernetes/names.ts'
import type { EngineTrial } from './engine-trial.ts'
import { expect, expectEqual, type Results, waitUntil } from './results.ts'
import { playSnapshotDriver, VOLUME_SNAPSHOTS } from './snapshot-driver.ts'

export async function trySnapshots(trial: EngineTrial, results: Results, restart: () => Promise<void>): Promise<void> {
  const { cluster, context } = trial
  const volumes = [{ name: 'm', persistentVolumeClaim: { claimName: 'media', storage_gi: 3 } }]
  const volume_mounts = [{ name: 'm', mountPath: '/media' }]
  const id = await trial.deploy('notes', { resource_spec: { db_storage_gi: 5, volumes, volume_mounts } })
  await trial.waitUntilDeployed(id)
  const path = `/v2/deployments/${id}`
  const act = async (what: 'snapshots' | 'restores', body: object) => {
    const made = await context.call('POST', `${path}/${what}`, body)
    expectEqual(made.status, 202, `POST of ${what} (${JSON.stringify(made.body)})`)
    const job = await waitUntil('the job has ended', async () => {
      const one = (await context.call('GET', `${path}/jobs/${made.body.id}`)).body
      return one.finished_at !== null && one
    })
    expectEqual(job.status, 'SUCCEEDED', `the job (${job.reason})`)
    return job.id as string
  }
  const list = async () => {
    const { body } = await context.call('GET', `/v2/snapshots?deployment_id=${id}`)
    return body.resources as { id: string; store: string; reason: string; size_bytes: number }[]
  }
  const listDumpClaims = () => cluster.list('v1', 'PersistentVolumeClaim', undefined, `${BACKUP_OF_LABEL}=${id}`)
  const isIdle = async () =>
    (await trial.listKind('Job', id)).every(({ metadata }) => metadata!.labels![COMPONENT_LABEL] !== 'dumps')

  await results.check('a database has a CronJob, whose dumps the agent finds', async () => {
    const [cron] = await trial.listKind('CronJob', id)
    const [claim] = await listDumpClaims()
    expectEqual(claim!.spec.resources.requests.storage, '10Gi', 'size of the claim')
    const { name, namespace } = cron!.metadata!
    const often = { metadata: { name: name!, namespace: namespace! }, spec: { schedule: '* * * * *' } }
    await waitUntil('the agent has settled', () => context.isReconciled(id))
    let patchedAt = 0
    await waitUntil('a dump is noted on the claim', async () => {
      // The agent may just be setting back what others change.
      if (Date.now() - patchedAt > 20_000) {
        await cluster.patch({ apiVersion: 'batch/v1', kind: 'CronJob', ...often })
        patchedAt = Date.now()
      }
      return Object.keys((await listDumpClaims())[0]!.metadata!.annotations ?? {}).some(key => key.includes('held'))
    })
    await restart()
    await waitUntil('the agent has set the schedule back', async () => {
      const [now] = await trial.listKind('CronJob', id)
      return now!.spec.schedule === cron!.spec.schedule
    })
    return cron!.spec.schedule
  })

  let snapshot = ''
  await results.check('a database is dumped and restored by Jobs, which go', async () => {
    snapshot = await act('snapshots', { store: 'database' })
    const known = await list()
    expectEqual(known.find(one => one.id === snapshot)?.size_bytes, 4096, 'size')
    expect(
      known.some(({ reason }) => reason === 'automatic'),
      'the dump of the CronJob is not listed',
    )
    await act('restores', { store: 'database', snapshot_id: snapshot })
    expect(
      (await list()).some(({ reason }) => reason === 'before_restore'),
      'what was there was not kept',
    )
    await waitUntil('no Job is left', isIdle)
    return `${(await list()).length} snapshots`
  })

  await results.check('a point in time is refused', async () => {
    const made = await context.call('POST', `${path}/restores`, { store: 'database', at: new Date().toISOString() })
    if (made.status !== 202) return `${made.status} ${made.body.code}`
    const job = await waitUntil('the job has ended', async () => {
      const one = (await context.call('GET', `${path}/jobs/${made.body.id}`)).body
      return one.finished_at !== null && one
    })
    expectEqual(job.status, 'FAILED', 'status')
    return job.reason
  })

  await results.check('a deleted snapshot is pruned by a Job', async () => {
    const { status } = await context.call('DELETE', `/v2/snapshots/${snapshot}`)
    expectEqual(status, 204, 'DELETE of the snapshot')
    // An agent learns of it when it tells what it has: every five minutes, and first of all.
    await restart()
    const annotations = async () => Object.keys((await listDumpClaims())[0]!.metadata!.annotations ?? {})
    await waitUntil('it is no longer noted', async () => !(await annotations()).some(key => key.includes(snapshot)))
    await waitUntil('no Job is left', isIdle)
  })

  const playing = playSnapshotDriver(cluster, `${BACKUP_OF_LABEL}=${id}`)
  await results.check('a disk is copied by a VolumeSnapshot, and made anew of it', async () => {
    const copy = await act('snapshots', { store: 'disk:media' })
    const find = async () =>
      (await trial.listKind('PersistentVolumeClaim', id)).find(one => one.metadata!.name!.endsWith('-disk-media'))!
    const before = await find()
    const pods = await trial.listKind('Pod', id)
    await act('restores', { store: 'disk:media', snapshot_id: copy })
    const after = await find()
    expect(after.metadata!.uid !== before.metadata!.uid, 'the claim is the same')
    expectEqual(after.spec.dataSource.kind, 'VolumeSnapshot', 'source')
    expectEqual(after.status.phase, 'Bound', 'claim')
    const gone = pods.find(({ metadata }) => metadata!.labels![COMPONENT_LABEL] === 'web')!
    await waitUntil('another pod serves', async () => {
      const [pod] = (await trial.listKind('Pod', id)).filter(
        ({ metadata }) => metadata!.labels![COMPONENT_LABEL] === 'web' && !metadata!.deletionTimestamp,
      )
      return pod && pod.metadata!.uid !== gone.metadata!.uid && pod.status.phase === 'Running'
    })
    await restart()
    await waitUntil('the agent has settled', () => context.isReconciled(id))
    expectEqual((await find()).metadata!.uid, after.metadata!.uid, 'claim after the next agent')
  })

  await results.check('a cleared disk leaves a last snapshot, and the database stays', async () => {
    const cleared = 'clear=resource_spec.volumes,resource_spec.volume_mounts'
    const { status } = await context.call('PATCH', `${path}?${cleared}`, {})
    expectEqual(status, 200, 'PATCH')
    await waitUntil(
      'its claim is gone',
      async () =>
        !(await trial.listKind('PersistentVolumeClaim', id)).some(one => one.metadata!.name!.endsWith('-disk-media')),
    )
    expect(
      (await list()).some(one => one.store === 'disk:media' && one.reason === 'last'),
      'there is no last snapshot',
    )
    expectEqual((await trial.listKind('StatefulSet', id)).length, 1, 'databases')
  })

  await results.check('a deleted deployment leaves its snapshots alone', async () => {
    await trial.deleteDeployment(id)
    expectEqual((await listDumpClaims()).length, 1, 'claims with dumps')
    expect(
      (await list()).some(one => one.store === 'database' && one.reason === 'last'),
      'there is no last dump',
    )
    for (const one of await list()) await context.call('DELETE', `/v2/snapshots/${one.id}`)
    await restart()
    await waitUntil('the claim goes with its last snapshot', async () => (await listDumpClaims()).length === 0)
    const left = await cluster.list(...VOLUME_SNAPSHOTS, undefined, `${BACKUP_OF_LABEL}=${id}`)
    expectEqual(left.length, 0, 'VolumeSnapshots')
  })
  playing.stop()
}

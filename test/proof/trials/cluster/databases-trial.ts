// Databases and disks in pods that really run, on a real API server: a copy for a preview, dumps in a bucket, snapshots
// of files, and the commands and ports of pods by the command line.
import * as fs from 'node:fs'
import { join } from 'node:path'
import pg from 'pg'
import { BACKUP_OF_LABEL, COMPONENT_LABEL, DEPLOYMENT_LABEL } from '../../../../src/agent/engines/kubernetes/names.ts'
import { startS3 } from '../../../support/s3.ts'
import { PATIENCE_MS } from '../../support/trial.ts'
import { type Installation, startInstallation } from '../whole-application/installation.ts'
import type { Kubernetes } from './kubernetes.ts'
import type { Objects, Ref } from './objects.ts'
import { pushApplicationImage } from './pod-images.ts'
import { startRealPods } from './real-pods.ts'
import { expect, expectEqual, type Results, waitUntil } from './results.ts'
import type { PodRunner } from './run-pods.ts'

const NAMESPACE = 'databases'
const KINDS = [
  ['v1', 'Pod'],
  ['v1', 'PersistentVolumeClaim'],
  ['v1', 'Secret'],
  ['apps/v1', 'StatefulSet'],
  ['batch/v1', 'Job'],
  ['batch/v1', 'CronJob'],
] as const
const STORES = ['database', 'disk:media']
const RESOURCES = {
  db_storage_gi: 1,
  volumes: [{ name: 'm', persistentVolumeClaim: { claimName: 'media', storage_gi: 3 } }],
  volume_mounts: [{ name: 'm', mountPath: '/media' }],
}

export async function tryDatabases(kubernetes: Kubernetes, cluster: Objects, results: Results): Promise<void> {
  await using cleanup = new AsyncDisposableStack()
  const { folder, podman, base, runner, settings } = await startRealPods(cleanup, kubernetes, cluster, NAMESPACE)
  const image = await pushApplicationImage(podman, base)
  const bucket = join(folder, 'bucket')
  const s3 = await startS3(bucket)
  cleanup.defer(async () => void (await s3.close()))
  const backups = Object.entries(s3.settings).map(([name, value]) => [name.replace('UPLOADS', 'BACKUPS'), value])
  const installation = await startInstallation(cleanup, 'kubernetes', { ...settings, ...Object.fromEntries(backups) })
  await new DatabaseTrial({ ...installation, cluster, runner, results, image, bucket }).run()
}

type Place = Installation & { cluster: Objects; runner: PodRunner; results: Results; image: string; bucket: string }

class DatabaseTrial {
  readonly #place: Place

  constructor(place: Place) {
    this.#place = place
  }

  async run(): Promise<void> {
    const { results, slipway } = this.#place
    let shop = ''
    const isUp = await results.check('a database in a pod is reached by the ports of pods', async () => {
      shop = await this.#deploy('shop')
      await this.#psql('shop', 'create table visits as select 1 as n')
      expectEqual(await this.#read('shop'), [1], 'rows')
    })
    if (!isUp) return results.skip('copies and dumps of that database', 'it did not become ready')
    await results.check('a command runs in the pod of an application, and reads its database', async () => {
      const query = 'psql "$DATABASE_URI" -XAtc "select json_agg(n) from visits"'
      const { code, lines, errors } = await slipway(['exec', 'shop', '--', 'sh', '-c', `${query}; exit 3`])
      expectEqual([code, lines[0]], [3, [1]], `exit code and output (${errors})`)
    })

    await results.check('an application writes to its disk, whose files come back from a VolumeSnapshot', async () => {
      await this.#shell(`echo '"first"' > /media/picture`)
      const disk = await this.#takeSnapshot(shop, 'disk:media')
      await this.#shell(`echo '"second"' > /media/picture; touch /media/later`)
      await this.#restore(disk)
      await this.#waitUntilServed(shop)
      const isThere = () => this.#shell('cat /media/picture; ls /media | wc -l').catch(() => undefined)
      expectEqual(await waitUntil('a command runs', isThere), ['first', 1], 'the file, and how many there are')
      await this.#shell(`echo '"third"' > /media/picture`)
    })

    let preview = ''
    await results.check('a preview begins with the data of its parent, whose sessions go on', async () => {
      await using session = await this.#connect(shop)
      const since = performance.now()
      preview = await this.#makePreview()
      const seconds = ((performance.now() - since) / 1000).toFixed(1)
      const { name } = (await this.#get(`/v2/deployments/${preview}`)) as unknown as { name: string }
      expectEqual(await this.#read(name), [1], 'rows of the preview')
      await session.client.query('insert into visits values (2)')
      await this.#psql(name, 'insert into visits values (7)')
      expectEqual(await this.#read('shop'), [1, 2], 'rows of the parent')
      expectEqual(await this.#read(name), [1, 7], 'rows of the preview after both have written')
      const secrets = await Promise.all([shop, preview].map(id => this.#readUri(id)))
      expect(new URL(secrets[0]!).password !== new URL(secrets[1]!).password, 'both databases have one password')
      return `served after ${seconds} s`
    })
    await results.check('a deleted preview takes its copy along, without a last dump', async () => {
      const { status } = await this.#place.api('DELETE', `/v2/deployments/${preview}`)
      expect(status < 300, `DELETE answered ${status}`)
      await waitUntil('nothing of it is left', async () => (await this.#listObjects(preview)).length === 0)
      // Its disk is no copy.
      expectEqual(
        (await this.#listSnapshots(preview)).map(({ store }) => store),
        ['disk:media'],
        'snapshots',
      )
    })

    let dump = ''
    await results.check('a dump is carried into the bucket by a pod', async () => {
      dump = await this.#takeSnapshot(shop, 'database')
      await waitUntil('it is in the bucket', async () => this.#isStored(dump))
      const { size_bytes } = (await this.#listSnapshots(shop)).find(({ id }) => id === dump)!
      return `${size_bytes} bytes`
    })
    await results.check('it is downloaded by the command line', async () => {
      const file = join(this.#place.folder, 'dump.tar')
      const { code, errors } = await slipway(['snapshots', 'download', dump, file])
      expectEqual(code, 0, `exit code of snapshots download (${errors})`)
      expect(fs.readFileSync(file).includes('PGDMP'), 'it is no dump')
    })
    await results.check('it outlives its claim, and is restored from the bucket under open sessions', async () => {
      const { cluster, killAgent, isAgentRunning } = this.#place
      await this.#psql('shop', 'delete from visits; create table later (n int)')
      const [claim] = await this.#listClaims(shop)
      await cluster.delete(claim as Ref)
      await waitUntil('the claim is gone', async () =>
        (await this.#listClaims(shop)).every(({ metadata }) => metadata!.uid !== claim!.metadata!.uid),
      )
      await killAgent(0)
      await waitUntil('the agent has made another', async () => (await this.#listClaims(shop)).length === 1)
      expect(isAgentRunning(), 'the agent has ended')
      await using session = await this.#connect(shop)
      await this.#restore(dump)
      expectEqual(await this.#read('shop'), [1, 2], 'rows')
      const isCut = await session.client.query('select 1').then(
        () => false,
        () => true,
      )
      expect(isCut, 'a session goes on with the old data')
      const reasons = (await this.#listSnapshots(shop)).map(({ reason }) => reason)
      expect(reasons.includes('before_restore'), `the data before were not kept: ${reasons}`)
    })
    await results.check(
      'a deleted deployment keeps its last snapshots, and the bucket loses what is deleted',
      async () => {
        await this.#place.api('DELETE', `/v2/deployments/${shop}`)
        await waitUntil('its database is gone', async () =>
          (await this.#listObjects(shop)).every(({ kind }) => kind === 'PersistentVolumeClaim'),
        )
        const kept = await this.#listSnapshots(shop)
        expect(
          kept.some(({ reason }) => reason === 'last'),
          'there is no last dump',
        )
        expectEqual(
          kept
            .filter(({ reason }) => reason === 'last')
            .map(({ store }) => store)
            .sort(),
          STORES,
          'last snapshots',
        )
        for (const { id } of kept) await this.#place.api('DELETE', `/v2/snapshots/${id}`)
        await this.#place.killAgent(0)
        await waitUntil('nothing is left', async () => (await this.#listObjects(shop)).length === 0)
        await waitUntil('the bucket is empty', async () => kept.every(({ id }) => !this.#isStored(id)))
        return `${kept.length} snapshots`
      },
    )
  }

  /** Returns its id once it serves. */
  async #deploy(name: string): Promise<string> {
    const { api, image } = this.#place
    const { status, body } = await api('POST', '/v2/deployments', {
      name,
      source: 'internal_container',
      source_config: { resource_spec: RESOURCES },
      source_revision_config: { image_uri: image },
      secrets: [],
    })
    expectEqual(status, 201, `POST of the deployment (${JSON.stringify(body)})`)
    await this.#waitUntilServed(body.id)
    return body.id
  }
  async #waitUntilServed(id: string): Promise<void> {
    const isServed = async () => {
      const { resources } = (await this.#get(`/v2/deployments/${id}/revisions?limit=1`)) as unknown as {
        resources: { status: string; status_message: string }[]
      }
      const { status, status_message } = resources[0]!
      if (status.endsWith('FAILED')) throw new Error(`${status}: ${status_message} ${this.#place.runner.describe()}`)
      return status === 'DEPLOYED'
    }
    await waitUntil(`${id} serves`, isServed).catch(error => {
      throw new Error(`${error.message} ${this.#place.runner.describe()}`)
    })
  }
  /** By the command line. Returns the id of its deployment. */
  async #makePreview(): Promise<string> {
    const { slipway, image, runner } = this.#place
    const options = ['--image', image, '--database', 'copy', '--timeout', String(PATIENCE_MS / 1000)]
    const { code, lines, errors } = await slipway(['preview', '--name', 'shop', '--branch', 'cart', ...options])
    const made = lines.find(({ type }) => type === 'preview') as { deployment_id?: string } | undefined
    expect(code === 0, `exit code ${code}: ${JSON.stringify(lines.slice(-5))} ${errors} ${runner.describe()}`)
    return made!.deployment_id!
  }

  /** By a forwarded port. */
  async #psql(name: string, sql: string): Promise<unknown> {
    const { code, lines, errors } = await this.#place.slipway(['db', name, '--', '-XAqtc', sql])
    expectEqual(code, 0, `exit code of psql (${errors})`)
    return lines[0]
  }
  #read = (name: string) => this.#psql(name, 'select json_agg(n order by n) from visits')

  /** In the pod of the application. Returns the lines that it prints. */
  async #shell(command: string): Promise<unknown[]> {
    const { code, lines, errors } = await this.#place.slipway(['exec', 'shop', '--', 'sh', '-c', command])
    expectEqual(code, 0, `exit code of the command (${errors})`)
    return lines
  }
  /** Returns its id. */
  async #takeSnapshot(id: string, store: string): Promise<string> {
    const { code, errors } = await this.#place.slipway(['snapshots', 'take', 'shop', store])
    expectEqual(code, 0, `exit code of snapshots take (${errors})`)
    return (await this.#listSnapshots(id)).find(one => one.store === store && one.reason === 'manual')!.id
  }
  async #restore(snapshot: string): Promise<void> {
    const { code, lines, errors } = await this.#place.slipway(['snapshots', 'restore', 'shop', snapshot, '--yes'])
    expectEqual(code, 0, `exit code of snapshots restore (${JSON.stringify(lines.at(-1))} ${errors})`)
  }

  /** A session of a client in the cluster, which lasts. */
  async #connect(id: string): Promise<{ client: pg.Client } & AsyncDisposable> {
    const url = new URL(await this.#readUri(id))
    const [service] = await this.#list('v1', 'Service', id)
    url.hostname = service!.spec.clusterIP
    const client = new pg.Client(url.href)
    client.on('error', () => {})
    await client.connect()
    return { client, [Symbol.asyncDispose]: () => client.end().catch(() => {}) }
  }
  async #readUri(id: string): Promise<string> {
    const [secret] = await this.#list('v1', 'Secret', id)
    return Buffer.from(secret!.data.uri, 'base64').toString()
  }

  #list(apiVersion: string, kind: string, id: string) {
    const labels = `${DEPLOYMENT_LABEL}=${id},${COMPONENT_LABEL}=database`
    return this.#place.cluster.list(apiVersion, kind, NAMESPACE, labels)
  }
  /** Claims with dumps. */
  #listClaims(id: string) {
    return this.#place.cluster.list('v1', 'PersistentVolumeClaim', NAMESPACE, `${BACKUP_OF_LABEL}=${id}`)
  }
  async #listObjects(id: string) {
    const own = KINDS.map(([version, kind]) =>
      this.#place.cluster.list(version, kind, NAMESPACE, `${DEPLOYMENT_LABEL}=${id}`),
    )
    return (await Promise.all([...own, this.#listClaims(id)])).flat()
  }
  async #get(path: string) {
    return (await this.#place.api('GET', path)).body
  }
  async #listSnapshots(id: string) {
    const { resources } = await this.#get(`/v2/snapshots?deployment_id=${id}&limit=100`)
    return resources as unknown as { id: string; store: string; reason: string; size_bytes: number }[]
  }
  #isStored = (id: string): boolean =>
    fs
      .readdirSync(this.#place.bucket, { recursive: true })
      .some(name => `${name}`.includes(`dumps/${id}/snapshot.json`))
}

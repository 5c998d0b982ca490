// One real Postgres for the run of a project, and what else its tests share.
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestProject } from 'vitest/node'
import { startPostgres } from '../../src/host/embedded-postgres.ts'
import { startDatabasePool } from './database-pool.ts'
import { startModelServer } from './model-server.ts'
import { startS3 } from './s3.ts'
import { makeTripCounter } from './trips.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** Makes a database for each worker. */
    databases: string
    /** The URL of the counts of round trips. */
    trips: string
    /** The URL of a model server. */
    models: string
    /** The settings of an S3 store. */
    s3: Record<string, string>
  }
}

export default async function setup(project: TestProject) {
  const folder = await mkdtemp(join(tmpdir(), 'slipway-test-'))
  const postgres = await startPostgres({ dataDir: join(folder, 'data'), durable: false })

  const { trips, onTrip } = makeTripCounter()
  const databases = await startDatabasePool(postgres.url, onTrip)
  const tripServer = createServer((request, response) => response.end(String(trips.get(request.url!.slice(1)) ?? 0)))
  await new Promise<void>(resolve => tripServer.listen(0, '127.0.0.1', resolve))

  project.provide('databases', databases.url)
  const s3 = await startS3(join(folder, 's3'))
  project.provide('s3', s3.settings)
  const models = await startModelServer()
  project.provide('models', models.url)
  project.provide('trips', `http://127.0.0.1:${(tripServer.address() as AddressInfo).port}`)

  return async () => {
    tripServer.close()
    await Promise.all([databases.close(), s3.close(), models.close()])
    await postgres.stop()
    await rm(folder, { recursive: true, force: true, maxRetries: 9 })
  }
}

// One real Postgres and what else tests share, for all projects of the run that name this file.
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestProject } from 'vitest/node'
import { startPostgres } from '../../src/host/embedded-postgres.ts'
import { startDatabasePool } from './database-pool.ts'
import { startModelServer } from './model-server.ts'
import { copyDataFolder, stopAutovacuum } from './postgres.ts'
import { startS3 } from './s3.ts'
import { findTemplateFolder } from './template-folder.ts'
import { makeTripCounter } from './trips.ts'

type Provided = {
  /** Makes a database for each worker. */
  databases: string
  /** The URL of the counts of round trips. */
  trips: string
  /** The URL of a model server. */
  models: string
  /** The settings of an S3 store. */
  s3: Record<string, string>
}
type Services = { provided: Provided; stop(): Promise<void> }

declare module 'vitest' {
  interface ProvidedContext extends Provided {}
}

async function startServices(): Promise<Services> {
  const folder = await mkdtemp(join(tmpdir(), 'slipway-test-'))
  const dataDir = join(folder, 'data')
  await copyDataFolder(await findTemplateFolder(), dataDir)
  await stopAutovacuum(dataDir)
  const postgres = await startPostgres({ dataDir, durable: false })

  const { trips, onTrip } = makeTripCounter()
  const databases = await startDatabasePool(postgres.url, onTrip)
  const tripServer = createServer((request, response) => response.end(String(trips.get(request.url!.slice(1)) ?? 0)))
  await new Promise<void>(resolve => tripServer.listen(0, '127.0.0.1', resolve))
  const s3 = await startS3(join(folder, 's3'))
  const models = await startModelServer()

  return {
    provided: {
      databases: databases.url,
      trips: `http://127.0.0.1:${(tripServer.address() as AddressInfo).port}`,
      models: models.url,
      s3: s3.settings,
    },
    async stop() {
      tripServer.close()
      await Promise.all([databases.close(), s3.close(), models.close()])
      await postgres.stop()
      await rm(folder, { recursive: true, force: true, maxRetries: 9 })
    },
  }
}

/** Vitest loads this file for each project anew, in one process. */
const shared = globalThis as { testServices?: { users: number; started: Promise<Services> } | undefined }

export default async function setup(project: TestProject) {
  shared.testServices ??= { users: 0, started: startServices() }
  const services = shared.testServices
  services.users++
  const { provided, stop } = await services.started
  for (const name of Object.keys(provided) as (keyof Provided)[]) project.provide(name, provided[name])

  return async () => {
    if (--services.users > 0) return
    shared.testServices = undefined
    await stop()
  }
}

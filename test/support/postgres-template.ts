// Creates one migrated Postgres data folder when a file of tests first asks for it. Copies of it start in a moment.
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestProject } from 'vitest/node'
import { startPostgres } from '../../src/host/embedded-postgres.ts'
import { migrate } from '../../src/host/migrate.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** Its response is the path of the folder. */
    postgresTemplate: string
  }
}

async function createTemplate(dataDir: string): Promise<string> {
  const postgres = await startPostgres({ dataDir, durable: false })
  await migrate(postgres.url, { log: () => {} })
  await postgres.stop()
  return dataDir
}

export default async function setup(project: TestProject) {
  const folder = await mkdtemp(join(tmpdir(), 'slipway-template-'))
  let template: Promise<string> | undefined
  const server = createServer(async (_, response) => {
    template ??= createTemplate(join(folder, 'data'))
    const path = await template.catch(error => {
      response.statusCode = 500
      return String(error)
    })
    response.setHeader('Connection', 'close').end(path)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  project.provide('postgresTemplate', `http://127.0.0.1:${(server.address() as AddressInfo).port}`)

  return async () => {
    server.close()
    await template?.catch(() => {})
    await rm(folder, { recursive: true, force: true, maxRetries: 9 })
  }
}

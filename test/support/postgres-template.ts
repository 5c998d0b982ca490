// Makes what tests of `host` need of Postgres, when a file first asks for it: a migrated data folder to copy, one
// server with a migrated database for each that asks, and the empty data folder that an agent copies.
import { appendFile, mkdtemp, rm } from 'node:fs/promises'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestProject } from 'vitest/node'
import { makeTemplate } from '../../src/agent/engines/process/deployment-servers.ts'
import { type Postgres, startPostgres } from '../../src/host/embedded-postgres.ts'
import { findBinaries, findServerIdentity } from '../../src/postgres/data-folder.ts'
import { copyDataFolder, query, stopAutovacuum } from './postgres.ts'
import { findTemplateFolder } from './template-folder.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** GET answers the path of the folder, or at `/empty` of the empty one, and POST the URL of a new database. */
    postgresTemplate: string
  }
}

export default async function setup(project: TestProject) {
  const folder = await mkdtemp(join(tmpdir(), 'slipway-template-'))
  let template: Promise<string> | undefined
  let sharedServer: Promise<Postgres> | undefined
  let empty: Promise<string> | undefined
  let databases = 0

  const getTemplate = () => {
    template ??= findTemplateFolder()
    return template
  }
  async function startSharedServer(): Promise<Postgres> {
    const dataDir = join(folder, 'shared')
    await copyDataFolder(await getTemplate(), dataDir)
    await stopAutovacuum(dataDir)
    return startPostgres({ dataDir, durable: false })
  }
  async function createDatabase(): Promise<string> {
    sharedServer ??= startSharedServer()
    const { url } = await sharedServer
    const withDatabase = (name: string) => Object.assign(new URL(url), { pathname: name }).href
    const name = `host_${++databases}`
    // The migrated database is `postgres`. A connection to it would prevent copies.
    await query(withDatabase('template1'), `create database ${name} template postgres`)
    return withDatabase(name)
  }
  async function makeEmptyFolder(): Promise<string> {
    const dataDir = join(folder, 'empty')
    const binaries = await findBinaries('')
    await makeTemplate(dataDir, binaries, await findServerIdentity(binaries, folder, { wrappers: [[]], hint: '' }))
    // The machine does not crash during a test, only processes do.
    await appendFile(join(dataDir, 'postgresql.conf'), 'fsync = off\n')
    return dataDir
  }
  function answerRequest({ method, url }: IncomingMessage): Promise<string> {
    if (method === 'POST') return createDatabase()
    if (url !== '/empty') return getTemplate()
    empty ??= makeEmptyFolder()
    return empty
  }
  const server = createServer(async (request, response) => {
    const answer = await answerRequest(request).catch(error => {
      response.statusCode = 500
      return String(error)
    })
    response.setHeader('Connection', 'close').end(answer)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  project.provide('postgresTemplate', `http://127.0.0.1:${(server.address() as AddressInfo).port}`)

  return async () => {
    server.close()
    await Promise.allSettled([template, empty])
    await sharedServer?.then(
      ({ stop }) => stop(),
      () => {},
    )
    await rm(folder, { recursive: true, force: true, maxRetries: 9 })
  }
}

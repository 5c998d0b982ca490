// Makes what tests of `host` need of Postgres, when a file first asks for it: a migrated data folder to copy, and one
// server with a migrated database for each that asks.
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestProject } from 'vitest/node'
import { type Postgres, startPostgres } from '../../src/host/embedded-postgres.ts'
import { copyDataFolder, query } from './postgres.ts'
import { findTemplateFolder } from './template-folder.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** GET answers the path of the folder, and POST the URL of a new database. */
    postgresTemplate: string
  }
}

export default async function setup(project: TestProject) {
  const folder = await mkdtemp(join(tmpdir(), 'slipway-template-'))
  let template: Promise<string> | undefined
  let sharedServer: Promise<Postgres> | undefined
  let databases = 0

  const getTemplate = () => {
    template ??= findTemplateFolder()
    return template
  }
  async function startSharedServer(): Promise<Postgres> {
    const dataDir = join(folder, 'shared')
    await copyDataFolder(await getTemplate(), dataDir)
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
  const server = createServer(async ({ method }, response) => {
    const answer = await (method === 'POST' ? createDatabase() : getTemplate()).catch(error => {
      response.statusCode = 500
      return String(error)
    })
    response.setHeader('Connection', 'close').end(answer)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  project.provide('postgresTemplate', `http://127.0.0.1:${(server.address() as AddressInfo).port}`)

  return async () => {
    server.close()
    await template?.catch(() => {})
    await sharedServer?.then(
      ({ stop }) => stop(),
      () => {},
    )
    await rm(folder, { recursive: true, force: true, maxRetries: 9 })
  }
}

// Compares a migrated database with the files of drizzle/.
import { join } from 'node:path'
import type pg from 'pg'
import { connectClient } from '../../src/host/migrate.ts'
import { readCatalog } from './catalog.ts'
import { applyFiles } from './files.ts'
import { renderChanges, renderSchema } from './render.ts'

export const DRIZZLE = join(import.meta.dirname, '../../drizzle')

/** The text of drizzle/schema.sql. */
export const readSchema = async (url: string): Promise<string> => renderSchema(await withClient(url, readCatalog))

/** The statements that the migrations lack. For a superuser, without other connections to the database. */
export async function compareWithFiles(url: string): Promise<string> {
  const migrated = await withClient(url, readCatalog)
  const shown = await withCopy(url, copy =>
    withClient(copy, async client => {
      await applyFiles(client, DRIZZLE)
      return readCatalog(client)
    }),
  )
  return renderChanges(migrated, shown)
}

async function withCopy<T>(url: string, work: (url: string) => Promise<T>): Promise<T> {
  const name = new URL(url).pathname.slice(1)
  const run = (text: string) => withClient(addressOf(url, 'template1'), client => client.query(text))
  await run(`create database ${name}_of_files template ${name}`)
  try {
    return await work(addressOf(url, `${name}_of_files`))
  } finally {
    await run(`drop database ${name}_of_files`)
  }
}

/** Another database of the same server. */
export const addressOf = (url: string, database: string): string =>
  Object.assign(new URL(url), { pathname: database }).href

export async function withClient<T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = await connectClient(url)
  return work(client).finally(() => client.end())
}

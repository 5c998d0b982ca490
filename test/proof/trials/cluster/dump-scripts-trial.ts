// The scripts of the pods that dump and restore databases, with a real Postgres of this machine.
import { execFile, execFileSync, spawn } from 'node:child_process'
import * as fs from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import {
  DUMP_SCRIPT,
  DUMPS_FOLDER,
  PRUNE_SCRIPT,
  READ_SCRIPT,
  RESTORE_SCRIPT,
  readDumpWords,
  TERMINATION_LOG,
} from '../../../../src/agent/engines/kubernetes/dump-scripts.ts'
import { findFreePort } from '../../../../src/postgres/free-port.ts'
import { expect, expectEqual, type Results, waitUntil } from './results.ts'

const execute = promisify(execFile)
const PACKAGES = '/usr/lib/postgresql'
/** Postgres refuses to run as root. */
const NOBODY = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {}

function findPrograms(): string | undefined {
  const versions = fs.existsSync(PACKAGES) ? fs.readdirSync(PACKAGES).sort() : []
  return versions.map(version => join(PACKAGES, version, 'bin')).findLast(bin => fs.existsSync(join(bin, 'pg_restore')))
}

export async function tryDumpScripts(parent: string, results: Results): Promise<void> {
  const bin = findPrograms()
  if (!bin) return results.skip('the scripts of dumps', `no Postgres with pg_dump in ${PACKAGES}`)
  const folder = fs.mkdtempSync(join(parent, 'dumps-'))
  for (const path of [parent, folder]) fs.chmodSync(path, 0o777)
  const port = await findFreePort()
  const data = join(folder, 'data')
  const options = { ...NOBODY, cwd: folder }
  execFileSync(join(bin, 'initdb'), ['-D', data, '-U', 'app', '-A', 'trust', '-N'], { ...options, stdio: 'ignore' })
  const args = ['-D', data, '-p', String(port), '-k', folder, '-c', 'listen_addresses=127.0.0.1', '-c', 'fsync=off']
  const server = spawn(join(bin, 'postgres'), args, { ...options, stdio: 'ignore' })
  const env = {
    PATH: `${bin}:${process.env.PATH}`,
    PGHOST: '127.0.0.1',
    PGPORT: String(port),
    PGUSER: 'app',
    PGDATABASE: 'app',
  }
  const sql = async (text: string, database = 'app') =>
    (await execute('psql', ['-XAtqc', text, '-d', database], { ...options, env })).stdout.trim()
  const log = join(folder, 'termination-log')
  const run = (script: string, more: Record<string, string>) => {
    const local = script.replaceAll(DUMPS_FOLDER, join(folder, 'dumps')).replaceAll(TERMINATION_LOG, log)
    return execute('/bin/sh', ['-c', local], { ...options, env: { ...env, ...more }, encoding: 'buffer' })
  }
  const SNAPSHOT_ID = crypto.randomUUID()
  try {
    await waitUntil('Postgres answers', () =>
      sql('create database app', 'postgres').then(
        () => true,
        () => false,
      ),
    )
    await results.check('the script of a dump writes it whole, and its size', async () => {
      await sql('create table rows (n int primary key); insert into rows select generate_series(1, 100000)')
      await run(DUMP_SCRIPT, { SNAPSHOT_ID, FOLDER: join(folder, 'dumps/daily'), MAX_KB: String(1024 ** 2) })
      const { size } = fs.statSync(join(folder, 'dumps/daily', `${SNAPSHOT_ID}.dump`))
      expectEqual(readDumpWords(fs.readFileSync(log, 'utf8')).size_bytes, size, 'size')
      return `${size} bytes`
    })
    await results.check(
      'the script of a restore replaces the data under busy sessions, and may be repeated',
      async () => {
        let isBusy = true
        const busy = Promise.all(
          Array.from({ length: 4 }, async () => {
            while (isBusy) await sql('select pg_sleep(0.05)').catch(() => {})
          }),
        )
        for (let i = 0; i < 3; i++) {
          await sql('delete from rows; create table later (n int)')
          await run(RESTORE_SCRIPT, { SNAPSHOT_ID })
          expectEqual(await sql('select count(*) from rows'), '100000', 'rows')
        }
        isBusy = false
        await busy
        expectEqual(await sql("select to_regclass('later') is null"), 't', 'a table that was made later is gone')
        expectEqual(await sql("select count(*) from pg_database where datname like 'app%'"), '1', 'databases')
      },
    )
    await results.check('a restore that fails leaves the data, and lets sessions in', async () => {
      const broken = crypto.randomUUID()
      fs.writeFileSync(join(folder, 'dumps', `${broken}.dump`), 'no dump')
      const failure = await run(RESTORE_SCRIPT, { SNAPSHOT_ID: broken }).then(
        () => null,
        (error: { stderr: Buffer }) => error.stderr.toString(),
      )
      expect(failure?.includes('pg_restore'), `it said: ${failure}`)
      expectEqual(await sql('select count(*) from rows'), '100000', 'rows')
      await run(RESTORE_SCRIPT, { SNAPSHOT_ID: crypto.randomUUID() }).then(
        () => expect(false, 'a snapshot without a file was restored'),
        () => {},
      )
    })
    await results.check('a restore that is killed at any moment leaves the old data or the new ones', async () => {
      let kept = 0
      for (let i = 0; i < 12; i++) {
        await sql('delete from rows where n > 1')
        const running = run(RESTORE_SCRIPT, { SNAPSHOT_ID })
        const child = running.child
        await new Promise(resolve => setTimeout(resolve, 60 + i * 45))
        child.kill('SIGKILL')
        await running.catch(() => {})
        const isOpen = await sql("select datallowconn from pg_database where datname = 'app'", 'postgres')
        // The cluster starts another pod, whose script lets sessions in again.
        if (isOpen === 'f') await sql('alter database app allow_connections true', 'postgres')
        const rows = await sql('select count(*) from rows')
        expect(rows === '1' || rows === '100000', `${rows} rows`)
        if (rows === '1') kept++
      }
      await run(RESTORE_SCRIPT, { SNAPSHOT_ID })
      expectEqual(await sql('select count(*) from rows'), '100000', 'rows after the next pod')
      return `12 kills, ${kept} times the old data`
    })
    await results.check('the scripts read a dump, and delete it', async () => {
      const { stdout } = await run(READ_SCRIPT, { SNAPSHOT_ID })
      expect(stdout.includes(`${SNAPSHOT_ID}.dump`), 'the tar does not name the dump')
      await run(PRUNE_SCRIPT, { SNAPSHOT_IDS: `${SNAPSHOT_ID} ${crypto.randomUUID()}` })
      expect(!fs.existsSync(join(folder, 'dumps/daily', `${SNAPSHOT_ID}.dump`)), 'the dump is still there')
    })
  } finally {
    server.kill('SIGINT')
    await new Promise(resolve => server.once('exit', resolve))
  }
}

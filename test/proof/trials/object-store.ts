// A real S3 server under an agent: backups and snapshots in it, a bucket that is away or full, and a home that is lost.
// S3_SERVER_BIN names MinIO, the S3 gateway of Versity or SeaweedFS (`minio`, `versitygw`, `weed`). Without it, it is
// skipped. `--install` builds MinIO with Go.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  createWriteStream,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { AwsClient } from 'aws4fetch'
import pg from 'pg'
import { BucketStore } from '../../../src/agent/archive/bucket-store.ts'
import { readBucketSettings } from '../../../src/agent/archive/settings.ts'
import { startPostgres } from '../../../src/host/embedded-postgres.ts'
import { findFreePort } from '../../../src/postgres/free-port.ts'
import { CACHE, check, findMissing, isInstalling, note, runTrial, skipped } from '../support/trial.ts'

const MAIN = join(import.meta.dirname, '../../../src/host/main.ts')
const KEY = { id: 'slipway-trial', secret: 'hunter2-secret-of-the-store' }
const BUCKET = 'backups'
const AWAY_SECONDS = Number(process.env.AWAY_SECONDS ?? 60)
const MB = 1024 ** 2
const work = mkdtempSync(join(tmpdir(), 'slipway-object-store-'))
type Settings = Record<string, string>
// biome-ignore lint/suspicious/noExplicitAny: answers of the API, of which the trial reads a few members
type Answer = any

async function until<T>(what: string, condition: () => Promise<T> | T, seconds = 120): Promise<NonNullable<T>> {
  for (const end = Date.now() + seconds * 1000; Date.now() < end; await delay(100)) {
    const result = await Promise.resolve(condition()).catch(() => undefined)
    if (result) return result as NonNullable<T>
  }
  throw new Error(`It did not come to this: ${what}`)
}

function start(program: string, args: string[], env: Settings, name: string) {
  const child: ChildProcess = spawn(program, args, { env: { PATH: process.env.PATH!, HOME: work, ...env } })
  const file = join(work, `${name}.log`)
  const log = createWriteStream(file, { flags: 'a' })
  for (const stream of [child.stdout, child.stderr]) stream!.pipe(log, { end: false })
  return {
    log: () => readFileSync(file, 'utf8'),
    async stop() {
      if (child.exitCode !== null || child.signalCode !== null) return
      child.kill('SIGTERM')
      await once(child, 'exit')
    },
  }
}
const startSlipway = (args: string[], env: Settings, name: string) =>
  start(process.execPath, [MAIN, ...args], env, name)

async function run(args: string[], env: Settings): Promise<string> {
  const child = spawn(process.execPath, [MAIN, ...args], { env: { PATH: process.env.PATH!, ...env } })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', chunk => (output += chunk))
  const [code] = await once(child, 'close')
  if (code !== 0) throw new Error(`slipway ${args.join(' ')} ended with ${code}: ${output}`)
  return output
}

/** Starts each server with one user, and its data in a folder. */
const SERVERS: Record<string, (port: number, folder: string) => { args: string[]; env: Settings }> = {
  minio: (port, folder) => ({
    args: ['server', '--quiet', '--address', `127.0.0.1:${port}`, folder],
    env: { MINIO_ROOT_USER: KEY.id, MINIO_ROOT_PASSWORD: KEY.secret, MINIO_BROWSER: 'off' },
  }),
  versitygw: (port, folder) => ({
    args: ['--port', `127.0.0.1:${port}`, '--access', KEY.id, '--secret', KEY.secret, 'posix', folder],
    env: {},
  }),
  weed: (port, folder) => {
    const credentials = [{ accessKey: KEY.id, secretKey: KEY.secret }]
    const file = join(work, 's3.json')
    writeFileSync(file, JSON.stringify({ identities: [{ name: 'trial', credentials, actions: ['Admin'] }] }))
    return {
      args: ['server', `-dir=${folder}`, '-ip=127.0.0.1', '-s3', `-s3.port=${port}`, `-s3.config=${file}`],
      env: {},
    }
  },
}

async function startStore(program: string, name: string) {
  const [port, folder] = [await findFreePort(), join(work, 'store')]
  mkdirSync(folder)
  const { args, env } = SERVERS[name]!(port, folder)
  const server = start(program, args, env, 'store')
  const origin = `http://127.0.0.1:${port}`
  const client = new AwsClient({ accessKeyId: KEY.id, secretAccessKey: KEY.secret, service: 's3', retries: 0 })
  await until('the store has a bucket', async () => (await client.fetch(`${origin}/${BUCKET}`, { method: 'PUT' })).ok)
  return { port, stop: server.stop }
}

/** In front of the store. Its name is part of the signatures, so the agent sees it as the store. */
async function startProxy(target: number) {
  const port = await findFreePort()
  let isRefused: (method: string) => boolean = () => false
  const handle = (incoming: IncomingMessage, response: ServerResponse) => {
    if (isRefused(incoming.method!)) {
      incoming.resume()
      response.writeHead(403, { 'Content-Type': 'application/xml' })
      return void response.end('<Error><Code>QuotaExceeded</Code></Error>')
    }
    const { method, url: path, headers } = incoming
    const outgoing = request({ port: target, host: '127.0.0.1', method, path, headers }, answer => {
      response.writeHead(answer.statusCode!, answer.headers)
      answer.pipe(response)
    })
    outgoing.on('error', () => response.destroy())
    incoming.pipe(outgoing)
  }
  const listen = async () => {
    const server = createServer(handle).listen(port, '127.0.0.1')
    await once(server, 'listening')
    return server
  }
  let server = await listen()
  const close = async () => {
    server.closeAllConnections()
    await new Promise(resolve => server.close(resolve))
  }
  return {
    origin: `http://127.0.0.1:${port}`,
    refuse: (by: (method: string) => boolean) => {
      isRefused = by
    },
    close,
    async reopen() {
      server = await listen()
    },
  }
}

async function query(uri: string, sql: string): Promise<Answer[]> {
  const client = new pg.Client({ connectionString: uri })
  await client.connect()
  try {
    return (await client.query(sql)).rows
  } finally {
    await client.end()
  }
}

async function trial(): Promise<void> {
  if (isInstalling && !process.env.S3_SERVER_BIN) {
    const missing = findMissing('minio')
    if (missing) return skipped(missing)
  }
  const program = process.env.S3_SERVER_BIN ?? join(CACHE, 'bin/minio')
  const name = Object.keys(SERVERS).find(one => basename(program).startsWith(one))
  if (!existsSync(program) || !name)
    return skipped(`S3_SERVER_BIN names no program of ${Object.keys(SERVERS).join(', ')}`)
  note(`The store is ${name}.`)
  await using cleanup = new AsyncDisposableStack()
  cleanup.defer(() => rmSync(work, { recursive: true, force: true, maxRetries: 9 }))
  const store = await startStore(program, name)
  cleanup.defer(() => store.stop())
  const proxy = await startProxy(store.port)
  cleanup.defer(() => proxy.close())
  const bucketSettings = {
    BACKUPS_S3_ENDPOINT: proxy.origin,
    BACKUPS_S3_BUCKET: BUCKET,
    BACKUPS_S3_ACCESS_KEY_ID: KEY.id,
    BACKUPS_S3_SECRET_ACCESS_KEY: KEY.secret,
    BACKUPS_S3_PREFIX: 'trial',
  }

  const postgres = await startPostgres({ dataDir: join(work, 'postgres') })
  cleanup.defer(() => postgres.stop())
  await run(['migrate'], { DATABASE_OWNER_URL: postgres.url })
  const port = await findFreePort()
  const url = `http://127.0.0.1:${port}`
  const sealingKeys = `k1:${Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString('base64url')}`
  const settings = {
    SEALING_KEYS: sealingKeys,
    UPLOADS_DIR: join(work, 'uploads'),
    PUBLIC_URL: url,
    ALLOW_LOOPBACK: 'true',
    DATABASE_URL: postgres.url,
  }
  const plane = startSlipway(['start'], { ...settings, PORT: `${port}`, HOST: '127.0.0.1' }, 'control-plane')
  cleanup.defer(() => plane.stop())
  await until('the control plane is ready', async () => (await fetch(`${url}/readyz`)).ok)
  const keys = (await run(['bootstrap', '--organization', 'Acme', '--platform-listener', 'machine'], settings)).match(
    /slw_\w+/g,
  )!
  async function send(method: string, path: string, body?: unknown): Promise<Answer> {
    const headers = { 'X-Api-Key': keys[0]!, 'Content-Type': 'application/json' }
    const init = { method, headers, ...(body !== undefined && { body: JSON.stringify(body) }) }
    const response = await fetch(url + path, init)
    const text = await response.text()
    if (!response.ok) throw new Error(`${method} ${path} answered ${response.status}: ${text}`)
    return text ? JSON.parse(text) : null
  }
  let home = join(work, 'agent-1')
  const startAgent = () => {
    const env = { SLIPWAY_URL: url, SLIPWAY_LISTENER_KEY: keys[1]!, AGENT_RUN_AS: 'root', ...bucketSettings }
    return startSlipway(['agent', '--home', home, '--stop'], env, basename(home))
  }
  let agent = startAgent()
  cleanup.defer(() => agent.stop())

  // ---- a database and a disk
  const { id } = await send('POST', '/v2/deployments', {
    name: 'notes',
    source: 'internal_template',
    source_config: {
      template_id: 'web-service',
      resource_spec: {
        db_max_connections: 10,
        volumes: [{ name: 'media', persistentVolumeClaim: { claimName: 'media', storage_gi: 1 } }],
        volume_mounts: [{ name: 'media', mountPath: '/app/media' }],
      },
    },
    source_revision_config: {},
    secrets: [],
  })
  const read = () => send('GET', `/v2/deployments/${id}`)
  await until('it serves', async () => (await read()).status === 'READY')
  const uriOf = () => JSON.parse(readFileSync(join(home, 'process', id, 'database.json'), 'utf8')).uri as string
  const disk = () => join(home, 'process', id, 'disks/media')
  const insert = (n: number) => query(uriOf(), `insert into visits values (${n})`)
  const rows = async () => (await query(uriOf(), 'select n from visits order by n')).map(({ n }) => n).join()
  const seen = new BucketStore(readBucketSettings(bucketSettings)!, join(work, 'seen'))
  seen.setListener(JSON.parse(readFileSync(join(home, 'listener.json'), 'utf8')).id)
  const listBackups = async () => {
    const of = `databases/process/${id}`
    const names = await Promise.all((await seen.list(of)).map(generation => seen.list(`${of}/${generation}/base`)))
    return names.flat().filter(one => one.endsWith('.json'))
  }
  async function act(what: 'snapshots' | 'restores', body: object): Promise<string> {
    const began = performance.now()
    const job = await send('POST', `/v2/deployments/${id}/${what}`, body)
    const path = `/v2/deployments/${id}/jobs/${job.id}`
    const end = await until('the job has ended', async () => {
      const one = await send('GET', path)
      return one.finished_at !== null && one
    })
    note(`${what} ${JSON.stringify(body)}: ${end.status} in ${((performance.now() - began) / 1000).toFixed(1)} s`)
    if (end.status !== 'SUCCEEDED') throw new Error(`${what}: ${end.reason}`)
    return job.id
  }
  await until('there is a base backup in the bucket', async () => (await listBackups()).length === 1)
  await query(uriOf(), 'create table visits (n int)')
  await insert(1)
  const large = Buffer.alloc(40 * MB, 'parts of this file ')
  writeFileSync(join(disk(), 'large'), large)
  const first = await act('snapshots', { store: 'disk:media' })
  await until('the snapshot is in the bucket', async () => (await seen.list(`snapshots/${first}`)).length === 2)
  const isMoved = () => !existsSync(join(home, 'snapshots', first, 'data'))
  check('a snapshot of several parts moves to the bucket', Boolean(await until('it has moved', isMoved)))

  // ---- the bucket is away
  await proxy.close()
  await insert(2)
  const whileAway = await act('snapshots', { store: 'disk:media' })
  const began = Date.now()
  for (let n = 100; Date.now() - began < AWAY_SECONDS * 1000; n++) {
    await insert(n)
    await delay(1_000)
  }
  check(
    `the database takes writes while the bucket is away for ${AWAY_SECONDS} s`,
    (await rows()).startsWith('1,2,100'),
  )
  await proxy.reopen()
  await until('what waited is in the bucket', async () => (await seen.list(`snapshots/${whileAway}`)).length === 2)
  check('a snapshot that was taken meanwhile follows once the bucket is back', true)

  // ---- it refuses writes
  proxy.refuse(method => method === 'PUT' || method === 'POST')
  await insert(3)
  writeFileSync(join(disk(), 'small'), 'a picture')
  const refused = await act('snapshots', { store: 'disk:media' })
  await act('snapshots', { store: 'database' })
  await until('the agent says so', () => /snapshots not stored.*QuotaExceeded/.test(agent.log()))
  check('a bucket that refuses writes is named with its code, and not with its key', !agent.log().includes(KEY.secret))
  check('the database takes writes meanwhile', (await rows()).includes(',3,'))
  proxy.refuse(() => false)
  await until('they follow', async () => (await seen.list(`snapshots/${refused}`)).length === 2)

  // ---- a point in time, and the present
  const at = new Date().toISOString()
  await delay(5)
  await insert(4)
  await act('restores', { store: 'database', at })
  check('a point in time is restored from the bucket', !(await rows()).split(',').includes('4'))
  await until('the new data have a backup', async () => (await listBackups()).length === 2)
  await insert(5)
  const last = await rows()
  // Postgres archives once a minute.
  const [{ segment }] = await query(uriOf(), 'select pg_walfile_name(pg_current_wal_lsn()) as segment')
  const listWal = async () => {
    const of = `databases/process/${id}`
    return (await Promise.all((await seen.list(of)).map(generation => seen.list(`${of}/${generation}/wal`)))).flat()
  }
  await until('the last commit is in the bucket', async () => (await listWal()).includes(`${segment}.gz`))

  // ---- the home is lost
  await agent.stop()
  rmSync(home, { recursive: true })
  home = join(work, 'agent-2')
  agent = startAgent()
  const message = await until('the deployment waits for its data', async () => {
    const { body } = { body: await send('GET', `/v2/deployments/${id}/explain`) }
    const text = JSON.stringify(body)
    return text.includes('slipway snapshots restore') ? text : undefined
  })
  check('an empty database is not made in place of the lost one', message.includes('backups'))
  await act('restores', { store: 'database', at: new Date().toISOString() })
  check('the database comes back with its last commit', (await rows()) === last, `${await rows()} instead of ${last}`)
  const { resources } = await send('GET', `/v2/snapshots?deployment_id=${id}`)
  check(
    'the snapshots are known',
    [first, whileAway, refused].every(one => resources.some((r: Answer) => r.id === one)),
  )
  await act('restores', { store: 'disk:media', snapshot_id: refused })
  check('the disk comes back', readFileSync(join(disk(), 'large')).equals(large) && existsSync(join(disk(), 'small')))
  await until('it serves again', async () => (await read()).status === 'READY')

  // ---- a file is lost in the bucket
  await seen.remove(`snapshots/${first}/data/disk.tar`)
  const failure = await act('restores', { store: 'disk:media', snapshot_id: first }).catch(
    (error: Error) => error.message,
  )
  check('a snapshot without its file is refused by name', failure.includes('bytes'), failure)
  check('and the disk is as it was', readdirSync(disk()).sort().join() === 'large,small')

  await send('DELETE', `/v2/deployments/${id}`)
  await until('its backups go with it', async () => (await seen.list(`databases/process/${id}`)).length === 0)
  check('the deletion takes the backups along', true)
}

await runTrial(trial)

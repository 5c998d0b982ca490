// `npm run start:deno`: serves the app on Deno, with the permissions that package.json lists, and on Deno Deploy.
import { Readable } from 'node:stream'
import { type ReadPeer, readSocketPeer } from './client-address.ts'
import { requireVersion } from './runtime-version.ts'
import { scheduleEveryMinute } from './schedule.ts'
import type { Runtime } from './serve.ts'
import { start } from './start.ts'
import { toWebStream } from './web-stream.ts'

/** The used part of Deno. `cron` exists on Deno Deploy. */
declare const Deno: {
  version: { deno: string }
  cron?: (name: string, schedule: string, work: () => Promise<void>) => Promise<void>
  resolveDns: (name: string, type: 'TXT') => Promise<string[][]>
  errors: { NotFound: ErrorConstructor; TimedOut: ErrorConstructor }
}

const housekeeping = Promise.withResolvers<() => Promise<unknown>>()
let running: Promise<unknown> | undefined
let isStopped = false
// Deno Deploy starts an instance for this if there is none. It finds only what is registered before an await.
Deno.cron?.('housekeeping', '* * * * *', async () => {
  const housekeep = await housekeeping.promise
  if (isStopped) return
  running = housekeep()
  await running
})

const scheduleByPlatform: Runtime['schedule'] = work => {
  housekeeping.resolve(work)
  return {
    async stop() {
      isStopped = true
      await running?.catch(() => {})
    },
  }
}

/** Deno's `node:dns` loses answers that are longer than 512 bytes. */
const resolveTxt = (name: string): Promise<string[][]> =>
  Deno.resolveDns(`${name}.`, 'TXT').catch(error => {
    if (error instanceof Deno.errors.NotFound) throw Object.assign(error, { code: 'ENOTFOUND' })
    if (error instanceof Deno.errors.TimedOut) throw Object.assign(error, { code: 'ETIMEOUT' })
    throw error
  })

/** The proxy of Deno Deploy names the client, as `address:port`. `node:http` shows the proxy, or no address. */
const readPeerByPlatform: ReadPeer = request =>
  request.req
    .header('X-Deno-Client-Address')
    ?.replace(/:\d{1,5}$/, '')
    .replace(/^\[(.*)\]$/, '$1') ?? readSocketPeer(request)

// Makes the bodies of requests. Deno's own ends the process or stays paused: see web-stream.ts.
Object.assign(Readable, { toWeb: toWebStream })

// Deno before 2.9 does not pin the address of a request, or fails when modules load in parallel.
requireVersion('Deno', Deno.version.deno, [2, 9])
await start({
  schedule: Deno.cron ? scheduleByPlatform : scheduleEveryMinute,
  resolveTxt,
  // Without the variable, Deno believes no such header, and neither do we.
  readPeer: process.env.DENO_TRUST_PROXY_HEADERS ? readPeerByPlatform : undefined,
})

// gRPC end to end: a server and a client of @grpc/grpc-js, with the router between them, and with Caddy before it.
// `--install` installs @grpc/grpc-js into the cache of trials.
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { CACHE, check, findMissing, isInstalling, runTrial, skipped } from '../support/trial.ts'
import { Proxies } from './router/proxies.ts'

const PACKAGE = '@grpc/grpc-js@1.14.7'
const folder = join(CACHE, 'grpc')
const root = mkdtempSync(join(tmpdir(), 'slipway-grpc-'))
const proxies = new Proxies(root)

// biome-ignore lint/suspicious/noExplicitAny: the package is not one of this repository
type Any = any

function loadGrpc(): Any {
  const file = join(folder, 'node_modules/@grpc/grpc-js')
  if (!existsSync(file) && isInstalling) {
    mkdirSync(folder, { recursive: true })
    execFileSync('npm', ['install', '--prefix', folder, '--no-audit', '--no-fund', PACKAGE], { stdio: 'pipe' })
  }
  return existsSync(file) ? createRequire(import.meta.url)(file) : undefined
}

const text = { serialize: (value: string) => Buffer.from(value), deserialize: (bytes: Buffer) => bytes.toString() }
const method = (name: string, requestStream: boolean, responseStream: boolean) => ({
  path: `/shop.Orders/${name}`,
  requestStream,
  responseStream,
  requestSerialize: text.serialize,
  requestDeserialize: text.deserialize,
  responseSerialize: text.serialize,
  responseDeserialize: text.deserialize,
})
const SERVICE = {
  Place: method('Place', false, false),
  Watch: method('Watch', false, true),
  Talk: method('Talk', true, true),
}

async function startServer(grpc: Any) {
  const server = new grpc.Server()
  const state = { cancelled: 0 }
  server.addService(SERVICE, {
    Place(call: Any, answer: Any) {
      if (call.request === 'unknown') return answer({ code: grpc.status.NOT_FOUND, details: 'no such order' })
      if (call.request === 'slow') return undefined
      const trailers = new grpc.Metadata()
      trailers.set('x-order', '7')
      return answer(null, `placed ${call.request}`, trailers)
    },
    Watch(call: Any) {
      for (let i = 0; i < 1_000; i++) call.write(`${call.request} ${i}`)
      call.end()
    },
    Talk(call: Any) {
      call.on('cancelled', () => state.cancelled++)
      call.on('data', (message: string) => call.write(`<${message}>`))
      call.on('end', () => call.end())
    },
  })
  const port = await new Promise<number>((resolve, reject) =>
    server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (error: Error | null, bound: number) =>
      error ? reject(error) : resolve(bound),
    ),
  )
  return { server, port, state }
}

async function tryCalls(name: string, grpc: Any, address: string, credentials: Any, state: { cancelled: number }) {
  const Client = grpc.makeGenericClientConstructor(SERVICE, 'Orders')
  const client = new Client(address, credentials, { 'grpc.default_authority': 'localhost' })
  const place = (request: string, options = {}) =>
    new Promise<Any>(resolve => {
      let status: Any
      const call = client.Place(request, options, (error: Any, value: string) =>
        setImmediate(() => resolve({ error, value, status })),
      )
      call.on('status', (received: Any) => (status = received))
    })
  const placed = await place('tea')
  check(`${name}: a call is answered`, placed.value === 'placed tea', String(placed.error))
  check(`${name}: trailers arrive`, placed.status?.metadata.get('x-order')[0] === '7')
  const unknown = await place('unknown')
  check(`${name}: the status of an error arrives`, unknown.error?.code === grpc.status.NOT_FOUND, String(unknown.error))
  const late = await place('slow', { deadline: Date.now() + 500 })
  check(`${name}: a deadline ends a call`, late.error?.code === grpc.status.DEADLINE_EXCEEDED, String(late.error))
  const all: string[] = []
  for await (const message of client.Watch('news')) all.push(message)
  check(`${name}: 1,000 messages of a stream arrive`, all.length === 1_000 && all.at(-1) === 'news 999')
  const talk = client.Talk()
  talk.on('error', () => {})
  const next = () => new Promise<string>(resolve => talk.once('data', resolve))
  for (const message of ['one', 'two']) {
    const answer = next()
    talk.write(message)
    check(`${name}: both sides talk in turn`, (await answer) === `<${message}>`)
  }
  const before = state.cancelled
  talk.cancel()
  for (let i = 0; i < 100 && state.cancelled === before; i++) await new Promise(resolve => setTimeout(resolve, 50))
  check(`${name}: the server learns that a call was cancelled`, state.cancelled === before + 1)
  const many = await Promise.all(Array.from({ length: 200 }, (_, i) => place(String(i))))
  check(
    `${name}: 200 calls at once`,
    many.every(({ value }, i) => value === `placed ${i}`),
  )
  client.close()
}

await runTrial(async () => {
  try {
    const grpc = loadGrpc()
    if (!grpc) return skipped(`everything: ${PACKAGE} is not installed: --install`)
    const { server, port, state } = await startServer(grpc)
    const router = await proxies.startRouter([{ path: '/', target: { host: '127.0.0.1', port, h2c: true } }])
    await tryCalls('router', grpc, `127.0.0.1:${router.port}`, grpc.credentials.createInsecure(), state)
    const missing = findMissing('caddy', 'openssl')
    if (missing) skipped(`Caddy: ${missing}`)
    else {
      const caddy = await proxies.startPublicCaddy('Caddy and the router', router)
      const credentials = grpc.credentials.createSsl(readFileSync(join(root, 'certificate.pem')))
      await tryCalls('Caddy and the router', grpc, `localhost:${caddy.port}`, credentials, state)
    }
    server.forceShutdown()
  } finally {
    await proxies.stop()
    rmSync(root, { recursive: true, force: true })
  }
})

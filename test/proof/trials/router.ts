// The router beside nginx and Caddy, alone and behind Caddy: requests a second, p99, CPU time of a request, WebSockets.
// wrk sends the load, nginx is the application. `--seconds=5` is the time of each row, `--only=public` or `local`.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import * as https from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { check, findMissing, note, optionOf, runTrial, skipped } from '../support/trial.ts'
import { type Load, loadWith } from './router/load.ts'
import { type Contender, Proxies } from './router/proxies.ts'
import { holdWebSockets } from './router/web-sockets.ts'

const SECONDS = Number(optionOf('seconds') ?? 5)
const WEB_SOCKETS = 1_000
const LOADS: [name: string, path: string, connections: number][] = [
  ['small, 1 connection', '/', 1],
  ['small, 64 connections', '/', 64],
  ['1 MB, 1 connection', '/1m', 1],
  ['1 MB, 64 connections', '/1m', 64],
]
/** The share of the requests of plain Caddy that Caddy with the router behind it serves. */
const TARGET = 0.8

const root = mkdtempSync(join(tmpdir(), 'slipway-router-'))
const proxies = new Proxies(root)

const cells = (...texts: string[]) =>
  note(texts.map((text, i) => (i === 0 ? text.padEnd(26) : text.padStart(16))).join(''))
const formatRow = ({ rate, p99, cpu, failures }: Load) => [
  `${Math.round(rate)} a second`,
  `p99 ${p99}`,
  `CPU ${Math.round(cpu)} µs`,
  failures ? `${failures} failed` : '',
]

async function compare(all: Contender[]): Promise<Map<string, number>> {
  const rates = new Map<string, number>()
  for (const [name, path, connections] of LOADS) {
    note(name)
    for (const proxy of all) {
      // The first requests compile its code and open its connections.
      loadWith(proxy, path, connections, 1)
      const load = loadWith(proxy, path, connections, SECONDS)
      cells(`  ${proxy.name}`, ...formatRow(load))
      check(`${proxy.name} answers all of ${name}`, load.failures === 0, `${load.failures} failed`)
      rates.set(`${proxy.name} ${name}`, load.rate)
    }
  }
  note(`small, 64 connections, beside ${WEB_SOCKETS} idle WebSockets`)
  for (const proxy of all.filter(({ webSocketPath }) => webSocketPath)) {
    const held = await holdWebSockets(proxy, WEB_SOCKETS)
    const load = loadWith(proxy, '/', 64, SECONDS)
    const stillOpen = held.open()
    cells(`  ${proxy.name}`, ...formatRow(load), `+${Math.round(held.memoryMb)} MB`, `opened in ${held.openedMs} ms`)
    check(`${proxy.name} keeps ${WEB_SOCKETS} WebSockets`, stillOpen === WEB_SOCKETS, `${stillOpen} are open`)
    await held.close()
  }
  return rates
}

const readEncoding = (url: string): Promise<string | undefined> =>
  new Promise((resolve, reject) => {
    const options = { rejectUnauthorized: false, headers: { 'Accept-Encoding': 'gzip, zstd' } }
    https.get(url, options, res => resolve(res.resume().headers['content-encoding'])).once('error', reject)
  })

await runTrial(async () => {
  try {
    const missing = findMissing('wrk', 'nginx', 'openssl')
    if (missing) return skipped(`everything: ${missing}`)
    const noCaddy = findMissing('caddy')
    if (noCaddy) skipped(`Caddy: ${noCaddy}`)
    else
      note(
        `Caddy ${execFileSync('caddy', ['version'], { env: { ...process.env, HOME: root } })
          .toString()
          .trim()}`,
      )
    await proxies.startApplication()
    const only = optionOf('only')
    const router = await proxies.startRouter()
    if (only !== 'public') {
      note('---- over HTTP, as `npm run dev` serves')
      const caddy = noCaddy ? [] : [await proxies.startCaddy('Caddy')]
      await compare([proxies.application, await proxies.startNginx(), ...caddy, router])
    }
    if (only !== 'local' && !noCaddy) {
      note('---- over HTTPS, as one machine serves in public')
      const plain = await proxies.startPublicCaddy('Caddy', proxies.application)
      const whole = await proxies.startPublicCaddy('Caddy and the router', router)
      const rates = await compare([plain, whole])
      for (const [path, encoding] of [
        ['/list.json', 'zstd'],
        ['/kept/list.json', undefined],
        ['/1m', undefined],
      ] as const) {
        const sent = await readEncoding(`${whole.url}${path}`)
        check(`Caddy sends ${path} ${encoding ? `by ${encoding}` : 'as it is'}`, sent === encoding, sent)
      }
      for (const [name] of LOADS) {
        const share = rates.get(`${whole.name} ${name}`)! / rates.get(`${plain.name} ${name}`)!
        note(`${name}: Caddy and the router serve ${share.toFixed(2)} of Caddy alone`)
        check(`behind Caddy, ${TARGET} of Caddy alone: ${name}`, share >= TARGET, share.toFixed(2))
      }
    }
  } finally {
    await proxies.stop()
    rmSync(root, { recursive: true, force: true })
  }
})

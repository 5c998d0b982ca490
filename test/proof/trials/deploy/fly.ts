// Fly: the image with the settings of deploy/fly/fly.toml, behind Fly's proxy.
import { execFileSync } from 'node:child_process'
import { findFreePort } from '../../../../src/postgres/free-port.ts'
import { findHops, parseRange } from '../../../../src/protocol/client-address.ts'
import { check, findMissing, skipped } from '../../support/trial.ts'
import { checkInstance, checkStop, LIMITS, type Platform } from './checks.ts'
import { type Image, startContainer } from './containers.ts'
import { type Installation, ROOT, readPage } from './self-host.ts'

type FlyConfig = {
  kill_signal?: NodeJS.Signals
  kill_timeout: number
  env: Record<string, string>
  processes?: object
  http_service: {
    internal_port: number
    auto_stop_machines: string
    min_machines_running: number
    checks: { path: string; interval: string; timeout: string }[]
  }
}
const READ_TOML = 'import json, sys, tomllib; print(json.dumps(tomllib.load(open(sys.argv[1], "rb"))))'
/** `fly deploy` waits for a machine for this time. */
const DEPLOY_TIMEOUT_MS = 5 * 60_000
const APP_ADDRESSES = ['66.241.124.230', '2a09:8280:1::af:1aa1']
const PROXY_ADDRESSES = ['172.19.4.9', '::ffff:172.16.133.114', 'fdaa:0:18:a7b::3']

const seconds = (duration: string) => Number(/^(\d+)s$/.exec(duration)![1])

export async function tryFly(image: Image, installation: Installation): Promise<void> {
  const missing = findMissing('python3')
  if (missing) return skipped(`fly: ${missing}`)
  const args = ['-c', READ_TOML, 'deploy/fly/fly.toml']
  const config = JSON.parse(execFileSync('python3', args, { cwd: ROOT, encoding: 'utf8' })) as FlyConfig
  const { http_service: service, kill_timeout } = config
  skipped('fly: `fly config validate` needs an account')
  check('fly: internal_port is the port of the image', `${service.internal_port}` === image.environment.PORT)
  check('fly: the image starts without a command of [processes]', config.processes === undefined)
  check(
    'fly: a machine runs at all times for scheduled work',
    service.auto_stop_machines === 'off' && service.min_machines_running > 0,
  )
  const { SHUTDOWN_DELAY_SECONDS: delay, SHUTDOWN_TIMEOUT_SECONDS: timeout } = config.env
  check('fly: the delay and the timeout fit into kill_timeout', Number(delay) + Number(timeout) + 1 < kill_timeout)
  const [probe] = service.checks
  check('fly: the delay is longer than a check', Number(delay) > seconds(probe!.interval) + seconds(probe!.timeout))

  const proxies = /TRUSTED_PROXIES=(\S+)/.exec(readPage('operate/fly'))![1]!
  const trusted = proxies.replace('IPV4', APP_ADDRESSES[0]!).replace('IPV6', APP_ADDRESSES[1]!)
  const clients = PROXY_ADDRESSES.flatMap(peer =>
    APP_ADDRESSES.map(
      address => findHops(peer, `198.51.100.1, 203.0.113.7, ${address}`, trusted.split(',').map(parseRange))[0],
    ),
  )
  check(
    'fly: TRUSTED_PROXIES of the page finds the client behind every address of the proxy',
    clients.every(client => client === '203.0.113.7'),
    `${clients}`,
  )

  await using cleanup = new AsyncDisposableStack()
  const port = await findFreePort()
  const instance = await startContainer(cleanup, {
    image,
    platform: 'fly',
    settings: {
      ...config.env,
      ...installation.settings,
      ...LIMITS,
      TRUSTED_PROXIES: `${trusted},127.0.0.1`,
      PORT: `${port}`,
      PUBLIC_URL: `http://127.0.0.1:${port}`,
    },
  })
  const platform: Platform = {
    name: 'fly',
    ready: { path: probe!.path, withinMs: DEPLOY_TIMEOUT_MS },
    healthPath: '/healthz',
    listens: 'everywhere',
    clientHeaders: (client, forged) => ({ 'X-Forwarded-For': `${forged}, ${client}, ${APP_ADDRESSES[1]}` }),
    stop: {
      signal: config.kill_signal ?? 'SIGINT',
      killedAfterMs: 1000 * kill_timeout,
      checkMs: 1000 * seconds(probe!.interval),
    },
  }
  await checkInstance(platform, instance, installation.key, installation.countUploads)
  await instance.checkReadOnly()
  await checkStop(platform, instance, installation.key)
}

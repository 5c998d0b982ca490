// The agent's command: invalid settings, and a start that the control plane refuses.
import { once } from 'node:events'
import * as fs from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { startCommand, stopCommands } from '../support/commands.ts'
import { makeTempFolder } from '../support/process-engine.ts'

let home: string
let server: Server
let url: string

beforeEach(async () => {
  home = makeTempFolder()
  server = createServer((_, res) => res.writeHead(401, { 'Content-Type': 'application/json' }).end('{}'))
  await once(server.listen(0, '127.0.0.1'), 'listening')
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})
afterEach(async () => {
  await stopCommands()
  server.close()
  fs.rmSync(home, { recursive: true, force: true })
})

const startAgent = (args: string[], SLIPWAY_URL = url, settings: Record<string, string> = {}) =>
  startCommand('src/agent/main.ts', ['--home', home, '--port', '0', ...args], {
    SLIPWAY_URL,
    SLIPWAY_LISTENER_KEY: 'key',
    ...settings,
  })

describe('the agent exits at once and creates no files for', () => {
  test.each<[string, string[], (string | undefined)?, Record<string, string>?]>([
    ['an invalid address', [], 'slipway.example.com'],
    ['an address that is not http', [], 'ftp://slipway.example.com'],
    ['a port that is not a number', ['--port', 'http']],
    ['a port out of range', ['--port', '65536']],
    ['an unknown engine', ['--engine', 'steam']],
    ['an unknown log format', [], undefined, { AGENT_LOG_FORMAT: 'xml' }],
    ['an address of the router that is a name', ['--host', 'localhost'], undefined],
    ['a domain of applications that is an address', [], undefined, { APPS_DOMAIN: 'https://apps.example.com' }],
    ['an address for applications that is not http', [], undefined, { APPS_SLIPWAY_URL: 'slipway.internal' }],
    ['a trusted proxy that is a name', [], undefined, { TRUSTED_PROXIES: '10.0.0.0/8, proxy.example.com' }],
    ['metrics of more than a minute', [], undefined, { AGENT_METRICS_SECONDS: '61' }],
    ['metrics that are served without a token', [], undefined, { AGENT_METRICS_PORT: '0' }],
    ['a public proxy without a domain', [], undefined, { AGENT_PROXY: 'caddy' }],
    ['a largest disk of nothing', [], undefined, { AGENT_MAX_DISK_GI: '0' }],
    ['a network of trusted proxies that is too wide', [], undefined, { TRUSTED_PROXIES: '10.0.0.0/33' }],
  ])('%s', async (_, args, address, settings = {}) => {
    const { exited, output: said } = startAgent(args, address, settings)
    expect(await exited, said.out).toBe(1)
    expect(said.err).not.toBe('')
    expect(fs.readdirSync(home)).toEqual([])
  })
})

test('an agent that the control plane refuses exits, and stops its router', async () => {
  const { exited, output: said } = startAgent([])
  expect(await exited, said.err).toBe(1)
  const router = JSON.parse(fs.readFileSync(join(home, 'router.json'), 'utf8'))
  expect(router).toMatchObject({ port: expect.any(Number) })
  expect(router).not.toHaveProperty('identity')
})

// Which installation a command talks to.
import { mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { readLogin, writeLink } from '../../src/cli/settings.ts'

let root: string
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'slipway-settings-'))
  for (const name of ['SLIPWAY_URL', 'SLIPWAY_API_KEY', 'SLIPWAY_WORKSPACE']) vi.stubEnv(name, undefined)
  vi.stubEnv('SLIPWAY_CONFIG_HOME', root)
})
afterEach(() => {
  vi.unstubAllEnvs()
  rmSync(root, { recursive: true })
})

function startDev(port: number, { pid = process.pid, startedAt = port } = {}): string {
  const url = `http://127.0.0.1:${port}`
  const file = join(root, 'dev', `${port}.json`)
  mkdirSync(join(root, 'dev'), { recursive: true })
  writeFileSync(file, JSON.stringify({ url, api_key: `key of ${port}`, pid }))
  utimesSync(file, startedAt, startedAt)
  return url
}
const linkFolder = (url: string) => {
  const folder = join(root, 'app')
  writeLink(folder, { url, deployment_id: 'some', name: 'app' })
  return folder
}

it('of several running npm run dev, the one that the folder is linked to is used, or else the newest', () => {
  const first = startDev(8001)
  const second = startDev(8002)
  expect(readLogin(root)).toMatchObject({ url: second, key: 'key of 8002' })
  expect(readLogin(linkFolder(first))).toMatchObject({ url: first, key: 'key of 8001' })
  expect(readLogin(linkFolder('http://127.0.0.1:8003'))).toMatchObject({ url: second })
  vi.stubEnv('SLIPWAY_URL', first)
  expect(readLogin(root)).toMatchObject({ url: first })
})

it('a link to another machine does not choose where a key is sent', () => {
  const own = startDev(8001)
  expect(readLogin(linkFolder('https://slipway.example.com'))).toMatchObject({ url: own })
})

it('what a killed npm run dev has left is not used', () => {
  startDev(8001, { pid: 2 ** 22 + 1 })
  expect(() => readLogin(root)).toThrow(expect.objectContaining({ code: 'not_signed_in' }))
})

// The address and key that `slipway` uses, and the limits of a folder that another person wrote.
import * as fs from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeEach, expect, it, vi } from 'vitest'
import { toReport } from '../../src/cli/failure.ts'
import { openSession } from '../../src/cli/session.ts'
import { configFile, readLink, readLogin, requireUrl, storeLogin, writeLink } from '../../src/cli/settings.ts'

const root = fs.mkdtempSync(join(tmpdir(), 'slipway-settings-'))
afterAll(() => fs.rmSync(root, { recursive: true, force: true }))

const stored = { url: 'https://stored.example.com', key: 'stored-key', workspace: 'stored-workspace' }
const link = { url: stored.url, deployment_id: crypto.randomUUID(), name: 'shop' }
const dev = { url: 'http://127.0.0.1:8787', api_key: 'dev-key', pid: process.pid }

let folder: string
beforeEach(() => {
  folder = fs.mkdtempSync(join(root, 'folder-'))
  vi.spyOn(process, 'cwd').mockReturnValue(folder)
  vi.stubEnv('SLIPWAY_CONFIG_HOME', join(folder, 'config'))
  for (const name of ['URL', 'API_KEY', 'WORKSPACE']) vi.stubEnv(`SLIPWAY_${name}`, undefined)
})
afterEach(() => {
  vi.unstubAllEnvs()
  vi.restoreAllMocks()
})

function plant(name: string, content: object) {
  fs.mkdirSync(join(folder, '.slipway'), { recursive: true })
  fs.writeFileSync(join(folder, '.slipway', name), JSON.stringify(content))
}

it.each([
  ['XDG_CONFIG_HOME', ''],
  ['XDG_CONFIG_HOME', 'config'],
  ['SLIPWAY_CONFIG_HOME', ''],
  ['HOME', ''],
])('never keeps the key in the folder of a project, as with %s=%j', (name, value) => {
  for (const one of ['SLIPWAY_CONFIG_HOME', 'XDG_CONFIG_HOME', 'APPDATA']) vi.stubEnv(one, undefined)
  vi.stubEnv(name, value)
  expect(configFile()).toMatch(/^\/.+\/slipway\/login\.json$/)
})

it('the environment decides over a stored login, and its key is not sent with the workspace of another', () => {
  storeLogin(stored)
  expect(readLogin()).toMatchObject(stored)
  vi.stubEnv('SLIPWAY_WORKSPACE', 'other')
  expect(readLogin()).toMatchObject({ ...stored, workspace: 'other' })
  vi.stubEnv('SLIPWAY_WORKSPACE', undefined)
  vi.stubEnv('SLIPWAY_API_KEY', 'own-key')
  expect(readLogin()).toMatchObject({ url: stored.url, key: 'own-key', workspace: undefined })
})

it('uses the file of npm run dev while its process runs, unless it is that of another user', () => {
  plant('dev.json', dev)
  expect(readLogin()).toMatchObject({ url: dev.url, key: 'dev-key' })
  for (const pid of [0, -1]) {
    plant('dev.json', { ...dev, pid })
    expect(() => readLogin()).toThrow()
  }
  plant('dev.json', dev)
  vi.spyOn(process, 'getuid').mockReturnValue(process.getuid!() + 1)
  expect(() => readLogin()).toThrow()
})

it('a file of `npm run dev` in a folder does not get the key of the environment', () => {
  plant('dev.json', dev)
  vi.stubEnv('SLIPWAY_API_KEY', 'own-key')
  expect(() => readLogin()).toThrow()
})

it('writes the link of a folder in place of a link to a file of the person, and not through it', () => {
  fs.mkdirSync(join(folder, '.slipway'))
  for (const [name, target] of [
    ['link.json', 'precious'],
    ['.gitignore', 'missing'],
  ] as const)
    fs.symlinkSync(join(folder, target), join(folder, '.slipway', name))
  fs.writeFileSync(join(folder, 'precious'), 'precious')
  writeLink(folder, link)
  expect(fs.readFileSync(join(folder, 'precious'), 'utf8')).toBe('precious')
  expect(fs.existsSync(join(folder, 'missing'))).toBe(false)
  expect(readLink(folder)).toEqual(link)
})

it('writes no link of a folder whose .slipway leads elsewhere', () => {
  fs.mkdirSync(join(folder, 'elsewhere'))
  fs.symlinkSync(join(folder, 'elsewhere'), join(folder, '.slipway'))
  expect(() => writeLink(folder, link)).toThrow()
  expect(fs.readdirSync(join(folder, 'elsewhere'))).toEqual([])
})

it.each([[null], [[]], [{ ...link, deployment_id: 'production' }], [{ ...link, name: 1 }]])(
  'refuses the link %j, which names no deployment by its id',
  content => {
    plant('link.json', content as object)
    expect(() => readLink(folder)).toThrow()
  },
)

it.each(['http://me:hunter2@example.com', 'javascript:alert(1)', 'file:///etc/passwd', 'https://example.com/#', 'x'])(
  'refuses the address %s without showing a password',
  address => {
    const refuse = () => requireUrl(address, 'SLIPWAY_URL')
    expect(refuse).toThrow()
    expect(refuse).not.toThrow(/hunter2/)
  },
)

it.each(['first\nsecond', 'first second', 'key…', ''])('refuses the key %j without showing it', key => {
  const session = openSession({}, AbortSignal.timeout(1000), { url: stored.url, key, from: 'SLIPWAY_API_KEY' })
  try {
    expect(session.client).toBeUndefined()
  } catch (error) {
    const { report, exitCode } = toReport(error)
    expect(exitCode).toBe(2)
    expect(report.message).not.toMatch(/first|key…/)
  }
})

/** Writes the file of a running `npm run dev`. */
function startDev(port: number, { pid = process.pid, startedAt = port } = {}): string {
  const url = `http://127.0.0.1:${port}`
  const file = configFile(`dev/${port}.json`)
  fs.mkdirSync(configFile('dev'), { recursive: true })
  fs.writeFileSync(file, JSON.stringify({ url, api_key: `key of ${port}`, pid }), { mode: 0o600 })
  fs.utimesSync(file, startedAt, startedAt)
  return url
}

it('uses the running npm run dev that the folder is linked to, and guesses no other', () => {
  const first = startDev(8001)
  expect(readLogin(folder)).toMatchObject({ url: first })
  const second = startDev(8002)
  const listed = expect.objectContaining({ logins: [second, first].map(url => expect.objectContaining({ url })) })
  expect(() => readLogin(folder)).toThrow(listed)
  writeLink(folder, { ...link, url: first })
  expect(readLogin(folder)).toMatchObject({ url: first, key: 'key of 8001' })
  writeLink(folder, { ...link, url: 'http://127.0.0.1:8003' })
  expect(() => readLogin(folder)).toThrow(listed)
  vi.stubEnv('SLIPWAY_URL', first)
  expect(readLogin(folder)).toMatchObject({ url: first })
})

it('prefers the npm run dev of the checkout that the folder is in', () => {
  startDev(8001)
  startDev(8002)
  plant('dev.json', dev)
  expect(readLogin(folder)).toMatchObject({ url: dev.url })
})

it('sends no key to another machine because a folder is linked to it', () => {
  const own = startDev(8001)
  writeLink(folder, link)
  expect(readLogin(folder)).toMatchObject({ url: own, key: 'key of 8001' })
})

it('ignores the file that a killed npm run dev has left', () => {
  startDev(8001, { pid: 2 ** 22 + 1 })
  expect(() => readLogin(folder)).toThrow(expect.objectContaining({ code: 'not_signed_in' }))
})

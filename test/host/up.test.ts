// `slipway up`: its options, its files, and what it refuses. test/proof/trials/public.sh runs it on a machine with
// systemd.
import { execFileSync } from 'node:child_process'
import { chmod, chown, mkdir, mkdtemp, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { type EnvFile, readEnvFile, setVariables } from '../../src/host/operate/env-file.ts'
import { createUnits, PORTS, unitFile } from '../../src/host/operate/systemd-units.ts'
import { checkPlace, findForeignUnits } from '../../src/host/operate/up-checks.ts'
import {
  describeFiles,
  hasChanged,
  maskSecrets,
  type Secrets,
  type WantedFile,
  writeFile as writeWantedFile,
} from '../../src/host/operate/up-files.ts'
import { type Installed, readOptions } from '../../src/host/operate/up-options.ts'
import { lockRun, openPendingRestarts } from '../../src/host/operate/up-run.ts'
import { startCommand } from '../support/commands.ts'

const noFile: EnvFile = readEnvFile('/nonexistent/file.env')
const nothing: Installed = { owner: noFile, controlPlane: noFile, agent: noFile }
const args = ['--domain', 'slipway.example.com', '--apps-domain', 'apps.example.net', '--email', 'ops@example.com']
const paths = { root: '/opt/slipway', node: '/usr/bin/node', caddy: '/usr/bin/caddy' }
const secrets: Secrets = {
  ownerUrl: 'postgres://owner:hush-1@127.0.0.1/slipway',
  appUrl: 'postgres://app:hush-2@127.0.0.1/slipway',
  systemUrl: 'postgres://system:hush-3@127.0.0.1/slipway',
  sealingKeys: 'k1:hush-4',
  listenerKey: 'hush-5',
}
const toFile = (text: string): EnvFile => ({
  text,
  values: new Map(
    text.split('\n').flatMap(line => (line ? [line.split(/=(.*)/s).slice(0, 2) as [string, string]] : [])),
  ),
})

describe('the options of slipway up', () => {
  it.each([
    ['no domain', ['--apps-domain', 'apps.example.net', '--email', 'ops@example.com'], 1],
    ['everything wrong', ['--domain', '{env.HOME}', '--apps-domain', 'apps', '--email', 'a"b', '--engine', 'steam'], 4],
    ['the API below the domain of applications', [...args, '--domain', 'api.apps.example.net'], 1],
    ['an address that is a name', [...args, '--address', 'slipway.example.com'], 1],
    // Each would end the run after it has created users, when the file cannot hold the value.
    ['what no environment file holds', [...args, '--email', "o'ps#!@example.com", '--address', 'fe80::1%a b'], 2],
    ['hostile files', [...args, '--acme-directory', 'https://{env.HOME}/$A', '--acme-root', '/a"b'], 2],
    ['an address as the domain', [...args, '--domain', '203.0.113.7'], 1],
    ['an organization without a name', [...args, '--organization', ' '], 1],
    ['a database that is not Postgres', [...args, '--database-url', 'mysql://owner@127.0.0.1/slipway'], 1],
  ])('refuse %s, all faults at once', (_, given, count) => {
    expect(readOptions(given, nothing)!.faults).toHaveLength(count)
  })

  it('are those of the first run when they are left out', () => {
    const { options } = readOptions(args, nothing)!
    const files = describeFiles(options, paths, secrets, nothing)
    const [owner, controlPlane, agent] = files.map(({ text }) => toFile(text)) as [EnvFile, EnvFile, EnvFile]
    const installed = { owner, controlPlane, agent }
    const again = readOptions([], installed)!
    expect(again).toEqual({ options: { ...options, databaseUrl: secrets.ownerUrl }, faults: [] })
    expect(describeFiles(again.options, paths, secrets, installed)).toEqual(files)
  })
})

async function makeFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'up-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  return folder
}

describe('a run that was killed', () => {
  it('leaves its lock free, and two runs at once are refused', async () => {
    const folder = await makeFolder()
    const unlock = lockRun(folder)
    expect(() => lockRun(folder)).toThrow('Another')
    unlock()
    const script = `import(${JSON.stringify(import.meta.resolve('../../src/host/operate/up-run.ts'))}).then(run => {
      run.lockRun(${JSON.stringify(folder)})
      process.kill(process.pid, 'SIGKILL')
    })`
    expect(() => execFileSync(process.execPath, ['-e', script], { stdio: 'pipe' })).toThrow(
      expect.objectContaining({ signal: 'SIGKILL' }),
    )
    lockRun(folder)()
  })

  it('leaves the restarts that its files need to the next one', async () => {
    const folder = await makeFolder()
    openPendingRestarts(folder).add('slipway')
    const next = openPendingRestarts(folder)
    expect([next.has('slipway'), next.has('slipway-agent')]).toEqual([true, false])
    next.remove('slipway')
    expect(openPendingRestarts(folder).has('slipway')).toBe(false)
  })

  it('leaves half a file beside the one it writes, which the next one replaces', async () => {
    const path = join(await makeFolder(), 'control-plane.env')
    await writeFile(`${path}.new`, 'SEALING_K', { mode: 0o644 })
    const file = { path, text: 'SEALING_KEYS=k1:hush\n', mode: 0o600 }
    writeWantedFile(file)
    expect([await readFile(path, 'utf8'), (await stat(path)).mode & 0o777]).toEqual([file.text, 0o600])
    expect(hasChanged(file)).toBe(false)
  })

  it('loses no owner of the database: without owner.env another database would be created', () => {
    const controlPlane = toFile('DATABASE_URL=postgres://app:x@db.example.com/slipway\n')
    expect(readOptions(args, { ...nothing, controlPlane })!.faults).toEqual([expect.stringContaining('owner.env')])
    const named = readOptions([...args, '--database-url', 'postgres://o:x@db.example.com/slipway'], {
      ...nothing,
      controlPlane,
    })
    expect(named!.faults).toEqual([])
  })
})

describe('a file with secrets is written again', () => {
  const write = async (change: (file: WantedFile, folder: string) => Promise<unknown>) => {
    const folder = await makeFolder()
    const file = { path: join(folder, 'agent.env'), text: 'SLIPWAY_LISTENER_KEY=hush\n', mode: 0o600 }
    writeWantedFile(file)
    await change(file, folder)
    return hasChanged(file)
  }
  it('if others can read it', async () => {
    expect(await write(({ path }) => chmod(path, 0o640))).toBe(true)
  })
  it.runIf(process.getuid?.() === 0)('if it belongs to another user', async () => {
    expect(await write(({ path }) => chown(path, 12345, 12345))).toBe(true)
  })
  it('if it is a link to another file', async () => {
    const link = async ({ path, text }: WantedFile, folder: string) => {
      await writeFile(join(folder, 'other'), text, { mode: 0o600 })
      await rm(path)
      await symlink(join(folder, 'other'), path)
    }
    expect(await write(link)).toBe(true)
  })
})

describe('the files of slipway up', () => {
  const { options } = readOptions(args, nothing)!

  it('that have secrets are for root alone, and are printed without them', () => {
    const files = describeFiles(options, paths, secrets, nothing)
    const secret = files.filter(({ text }) => text.includes('hush-'))
    expect(secret.map(({ mode }) => mode)).toEqual([0o600, 0o600, 0o600])
    expect(maskSecrets(files.map(({ text }) => text).join('\n'))).not.toContain('hush-')
  })

  it('come one by one while the secrets are made', () => {
    const { ownerUrl } = secrets
    const named = describeFiles(options, paths, { ownerUrl }, nothing).filter(({ path }) => path.endsWith('.env'))
    expect(named.map(({ path }) => path)).toEqual(['/etc/slipway/owner.env'])
  })

  it('keep the lines of the operator', () => {
    const file = toFile('# mine\nMETRICS_TOKEN=abc\nACME_EMAIL=old@example.com\n')
    const text = setVariables(file, { ACME_EMAIL: 'ops@example.com', ACME_ROOT: undefined, APPS_DOMAIN: 'a.example' })
    expect(text).toBe('# mine\nMETRICS_TOKEN=abc\nACME_EMAIL=ops@example.com\nAPPS_DOMAIN=a.example\n')
  })

  it('set a variable once, where it was set twice', () => {
    const file = toFile('PUBLIC_URL=https://a.example.com\nMINE=1\nPUBLIC_URL=https://b.example.com\n')
    const text = setVariables(file, { PUBLIC_URL: 'https://c.example.com' })
    expect(text).toBe('PUBLIC_URL=https://c.example.com\nMINE=1\n')
  })

  it('mean the same to systemd and to a shell', () => {
    const url = 'postgres://owner:x@db.example.com/slipway?sslmode=require&application_name=a~b'
    const text = setVariables(noFile, { DATABASE_URL: url })
    expect(execFileSync('sh', ['-c', `${text}printf %s "$DATABASE_URL"`], { encoding: 'utf8' })).toBe(url)
    expect(setVariables({ text, values: new Map() }, { DATABASE_URL: url })).toBe(text)
  })

  it.each(['a\nSEALING_KEYS=k2:x', 'a b', '"', '$HOME', '\\'])('never hold %j as a value', value => {
    expect(() => setVariables(noFile, { DATABASE_URL: value })).toThrow('DATABASE_URL')
  })

  it('are three units, of which only the agent is root', () => {
    const units = createUnits(paths)
    const users = units.map(({ name, text }) => [name, /^User=(.*)$/m.exec(text)?.[1]])
    expect(users).toEqual([
      ['slipway', 'slipway'],
      ['slipway-agent', undefined],
      ['slipway-proxy', 'slipway-proxy'],
    ])
    for (const { text } of units) expect(text).toContain('NoNewPrivileges=yes')
  })

  it('name only ports that applications cannot take while their program restarts', () => {
    const [, controlPlane, agent, , ...units] = describeFiles(options, paths, secrets, nothing).map(({ text }) => text)
    expect(Object.values(PORTS).every(port => port < 1024)).toBe(true)
    expect(controlPlane).toContain(`\nPORT=${PORTS.controlPlane}\n`)
    expect(agent).toContain(`SLIPWAY_URL=http://127.0.0.1:${PORTS.controlPlane}\n`)
    expect(agent).toContain(`AGENT_PROXY_API_PORT=${PORTS.controlPlane}\n`)
    expect(units[1]).toContain(`--port ${PORTS.router} `)
    for (const unit of units) expect(unit).toMatch(/^CapabilityBoundingSet=.*CAP_NET_BIND_SERVICE/m)
  })

  it('are recognized by their first line, so that a unit of another program stays', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'up-'))
    onTestFinished(() => rm(folder, { recursive: true }))
    for (const { name, text } of createUnits(paths)) await writeFile(unitFile(name, folder), text)
    expect(findForeignUnits(folder)).toEqual([])
    await writeFile(unitFile('slipway', folder), '[Service]\nExecStart=/usr/local/bin/boats\n')
    expect(findForeignUnits(folder)).toEqual([unitFile('slipway', folder)])
  })

  it.each(['a b', 'a%n', '$HOME', 'a"b'])('are refused where the path of the project is %j', async name => {
    const folder = await mkdtemp(join(tmpdir(), 'up-'))
    onTestFinished(() => rm(folder, { recursive: true }))
    await mkdir(join(folder, name))
    const [fault] = checkPlace({ root: join(folder, name), node: process.execPath, caddy: undefined })
    expect(fault).toContain('systemd cannot name')
  })
})

it('slipway up changes nothing and exits with 1 where something is missing', async () => {
  const { exited, output } = startCommand('src/host/main.ts', ['up', '--domain', 'slipway'], { PATH: '/nonexistent' })
  expect(await exited).toBe(1)
  expect(output.err.match(/^- /gm)!.length).toBeGreaterThan(3)
  expect(output.out).toBe('')
})

// The files of an installation on one machine: what they are, which of them differ, and how they are written.
import * as fs from 'node:fs'
import { dirname } from 'node:path'
import { setVariables } from './env-file.ts'
import { CADDY_BASE, createUnits, PORTS, type UnitPaths, unitFile } from './systemd-units.ts'
import { FILES, FOLDER, type Installed, type UpOptions } from './up-options.ts'

export type WantedFile = {
  path: string
  text: string
  mode: number
  /** The unit that reads the file when it starts. */
  unit?: string
}
/** An earlier run, or an earlier step of this one, has made them. */
export const SECRET_NAMES = ['ownerUrl', 'appUrl', 'systemUrl', 'sealingKeys', 'listenerKey'] as const
export type Secrets = Record<(typeof SECRET_NAMES)[number], string>

/** Leaves out the files whose secrets are not made yet. */
export function describeFiles(
  options: UpOptions,
  paths: UnitPaths,
  secrets: Partial<Secrets>,
  installed: Installed,
): WantedFile[] {
  const { domain, appsDomain, email, engine, addresses, acmeDirectory, acmeRoot } = options
  const owner = setVariables(installed.owner, { DATABASE_OWNER_URL: secrets.ownerUrl })
  const controlPlane = setVariables(installed.controlPlane, {
    DATABASE_URL: secrets.appUrl,
    DATABASE_SYSTEM_URL: secrets.systemUrl,
    SEALING_KEYS: secrets.sealingKeys,
    PORT: String(PORTS.controlPlane),
    PUBLIC_URL: `https://${domain}`,
    APPS_DOMAIN: appsDomain,
    TRUSTED_PROXIES: '127.0.0.1',
    UPLOADS_DIR: '/var/lib/slipway/uploads',
  })
  const agent = setVariables(installed.agent, {
    SLIPWAY_URL: `http://127.0.0.1:${PORTS.controlPlane}`,
    SLIPWAY_LISTENER_KEY: secrets.listenerKey,
    AGENT_ENGINE: engine,
    APPS_DOMAIN: appsDomain,
    AGENT_PROXY: 'caddy',
    AGENT_PROXY_API_HOST: domain,
    AGENT_PROXY_API_PORT: String(PORTS.controlPlane),
    AGENT_PROXY_ADDRESSES: addresses.join(',') || undefined,
    ACME_EMAIL: email,
    ACME_DIRECTORY: acmeDirectory,
    ACME_ROOT: acmeRoot,
  })
  const units = createUnits(paths).map(({ name, text }) => ({
    path: unitFile(name),
    text,
    mode: 0o644,
    unit: name,
  }))
  const complete = [
    secrets.ownerUrl !== undefined && { path: FILES.owner, text: owner, mode: 0o600 },
    secrets.appUrl !== undefined && { path: FILES.controlPlane, text: controlPlane, mode: 0o600, unit: 'slipway' },
    secrets.listenerKey !== undefined && { path: FILES.agent, text: agent, mode: 0o600, unit: 'slipway-agent' },
  ].filter(file => file !== false)
  return [
    ...complete,
    { path: '/etc/slipway-proxy/caddy.json', text: `${JSON.stringify(CADDY_BASE, null, 2)}\n`, mode: 0o644 },
    ...units,
  ]
}

export function hasChanged({ path, text, mode }: WantedFile): boolean {
  const stat = fs.lstatSync(path, { throwIfNoEntry: false })
  if (!stat?.isFile() || stat.uid !== process.getuid?.()) return true
  return (stat.mode & 0o777) !== mode || fs.readFileSync(path, 'utf8') !== text
}

/** Replaces the file at once. Others can never read it, and it is on the disk when the function returns. */
export function writeFile({ path, text, mode }: WantedFile): void {
  const folder = dirname(path)
  fs.mkdirSync(folder, { recursive: true, mode: folder === FOLDER ? 0o700 : 0o755 })
  const temporary = `${path}.new`
  fs.rmSync(temporary, { force: true })
  fs.writeFileSync(temporary, text, { mode: 0o600, flag: 'wx', flush: true })
  fs.chmodSync(temporary, mode)
  fs.renameSync(temporary, path)
  const directory = fs.openSync(folder, 'r')
  fs.fsyncSync(directory)
  fs.closeSync(directory)
}

const SECRET = /KEYS?$|TOKEN|SECRET|PASSWORD|DATABASE/

/** For `--print`: the values of secret variables, those of the operator too. */
export const maskSecrets = (text: string): string =>
  text
    .split('\n')
    .map(line => {
      const name = line.split('=', 1)[0]!
      return name !== line && SECRET.test(name) ? `${name}=…` : line
    })
    .join('\n')

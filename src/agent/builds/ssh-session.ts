// The files that git needs for SSH: deploy keys, known hosts and a configuration, in a folder that goes away. Nothing
// else of this machine configures ssh, and it connects to the address that was checked.
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import * as fs from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { SshKeys } from '../../protocol/repository-looks.schema.ts'
import { SourceUnavailable } from '../engine.ts'
import { acceptsConnection } from '../system/ports.ts'
import type { AllowedAddress } from './allowed-address.ts'

/** The name of the host in `known_hosts`, whatever its address. */
const HOST_ALIAS = 'repository'
const FOLDER_PREFIX = 'slipway-ssh-'
/** The folders of this process begin with it. */
const OWN_PREFIX = `${FOLDER_PREFIX}${process.pid}-${randomBytes(6).toString('hex')}-`
const CONNECT_SECONDS = 15
const PROBE_MS = 5000
const [ALIVE_SECONDS, ALIVE_COUNT] = [15, 4]
const DEFAULT_PORT = 22
/** The owner of a name chooses how many there are. */
const MAX_ADDRESSES = 4

export type SshSession = Disposable & {
  /** `GIT_SSH_COMMAND`. */
  command: string
  config: string
  /** The first key that the host showed. Null where it showed none. */
  seenHostKey: () => string | null
}
type Options = { keys: SshKeys['keys']; host_keys: string[] }

/** Without host keys, the host is trusted as it is: only to learn its key. */
export async function openSshSession(address: AllowedAddress, { keys, host_keys }: Options): Promise<SshSession> {
  const host = await chooseAddress(address)
  // The mode of the folder is 0700.
  const folder = fs.mkdtempSync(join(tmpdir(), OWN_PREFIX))
  const [config, knownHosts] = [join(folder, 'config'), join(folder, 'known_hosts')]
  const write = (file: string, text: string) => fs.writeFileSync(file, text, { mode: 0o600 })
  const files = keys.map((_, i) => join(folder, `key-${i}`))
  for (const [i, { private_key }] of keys.entries()) write(files[i]!, private_key)
  write(knownHosts, host_keys.map(key => `${HOST_ALIAS} ${key}\n`).join(''))
  write(config, renderConfig({ host, files, knownHosts, isPinned: host_keys.length > 0 }))
  return {
    command: `ssh -F '${config.replaceAll("'", String.raw`'\''`)}'`,
    config,
    seenHostKey: () => {
      const lines = fs.readFileSync(knownHosts, 'utf8').split('\n')
      const seen = lines.find(line => line.startsWith(`${HOST_ALIAS} `))
      return seen?.split(' ').slice(1, 3).join(' ') ?? null
    },
    [Symbol.dispose]: () => fs.rmSync(folder, { recursive: true, force: true }),
  }
}

type ConfigParts = { host: string; files: string[]; knownHosts: string; isPinned: boolean }
function renderConfig({ host, files, knownHosts, isPinned }: ConfigParts): string {
  const quote = (path: string) => `"${path.replaceAll('%', '%%')}"`
  const settings: [string, string][] = [
    ['HostName', host],
    ['HostKeyAlias', HOST_ALIAS],
    ['StrictHostKeyChecking', isPinned ? 'yes' : 'accept-new'],
    ['UserKnownHostsFile', quote(knownHosts)],
    ['GlobalKnownHostsFile', '/dev/null'],
    ['HashKnownHosts', 'no'],
    ['UpdateHostKeys', 'no'],
    ['VerifyHostKeyDNS', 'no'],
    ['CanonicalizeHostname', 'no'],
    ['BatchMode', 'yes'],
    ['IdentitiesOnly', 'yes'],
    ['IdentityAgent', 'none'],
    ['PreferredAuthentications', 'publickey'],
    ['PubkeyAuthentication', files.length > 0 ? 'yes' : 'no'],
    ...files.map((file): [string, string] => ['IdentityFile', quote(file)]),
    ['ForwardAgent', 'no'],
    ['ForwardX11', 'no'],
    ['ClearAllForwardings', 'yes'],
    ['PermitLocalCommand', 'no'],
    ['ProxyCommand', 'none'],
    ['ControlPath', 'none'],
    ['ConnectTimeout', String(CONNECT_SECONDS)],
    ['ServerAliveInterval', String(ALIVE_SECONDS)],
    ['ServerAliveCountMax', String(ALIVE_COUNT)],
    ['LogLevel', 'ERROR'],
  ]
  return `Host *\n${settings.map(([name, value]) => `  ${name} ${value}\n`).join('')}`
}

/** Returns the first of several addresses that answers: ssh tries only the one that it is given. */
async function chooseAddress({ url, addresses }: AllowedAddress): Promise<string> {
  if (addresses.length <= 1) return addresses[0] ?? url.hostname.replace(/^\[|\]$/g, '')
  for (const address of addresses.slice(0, MAX_ADDRESSES))
    if (await acceptsConnection(address, Number(url.port || DEFAULT_PORT), PROBE_MS)) return address
  throw new SourceUnavailable(`The host of ${url.href} does not answer.`)
}

/**
 * Removes what agents left that were killed: the folders have their process id in their names. In a container the next
 * agent often has the same one. Other programs can make such folders, too, and keep nothing from starting.
 */
export function removeStaleSessions(): void {
  for (const name of fs.readdirSync(tmpdir()).filter(one => one.startsWith(FOLDER_PREFIX))) {
    if (name.startsWith(OWN_PREFIX) || !isStale(name)) continue
    try {
      fs.rmSync(join(tmpdir(), name), { recursive: true, force: true })
    } catch {
      // Another user owns it.
    }
  }
}

function isStale(name: string): boolean {
  const pid = Number(name.slice(FOLDER_PREFIX.length).split('-')[0])
  return pid === process.pid || isGone(pid)
}

function isGone(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return false
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ESRCH'
  }
}

/** True where this machine has the program. */
export const hasSsh = (PATH: string): Promise<boolean> =>
  promisify(execFile)('ssh', ['-V'], { env: { PATH } }).then(
    () => true,
    () => false,
  )

// The environment in which git runs: without the configuration of this machine, for one checked address.
import type { HttpCredential } from '../control-plane/credentials.ts'
import type { AllowedAddress } from './allowed-address.ts'
import type { SshSession } from './ssh-session.ts'

export const basicAuth = ({ username, password }: HttpCredential) =>
  Buffer.from(`${username}:${password}`).toString('base64')

const bracketIpv6 = (address: string) => (address.includes(':') ? `[${address}]` : address)

/** The credential goes to the repository's own origin only. Redirects and URLs named by the server are not followed. */
export function gitSettings({ url, addresses }: AllowedAddress, credential: HttpCredential | null) {
  const scheme = url.protocol.slice(0, -1)
  const port = url.port || (scheme === 'https' ? '443' : '80')
  const settings: [name: string, value: string][] = [
    ['core.hooksPath', '/dev/null'],
    ['core.fsmonitor', 'false'],
    ['credential.helper', ''],
    ['gc.auto', '0'],
    ['protocol.version', '2'],
    ['protocol.allow', 'never'],
    [`protocol.${scheme}.allow`, 'always'],
    ['http.followRedirects', 'false'],
    ['transfer.bundleURI', 'false'],
    ['fetch.uriProtocols', ''],
    ['http.proxy', ''],
    ['http.sslVerify', 'true'],
    ['http.lowSpeedLimit', '1000'],
    ['http.lowSpeedTime', '60'],
  ]
  if (addresses.length > 0 && scheme !== 'ssh')
    settings.push(['http.curloptResolve', `${url.hostname}:${port}:${addresses.map(bracketIpv6).join(',')}`])
  if (credential) settings.push([`http.${url.origin}/.extraHeader`, `Authorization: Basic ${basicAuth(credential)}`])
  return { scheme, settings }
}

type Login = { credential: HttpCredential | null; ssh: SshSession | null }

/** The credential is in the environment, which `ps` does not show. */
export function gitEnvironment(
  HOME: string,
  address: AllowedAddress,
  { credential, ssh }: Login,
  PATH: string,
): Record<string, string> {
  const { scheme, settings } = gitSettings(address, credential)
  return {
    PATH,
    HOME,
    LANG: 'C.UTF-8',
    GIT_TERMINAL_PROMPT: '0',
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_CONFIG_GLOBAL: '/dev/null',
    GIT_ALLOW_PROTOCOL: scheme,
    ...(ssh && { GIT_SSH_COMMAND: ssh.command, GIT_SSH_VARIANT: 'ssh' }),
    GIT_CONFIG_COUNT: String(settings.length),
    ...Object.fromEntries(
      settings.flatMap(([key, value], i) => [
        [`GIT_CONFIG_KEY_${i}`, key],
        [`GIT_CONFIG_VALUE_${i}`, value],
      ]),
    ),
  }
}

/**
 * A host that never stops listing its refs fills no memory. `refs`: 256 MB of addresses. `objects`: 2 GB of memory of
 * its own for each process, because git maps files of any size while it fetches, and lists refs before.
 */
const LIMITS = { refs: 'ulimit -v 262144', objects: 'ulimit -d 2097152' }

/** Runs a program with limited memory, where the system can limit it. */
export const withLimitedMemory = (command: string[], limit: keyof typeof LIMITS): [string, ...string[]] => [
  'sh',
  '-c',
  `${LIMITS[limit]} 2>/dev/null; exec "$0" "$@"`,
  ...command,
]

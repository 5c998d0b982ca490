// Reads the agent's settings of the public proxy.
import { isIP } from 'node:net'
import { AppsDomain } from '../../protocol/custom-url.schema.ts'
import type { PublicAddresses } from './host-probes.ts'

const PROXY_KINDS = ['caddy'] as const

export type ProxySettings = {
  kind: (typeof PROXY_KINDS)[number]
  /** The socket of the proxy's admin API. */
  admin: string
  /** The control plane, if it is on this machine. */
  api: { host: string; port: number } | undefined
  acme: { email: string | undefined; directory: string | undefined; root: string | undefined }
  /** Files of a certificate for the names below the domain of applications. */
  certificate: { file: string; key: string } | undefined
  public_addresses: PublicAddresses
  max_body_mib: number
}

const DEFAULT_ADMIN = '/run/slipway-proxy/admin.sock'
/** Caddy replaces placeholders in braces, so no setting may have one. */
const PLAIN_PATH = /^\/[^{}\s]*$/
const EMAIL = /^[^\s{}@]+@[^\s{}@]+$/

/** Undefined without a public proxy. Throws at the first setting that is not valid. */
export function readProxySettings(env: NodeJS.ProcessEnv): ProxySettings | undefined {
  const kind = env.AGENT_PROXY
  if (!kind) return undefined
  if (!isKind(kind)) throw new Error(`AGENT_PROXY ${kind} does not exist. Use one of: ${PROXY_KINDS.join(', ')}.`)
  const domain = env.APPS_DOMAIN
  if (!domain) throw new Error('AGENT_PROXY needs APPS_DOMAIN, the domain below which deployments are served.')
  const path = (name: string, fallback?: string) => {
    const value = env[name] || fallback
    if (value !== undefined && !PLAIN_PATH.test(value))
      throw new Error(`${name} ${value} is not an absolute path without spaces and braces.`)
    return value
  }
  const host = env.AGENT_PROXY_API_HOST || undefined
  if (host !== undefined && !AppsDomain.safeParse(host).success)
    throw new Error(`AGENT_PROXY_API_HOST ${host} is not a host. Set one like slipway.example.com.`)
  if (host !== undefined && (host === domain || host.endsWith(`.${domain}`)))
    throw new Error(`AGENT_PROXY_API_HOST ${host} is below APPS_DOMAIN, where deployments choose names. Use another.`)
  const port = readNumber(env, 'AGENT_PROXY_API_PORT', 8787, 65_535)
  const { ACME_EMAIL: email, ACME_DIRECTORY: directory } = env
  if (email && !EMAIL.test(email))
    throw new Error(`ACME_EMAIL ${email} is not an address. Set one like ops@example.com.`)
  if (directory && (URL.parse(directory)?.protocol !== 'https:' || /[{}]/.test(directory)))
    throw new Error(`ACME_DIRECTORY ${directory} is not an https URL of a directory.`)
  const file = path('APPS_CERTIFICATE')
  const key = path('APPS_CERTIFICATE_KEY')
  if (!file !== !key) throw new Error('APPS_CERTIFICATE and APPS_CERTIFICATE_KEY belong together. Set both or none.')
  const addresses = (env.AGENT_PROXY_ADDRESSES ?? '').split(',').flatMap(text => text.trim() || [])
  const invalid = addresses.find(text => !isIP(text))
  if (invalid !== undefined) throw new Error(`${invalid} in AGENT_PROXY_ADDRESSES is not an IP address.`)
  return {
    kind,
    admin: path('AGENT_PROXY_ADMIN', DEFAULT_ADMIN)!,
    api: host === undefined ? undefined : { host, port },
    acme: { email: email || undefined, directory: directory || undefined, root: path('ACME_ROOT') },
    certificate: file && key ? { file, key } : undefined,
    public_addresses: addresses.length > 0 ? addresses : (host ?? domain),
    max_body_mib: readNumber(env, 'AGENT_PROXY_BODY_MIB', 1024, 1_000_000),
  }
}

const isKind = (text: string): text is ProxySettings['kind'] => (PROXY_KINDS as readonly string[]).includes(text)

function readNumber(env: NodeJS.ProcessEnv, name: string, fallback: number, max: number): number {
  const text = env[name] || String(fallback)
  const value = Number(text)
  if (!/^\d+$/.test(text) || value < 1 || value > max)
    throw new Error(`${name} ${text} is not a whole number from 1 to ${max}.`)
  return value
}

// The options of `slipway up`, completed by what an earlier run has written.
import { isIP } from 'node:net'
import { parseArgs } from 'node:util'
import { AppsDomain } from '../../protocol/custom-url.schema.ts'
import { type EnvFile, PLAIN, readEnvFile } from './env-file.ts'

export const FOLDER = '/etc/slipway'
export const FILES = {
  owner: `${FOLDER}/owner.env`,
  controlPlane: `${FOLDER}/control-plane.env`,
  agent: `${FOLDER}/agent.env`,
}

export const USAGE = `slipway up --domain HOST --apps-domain DOMAIN --email ADDRESS [OPTIONS]

Installs Slipway on this Linux machine and serves it in public: Postgres, systemd and Caddy are used as they are
installed. Run it as root. It checks everything first, and a second run changes only what differs.
  --domain HOST          where the API and the dashboard are, such as slipway.example.com
  --apps-domain DOMAIN   deployments are below it, such as apps.example.net; *.DOMAIN must lead to this machine
  --email ADDRESS        the first Admin, and the contact of the certificates
  --organization NAME    the first organization; default: the domain
  --database-url URL     the owner of an empty Postgres 16.5, 17.1 or newer; default: a database of the Postgres here
  --engine NAME          process or container; default: process
  --address ADDRESS      a public address of this machine, if it is behind NAT; can be repeated
  --acme-directory URL   the authority of the certificates; default: Let's Encrypt, then ZeroSSL
  --acme-root FILE       the root certificate of that directory, if it is not public
  --check                only report what is missing, and whether anything would change
  --print                print the files it would write, without secrets, and change nothing
What it asked for once is in ${FOLDER}, so that a later run needs no options.`

export type UpOptions = {
  domain: string
  appsDomain: string
  email: string
  organization: string
  databaseUrl: string | undefined
  engine: string
  addresses: string[]
  acmeDirectory: string | undefined
  acmeRoot: string | undefined
  mode: 'up' | 'check' | 'print'
}
export type Installed = { owner: EnvFile; controlPlane: EnvFile; agent: EnvFile }
export const readInstalled = (): Installed => ({
  owner: readEnvFile(FILES.owner),
  controlPlane: readEnvFile(FILES.controlPlane),
  agent: readEnvFile(FILES.agent),
})

/** Undefined if the help was asked for. Faults are sentences: all of them are reported together. */
export function readOptions(
  args: string[],
  installed: Installed,
): { options: UpOptions; faults: string[] } | undefined {
  const { values } = parseArgs({
    args,
    options: {
      domain: { type: 'string' },
      'apps-domain': { type: 'string' },
      email: { type: 'string' },
      organization: { type: 'string' },
      'database-url': { type: 'string' },
      engine: { type: 'string' },
      address: { type: 'string', multiple: true },
      'acme-directory': { type: 'string' },
      'acme-root': { type: 'string' },
      check: { type: 'boolean', default: false },
      print: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h' },
    },
  })
  if (values.help) return undefined
  const { owner, controlPlane, agent } = installed
  const saved = (file: EnvFile, name: string) => file.values.get(name) || undefined
  const domain = values.domain ?? URL.parse(saved(controlPlane, 'PUBLIC_URL') ?? '')?.hostname ?? ''
  const options: UpOptions = {
    domain,
    appsDomain: values['apps-domain'] ?? saved(controlPlane, 'APPS_DOMAIN') ?? '',
    email: values.email ?? saved(agent, 'ACME_EMAIL') ?? '',
    organization: values.organization ?? domain,
    databaseUrl: values['database-url'] ?? process.env.DATABASE_OWNER_URL ?? saved(owner, 'DATABASE_OWNER_URL'),
    engine: values.engine ?? saved(agent, 'AGENT_ENGINE') ?? 'process',
    addresses: values.address ?? saved(agent, 'AGENT_PROXY_ADDRESSES')?.split(',') ?? [],
    acmeDirectory: values['acme-directory'] ?? saved(agent, 'ACME_DIRECTORY'),
    acmeRoot: values['acme-root'] ?? saved(agent, 'ACME_ROOT'),
    mode: values.print ? 'print' : values.check ? 'check' : 'up',
  }
  const isOwnerLost = options.databaseUrl === undefined && saved(controlPlane, 'DATABASE_URL') !== undefined
  const faults = isOwnerLost
    ? [`${FILES.owner} has no DATABASE_OWNER_URL, and ${FILES.controlPlane} has a database. Name it: --database-url.`]
    : []
  return { options, faults: [...findFaults(options), ...faults] }
}

function findFaults(options: UpOptions): string[] {
  const { domain, appsDomain, email, organization, engine, addresses, acmeDirectory, acmeRoot, databaseUrl } = options
  const isDomain = (text: string) => text.length <= 253 && AppsDomain.safeParse(text).success && !isIP(text)
  const isBelow = (host: string, parent: string) => host === parent || host.endsWith(`.${parent}`)
  return [
    !isDomain(domain) && `--domain ${domain || 'is missing'}. Give a host such as slipway.example.com.`,
    !isDomain(appsDomain) && `--apps-domain ${appsDomain || 'is missing'}. Give a domain such as apps.example.net.`,
    domain !== '' &&
      isBelow(domain, appsDomain) &&
      `--domain ${domain} is below --apps-domain ${appsDomain}, where deployments choose names. Give another one.`,
    !(/^[^@{}]+@[^@{}]+$/.test(email) && PLAIN.test(email)) &&
      `--email ${email || 'is missing'}. Give one such as ops@example.com.`,
    !['process', 'container'].includes(engine) && `--engine ${engine} does not exist. Use process or container.`,
    (organization.trim() === '' || organization.length > 256) &&
      domain !== '' &&
      '--organization has to have 1 to 256 characters.',
    ...addresses.map(text => !(isIP(text) && PLAIN.test(text)) && `--address ${text} is not an IP address.`),
    acmeDirectory !== undefined &&
      !(URL.parse(acmeDirectory)?.protocol === 'https:' && PLAIN.test(acmeDirectory)) &&
      `--acme-directory ${acmeDirectory} is not a plain https URL.`,
    acmeRoot !== undefined &&
      !(acmeRoot.startsWith('/') && PLAIN.test(acmeRoot)) &&
      `--acme-root ${acmeRoot} is not an absolute path of plain characters.`,
    databaseUrl !== undefined &&
      !/^postgres(ql)?:$/.test(URL.parse(databaseUrl)?.protocol ?? '') &&
      '--database-url is not a URL such as postgres://owner:…@db.example.com/slipway.',
    databaseUrl !== undefined &&
      !PLAIN.test(databaseUrl) &&
      '--database-url has characters that an environment file cannot hold. Write them as %23 and the like.',
  ].filter(fault => typeof fault === 'string')
}

// The part of Caddy's configuration that the agent owns. Pure, and without anything that users of Slipway choose.
import type { RouterEndpoint } from './public-proxy.ts'
import type { ProxySettings } from './settings.ts'

type Json = { [member: string]: unknown }
type Part = Json & { '@id'?: string }
type LoadedFile = Json & { tags?: string[] }
export type CaddyConfig = Json & {
  apps?: Json & {
    http?: Json & { servers?: { [name: string]: Part } }
    tls?: Json & {
      automation?: Json & { policies?: Part[]; on_demand?: Json }
      certificates?: Json & { load_files?: LoadedFile[] }
    }
  }
}
/** The two spellings of the setting that names who permits a certificate: since Caddy 2.8, and before. */
export const DIALECTS = ['permission', 'ask'] as const
/** `certificateStamp` changes with the files of the certificate, so that Caddy reads them again. */
export type ConfigInput = {
  settings: ProxySettings
  router: RouterEndpoint
  certificateStamp: string
  dialect: Dialect
}

type Dialect = (typeof DIALECTS)[number]
const QUESTIONS: Record<Dialect, (endpoint: string) => Json> = {
  permission: endpoint => ({ permission: { module: 'http', endpoint } }),
  ask: endpoint => ({ ask: endpoint }),
}

const PREFIX = 'slipway_'
const isOwn = (part: Part) => part['@id']?.startsWith(PREFIX) === true
const isOwnFile = ({ tags = [] }: LoadedFile) => tags.some(tag => tag.startsWith(PREFIX))

/** An archive of the API is smaller, and the control plane refuses larger bodies itself. */
const MAX_API_BODY_MIB = 1024
const HSTS = { 'Strict-Transport-Security': ['max-age=31536000'] }
/** Longer than a restart of the control plane or the router. */
const CONNECT_RETRY = { try_duration: '15s', try_interval: '100ms' }

/** Replaces the agent's own parts, and leaves those of others as they are. */
export function withOwnParts(config: CaddyConfig, input: ConfigInput): CaddyConfig {
  const { apps = {} } = config
  const { http = {}, tls = {} } = apps
  const { automation = {}, certificates = {} } = tls
  const foreignServers = Object.entries(http.servers ?? {}).filter(([, server]) => !isOwn(server))
  const foreignFiles = (certificates.load_files ?? []).filter(file => !isOwnFile(file))
  const foreignPolicies = (automation.policies ?? []).filter(policy => !isOwn(policy))
  const load_files = [...foreignFiles, ...loadedFiles(input)]
  const newTls = {
    ...tls,
    automation: {
      ...automation,
      // The first policy that matches decides, and the one of applications matches every name.
      policies: [...apiPolicies(input), ...foreignPolicies, appsPolicy(input)],
      on_demand: QUESTIONS[input.dialect](input.router.certificateQuestion),
    },
    ...((load_files.length > 0 || tls.certificates) && { certificates: { ...certificates, load_files } }),
  }
  const servers = { ...Object.fromEntries(foreignServers), ...ownServers(input) }
  return { ...config, apps: { ...apps, http: { ...http, servers }, tls: newTls } }
}

function ownServers({ settings, router }: ConfigInput): { [name: string]: Part } {
  const { api, max_body_mib } = settings
  const apiRoute = api && {
    match: [{ host: [api.host] }],
    // Node closes an idle connection after five seconds.
    handle: [setHsts, ...limitBody(MAX_API_BODY_MIB), forwardTo(api.port, '3s')],
    terminal: true,
  }
  // Trailers and streams of gRPC need HTTP/2 on the whole way. The router refuses it where the application has none.
  const grpcRoute = {
    match: [{ header: { 'Content-Type': ['application/grpc', 'application/grpc+*'] }, protocol: 'http/2+' }],
    handle: [setHsts, ...limitBody(max_body_mib), forwardByHttp2(router.port)],
    terminal: true,
  }
  const appsRoute = { handle: [setHsts, ...limitBody(max_body_mib), compress, forwardTo(router.port, '30s')] }
  return {
    [`${PREFIX}https`]: {
      '@id': `${PREFIX}https`,
      listen: [':443'],
      read_header_timeout: '30s',
      idle_timeout: '5m',
      max_header_bytes: 65_536,
      automatic_https: { disable_redirects: true },
      tls_connection_policies: [{}],
      routes: [...(apiRoute ? [apiRoute] : []), grpcRoute, appsRoute],
      errors: {
        routes: [{ match: [{ expression: '{http.error.status_code} == 413' }], handle: [tooLarge] }, unreachable],
      },
    },
    [`${PREFIX}http`]: {
      '@id': `${PREFIX}http`,
      listen: [':80'],
      read_header_timeout: '30s',
      idle_timeout: '30s',
      max_header_bytes: 65_536,
      automatic_https: { disable_redirects: true },
      routes: [{ handle: [redirectToHttps] }],
    },
  }
}

/** An application may send a header of its own. */
const setHsts = {
  handler: 'headers',
  response: { set: HSTS, deferred: true, require: { headers: { 'Strict-Transport-Security': null } } },
}
/**
 * Answers of a known length alone: an older Caddy would hold back parts of a stream. An application keeps its answer as
 * it is by `Cache-Control: no-transform` or a `Content-Encoding` of its own.
 */
const compress = {
  handler: 'encode',
  encodings: { zstd: {}, gzip: {} },
  prefer: ['zstd', 'gzip'],
  minimum_length: 1_024,
  match: {
    // Not 206, which is a part of an answer.
    status_code: [200, 4, 5],
    headers: {
      'Content-Length': ['*'],
      'Content-Type': [
        'text/html*',
        'text/css*',
        'text/plain*',
        'text/javascript*',
        'text/xml*',
        'text/csv*',
        'text/markdown*',
        'application/json*',
        'application/javascript*',
        'application/problem+json*',
        'application/manifest+json*',
        'application/xml*',
        'application/wasm*',
        'image/svg+xml*',
      ],
    },
  },
}
/** Refuses a large body by its declared size, or while it arrives. */
function limitBody(mib: number) {
  const bytes = mib * 1024 * 1024
  const expression = `int({http.request.header.Content-Length}) > ${bytes}`
  const routes = [
    {
      match: [{ header: { 'Content-Length': ['*'] } }],
      handle: [
        {
          handler: 'subroute',
          routes: [{ match: [{ expression }], handle: [{ handler: 'error', status_code: '413' }] }],
        },
      ],
    },
  ]
  return [
    { handler: 'subroute', routes },
    { handler: 'request_body', max_size: bytes },
  ]
}
const redirectToHttps = {
  handler: 'static_response',
  status_code: 308,
  headers: { Location: ['https://{http.request.host}{http.request.uri}'], Connection: ['close'] },
}
const problem = (detail: string, headers: { [name: string]: string[] } = {}) => ({
  handler: 'static_response',
  status_code: '{http.error.status_code}',
  headers: { 'Content-Type': ['application/problem+json'], ...headers, ...HSTS },
  body: JSON.stringify({ type: 'about:blank', title: '{http.error.status_text}', detail }),
})
const tooLarge = problem('The body of the request is too large.')
const unreachable = { handle: [problem('The server is being restarted. Try again.', { 'Retry-After': ['1'] })] }

const forwardTo = (port: number, idle_timeout: string) => ({
  handler: 'reverse_proxy',
  upstreams: [{ dial: `127.0.0.1:${port}` }],
  // -1 would also keep the request to the application going after its client has left.
  flush_interval: '10ms',
  load_balancing: CONNECT_RETRY,
  transport: { protocol: 'http', dial_timeout: '3s', keep_alive: { idle_timeout } },
})

const forwardByHttp2 = (port: number) => ({
  ...forwardTo(port, '30s'),
  flush_interval: -1,
  transport: { protocol: 'http', versions: ['h2c', '2'], dial_timeout: '3s' },
})

// ---- certificates

function issuer({ acme: { email, directory, root } }: ProxySettings) {
  return {
    module: 'acme',
    ...(email && { email }),
    ...(directory && { ca: directory }),
    ...(root && { trusted_roots_pem_files: [root] }),
  }
}

const apiPolicies = ({ settings }: ConfigInput): Part[] =>
  settings.api ? [{ '@id': `${PREFIX}api`, subjects: [settings.api.host], issuers: [issuer(settings)] }] : []

/**
 * Ordered at the first visit, and only if the router agrees: so a new host needs no reload of the configuration, which
 * closes every WebSocket, and a name without visitors does not count against the limits of the authority.
 */
const appsPolicy = ({ settings }: ConfigInput): Part => ({
  '@id': `${PREFIX}apps`,
  on_demand: true,
  issuers: [issuer(settings)],
})

function loadedFiles({ settings: { certificate }, certificateStamp }: ConfigInput): LoadedFile[] {
  if (!certificate) return []
  return [{ certificate: certificate.file, key: certificate.key, tags: [`${PREFIX}${certificateStamp}`] }]
}

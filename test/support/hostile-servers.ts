// Hostile or broken foreign servers: what they publish, how they send it, and their challenges.
import * as fc from 'fast-check'
import * as odd from './hostile-values.ts'
import {
  AUTH_ORIGIN,
  MCP_ORIGIN,
  makeResourceMetadata,
  makeServerMetadata,
  OIDC_METADATA_PATH,
  RESOURCE_METADATA_PATH,
  SERVER_METADATA_PATH,
} from './mcp-sites.ts'

const pickWeighted = <T>(...choices: [weight: number, arbitrary: fc.Arbitrary<T>][]) =>
  fc.oneof(...choices.map(([weight, arbitrary]) => ({ weight, arbitrary })))

const SOUND_ADDRESSES = [
  AUTH_ORIGIN,
  `${AUTH_ORIGIN}/`,
  `${AUTH_ORIGIN}/tenant`,
  MCP_ORIGIN,
  `${MCP_ORIGIN}/mcp`,
  'https://not-there.example.net',
]
const BAD_ADDRESSES = [
  'http://auth.example.com',
  'file:///etc/passwd',
  'javascript:alert(1)',
  'data:text/html,x',
  'blob:https://a.example.com/1',
  'ws://auth.example.com',
  'ftp://auth.example.com',
  '//auth.example.com',
  '/token',
  '',
  ' ',
  'https://',
  'https:auth.example.com',
  'https://user:pass@auth.example.com',
  'https://@auth.example.com',
  'https://auth.example.com:22/',
  'https://auth.example.com:0',
  'https://127.0.0.1',
  'https://2130706433',
  'https://0x7f.1',
  'https://0177.0.0.1',
  'https://10.0.0.1',
  'https://169.254.169.254',
  'https://[::1]',
  'https://[::ffff:10.0.0.1]',
  'https://[64:ff9b::a00:1]',
  'https://localhost',
  'https://localhost.',
  'https://db',
  'https://metadata.google.internal',
  'https://printer.local',
  'https://a.onion',
  'https://slipway.example.com',
  'https://slipway.example.com.',
  ...[
    'https://auth.example.com\\@evil.example.com',
    'https://auth.example.com\t',
    'https://au\0th.example.com',
    'https://ａｕｔｈ.example.com',
  ],
  ...[
    'https://auth.example.com#',
    'https://auth.example.com?',
    `${AUTH_ORIGIN}/\ud800`,
    `${AUTH_ORIGIN}/../../x`,
    `${AUTH_ORIGIN}/%2e%2e/%00`,
  ],
  ...[
    `${AUTH_ORIGIN}/${'x'.repeat(3000)}`,
    `https://${'a.'.repeat(130)}com`,
    'https://%31%32%37.0.0.1',
    `${AUTH_ORIGIN}.evil.example.net`,
  ],
]
const anyAddress = pickWeighted(
  [3, fc.constantFrom(...SOUND_ADDRESSES)],
  [2, fc.constantFrom(...BAD_ADDRESSES)],
  [1, fc.webUrl()],
)

// ---- documents, as text

const toJsonText = (one: fc.Arbitrary<unknown>) => one.map(value => JSON.stringify(value))
const anyWord = fc.constantFrom(
  'S256',
  'plain',
  's256',
  'code',
  'token',
  'authorization_code',
  'refresh_token',
  'none',
  'client_secret_post',
  'client_secret_basic',
  'private_key_jwt',
  'offline_access',
  'read',
  'a b',
  '',
  '\0',
  '\ud800',
  'ö',
  'x'.repeat(5000),
)
const anyJson = pickWeighted(
  [3, fc.constantFrom(...odd.VALUES)],
  [2, fc.constantFrom('true', 'false', '"true"', '1', '"S256"', '0', '-1', '1e309', '"0"', '4102444800')],
  [2, toJsonText(anyAddress)],
  [2, toJsonText(fc.array(anyWord, { maxLength: 4 }))],
  [1, toJsonText(fc.array(anyAddress, { maxLength: 40 }))],
  [1, toJsonText(fc.array(fc.oneof(anyWord, fc.constantFrom(null, 1, {}, [])), { maxLength: 4 }))],
  [1, toJsonText(fc.jsonValue({ maxDepth: 3 }))],
)
const oddNames = fc.constantFrom('__proto__', 'constructor', 'toString', 'x', '')

/** A valid document, often with members replaced, missing, doubled or added; or something else. */
function arbitraryDocument(members: Record<string, unknown>): fc.Arbitrary<string> {
  const sound = Object.entries(members).map(([name, value]): [string, string] => [
    name,
    JSON.stringify(value) ?? 'null',
  ])
  const change = fc.tuple(pickWeighted([8, fc.constantFrom(...Object.keys(members))], [1, oddNames]), anyJson)
  const object = (entries: [string, string][]) =>
    `{${entries.map(([name, value]) => `${JSON.stringify(name)}:${value}`).join(',')}}`
  const changed = fc
    .tuple(fc.array(change, { maxLength: 2 }), fc.subarray(sound, { minLength: sound.length - 1 }))
    .map(([changes, rest]) => object([...rest, ...changes]))
  return pickWeighted(
    [16, fc.constant(object(sound))],
    [8, changed],
    [1, fc.tuple(changed, fc.nat()).map(([one, at]) => one.slice(0, at % one.length))],
    [
      1,
      fc.constantFrom(...odd.BODIES, '<!doctype html>', `\ufeff${object(sound)}`, object(sound).replaceAll(':', ' : ')),
    ],
    [1, anyJson],
  )
}

// ---- transfers

type TransferMode = 'whole' | 'in bytes' | 'padded' | 'endless' | 'broken' | 'stalled'
type ServerReply = { status: number; headers: [string, string][]; text: string; transfer: TransferMode }

const anyLocation = pickWeighted(
  [2, anyAddress],
  [
    2,
    fc.constantFrom(
      '/',
      '/mcp',
      RESOURCE_METADATA_PATH,
      `${RESOURCE_METADATA_PATH}/mcp`,
      SERVER_METADATA_PATH,
      '?',
      '#',
      '..',
    ),
  ],
)
const anyHeaders = fc.array(
  fc.oneof(
    fc.tuple(
      fc.constant('Content-Type'),
      fc.constantFrom('application/json', 'text/html', '', 'x', 'image/png;charset=utf-16'),
    ),
    fc.tuple(
      fc.constant('Location'),
      anyLocation.filter(one => /^[\x20-\x7e]*$/.test(one)),
    ),
    fc.tuple(
      fc.constantFrom('Set-Cookie', 'Content-Length', 'Content-Encoding', 'Refresh', 'Link'),
      fc.constantFrom('a=b', '0', '9', 'br', '-1'),
    ),
  ),
  { maxLength: 2 },
)
function arbitraryReply(body: fc.Arbitrary<string>, usual = 200): fc.Arbitrary<ServerReply> {
  return fc.record({
    status: pickWeighted(
      [40, fc.constant(usual)],
      [2, fc.constantFrom(404, 401, 403)],
      [2, fc.constantFrom(200, 201, 204, 206, 301, 302, 304, 307, 308, 400, 410, 418, 429, 500, 502, 503)],
    ),
    headers: anyHeaders,
    text: body,
    transfer: pickWeighted<TransferMode>(
      [40, fc.constant('whole')],
      [2, fc.constant('in bytes')],
      [1, fc.constantFrom('padded', 'endless', 'broken', 'stalled')],
    ),
  })
}

// ---- challenges

const quotedAddress = pickWeighted(
  [
    3,
    fc.constantFrom(
      `${MCP_ORIGIN}${RESOURCE_METADATA_PATH}/mcp`,
      `${MCP_ORIGIN}${RESOURCE_METADATA_PATH}`,
      `${MCP_ORIGIN}/meta`,
    ),
  ],
  [2, anyAddress.filter(one => /^[\x20-\x7e]*$/.test(one))],
)
const challengePiece = fc.oneof(
  fc.constantFrom(
    'Bearer',
    'Basic',
    'DPoP',
    ' ',
    ',',
    ', ',
    '"',
    '\\',
    '=',
    ' = ',
    'realm="x"',
    'realm=x',
    'abc==',
    ';',
    "'",
    '@',
    '""',
  ),
  quotedAddress.map(one => `resource_metadata="${one}"`),
  quotedAddress.map(one => `resource_metadata=${one}`),
  fc.constantFrom(
    'scope="read write"',
    'scope=""',
    'scope=read',
    'scope="a\\"b"',
    `scope="${'s '.repeat(2000)}"`,
    '__proto__="x"',
    'error="e"',
  ),
)
const anyChallenge = pickWeighted(
  [2, quotedAddress.map(one => `Bearer resource_metadata="${one}"`)],
  [1, fc.constant('Bearer')],
  [1, fc.array(challengePiece, { maxLength: 12 }).map(pieces => pieces.join(' '))],
)
const anyChallenges = pickWeighted(
  [4, fc.array(anyChallenge, { maxLength: 3 })],
  [
    1,
    fc.tuple(anyChallenge, fc.integer({ min: 4, max: 200 })).map(([one, times]) => Array(times).fill(one) as string[]),
  ],
)

export type HostileServer = {
  challenges: string[]
  probe: ServerReply
  resource: ServerReply
  server: ServerReply
  registration: ServerReply
  /** The path of the document; empty is every path. */
  resourceAt: string
  serverAt: string
}

const RESOURCE_METADATA = {
  ...makeResourceMetadata(`${MCP_ORIGIN}/mcp`, AUTH_ORIGIN),
  scopes_supported: ['read'],
}
const SERVER_METADATA = {
  ...makeServerMetadata(AUTH_ORIGIN, {
    registration_endpoint: `${AUTH_ORIGIN}/register`,
    revocation_endpoint: `${AUTH_ORIGIN}/revoke`,
  }),
  grant_types_supported: ['authorization_code', 'refresh_token'],
  scopes_supported: ['offline_access'],
  authorization_response_iss_parameter_supported: true,
  client_id_metadata_document_supported: false,
}
const REGISTRATION = {
  client_id: 'made',
  client_secret: 'hush',
  client_secret_expires_at: 0,
  redirect_uris: undefined,
  token_endpoint_auth_method: 'client_secret_post',
  registration_client_uri: `${AUTH_ORIGIN}/clients/made`,
  registration_access_token: 'manage',
}

export const hostileServer: fc.Arbitrary<HostileServer> = fc.record({
  challenges: anyChallenges,
  probe: arbitraryReply(fc.constantFrom('', 'data: {}\n\n', '{}'), 401),
  resource: arbitraryReply(arbitraryDocument(RESOURCE_METADATA)),
  server: arbitraryReply(arbitraryDocument(SERVER_METADATA)),
  registration: arbitraryReply(arbitraryDocument(REGISTRATION), 201),
  resourceAt: fc.constantFrom('', '', RESOURCE_METADATA_PATH, `${RESOURCE_METADATA_PATH}/mcp`, '/meta'),
  serverAt: fc.constantFrom('', '', SERVER_METADATA_PATH, OIDC_METADATA_PATH),
})

const makeReply = (status: number, body: object): ServerReply => ({
  status,
  headers: [],
  text: JSON.stringify(body),
  transfer: 'whole',
})
export const validServer: HostileServer = {
  challenges: ['Bearer'],
  probe: makeReply(401, {}),
  resource: makeReply(200, RESOURCE_METADATA),
  server: makeReply(200, SERVER_METADATA),
  registration: makeReply(201, REGISTRATION),
  resourceAt: '',
  serverAt: '',
}
export const withMembers = (reply: ServerReply, members: Record<string, unknown>): ServerReply => ({
  ...reply,
  text: JSON.stringify({ ...JSON.parse(reply.text), ...members }),
})

const BODILESS_STATUSES = [101, 204, 205, 304]
const utf8 = new TextEncoder()

export function toResponse({ status, headers, text, transfer }: ServerReply, more: [string, string][] = []): Response {
  const init = { status, headers: [...headers, ...more] }
  if (BODILESS_STATUSES.includes(status)) return new Response(null, init)
  if (transfer === 'padded') return new Response(text + ' '.repeat(70_000), init)
  if (transfer === 'whole') return new Response(text, init)
  const bytes = utf8.encode(text)
  let at = 0
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      const chunk = bytes.slice(at, at + (transfer === 'in bytes' && at < 5 ? 1 : 16_384))
      at += chunk.byteLength
      if (chunk.byteLength > 0) return controller.enqueue(chunk)
      if (transfer === 'endless') return controller.enqueue(new Uint8Array(16_384).fill(0x20))
      if (transfer === 'broken') return controller.error(new TypeError('terminated'))
      if (transfer === 'stalled') return new Promise(() => {})
      controller.close()
    },
  })
  return new Response(body, init)
}

// Reads the WWW-Authenticate header of an MCP server, well-formed or not.
import { extractWWWAuthenticateParams } from '@modelcontextprotocol/client'
import { describe, expect, it } from 'vitest'
import { parseChallenges } from '../../../src/connect/oauth/mcp-probe.ts'
import { expectCheap } from '../../support/cpu-cost.ts'

const URL_1 = 'https://mcp.example.com/.well-known/oauth-protected-resource?a=b'
const URL_2 = 'https://mcp.example.com/meta'
const QUOTED = `resource_metadata="${URL_1}"`
const NAMED: [string, string] = ['resource_metadata', URL_1]

describe('a header is read', () => {
  it.each<[string, string, [string, string][]]>([
    ['quoted', `Bearer ${QUOTED}`, [NAMED]],
    ['unquoted, with a scheme in lower case', `bearer resource_metadata=${URL_1}`, [NAMED]],
    [
      'unquoted, between others',
      `Bearer error=e, resource_metadata=${URL_1}, scope=read`,
      [['error', 'e'], NAMED, ['scope', 'read']],
    ],
    ['with a name in capitals', `BEARER Resource_Metadata="${URL_1}"`, [NAMED]],
    ['with white space around the equals sign', `Bearer resource_metadata \t=  "${URL_1}"`, [NAMED]],
    ['without commas', `Bearer error="e" ${QUOTED} scope=read`, [['error', 'e'], NAMED, ['scope', 'read']]],
    ['with empty list elements', `, ,Bearer ,, ${QUOTED},, `, [NAMED]],
    ['with an empty value', `Bearer error="", scope=, ${QUOTED}`, [NAMED]],
    [
      'after other schemes',
      `Basic realm="a, b", Negotiate, Digest nonce=x, Bearer ${QUOTED}`,
      [['realm', 'a, b'], ['nonce', 'x'], NAMED],
    ],
    ['after a token68', `Negotiate YII/+a==, NTLM scope=, Bearer ${QUOTED}`, [NAMED]],
    [
      'with escaped quotes',
      String.raw`Bearer error="say \"no\" \\", ${QUOTED}`,
      [['error', String.raw`say "no" \ `.trim()], NAMED],
    ],
    ['of DPoP', `DPoP algs="ES256", ${QUOTED}`, [['algs', 'ES256'], NAMED]],
    [
      'with duplicates, in their order',
      `Bearer ${QUOTED}, resource_metadata="${URL_2}"`,
      [NAMED, ['resource_metadata', URL_2]],
    ],
    ['without challenges', ' , ', []],
  ])('%s', (_, header, parameters) => {
    expect(parseChallenges(header)).toEqual({ parameters, isMalformed: false })
  })
})

describe('a quoted text is no parameter', () => {
  it.each<[string, string, string[]]>([
    ['in a value', `Bearer error="x, resource_metadata=${URL_1}"`, ['error']],
    ['behind escaped quotes', String.raw`Bearer error="x\", resource_metadata=\"${URL_1}"`, ['error']],
  ])('%s', (_, header, names) => {
    const { parameters, isMalformed } = parseChallenges(header)
    expect([parameters.map(([name]) => name), isMalformed]).toEqual([names, false])
  })

  it.each<[string, string, string[]]>([
    ['after a value that ends early', `Bearer scope=read, error="x"y", resource_metadata="${URL_1}"`, ['scope']],
    ['after a stray quote', `Bearer scope=a"b, resource_metadata="${URL_1}"`, ['scope']],
    ['in a value that never ends', `Bearer scope=a, error="x, resource_metadata=${URL_1}`, ['scope']],
    ['in a value that ends in the next header', `Basic realm="x, Bearer ${QUOTED}`, []],
  ])('%s', (_, header, names) => {
    const { parameters, isMalformed } = parseChallenges(header)
    expect([parameters.map(([name]) => name), isMalformed]).toEqual([names, true])
  })
})

it.each([
  `Bearer ${QUOTED}`,
  `bearer resource_metadata=${URL_1}`,
  `BEARER error="e", ${QUOTED}, scope="read write"`,
  `Bearer error="e" resource_metadata=${URL_1} scope=read`,
])('the MCP SDK reads the same: %s', header => {
  const theirs = extractWWWAuthenticateParams(new Response(null, { headers: { 'WWW-Authenticate': header } }))
  const { resource_metadata, scope } = Object.fromEntries(parseChallenges(header).parameters)
  expect([resource_metadata, scope]).toEqual([theirs.resourceMetadataUrl?.href, theirs.scope])
})

it.each(['a=b,', 'a="b",', '"', 'a="', 'a ', ' ', ',', 'a', '=', 'a=', 'a = ', '\\', '"\\"', 'a="\\'])(
  'a header of many %j costs little',
  async unit => {
    const header = unit.repeat((1024 * 1024) / unit.length)
    await expectCheap(unit, header.length, () => parseChallenges(header))
  },
)

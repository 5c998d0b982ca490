import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { readConfiguration } from '../../src/graphs/configuration.ts'
import { nextDate, parseCron } from '../../src/graphs/cron-schedule.ts'
import { HttpError } from '../../src/graphs/errors.ts'
import { allowedOrigins } from '../../src/graphs/origins.ts'
import { assistantIdOf, toStorable } from '../../src/graphs/values.ts'
import { checkWebhook } from '../../src/graphs/webhooks.ts'

describe('a webhook', () => {
  const DISABLED = { url: { disable_loopback: true } }
  const ALLOWED = { url: { disable_loopback: false } }
  it.each([
    // The key of the deployment goes to its own server.
    ['//other.example/x', undefined],
    ['/\\other.example/x', undefined],
    ['//other.example/x', { url: { allowed_domains: ['mine.example'] } }],
    ['/runs', DISABLED],
    ['http://127.1/', undefined],
    ['http://2130706433/', undefined],
    ['http://[::ffff:127.0.0.1]/', undefined],
    ['http://api.localhost./', undefined],
    ['http://169.254.169.254/', ALLOWED],
    ['http://[::ffff:169.254.169.254]/', ALLOWED],
    ['file:///etc/passwd', ALLOWED],
    ['http://10.0.0.7/', ALLOWED],
    ['https://[fd12:3456::1]/', undefined],
    ['http://[::ffff:192.168.1.1]/', undefined],
    ['http://[::192.168.1.1]/', undefined],
    ['http://[2001:0:c0a8:101::1]/', undefined],
    ['http://10.0.0.7/', { url: { allowed_domains: ['10.0.0.8'] } }],
  ])('to %s is refused by the policy %j', (url, policy) => {
    expect(() => checkWebhook(url, policy)).toThrow(HttpError)
  })

  it.each([
    ['/threads', undefined],
    ['https://hooks.example/x', undefined],
    ['http://127.0.0.1:9000/', ALLOWED],
    ['http://[::1]:9000/', ALLOWED],
    ['https://8.8.8.8/', undefined],
    ['https://[2606:4700::1111]/', undefined],
    ['http://10.0.0.7/', { url: { allowed_domains: ['10.0.0.7'] } }],
    ['https://a.mine.example/', { url: { allowed_domains: ['*.mine.example'] } }],
  ])('to %s is allowed by the policy %j', (url, policy) => {
    expect(() => checkWebhook(url, policy)).not.toThrow()
  })
})

describe('a cron expression', () => {
  it.each([
    ['0 9 * * 1-5', 'Europe/Berlin', '2026-11-27T12:00:00Z', '2026-11-30T08:00:00Z'],
    ['*/15 * * * *', 'UTC', '2026-11-27T12:07:30Z', '2026-11-27T12:15:00Z'],
    ['30 2 * * *', 'Europe/Berlin', '2026-03-28T12:00:00Z', '2026-03-30T00:30:00Z'],
    ['0 0 29 feb *', 'UTC', '2026-11-27T12:00:00Z', '2028-02-29T00:00:00Z'],
    ['0 0 13 * fri', 'UTC', '2026-11-28T00:00:00Z', '2026-12-04T00:00:00Z'],
    ['@hourly', 'Asia/Kolkata', '2026-11-27T12:00:00Z', '2026-11-27T12:30:00Z'],
  ])('%s in %s is next due after %s at %s', (expression, zone, after, due) => {
    expect(nextDate(parseCron(expression), new Date(after), zone)).toEqual(new Date(due))
  })

  it('that fits no date is never due', () => {
    expect(nextDate(parseCron('0 0 31 2 *'), new Date())).toBeNull()
  })

  it.each(['', '* * * *', '60 * * * *', '* 24 * * *', '*/0 * * * *', '5-1 * * * *', '* * * * mon-', 'a b c d e'])(
    'is refused if it is "%s"',
    expression => expect(() => parseCron(expression)).toThrow(/`schedule`/),
  )
})

it('the assistant of a graph has the id that the reference gives it', () => {
  expect(assistantIdOf('agent')).toBe('fe096781-5601-53d2-b2f6-0d3403f7e9ca')
})

it('text that Postgres cannot store gets replacements, and a backslash before "u0000" is left alone', () => {
  const values = ['a\0b', '\\u0000', '\\\0', 'a\ud800', '\udc00\ud83d\ude00', '\\ud800']
  const stored = ['a\ufffdb', '\\u0000', '\\\ufffd', 'a\ufffd', '\ufffd\ud83d\ude00', '\\ud800']
  expect(JSON.parse(toStorable(JSON.stringify(values)))).toEqual(stored)
  // Python escapes whole characters as pairs.
  expect(JSON.parse(toStorable('["\\ud83d\\ude00 \\ud83d"]'))).toEqual(['\ud83d\ude00 \ufffd'])
})

describe('the configuration file', () => {
  function read(content: object) {
    const folder = mkdtempSync(join(tmpdir(), 'slipway-graphs-'))
    writeFileSync(join(folder, 'a.py'), '')
    writeFileSync(join(folder, '.env'), 'export A=\'x y\' # a\nB="1\\n2"\n\n# C=3\nD = plain # comment\n')
    writeFileSync(join(folder, 'langgraph.json'), JSON.stringify(content))
    return readConfiguration(join(folder, 'langgraph.json'))
  }

  it('names languages, and reads variables from a file', () => {
    const { graphs, variables } = read({ graphs: { a: './a.py:make', b: 'my.module:graph' }, env: '.env' })
    expect(graphs.map(({ id, language, name }) => [id, language, name])).toEqual([
      ['a', 'python', 'make'],
      ['b', 'python', 'graph'],
    ])
    expect(variables).toEqual({ A: 'x y', B: '1\n2', D: 'plain' })
  })

  it('is refused with all faults at once: missing files by the name of the graph, and what is not supported', () => {
    const content = {
      graphs: { one: './none.ts:graph', two: './a.py' },
      auth: { disable_studio_auth: true },
      priority: { path: './a.py:first' },
      ui: { agent: './ui.tsx' },
      http: { cors: { allow_origin_regex: '(' } },
      store: { index: { dims: 3, embed: 'openai:small', fields: ['a..b'] } },
      checkpointer: { path: './a.py:saver' },
    }
    const named = ['auth', 'priority', 'ui', 'http.cors.allow_origin_regex', 'store.index.fields', 'checkpointer.path']
    for (const name of [...named, 'one', 'two']) expect(() => read(content), name).toThrow(`\`${name}\``)
    const graphs = { a: './a.py:make' }
    expect(() => read({ graphs, webhooks: { url: { allowed_hosts: ['mine.example'] } } })).toThrow('allowed_hosts')
  })
})

it('answers are readable for the origins of the file, which fit its pattern as a whole', () => {
  expect([allowedOrigins(undefined), allowedOrigins({ allow_origins: ['https://a'] })]).toEqual(['*', ['https://a']])
  expect(allowedOrigins({ allow_origins: ['*'], allow_origin_regex: 'x' })).toBe('*')
  const allowed = allowedOrigins({ allow_origins: ['https://a'], allow_origin_regex: 'https://\\w+\\.mine|http://own' })
  if (typeof allowed !== 'function') return expect.fail('it reads no pattern')
  const origins = ['https://a', 'https://b.mine', 'http://own', 'https://b.mine.evil', 'http://own.evil', 'https://c']
  expect(origins.filter(origin => allowed(origin) === origin)).toEqual(['https://a', 'https://b.mine', 'http://own'])
  // By itself, this one takes years.
  const slow = allowedOrigins({ allow_origin_regex: 'https://(?:[a-z]+\\.?)+mine' })
  if (typeof slow !== 'function') return expect.fail('it reads no pattern')
  expect(slow(`https://${'a'.repeat(200)}!`)).toBeNull()
  expect(slow('https://b.mine')).toBe('https://b.mine')
})

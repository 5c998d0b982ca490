// Known secret values are masked in lines, also when they are encoded, wrapped or cut.
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { PatternMatcher } from '../../src/agent/redaction/pattern-matcher.ts'
import { MASK, SecretMasks } from '../../src/agent/redaction/secret-masks.ts'

const revision = { deployment_id: 'deployment', revision_id: 'revision' }
function createMask(...values: string[]) {
  const masks = new SecretMasks()
  masks.addRevision(revision, values)
  return (text: string) => masks.mask(revision.deployment_id, text)
}
const base64 = (text: string) => Buffer.from(text).toString('base64')

/** Quotes, characters that URLs escape, characters beyond ASCII, and a length that is no multiple of three. */
const SPECIAL_CHARACTERS = `p"a's\\s w&rd/+=%ü€😀x`

describe.each([
  ['plain value', 'hunter2-is-secret'],
  ['value with special characters', SPECIAL_CHARACTERS],
  ['long value', randomBytes(300).toString('base64url')],
])('a %s is masked', (_, value) => {
  const mask = createMask(value)
  test.each<[string, (text: string) => string]>([
    ['unchanged', text => text],
    ['in JSON', text => JSON.stringify({ text })],
    ['in JSON in JSON', text => JSON.stringify(JSON.stringify(text))],
    [
      'in JSON of ASCII only',
      text => JSON.stringify(text).replace(/[^ -~]/g, one => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`),
    ],
    ['percent-encoded', encodeURIComponent],
    ['percent-encoded in lower case', text => encodeURIComponent(text).replace(/%../g, part => part.toLowerCase())],
    ['form-encoded', text => new URLSearchParams({ text }).toString()],
    ['quoted for a shell', text => `'${text.replaceAll("'", `'\\''`)}'`],
    ['in hexadecimal', text => Buffer.from(text).toString('hex')],
    ['in base64', base64],
    ['in base64 after one other byte', text => base64(`x${text}\n`)],
    ['in base64 after two other bytes', text => base64(`xy${text}, and more`)],
    ['in base64url', text => Buffer.from(`name:${text}`).toString('base64url')],
    ['with an escape for a color within', text => `${text.slice(0, 4)}\u001b[1m${text.slice(4)}`],
    ...[
      ['\u001b[38:2::255:0:0m', 'an escape for a color with colons'],
      ['\u001b[1 q', 'an escape for the cursor'],
      ['\u001b(B\u001b[m', 'the output of `tput sgr0`'],
      ['\u001b]8;;https://example.com\u001b\\', 'an escape for a link'],
      ['\u001b]0;title\u0007', 'an escape for a window title'],
      ['\u009b1m', 'a one-character escape'],
      ['\u007f', 'a delete character'],
      ['\u200b', 'a zero-width space'],
      ['\r', 'a carriage return'],
    ].map(([within, name]): [string, (text: string) => string] => [
      `with ${name} within`,
      text => `${text.slice(0, 4)}${within}${text.slice(4)}`,
    ]),
  ])('%s', (_, encode) => {
    const encoded = encode(value)
    const masked = mask(`before ${encoded} after`)
    expect(masked).toMatch(/^before .*\*{8}.* after$/)
    for (let i = 0; i + 8 <= encoded.length; i++) {
      const part = encoded.slice(i, i + 8)
      // The encoding's own frame, such as the keys of JSON, is not secret.
      if (!encode('').includes(part)) expect(masked).not.toContain(part)
    }
  })
})

test('base64 that is wrapped into lines is masked in each of them', () => {
  const value = randomBytes(200).toString('base64url')
  const mask = createMask(value)
  const lines = execFileSync('base64', { input: `x${value}`, encoding: 'utf8' })
    .trim()
    .split('\n')
  expect(lines.length).toBeGreaterThan(2)
  for (const line of lines) expect(mask(line)).toBe(MASK)
})

test('each line of a multi-line value is masked, and the whole value with escaped line ends', () => {
  const [first, second] = [48, 20].map(size => randomBytes(size).toString('base64'))
  const key = `-----BEGIN KEY-----\n${first}\n${second}\n-----END KEY-----\n`
  const mask = createMask(key)
  for (const line of key.trim().split('\n')) expect(mask(`> ${line}`)).toBe(`> ${MASK}`)
  expect(mask(JSON.stringify(key))).toBe(`"${MASK}"`)
})

test('the beginning of a value at the end of a cut line is masked', () => {
  const value = 'correct-horse-battery'
  const mask = createMask(value)
  for (let length = 6; length < value.length; length++) {
    expect(mask(`token ${value.slice(0, length)}`)).toBe(`token ${MASK}`)
    expect(mask(`token ${value.slice(0, length)}… is wrong`)).toBe(`token ${MASK}… is wrong`)
  }
  expect(mask('token corre')).toBe('token corre')
})

test('a value that is longer than any pattern is masked completely', () => {
  for (const length of [5_000, 40_000]) {
    const value = Array.from({ length: length / 10 }, (_, i) => `part-${i}`.padEnd(10, '.')).join('')
    expect(createMask(value)(`KEY=${value} and more`)).toBe(`KEY=${MASK}`)
  }
})

test('the patterns of many long values with special characters are built quickly', () => {
  const values = Array.from({ length: 30 }, (_, i) => `"\\/'é$${i}`.repeat(5_000).slice(0, 32_000))
  const start = process.cpuUsage()
  createMask(...values)('a line')
  // About half a second on an idle machine.
  expect(process.cpuUsage(start).user).toBeLessThan(5_000_000)
})

test('the password of a URL is also masked without the URL, and the scheme alone is not', () => {
  const mask = createMask('postgres://app:s3cr%40t-word@db.example.com/app')
  expect(mask('connected to postgres')).toBe('connected to postgres')
  expect(mask('postgres://')).toBe('postgres://')
  expect(mask('user app, password s3cr@t-word')).toBe(`user app, password ${MASK}`)
  expect(mask('postgres://app:s3cr%40t-word@db.example.com/app')).toBe(MASK)
})

test('short values and ordinary words are not masked', () => {
  const mask = createMask('true', 'abcde', '8080', '', 'production', 'undefined', ' '.repeat(8))
  const text = 'true abcde        8080 production undefined'
  expect(mask(text)).toBe(text)
})

test('the values of one deployment are not masked in another, and those of the agent are masked in all', () => {
  const masks = new SecretMasks(['key-of-the-agent'])
  masks.addRevision(revision, ['first-secret'])
  masks.addValues('another', ['second-secret'])
  expect(masks.mask('another', 'first-secret second-secret key-of-the-agent')).toBe(`first-secret ${MASK} ${MASK}`)
})

test('overlapping values are replaced by one mask', () => {
  const matcherFor = (texts: string[]) => new PatternMatcher(texts.map(text => ({ text })))
  expect(matcherFor(['abcd', 'bc', 'cdefg', 'x']).replace('-abcdefg-x-xx', '*')).toBe('-*-*-*')
  expect(matcherFor([]).replace('nothing', '*')).toBe('nothing')
  expect(matcherFor(['ab€', '€c']).replace('ab€c', '*')).toBe('*')
})

test('the matcher finds the same places as a separate search for each value', () => {
  let seed = 7
  const random = (limit: number) => {
    seed = (seed * 48_271) % 2_147_483_647
    return seed % limit
  }
  const makeWord = (maxLength: number) => Array.from({ length: 1 + random(maxLength) }, () => 'abc'[random(3)]).join('')
  for (let round = 0; round < 300; round++) {
    const texts = Array.from({ length: 1 + random(6) }, () => makeWord(5))
    const text = makeWord(60)
    const isHit = new Array<boolean>(text.length).fill(false)
    for (const value of texts)
      for (let i = text.indexOf(value); i >= 0; i = text.indexOf(value, i + 1)) isHit.fill(true, i, i + value.length)
    const expected = [...text]
      .map((char, i) => (isHit[i] ? '*' : char))
      .join('')
      .replace(/\*+/g, '*')
    expect(new PatternMatcher(texts.map(text => ({ text }))).replace(text, '*'), `${texts} in ${text}`).toBe(expected)
  }
})

test('masking a line takes bounded time with many values and with repetitive ones', () => {
  const measureCpu = (values: string[], line: string) => {
    const mask = createMask(...values)
    for (let i = 0; i < 20; i++) mask(line)
    const start = process.cpuUsage()
    for (let i = 0; i < 60; i++) mask(line)
    return process.cpuUsage(start).user
  }
  const log = 'GET /v1/orders/4711 200 in 12 ms; '.repeat(480)
  const many = Array.from({ length: 500 }, () => randomBytes(24).toString('base64url'))
  const hostile = [`${'a'.repeat(4000)}b`]
  // A megabyte in less than a second. It takes 20 ms on an idle machine.
  for (const [values, line] of [
    [many, log],
    [hostile, 'a'.repeat(16 * 1024)],
  ] as const)
    expect(measureCpu([...values], line)).toBeLessThan(1_000_000)
})

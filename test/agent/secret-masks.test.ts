// Known secret values are masked in lines, also when they are encoded, wrapped or cut.
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { PatternMatcher } from '../../src/agent/redaction/pattern-matcher.ts'
import { Redaction } from '../../src/agent/redaction/redaction.ts'
import { MASK, SecretMasks } from '../../src/agent/redaction/secret-masks.ts'
import type { Report } from '../../src/protocol/report.schema.ts'

const revision = { deployment_id: 'deployment', revision_id: 'revision' }
function createMask(...values: string[]) {
  const masks = new SecretMasks()
  masks.addRevision(revision, values)
  return (text: string) => masks.mask(revision.deployment_id, text)
}
const escapeRegExp = (text: string) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
const base64 = (text: string) => Buffer.from(text).toString('base64')

/** Quotes, characters that URLs escape, characters beyond ASCII, and a length that is no multiple of three. */
const SPECIAL_CHARACTERS = `p"a's\\s w&rd/+=%ü€😀x`

/** Ways in which programs print a value. */
const ENCODINGS: [string, (text: string) => string][] = [
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
  ['in base64 after one more byte', text => base64(`x${text}\n`)],
  ['in base64 after two more bytes', text => base64(`xy${text}, and more`)],
  ['in base64url', text => Buffer.from(`name:${text}`).toString('base64url')],
  ['with colours within', text => `${text.slice(0, 4)}\u001b[1m${text.slice(4)}`],
  ...[
    ['\u001b[38:2::255:0:0m', 'another colour'],
    ['\u001b[1 q', 'a cursor'],
    ['\u001b(B\u001b[m', 'the output of `tput sgr0`'],
    ['\u001b]8;;https://example.com\u001b\\', 'a link'],
    ['\u001b]0;title\u0007', 'a title'],
    ['\u009b1m', 'an escape of one character'],
    ['\u007f', 'a deletion'],
    ['\u200b', 'a space without a width'],
    ['\r', 'a carriage return'],
  ].map(([within, name]): [string, (text: string) => string] => [
    `with ${name} within`,
    text => `${text.slice(0, 4)}${within}${text.slice(4)}`,
  ]),
]

describe.each([
  ['plain value', 'hunter2-is-secret'],
  ['value with special characters', SPECIAL_CHARACTERS],
  ['long value', randomBytes(300).toString('base64url')],
])('a %s is masked', (_, value) => {
  const mask = createMask(value)
  test.each(ENCODINGS)('%s', (_, encode) => {
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

/** Characters of base64 that stand for what precedes the value. A finished line has them masked too. */
const SHOWN_BEFORE: Record<string, number> = {
  'in base64 after one more byte': 2,
  'in base64 after two more bytes': 3,
  'in base64url': 7,
}

/** The shown text of a line that arrives in pieces, each shown as soon as that is safe. */
function showInPieces(masks: SecretMasks, line: string, cuts: number[]): string[] {
  let length = 0
  const pieces = cuts.map(cut => {
    const from = length
    length = Math.max(from, masks.settledLength(revision.deployment_id, line.slice(0, cut)))
    return masks.mask(revision.deployment_id, line.slice(0, length), from)
  })
  return [...pieces, masks.mask(revision.deployment_id, line, length)]
}

describe.each([
  ['plain', 'hunter2-is-secret'],
  ['awkward', SPECIAL_CHARACTERS],
  ['short', 'qwertz'],
  ['repetitive', 'abcabcabdabcabcabe'],
  ['line of a', `first line\n${randomBytes(20).toString('base64')}\nlast line`],
])('at most two characters of a %s value in an unfinished line are shown', (_, value) => {
  const masks = new SecretMasks(['key-of-the-agent'])
  masks.addRevision(revision, [value, 'hunter2-is', 'secret-too'])
  test.each(ENCODINGS)('%s', (name, encode) => {
    const shown = 2 + (SHOWN_BEFORE[name] ?? 0)
    for (const line of [`before ${encode(value)} after`, `user:${encode(value)}`, `${encode(value)} secret-too`]) {
      const parts = masks.mask(revision.deployment_id, line).split(MASK)
      expect(parts.length).toBeGreaterThan(1)
      const expected = new RegExp(`^${parts.map(escapeRegExp).join(`.{0,${shown}}(\\*{8})+`)}$`, 's')
      const everyCut = Array.from({ length: line.length + 1 }, (_, cut) => cut)
      for (const cuts of [everyCut, ...everyCut.map(cut => [cut]), ...everyCut.map(cut => [cut, cut + 5])])
        expect(showInPieces(masks, line, cuts).join(''), `${cuts}`).toMatch(expected)
    }
  })
})

test('an unfinished line is shown except an end that may be the beginning of a value', () => {
  const masks = new SecretMasks()
  masks.addRevision(revision, ['correct-horse-battery'])
  const settled = (text: string) => text.slice(0, masks.settledLength(revision.deployment_id, text))
  for (const text of ['', 'Password: ', 'Continue? [y/N] ', '42 %', 'Loading', 'disc', 'disco'])
    expect(settled(text)).toBe(text)
  expect(settled('disc correct-h')).toBe('disc ')
  expect(settled('disc \u001b[1mcor\u001b[3')).toBe('disc ')
  expect(settled('disc \u001b[1')).toBe('disc ')
  expect(settled('correct-horse-battery')).toBe('')
  expect(settled('correct-horse-battery staple')).toBe('correct-horse-battery staple')
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

test('the path of a failing request shows no part of a secret, nor anything while the secrets are unknown', () => {
  const secret = randomBytes(30).toString('hex')
  const redaction = new Redaction([])
  redaction.learnSecrets({ deployment_id: 'deployment', revision: { id: 'revision' } } as never, () => ({
    ...{ secrets: { TOKEN: secret }, tracing: null, application_key: null },
  }))
  const pathOf = (revision_id: string, path: string) => {
    const traffic = { revision_id, share: 0, rollout: { failing_requests: [{ path }] } }
    return redaction.redactReport({ deployment_id: 'deployment', revision_id, traffic } as never as Report).traffic!
      .rollout!.failing_requests![0]!.path
  }
  expect(pathOf('revision', `/hooks/${secret}/a`)).toBe(`/hooks/${MASK}/a`)
  // The router keeps so much of it.
  const cut = `/${'a'.repeat(470)}/${secret}`.slice(0, 500)
  expect(pathOf('revision', cut)).toBe(cut.slice(0, 472))
  expect(pathOf('another', `/hooks/${secret}`)).not.toContain('hooks')
})

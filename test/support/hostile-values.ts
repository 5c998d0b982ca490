// Values that have broken software before: texts, times, email addresses, JSON, bodies, URLs and headers.
const splitWords = (text: string) => text.trim().split(/\s+/)

export const nestBrackets = (depth: number, open: string, close: string) => open.repeat(depth) + close.repeat(depth)

export const TIMES = splitWords(`
  0000-01-01T00:00:00Z 0001-01-01T00:00:00+23:59 0099-06-01T00:00:00Z 9999-12-31T23:59:59-23:59
  9999-12-31T23:59:59.999999999Z +275760-09-13T00:00:00Z 2016-12-31T23:59:60Z 2030-02-29T00:00:00Z 2030-01-01T24:00:00Z
  2030-01-01T00:00:00+15:60 2030-01-01T00:00:00+23:59 2030-01-01T00:00:00.${'1'.repeat(400)}Z 2030-01-01 infinity`)

export const EMAILS = splitWords(`
  A@EXAMPLE.COM \u212a@example.com a\u0130@example.com ${'a'.repeat(250)}@b.co a@b a@xn--.com a+b@example.com
  "a"@example.com a@[127.0.0.1] .a@b.co a..b@c.co a\0@example.com`)

export const IDS = splitWords(`00000000-0000-4000-8000-000000000001 ${'-'.repeat(36)} ${'f'.repeat(36)} {} 0`)

export const TEXTS = [
  ...splitWords(
    `% %00 \\ * null undefined NaN -1 1e3 0x10 ${'9'.repeat(30)} ' " {{7*7}} ../.. __proto__ {"a"} \\x00 ';--`,
  ),
  ...splitWords(`a\0b \0 \ud800 a\udfffb \u202e e\u0301 \u200b \u3164 ${'a'.repeat(129)} ${'a'.repeat(70_000)}`),
  '',
  ' ',
  '\ufeff',
  '\u2028',
  ...TIMES,
  ...EMAILS,
  ...IDS,
]

/** JSON texts, because JSON.stringify would change some of them. */
export const VALUES = splitWords(`
  null true 0 -0 -1 1.5 1e400 -1e400 9007199254740993 1e-400 ${'9'.repeat(400)} {} [] [[]] [null]
  {"__proto__":{"a":1}} {"toString":null,"constructor":1} {"length":1e9} {"${'k'.repeat(5000)}":"\\u0000"}
  ${nestBrackets(60, '[', ']')} ${nestBrackets(70, '[', ']')} ${nestBrackets(10_000, '[', ']')}
  [${'0,'.repeat(5000)}0]`)

export const BODIES = [
  ...splitWords(`{ ] {"a":1,} {'a':1} NaN {"a":1}{} /**/{} <a/> a=b&c=d "\\ud800" ${'['.repeat(10_000)}`),
  '',
  ' ',
  '\ufeff',
  '\0',
  '\ufeff{}',
  '{"a":'.repeat(10_000),
  nestBrackets(10_000, '{"a":[', ']}'),
]

export const QUERY_NAMES = ['', ...splitWords('__proto__ toString unknown %00 %ff % limit[]')]
export const QUERY_VALUES = [
  '',
  ...splitWords(
    `0 1 -1 100 101 9007199254740991 ${'9'.repeat(15)} ${'9'.repeat(40)} 1.5 %00 %ff %zz % + %ED%A0%80 1&limit=2`,
  ),
]
export const SEGMENTS = splitWords('%00 %ff %zz % . .. %2e%2e %2F ; current * :id null -1')

const CURSOR_DAYS = [...TIMES, ...splitWords('0000-01-01 2030-02-31 2030-01-01 9999-99-99')]
const CURSOR_TIMES = ['', ' 00:00:00+00', ' 24:00:00+00', ' 00:00:60.123456+00', ' 23:59:59+99', ' 00:00:00+05:30']
/** Well-formed, but with forged contents. */
export const CURSORS = CURSOR_DAYS.flatMap(day =>
  CURSOR_TIMES.flatMap(time => IDS.map(id => Buffer.from(`${day}${time}~${id}`).toString('base64url'))),
)

export const HEADERS: Record<string, string[]> = {
  'X-Tenant-Id': ['', '*', '{}', ...IDS],
  'Content-Type': [
    '',
    ...splitWords('text/plain application/json;charset=latin1 application/jsonx APPLICATION/JSON a+json'),
  ],
  'If-Match': ['"1", '.repeat(900), ...splitWords(`* "1" W/"1" "${'9'.repeat(20)}" "-1" 1 "" "1`)],
  'If-None-Match': ['"1", '.repeat(900), ...splitWords('* "1" W/"1" , ""')],
  'Plan-Digest': [
    '',
    'a b',
    `1.${'0'.repeat(32)}`,
    ...splitWords(`1. . .1 -1.x 1e3.x ${'9'.repeat(40)}.x ${'x'.repeat(4000)}`),
  ],
  'Idempotency-Key': ['', 'a b', 'k, k', ...splitWords(`k ' \\ ${'x'.repeat(255)} ${'x'.repeat(256)}`)],
  'Content-Length': splitWords(`0 -1 1e9 x ${'9'.repeat(40)} 5 1048577`),
  'X-Request-Id': ['', 'a b', ...splitWords(`${'x'.repeat(129)} fine {"a":1} <script>`)],
  Accept: splitWords(`*/* text/html application/xml;q=0 ${'x'.repeat(17_000)}`),
  Origin: splitWords('null * https://example.com'),
}

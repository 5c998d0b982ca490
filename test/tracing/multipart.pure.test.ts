import { describe, expect, it } from 'vitest'
import { Failure } from '../../src/kernel/http/errors.ts'
import { decodeText, readMultipart } from '../../src/tracing/ingest/multipart.ts'
import { expectCheap } from '../support/cpu-cost.ts'
import * as fc from '../support/seeded-fast-check.ts'

const TYPE = 'multipart/form-data; boundary=xx'
const DISPOSITION = 'Content-Disposition: form-data; name="a"'
const toBytes = (body: string) => Uint8Array.from(Buffer.from(body, 'latin1'))
const read = (body: string, type = TYPE, maxParts = 10) =>
  readMultipart(toBytes(body), type, maxParts).map(({ name, headers, mediaType, parameters, bytes }) => ({
    name,
    headers: Object.fromEntries(headers),
    mediaType,
    parameters: Object.fromEntries(parameters),
    text: Buffer.from(bytes).toString('latin1'),
  }))
const readFault = (body: string, type?: string, maxParts?: number): [string, string] => {
  try {
    read(body, type, maxParts)
  } catch (error) {
    const [fault] = (error as Failure).extra.errors!
    return [fault!.loc.join('.'), fault!.type]
  }
  throw new Error('nothing was refused')
}
const wrap = (...parts: string[]) => `${parts.map(part => `--xx\r\n${part}\r\n`).join('')}--xx--\r\n`

describe('the parts of a body', () => {
  it('keep their headers, the parameters of their type, and their bytes', () => {
    const body = wrap(
      `${DISPOSITION}\r\nContent-Type: application/json; length=2; Charset="utf-8"\r\n\r\n{}`,
      'content-disposition:form-data; filename="c:\\x" ; name=b\r\nX-Other: \xc3\xa9 \r\n\r\n\r\n--x\r\n\xff\0',
      `${DISPOSITION}\r\nContent-Length: 0\r\n\r\n`,
    )
    expect(read(body)).toEqual([
      {
        name: 'a',
        headers: {
          'content-disposition': 'form-data; name="a"',
          'content-type': 'application/json; length=2; Charset="utf-8"',
        },
        mediaType: 'application/json',
        parameters: { length: '2', charset: 'utf-8' },
        text: '{}',
      },
      {
        name: 'b',
        headers: { 'content-disposition': 'form-data; filename="c:\\x" ; name=b', 'x-other': 'é' },
        mediaType: '',
        parameters: {},
        text: '\r\n--x\r\n\xff\0',
      },
      {
        name: 'a',
        headers: { 'content-disposition': 'form-data; name="a"', 'content-length': '0' },
        mediaType: '',
        parameters: {},
        text: '',
      },
    ])
  })

  it.each([
    ['form-data; name="a%22b"', 'a"b'],
    ['form-data; name="a\\"b"', 'a"b'],
    ['form-data; name="a\\b;c"', 'a\\b;c'],
    ['Form-Data;name=a', 'a'],
    ['form-data; name=""', ''],
    ['form-data; name="\xc3\xa9"', 'é'],
  ])('have the name of %s', (disposition, name) => {
    expect(read(wrap(`Content-Disposition: ${disposition}\r\n\r\n`))[0]!.name).toBe(name)
  })

  it('are views of the body', () => {
    const bytes = toBytes(wrap(`${DISPOSITION}\r\n\r\n1`, `${DISPOSITION}\r\n\r\n2`))
    expect(readMultipart(bytes, TYPE, 2).map(part => part.bytes.buffer === bytes.buffer)).toEqual([true, true])
  })

  it.each([
    'multipart/form-data; boundary="a b"',
    'multipart/form-data; charset=utf-8; boundary=--a',
    `multipart/form-data;boundary=${'a'.repeat(70)}`,
  ])('are those between the boundaries of %s', type => {
    const boundary = /boundary="?([^"]*)/.exec(type)![1]
    expect(read(`--${boundary}\r\n${DISPOSITION}\r\n\r\n1\r\n--${boundary}--`, type)).toMatchObject([{ text: '1' }])
  })

  it('are none where the first boundary is the last', () => expect(read('--xx--')).toEqual([]))

  it('are read as written, with any contents', () => {
    const bytes = fc.uint8Array({ maxLength: 40 }).map(array => Buffer.from(array).toString('latin1'))
    const near = fc.constantFrom('\r\n', '--', '\r\n--', '\r\n--x', '\r', '\n', '--xx', '\r\n\r\n')
    const content = fc.array(fc.oneof(bytes, near), { maxLength: 8 }).map(pieces => pieces.join(''))
    const property = fc.property(fc.array(content, { maxLength: 6 }), contents => {
      // A delimiter has a line break before it.
      fc.pre(contents.every(one => !`\r\n${one}`.includes('\r\n--xx')))
      const body = wrap(...contents.map(one => `${DISPOSITION}\r\n\r\n${one}`))
      expect(read(body).map(({ text }) => text)).toEqual(contents)
    })
    fc.assert(property, { seed: fc.seed })
  })
})

describe('a body is refused', () => {
  it.each([
    'multipart/form-data',
    'multipart/form-data; boundary=',
    'multipart/form-data; boundary="a "',
    `multipart/form-data; boundary=${'a'.repeat(71)}`,
    'multipart/form-data; boundary=a; boundary=b',
    'multipart/form-data; boundary="a',
    'multipart/form-data; boundary=a; nonsense',
  ])('without a valid boundary: %s', type => {
    expect(readFault('', type)).toEqual(['header.Content-Type', 'boundary_invalid'])
  })

  const part = `${DISPOSITION}\r\n\r\n1`
  it.each([
    ['that is empty', ''],
    ['without a part and without an end', '--xx\r\n'],
    ['with text before the first boundary', `x\r\n${wrap(part)}`],
    ['with text after the last boundary', `${wrap(part)}x`],
    ['that ends within a part', `--xx\r\n${part}`],
    ['that ends within a boundary', `--xx\r\n${part}\r\n--x`],
    ['that ends after a boundary', `--xx\r\n${part}\r\n--xx`],
    ['with text behind a boundary', `--xx\r\n${part}\r\n--xxx\r\n${part}\r\n--xx--`],
    ['with line feeds alone', wrap(part).replaceAll('\r', '')],
    ['with a part without headers', wrap('\r\n1')],
    ['with a part without a disposition', wrap('Content-Type: text/plain\r\n\r\n1')],
    ['with a part without a name', wrap('Content-Disposition: form-data; filename="a"\r\n\r\n1')],
    ['with a part of another disposition', wrap('Content-Disposition: attachment; name="a"\r\n\r\n1')],
    ['with a part of two names', wrap(`${DISPOSITION}; name="b"\r\n\r\n1`)],
    ['with a part of two dispositions', wrap(`${DISPOSITION}\r\n${DISPOSITION}\r\n\r\n1`)],
    ['with a part of an open name', wrap('Content-Disposition: form-data; name="a\r\n\r\n1')],
    ['with a header that goes on in the next line', wrap(`${DISPOSITION}\r\n more\r\n\r\n1`)],
    ['with a header without a colon', wrap(`${DISPOSITION}\r\nnonsense\r\n\r\n1`)],
    ['with a header with a space before its colon', wrap(`${DISPOSITION}\r\nX : 1\r\n\r\n1`)],
    ['with a NUL character in a header', wrap(`${DISPOSITION}\r\nX: \0\r\n\r\n1`)],
    ['with a line feed in a header', wrap(`${DISPOSITION}\r\nX: a\nb\r\n\r\n1`)],
    ['with a header that is not UTF-8', wrap(`${DISPOSITION}\r\nX: \xff\r\n\r\n1`)],
    ['with a type that is not valid', wrap(`${DISPOSITION}\r\nContent-Type: a/b; c\r\n\r\n1`)],
    ['with more than 8 KB of headers', wrap(`${DISPOSITION}\r\nX: ${'a'.repeat(8192)}\r\n\r\n1`)],
    ['with too many parts', wrap(...Array<string>(11).fill(part))],
  ])('%s', (_, body) => {
    expect(readFault(body)).toEqual(['body', 'multipart_invalid'])
  })

  it('wherever it is cut', () => {
    const body = wrap(part, part)
    // The last line break may be missing.
    for (let length = 0; length < body.length - 2; length++) expect(() => read(body.slice(0, length))).toThrow(Failure)
    expect(read(body.slice(0, -2))).toHaveLength(2)
  })
})

it('only valid UTF-8 is text', () => {
  expect(decodeText(toBytes('a\xc3\xa9\0'))).toBe('aé\0')
  for (const bytes of ['\xff', '\xc3', '\xed\xa0\x80', '\xc0\x80']) expect(decodeText(toBytes(bytes))).toBeNull()
})

describe('16 MiB are read in linear time', () => {
  const SIZE = 16 * 1024 * 1024
  it.each([
    ['of line breaks and hyphens', '\r\n--'],
    ['of the start of the boundary', `\r\n--${'a'.repeat(69)}`],
    ['of the character of the boundary', 'a'],
    ['of carriage returns', '\r'],
    ['of hyphens', '-'],
    ['of line feeds', '\r\n'],
  ])('%s', async (what, unit) => {
    const start = Buffer.from(`--${'a'.repeat(70)}\r\n${DISPOSITION}\r\n\r\n`)
    const bytes = new Uint8Array(SIZE)
    bytes.set(start)
    bytes.set(Buffer.alloc(SIZE - start.byteLength, unit), start.byteLength)
    await expectCheap(what, SIZE, () =>
      expect(() => readMultipart(bytes, `multipart/form-data; boundary=${'a'.repeat(70)}`, 10)).toThrow(Failure),
    )
  })

  it('with empty parts', async () => {
    const body = toBytes(wrap(...Array<string>(10_000).fill(`${DISPOSITION}\r\n\r\n`)))
    await expectCheap('empty parts', body.byteLength, () =>
      expect(readMultipart(body, TYPE, 10_000)).toHaveLength(10_000),
    )
  })
})

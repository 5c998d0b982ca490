// Bodies that verbs get as bytes, and that are much work for their size: for each raw media type of an operation.
import { BinaryWriter } from '@bufbuild/protobuf/wire'
import { listBodyTypes, type Operation } from '../../src/kernel/http/routes.ts'
import { wrap } from './hostile-spans.ts'
import type { LargestBody } from './largest-bodies.ts'
import { joinParts, MULTIPART, part } from './parts.ts'

type Bytes = Uint8Array<ArrayBuffer>
export type LargestRawBody = { name: string; type: string; readonly bytes: Bytes }

const VALUES = ['[]', '{}', '0', '""', '{"a":0}', '{"a":[0]}']
const utf8 = (text: string): Bytes => Uint8Array.from(Buffer.from(text))
const repeat = (unit: string, size: number): string => unit.repeat(Math.max(1, Math.floor(size / unit.length)))
const listOf = (value: string, size: number): string => `[${repeat(`${value},`, size)}${value}]`
const namesOf = (size: number): string =>
  `{${Array.from({ length: Math.floor(size / 12) }, (_, i) => `"m${i}":0`).join(',')}}`

/** `size` is that of the body before it is compressed. `schemas` are bodies that fit the schema of the operation. */
export function makeLargestRawBodies(operation: Operation, size: number, schemas: LargestBody[]): LargestRawBody[] {
  return listBodyTypes(operation).flatMap(type => {
    const make = (name: string, makeBytes: () => Bytes, contentType = type): LargestRawBody => ({
      name: `${operation.id}, ${type}: ${name}`,
      type: contentType,
      get bytes() {
        return makeBytes()
      },
    })
    const texts = (named: [string, () => string][]) => named.map(([name, text]) => make(name, () => utf8(text())))
    if (type === 'application/json') {
      const known = operation.path.startsWith('/otel') ? SPANS : JSON_PLACES
      return [
        ...texts(Object.entries(known).flatMap(([place, inside]) => fillings(place, inside, size))),
        ...schemas.map(({ name, text }) => make(name, () => utf8(text))),
      ]
    }
    if (type === 'multipart/form-data')
      return Object.entries(formsOf(operation, size)).map(([name, form]) => make(name, form, MULTIPART))
    return Object.entries(PROTOBUF).map(([name, bytes]) => make(name, () => bytes(size)))
  })
}

type Inside = (json: string) => string
const fillings = (place: string, inside: Inside, size: number): [string, () => string][] => [
  ...VALUES.map((value): [string, () => string] => [`${place} of ${value}`, () => inside(listOf(value, size))]),
  [`${place} of names`, () => inside(namesOf(size))],
]

const ID = '0193e6a2-9c1b-7d52-8a51-5d2f3c7b9a10'
const RUN = `"id":"${ID}","name":"a","run_type":"chain","start_time":"2026-11-22T12:00:00Z"`
const JSON_PLACES: Record<string, Inside> = {
  whole: json => json,
  'a member that is not known': json => `{${RUN},"dataset_id":"${ID}","inputs":{},"other":${json}}`,
  inputs: json => `{${RUN},"dataset_id":"${ID}","inputs":{"a":${json}}}`,
  metadata: json => `{${RUN},"dataset_id":"${ID}","inputs":{},"metadata":{"a":${json}},"extra":{"metadata":${json}}}`,
  'posts of a batch': json => `{"post":${json},"patch":${json}}`,
  'inputs in a batch': json => `{"post":[{${RUN},"inputs":{"a":${json}}}]}`,
  'inputs in a list': json => `[{"id":"${ID}","dataset_id":"${ID}","inputs":{"a":${json}}}]`,
}

const SPAN = '"traceId":"0af7651916cd43dd8448eb211c80319c","spanId":"b7ad6b7169203331","startTimeUnixNano":"1"'
const withAttributes = (attributes: string) =>
  `{"resourceSpans":[{"scopeSpans":[{"spans":[{${SPAN},"attributes":${attributes}}]}]}]}`
const textAttribute = (key: string, text: string) =>
  withAttributes(JSON.stringify([{ key, value: { stringValue: text } }]))
const SPANS: Record<string, Inside> = {
  whole: json => json,
  resourceSpans: json => `{"resourceSpans":${json}}`,
  scopeSpans: json => `{"resourceSpans":[{"scopeSpans":${json}}]}`,
  spans: json => `{"resourceSpans":[{"scopeSpans":[{"spans":${json}}]}]}`,
  events: json => `{"resourceSpans":[{"scopeSpans":[{"spans":[{${SPAN},"events":${json}}]}]}]}`,
  attributes: withAttributes,
  'a list in an attribute': json => withAttributes(`[{"key":"a","value":{"arrayValue":{"values":${json}}}}]`),
  ...Object.fromEntries(
    ['input.value', 'gen_ai.input.messages', 'metadata', 'langsmith.metadata.a', 'tag.tags'].map(key => [
      `JSON in ${key}`,
      (json: string) => textAttribute(key, json),
    ]),
  ),
  'a resource with many spans': json =>
    `{"resourceSpans":[{"resource":{"attributes":[{"key":"service.a","value":` +
    `{"stringValue":${JSON.stringify(json)}}}]},` +
    `"scopeSpans":[{"spans":[${repeat(`{${SPAN}},`, 100_000)}{}]}]}]}`,
}

// ---- protobuf: the same message again and again, at each place

const repeatBytes = (unit: Uint8Array, size: number): Bytes =>
  Uint8Array.from(Buffer.alloc(Math.max(1, Math.floor(size / unit.length)) * unit.length, unit))
const manyAttributes = (size: number) =>
  Uint8Array.from(
    Buffer.concat(
      Array.from({ length: Math.floor(size / 14) }, (_, i) =>
        wrap(new BinaryWriter().tag(1, 2).string(i.toString(36)).finish(), 9),
      ),
    ),
  )
const manyRuntimes = (size: number): Bytes => {
  const attributes = Array.from({ length: Math.floor(size / 60) }, (_, i) =>
    wrap(new BinaryWriter().tag(1, 2).string(`service.${i}`).finish(), 1),
  )
  const spans = Buffer.concat([wrap(repeatBytes(Buffer.from([0x12, 0]), Math.min(size / 4, 20_000)), 2)])
  return wrap(Buffer.concat([wrap(Buffer.concat(attributes), 1), spans]), 1)
}
const EMPTY = (tag: number) => Uint8Array.of((tag << 3) | 2, 0)
const PROTOBUF: Record<string, (size: number) => Bytes> = {
  'empty resources': size => repeatBytes(EMPTY(1), size),
  'unknown fields': size => repeatBytes(Uint8Array.of(15 << 3, 0), size),
  'empty spans': size => wrap(repeatBytes(EMPTY(2), size), 1, 2),
  'empty events': size => wrap(repeatBytes(EMPTY(11), size), 1, 2, 2),
  'empty attributes': size => wrap(repeatBytes(EMPTY(9), size), 1, 2, 2),
  'many attributes': size => wrap(manyAttributes(size), 1, 2, 2),
  'names of a span': size => wrap(repeatBytes(EMPTY(5), size), 1, 2, 2),
  'empty values in a list': size => wrap(repeatBytes(EMPTY(1), size), 1, 2, 2, 9, 2, 5),
  'a resource with many spans': manyRuntimes,
}

// ---- forms

function formsOf({ path }: Operation, size: number): Record<string, () => Bytes> {
  const headers = Array.from({ length: 1300 }, (_, i) => `${i.toString(36)}:`)
  const manyHeaders = () =>
    joinParts(Array.from({ length: Math.ceil(size / 8000) }, (_, i) => ({ name: `p${i}`, content: '', headers })))
  const emptyParts = () => joinParts(Array.from({ length: Math.ceil(size / 100) }, (_, i) => part(`p${i}`, '')))
  const common = { 'many headers': manyHeaders, 'many parts': emptyParts }
  if (path === '/datasets/upload') return { ...common, ...csvForms(size) }
  const prefix = path.startsWith('/runs') ? `post.${ID}` : ID
  const places = { inputs: '.inputs', main: '' }
  const json = Object.entries(places).flatMap(([name, suffix]) =>
    fillings(name, filling => `{"id":"${ID}","a":${filling}}`, size).map(
      ([what, text]) => [what, () => joinParts([part(`${prefix}${suffix}`, text())])] as const,
    ),
  )
  return { ...common, ...Object.fromEntries(json) }
}

function csvForms(size: number): Record<string, () => Bytes> {
  const form = (file: () => string) => () =>
    joinParts([
      part('name', crypto.randomUUID(), 'text/plain'),
      part('input_keys', 'a', 'text/plain'),
      part('file', file()),
    ])
  return {
    'a row of cells': form(() => `a\n${repeat(',', size)}`),
    'a header of cells': form(() => `a${repeat(',b', size)}\n1`),
    'empty lines': form(() => repeat('\n', size)),
    'rows of one cell': form(() => `a\n${repeat('1\n', size)}`),
    'a cell of quotes': form(() => `a\n"${repeat('""', size)}"`),
    'a cell of line breaks': form(() => `a\n"${repeat('\n', size)}"`),
    'quoted cells': form(() => `a\n${repeat('"",', size)}`),
    'a long name of a column': () =>
      joinParts([
        part('name', crypto.randomUUID(), 'text/plain'),
        part('input_keys', 'a'.repeat(size / 2), 'text/plain'),
        part('file', `${'a'.repeat(size / 2)}\n${repeat('1\n', 16_000)}`),
      ]),
  }
}

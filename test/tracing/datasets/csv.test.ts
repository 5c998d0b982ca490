// Datasets of tables in CSV: how a table is read, and what is refused.
import { describe, expect, it } from 'vitest'
import { CsvFault, parseCsv } from '../../../src/tracing/datasets/csv.ts'
import { newTenant, send, unusedId } from '../../support/app.ts'
import { joinParts, MULTIPART, part } from '../../support/parts.ts'

const parse = (text: string, limits = {}) =>
  parseCsv(text, { maxRows: 10, maxColumns: 10, takeCell: () => true, ...limits })

describe('a table', () => {
  it.each<[string, string[][]]>([
    ['', []],
    [
      'a,b\n1,2',
      [
        ['a', 'b'],
        ['1', '2'],
      ],
    ],
    [
      '\ufeffa,b\r\n1,\r\n',
      [
        ['a', 'b'],
        ['1', ''],
      ],
    ],
    ['a\r\r"x\r\ny"\r', [['a'], ['x\r\ny']]],
    [
      '"a ""b"" c",","\n\n"",',
      [
        ['a "b" c', ','],
        ['', ''],
      ],
    ],
    ['a,', [['a', '']]],
    ['""\n', []],
  ])('%j has the rows %j', (text, rows) => {
    expect(parse(text)).toEqual(rows)
  })

  it.each([
    ['a\nb\n"c', 3],
    ['"a\nb"c', 1],
    ['a\n'.repeat(11), 11],
  ])('%j is refused, naming the line', (text, line) => {
    expect(() => parse(text)).toThrow(CsvFault)
    try {
      parse(text)
    } catch (error) {
      expect((error as CsvFault).line).toBe(line)
    }
  })
})

it('counts each cell, so that no row makes more of them than a request may have', () => {
  let cells = 0
  const limits = { takeCell: () => ++cells <= 7, maxColumns: 4 }
  expect(parse('a,b,"c"\n\n1,2,', limits)).toHaveLength(2)
  expect(cells).toBe(7)
  expect(() => parse('a\n', limits)).toThrow(CsvFault)
  expect(() => parse('a,b,c,d,e', { maxColumns: 4 })).toThrow(CsvFault)
})

it('creates a dataset with all rows, or names all faults', async () => {
  const tenant = await newTenant()
  const upload = (...parts: [string, string][]) =>
    send('POST', '/datasets/upload', {
      raw: joinParts(parts.map(([name, text]) => part(name, text))),
      headers: { 'X-Api-Key': tenant.key, 'Content-Type': MULTIPART },
    })
  const name = unusedId()
  const table = 'q,a,level\nOne?,1,"e,asy"\nTwo?,2,hard\n'
  const keys: [string, string][] = [
    ['input_keys', 'q'],
    ['output_keys', 'a'],
    ['metadata_keys', 'level'],
  ]
  const { body } = await upload(['file', table], ['name', name], ...keys)
  expect(body).toMatchObject({ name, example_count: 2 })
  const list = async () => (await tenant.get(`/examples?dataset=${body.id}`)).body
  expect(await list()).toMatchObject([
    { inputs: { q: 'One?' }, outputs: { a: '1' }, metadata: { level: 'e,asy', dataset_split: ['base'] } },
    { inputs: { q: 'Two?' }, outputs: { a: '2' }, name: `#2 @ ${name}` },
  ])
  await tenant.post('/examples', { dataset_id: body.id, inputs: { q: 'Three?' } })
  expect((await list()).map((one: { name: string }) => one.name)).toContain(`#3 @ ${name}`)
  expect((await upload(['file', table], ['name', name], ...keys)).body.code).toBe('dataset_name_taken')

  const schema = JSON.stringify({ required: ['x'] })
  const faults = async (...parts: [string, string][]) =>
    (await upload(...parts)).body.errors.map(({ loc }: { loc: unknown[] }) => loc.slice(0, 3))
  expect(await faults(['name', 'x'])).toEqual([
    ['body', 'file'],
    ['body', 'input_keys'],
  ])
  expect(await faults(['file', 'q\n1,2\n'], ['input_keys', 'b'], ['data_type', 'x'], ['name', 'a'])).toEqual([
    ['body', 'data_type'],
    ['body', 'input_keys'],
    ['body', 'file', 0],
  ])
  expect(await faults(['file', table], ['name', 'a\0'], ...keys)).toEqual([
    ['body', 'name'],
    ['body', 'name'],
  ])
  const mismatched = await faults(['file', table], ['name', unusedId()], ['inputs_schema_definition', schema], ...keys)
  expect(mismatched).toEqual([
    ['body', 'file', 0],
    ['body', 'file', 1],
  ])
})

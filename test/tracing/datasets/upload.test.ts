// Examples as parts of a form: their attachments, and what is refused as a whole.
import { beforeAll, describe, expect, it } from 'vitest'
import { getApp, newTenant, send, type Tenant, unusedId, withClockAhead } from '../../support/app.ts'

type FormPart = [name: string, content: string | Uint8Array, headers?: string]

const BOUNDARY = 'x'
const utf8 = new TextEncoder()
function makeForm(parts: FormPart[]): Uint8Array<ArrayBuffer> {
  const chunks = parts.flatMap(([name, content, headers = '']) => [
    `--${BOUNDARY}\r\nContent-Disposition: form-data; name="${name.replaceAll('"', '%22')}"\r\n${headers}\r\n`,
    content,
    '\r\n',
  ])
  const bytes = [...chunks, `--${BOUNDARY}--\r\n`].map(chunk =>
    typeof chunk === 'string' ? utf8.encode(chunk) : chunk,
  )
  return Uint8Array.from(Buffer.concat(bytes))
}

let tenant: Tenant
beforeAll(async () => {
  tenant = await newTenant()
})
const newDataset = async (body: Record<string, unknown> = {}) =>
  (await tenant.post('/datasets', { name: unusedId(), ...body })).body.id as string
const upload = (method: 'POST' | 'PATCH', dataset: string, parts: FormPart[]) =>
  send(method, `/v1/platform/datasets/${dataset}/examples`, {
    raw: makeForm(parts),
    headers: { 'X-Api-Key': tenant.key, 'Content-Type': `multipart/form-data; boundary=${BOUNDARY}` },
  })
const read = async (id: string) => (await tenant.get(`/examples/${id}`)).body
const count = async (dataset: string) => (await tenant.get(`/examples/count?dataset=${dataset}`)).body
/** Opens a link, which needs no key. */
const open = async (url: string) => {
  const response = await getApp().fetch(new Request(url))
  return { status: response.status, headers: response.headers, text: await response.text() }
}

describe('an upload', () => {
  it('stores examples from parts in any order, byte for byte', async () => {
    const dataset = await newDataset()
    const [one, two] = [unusedId(), unusedId()]
    const inputs = '{"big": 12345678901234567890,"nul":"\\u0000","half":"\\udc00"}'
    const { status, body } = await upload('POST', dataset, [
      [`${one}.inputs`, inputs, 'Content-Type: application/json\r\n'],
      [`${two}`, '{"split":["a","b"],"metadata":{"n":1},"created_at":"2026-01-02T03:04:05.678901"}'],
      [`${two}.outputs`, '{"o":1}', 'Content-Length: 7\r\n'],
      [`${one}`, '{}'],
      [`${two}.inputs`, '{"é":"ü"}'],
    ])
    expect([status, body.count, body.example_ids]).toEqual([201, 2, [one, two]])
    expect((await tenant.get(`/examples/${one}`)).text).toContain(`"inputs":${inputs}`)
    expect(await read(two)).toMatchObject({
      inputs: { é: 'ü' },
      outputs: { o: 1 },
      metadata: { n: 1, dataset_split: ['a', 'b'] },
      created_at: '2026-01-02T03:04:05.678Z',
      modified_at: body.as_of,
    })
  })

  it('that is repeated finds its examples, with their attachments, and makes no version', async () => {
    const dataset = await newDataset()
    const id = unusedId()
    const parts: FormPart[] = [
      [id, '{}'],
      [`${id}.inputs`, '{}'],
      [`${id}.attachment.a`, 'text'],
    ]
    const first = await upload('POST', dataset, parts)
    const { attachment_urls: links, ...example } = await read(id)
    expect((await upload('POST', dataset, parts)).body).toEqual(first.body)
    expect(await read(id)).toMatchObject(example)
    expect((await read(id)).attachment_urls['attachment.a'].s3_url).toBe(links['attachment.a'].s3_url)
    const others: FormPart[] = [...parts.slice(0, 2), [`${id}.attachment.a`, 'other']]
    expect((await upload('POST', dataset, others)).body.code).toBe('example_exists')
    expect(await count(dataset)).toBe(1)
  })

  const ID = 'b4f1e7a0-5a0e-4a6e-9d6b-0a4c1d2e3f40'
  const main: FormPart = [ID, '{}']
  const inputs: FormPart = [`${ID}.inputs`, '{}']
  const broken = (text: string) => Uint8Array.from([...utf8.encode(text), 0xff, 0x7d])
  it.each<[string, FormPart[], unknown[][]]>([
    ['with inputs that are not valid UTF-8', [main, [`${ID}.inputs`, broken('{"a":')]], [['body', `${ID}.inputs`]]],
    [
      'with outputs that are not valid UTF-8',
      [main, inputs, [`${ID}.outputs`, broken('{')]],
      [['body', `${ID}.outputs`]],
    ],
    [
      'with half a surrogate pair in UTF-8',
      [main, [`${ID}.inputs`, Buffer.from('7b22eda08022', 'hex')]],
      [['body', `${ID}.inputs`]],
    ],
    ['that is not JSON', [main, [`${ID}.inputs`, '{"a":}']], [['body', `${ID}.inputs`]]],
    ['with inputs that are no object', [main, [`${ID}.inputs`, '[]']], [['body', `${ID}.inputs`]]],
    ['without inputs', [main], [['body', `${ID}.inputs`]]],
    ['without the part of the example', [inputs], [['body', ID]]],
    ['with a part twice', [main, inputs, inputs], [['body', `${ID}.inputs`]]],
    [
      'with a part of another name',
      [main, inputs, ['x', '{}'], [`${ID}.other`, '{}']],
      [
        ['body', 'x'],
        ['body', `${ID}.other`],
      ],
    ],
    [
      'with a wrong length',
      [main, [`${ID}.inputs`, '{}', 'Content-Type: a/b; length=3\r\n']],
      [['body', `${ID}.inputs`]],
    ],
    ['with inputs in the part of the example', [[ID, '{"inputs":{}}'], inputs], [['body', ID, 'inputs']]],
    ['with a split that is no text', [[ID, '{"split":1}'], inputs], [['body', ID, 'split']]],
    [
      'with operations on attachments',
      [main, inputs, [`${ID}.attachments_operations`, '{}']],
      [['body', `${ID}.attachments_operations`]],
    ],
    [
      'with several faults names all of them',
      [
        [ID, '{"source_run_id":"x"}'],
        [`${ID}.inputs`, '1'],
        [`${ID}.outputs`, broken('')],
      ],
      [
        ['body', `${ID}.inputs`],
        ['body', `${ID}.outputs`],
        ['body', ID, 'source_run_id'],
      ],
    ],
  ])('%s is refused, and stores nothing', async (_, parts, locs) => {
    const dataset = await newDataset()
    const sound = unusedId()
    const { status, body } = await upload('POST', dataset, [[sound, '{}'], [`${sound}.inputs`, '{}'], ...parts])
    expect([status, body.errors.map(({ loc }: { loc: unknown }) => loc)]).toEqual([422, locs])
    expect(await count(dataset)).toBe(0)
  })

  it('without a body that is a form, or to a dataset that does not exist, is refused', async () => {
    const dataset = await newDataset()
    const headers = { 'X-Api-Key': tenant.key }
    const path = `/v1/platform/datasets/${dataset}/examples`
    expect((await send('POST', path, { body: {}, headers })).status).toBe(415)
    expect((await upload('POST', dataset, [])).status).toBe(422)
    expect((await upload('POST', unusedId(), [main, inputs])).body.code).toBe('dataset_not_found')
    const attached: FormPart[] = [main, inputs, [`${ID}.attachment.a`, 'x']]
    expect((await upload('POST', unusedId(), attached)).body.code).toBe('dataset_not_found')
  })
})

describe('an attachment', () => {
  const attach = async (dataset: string, attachments: FormPart[]) => {
    const id = unusedId()
    await upload('POST', dataset, [
      [id, '{}'],
      [`${id}.inputs`, '{}'],
      ...attachments.map(([name, ...rest]): FormPart => [`${id}.attachment.${name}`, ...rest]),
    ])
    return id
  }
  const linksOf = async (id: string, query = '') =>
    (await tenant.get(`/examples/${id}${query}`)).body.attachment_urls ?? {}

  it('is downloaded by a link that needs no key, and runs nowhere', async () => {
    const bytes = Uint8Array.from({ length: 256 }, (_, i) => i)
    const id = await attach(await newDataset(), [
      ['a.b c"ü', bytes, 'Content-Type: text/html\r\n'],
      ['none', ''],
    ])
    const links = await linksOf(id)
    const link = links['attachment.a.b c"ü']
    expect(link).toMatchObject({ mime_type: 'text/html', s3_url: expect.stringContaining(tenant.tenant_id) })
    const response = await getApp().fetch(new Request(link.presigned_url))
    expect(response.headers.get('Content-Type')).toBe('text/html')
    expect(response.headers.get('Content-Security-Policy')).toBe('sandbox')
    expect(response.headers.get('Content-Disposition')).toBe('attachment')
    expect(new Uint8Array(await response.arrayBuffer())).toEqual(bytes)
    expect(await open(links['attachment.none'].presigned_url)).toMatchObject({ status: 200, text: '' })
    expect(links['attachment.none'].mime_type).toBe('application/octet-stream')
  })

  it('has a link that cannot be changed, and expires', async () => {
    const id = await attach(await newDataset(), [['a', 'x']])
    const url = (await linksOf(id))['attachment.a'].presigned_url as string
    const expires = new URL(url).searchParams.get('expires')!
    for (const changed of [
      url.replace(expires, String(Number(expires) + 1)),
      url.replace('octet-stream', 'json'),
      url.replace(tenant.tenant_id, unusedId()),
    ])
      expect((await open(changed)).text).toContain('attachment_link_invalid')
    const later = await withClockAhead(3_601_000, () => open(url))
    expect([later.status, JSON.parse(later.text).code]).toEqual([410, 'attachment_link_expired'])
  })

  it('is kept, renamed, added and dropped by changes, and earlier versions still have it', async () => {
    const dataset = await newDataset()
    const id = await attach(dataset, [
      ['a', '1'],
      ['b', '2'],
      ['c', '3'],
    ])
    const { modified_at } = await read(id)
    const change = async (...parts: FormPart[]) => {
      expect((await upload('PATCH', dataset, [[id, '{}'], ...parts])).status).toBe(201)
      const links = Object.entries<{ presigned_url: string }>(await linksOf(id))
      const texts = links.map(async ([name, { presigned_url }]) => [name.slice(11), (await open(presigned_url)).text])
      return Object.fromEntries(await Promise.all(texts))
    }
    const operations = (value: object): FormPart => [`${id}.attachments_operations`, JSON.stringify(value)]
    expect(await change()).toEqual({ a: '1', b: '2', c: '3' })
    expect(await change([`${id}.attachment.d`, '4'], [`${id}.attachment.a`, '9'])).toEqual({
      a: '9',
      b: '2',
      c: '3',
      d: '4',
    })
    expect(await change(operations({ retain: ['a'], rename: { b: 'e' } }))).toEqual({ a: '9', e: '2' })
    expect(await change(operations({}))).toEqual({})
    expect(Object.keys(await linksOf(id, `?as_of=${modified_at}`))).toHaveLength(3)
  })

  it('is deleted from the store once no version of any example has it', async () => {
    const dataset = await newDataset()
    const id = await attach(dataset, [['a', 'gone']])
    const copies = await newDataset()
    await tenant.post('/datasets/clone', { source_dataset_id: dataset, target_dataset_id: copies })
    const { s3_url } = (await linksOf(id))['attachment.a']
    const isStored = async () => {
      const stream = await getApp().platform.storage!.get(s3_url)
      await stream?.cancel()
      return stream !== null
    }
    const sweepIn = (hours: number) => withClockAhead(hours * 3_600_000, () => getApp().housekeep())
    await sweepIn(25)
    await tenant.delete(`/datasets/${dataset}`)
    await sweepIn(27)
    expect(await isStored()).toBe(true)
    await tenant.delete(`/datasets/${copies}`)
    await sweepIn(0.5)
    expect(await isStored()).toBe(true)
    await sweepIn(1.1)
    expect(await isStored()).toBe(false)
  })

  it('counts towards the storage of the workspace', async () => {
    const dataset = await newDataset()
    const id = unusedId()
    const parts: FormPart[] = [
      [id, '{}'],
      [`${id}.inputs`, '{}'],
      [`${id}.attachment.a`, 'x'.repeat(100)],
    ]
    const { uploadBytes } = getApp().config
    getApp().config.uploadBytes = 99
    const refused = await upload('POST', dataset, parts).finally(() => {
      getApp().config.uploadBytes = uploadBytes
    })
    expect([refused.body.code, await count(dataset)]).toEqual(['uploads_full', 0])
  })
})

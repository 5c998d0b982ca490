// Refusals of the contract, as a published client and a program without one meet them.
import { Client } from 'langsmith'
import type { Server } from './servers.ts'
import type { Outcome } from './tracing-clients.ts'

const MAX_RULES = 200
const MARK = 'to-be-broken'

export async function tryContractLimits({ url, key }: Server): Promise<Outcome[]> {
  const send = async (path: string, body: object) => {
    const headers = { 'X-Api-Key': key, 'Content-Type': 'application/json' }
    const response = await fetch(url + path, { method: 'POST', headers, body: JSON.stringify(body) })
    return { status: response.status, body: (await response.json()) as { id: string; code?: string; detail?: string } }
  }
  const project = (await send('/sessions', { name: `limits ${crypto.randomUUID()}` })).body.id

  const rule = { display_name: 'Rule', sampling_rate: 1, session_id: project, is_enabled: false }
  const rules = []
  // The workspace may have some already.
  for (let i = 0; i <= MAX_RULES && rules.at(-1)?.status !== 400; i++) rules.push(await send('/runs/rules', rule))
  const listed = (await (await fetch(`${url}/runs/rules`, { headers: { 'X-Api-Key': key } })).json()) as unknown[]

  const schedule = (schedule_cron: string) =>
    send(`/sessions/${project}/insights/configs`, { name: 'all', config: { model: 'none' }, schedule_cron })
  const tooOften = await schedule('*/30 * * * *')
  const hourly = await schedule('0 * * * *')

  const example = await uploadBroken({ url, key })
  return [
    {
      what: 'the 201st rule is refused',
      isTrue: listed.length === MAX_RULES && rules.at(-1)!.body.code === 'rules_full',
      detail: JSON.stringify([listed.length, rules.at(-1)]),
    },
    {
      what: 'a schedule of insights under an hour is refused, and one of an hour is not',
      isTrue: tooOften.body.code === 'schedule_too_frequent' && hourly.status === 200,
      detail: JSON.stringify([tooOften, hourly]),
    },
    { what: 'an example with invalid UTF-8 is 422', isTrue: example.status === 422, detail: JSON.stringify(example) },
  ]
}

/** The client cannot make such bytes, so one of them changes on its way. */
async function uploadBroken({ url, key }: Server): Promise<{ status?: number; detail: string }> {
  let status: number | undefined
  const breakMark = async (input: string | URL | Request, init?: RequestInit) => {
    const request = new Request(input, { ...init, ...(init?.body && { duplex: 'half' }) } as RequestInit)
    const bytes = Buffer.from(await request.arrayBuffer())
    const at = bytes.indexOf(MARK)
    if (at < 0)
      return fetch(request.url, {
        method: request.method,
        headers: request.headers,
        ...(bytes.length > 0 && { body: bytes }),
      })
    bytes[at] = 0xff
    const response = await fetch(request.url, { method: request.method, headers: request.headers, body: bytes })
    status = response.status
    return response
  }
  const client = new Client({ apiUrl: url, apiKey: key, fetchImplementation: breakMark as never })
  const { id: dataset_id } = await client.createDataset(`limits ${crypto.randomUUID()}`)
  const upload = client.uploadExamplesMultipart(dataset_id, [{ inputs: { question: MARK } }])
  const detail = await upload.then(
    () => 'the client reports success',
    (error: Error) => error.message,
  )
  return { ...(status !== undefined && { status }), detail: detail.slice(0, 300) }
}

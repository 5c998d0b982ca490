// Sessions of published clients: recorded by a trial, and replayed by a test that needs no registry.

/** A request, with references in place of what differs each time: `{{3:/id}}` is a value of the fourth answer. */
export type RecordedRequest = {
  method: string
  path: string
  type?: string
  /** A text, or the bytes of an archive in base64. */
  body?: string
  base64?: string
  status: number
  /** The names of the members of an answer that is an object. */
  members?: string[]
}
export type Session = { client: string; mode: string; requests: RecordedRequest[] }
export type RecordedSessions = { recorded_at: string; versions: Record<string, string>; sessions: Session[] }

const UUID = /[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}/g
const UUID_WITHOUT_DASHES = /^[0-9a-f]{32}$/
/** Values that a client sends back as it got them. */
const SENT_BACK = ['upload_url', 'object_path', 'registry_url', 'next_cursor', 'next']
/** Clients describe the machine that they run on. */
const MACHINE = /Linux-[\w.-]+/g
const IS_TEXT = /^(application\/json|text\/)/
const MAX_BYTES = 4096

type Fetch = (request: Request) => Response | Promise<Response>

export function createRecorder(answer: Fetch) {
  const sessions: Session[] = []
  let values = new Map<string, string>()

  const replaceValues = (text: string): string => {
    let replaced = text
    for (const [value, reference] of values) if (!isUuid(value)) replaced = replaced.replaceAll(value, reference)
    return replaced.replace(MACHINE, 'Linux').replace(UUID, value => {
      if (!values.has(value)) values.set(value, `{{new:${values.size}}}`)
      return values.get(value)!
    })
  }

  async function record(request: Request): Promise<Response> {
    const session = sessions.at(-1)!
    const bytes = Buffer.from(await request.clone().arrayBuffer())
    const { pathname, search } = new URL(request.url)
    const type = request.headers.get('Content-Type')
    const isText = IS_TEXT.test(type ?? '')
    const recorded: RecordedRequest = {
      method: request.method,
      path: replaceValues(pathname + search),
      ...(type && { type }),
      ...(bytes.byteLength > 0 && isText && { body: replaceValues(bytes.toString()) }),
      ...(bytes.byteLength > 0 && !isText && bytes.byteLength <= MAX_BYTES && { base64: bytes.toString('base64') }),
      status: 0,
    }
    const index = session.requests.push(recorded) - 1
    const response = await answer(request)
    recorded.status = response.status
    if (!/json/.test(response.headers.get('Content-Type') ?? '')) return response
    const text = await response.clone().text()
    const json: unknown = text === '' ? undefined : JSON.parse(text)
    if (response.ok && typeof json === 'object' && json !== null && !Array.isArray(json))
      recorded.members = Object.keys(json).sort()
    for (const [pointer, value] of listValues(json)) {
      const name = pointer.split('/').at(-1)!
      const isKept = isUuid(value) || UUID_WITHOUT_DASHES.test(value) || SENT_BACK.includes(name)
      if (isKept && !values.has(value)) values.set(value, `{{${index}:${pointer}}}`)
      if (name === 'upload_url') values.set(new URL(value).pathname + new URL(value).search, `{{${index}:${pointer}}}`)
    }
    return response
  }

  return {
    sessions,
    fetch: record,
    begin(client: string, mode: string): void {
      sessions.push({ client, mode, requests: [] })
      values = new Map()
    },
  }
}

const isUuid = (value: string): boolean => value.length === 36 && value.replace(UUID, '') === ''

function* listValues(json: unknown, pointer = ''): Generator<[pointer: string, value: string]> {
  if (typeof json === 'string') yield [pointer, json]
  if (typeof json !== 'object' || json === null) return
  for (const [name, value] of Object.entries(json)) yield* listValues(value, `${pointer}/${name}`)
}

/** Sends the requests of a session in their order. Times move with the clock, as traces of long ago are refused. */
export async function replaySession(
  { requests }: Session,
  recordedAt: string,
  key: string,
  send: Fetch,
): Promise<{ request: RecordedRequest; status: number; members?: string[] | undefined; text: string }[]> {
  const answers: unknown[] = []
  const fresh = new Map<string, string>()
  const ahead = Date.now() - Date.parse(recordedAt)
  const fill = (text: string): string =>
    text
      .replace(/\{\{(\w+):([^}]*)\}\}/g, (reference, from, pointer) => {
        if (from !== 'new') return readPointer(answers[from as never], pointer)
        if (!fresh.has(reference)) fresh.set(reference, crypto.randomUUID())
        return fresh.get(reference)!
      })
      .replace(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?/g, time => shiftTime(time, ahead))
      .replace(/(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)(?=\d{6}Z)/g, (_, ...parts) => {
        const [year, month, day, hour, minute, second] = parts as string[]
        return shiftTime(`${year}-${month}-${day}T${hour}:${minute}:${second}`, ahead).replace(/[-:]/g, '')
      })
  const outcomes = []
  for (const request of requests) {
    const path = fill(request.path)
    const body =
      request.base64 === undefined ? request.body && fill(request.body) : Buffer.from(request.base64, 'base64')
    const response = await send(
      new Request(path.startsWith('http') ? path : `http://slipway.test${path}`, {
        method: request.method,
        headers: { 'X-Api-Key': key, ...(request.type && { 'Content-Type': request.type }) },
        ...(body && { body }),
      }),
    )
    const text = await response.text()
    const json: unknown = /json/.test(response.headers.get('Content-Type') ?? '') && text ? JSON.parse(text) : undefined
    answers.push(json)
    const members = request.members && Object.keys(json ?? {})
    outcomes.push({ request, status: response.status, members, text })
  }
  return outcomes
}

function readPointer(json: unknown, pointer: string): string {
  let value = json
  for (const name of pointer.split('/').slice(1)) value = (value as Record<string, unknown> | undefined)?.[name]
  return String(value)
}

const shiftTime = (time: string, ahead: number): string =>
  new Date(Date.parse(`${time}Z`) + Math.round(ahead / 1000) * 1000).toISOString().slice(0, time.length)

// Authentication and authorization by the application's own code: what one user made, another does not see.
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startDueCrons } from '../../src/graphs/crons.ts'
import { openGraphs, readEvents } from './graphs.ts'

/** In the form of the SDK's `Auth`, which has its handlers there. */
const AUTH = `export const auth = {
  '~handlerCache': {
    authenticate(request) {
      const name = request.headers.get('Authorization')?.replace('Bearer ', '')
      const cookie = request.headers.get('Cookie')
      if (cookie) return { identity: cookie.replace('name=', ''), permissions: [] }
      if (!name) throw Object.assign(new Error('Who are you?'), { status: 401 })
      if (name === 'broken') throw new Error('No password for the database at secret.internal')
      const kind = name === 'forger' ? 'StudioUser' : 'person'
      return name === 'nobody' ? null : { identity: name, permissions: [], kind }
    },
    callbacks: {
      '*': ({ user, value }) => {
        if (value.metadata) value.metadata.owner = user.identity
        return user.identity === 'langgraph-studio-user' ? {} : { owner: user.identity }
      },
      assistants: ({ action, user, value }) => {
        if (action === 'read' && user.identity === 'eve') return { team: { $contains: 'green' } }
        if (action === 'read' || action === 'search') return true
        return user.identity === 'ann' && { team: { $contains: value.metadata?.team ?? 'red' } }
      },
      store: ({ user, value }) => {
        value.namespace = [user.identity, ...(value.namespace ?? [])]
      },
    },
  },
}
`

let graphs: Awaited<ReturnType<typeof openGraphs>>
type Copy = Awaited<ReturnType<typeof graphs.startCopy>>
let copy: Copy
beforeAll(async () => {
  graphs = await openGraphs()
  await writeFile(join(graphs.folder, 'auth.mjs'), AUTH)
  const cache = { cache_keys: ['authorization'], ttl_seconds: 600, max_size: 100 }
  const auth = {
    path: './auth.mjs',
    name: 'auth',
    language: 'javascript',
    disable_studio_auth: false,
    cache,
  } as const
  copy = await graphs.startCopy({ auth, apiKey: 'key' })
})
afterAll(() => graphs.close())

const as = (name: string) => ({ Authorization: `Bearer ${name}` })
async function call(name: string, method: string, path: string, body?: unknown) {
  const response = await copy.send(method, path, body, as(name))
  const text = await response.text()
  return { status: response.status, body: text ? JSON.parse(text) : undefined }
}
const newThread = async (name: string) => (await call(name, 'POST', '/threads', {})).body.thread_id as string
const RUN = { assistant_id: 'echo', input: { say: 'mine' } }

it('a caller that the application does not know is refused, with its words', async () => {
  for (const headers of [{}, as('nobody'), { 'X-Api-Key': 'wrong' }])
    expect((await copy.send('POST', '/threads', {}, headers)).status).toBe(401)
  expect((await copy.call('GET', '/info')).body.detail).toBe('Who are you?')
  expect((await copy.send('GET', '/ok')).status).toBe(200)
})

it('an answer does not tell why the code of the application failed', async () => {
  const { status, body } = await call('broken', 'GET', '/info')
  expect(status).toBe(500)
  expect(JSON.stringify(body)).not.toContain('secret.internal')
})

it('callers without a header of the cache are not taken for each other', async () => {
  const userOf = async (headers: Record<string, string>) =>
    (await readEvents(await copy.send('POST', '/runs/stream', RUN, headers))).at(-1)!.data.user
  expect(await userOf({ Cookie: 'name=eve' })).toBe('eve')
  expect(await userOf({ Cookie: 'name=fred' })).toBe('fred')
  expect((await copy.send('GET', '/info')).status).toBe(401)
})

it('the key of the deployment is a user that handlers know', async () => {
  const thread = await newThread('ann')
  const headers = { 'X-Api-Key': 'key' }
  expect((await copy.send('GET', `/threads/${thread}`, undefined, headers)).status).toBe(200)
})

it('a thread and its runs are there for the user who made them only', async () => {
  const thread = await newThread('ann')
  const path = `/threads/${thread}`
  const run = (await call('ann', 'POST', `${path}/runs`, RUN)).body.run_id
  expect((await call('ann', 'GET', `${path}/runs/${run}/join`)).body).toEqual({ log: ['mine'] })
  const attempts: [method: string, path: string, body?: unknown][] = [
    ['GET', path],
    ['PATCH', path, { metadata: { owner: 'bob' } }],
    ['DELETE', path],
    ['POST', `${path}/copy`],
    ['GET', `${path}/state`],
    ['POST', `${path}/state`, { values: {} }],
    ['PATCH', `${path}/state`, { metadata: {} }],
    ['POST', `${path}/history`, {}],
    ['GET', `${path}/stream`],
    ['POST', `${path}/runs`, RUN],
    ['POST', `${path}/runs/wait`, { ...RUN, if_not_exists: 'create' }],
    ['POST', `${path}/runs/stream`, RUN],
    ['GET', `${path}/runs`],
    ['GET', `${path}/runs/${run}`],
    ['DELETE', `${path}/runs/${run}`],
    ['GET', `${path}/runs/${run}/join`],
    ['GET', `${path}/runs/${run}/stream`],
    ['GET', `/runs/${run}/stream`],
    ['POST', `${path}/runs/${run}/cancel`],
    ['POST', `${path}/runs/crons`, { ...RUN, schedule: '0 0 1 1 *' }],
    ['POST', `${path}/stream/events`, { channels: ['values'] }],
    ['POST', '/threads', { thread_id: thread, if_exists: 'do_nothing' }],
  ]
  for (const [method, at, body] of attempts)
    expect([method, at, (await call('bob', method, at, body)).status]).toEqual([method, at, 404])
  const command = { id: 1, method: 'run.start', params: RUN }
  expect((await call('bob', 'POST', `${path}/commands`, command)).body.type).toBe('error')
  const answer = { id: 2, method: 'input.respond', params: { interrupt_id: 'a', response: 1 } }
  const errorOf = async (name: string) => (await call(name, 'POST', `${path}/commands`, answer)).body.error
  expect([await errorOf('ann'), await errorOf('bob')]).toEqual(['no_such_run', 'invalid_argument'])
  expect((await call('bob', 'POST', '/threads/prune', { thread_ids: [thread] })).body.pruned_count).toBe(0)
  for (const [name, count] of [
    ['ann', 1],
    ['bob', 0],
  ] as const) {
    expect((await call(name, 'POST', '/threads/count', { ids: [thread] })).body).toBe(count)
    expect((await call(name, 'POST', '/threads/search', { ids: [thread] })).body).toHaveLength(count)
  }
})

it('a run has its user, whatever a caller says, and a thread of its own is that user’s', async () => {
  const config = { configurable: { langgraph_auth_user: { identity: 'root' } } }
  const body = { ...RUN, config, on_completion: 'keep' }
  const events = await readEvents(await copy.send('POST', '/runs/stream', body, as('carl')))
  expect(events.at(-1)!.data.user).toBe('carl')
  const [thread] = (await call('carl', 'POST', '/threads/search', {})).body
  expect(thread.metadata).toMatchObject({ owner: 'carl', graph_id: 'echo' })
  const [run] = (await call('carl', 'POST', '/runs/batch', [body])).body
  expect(run.kwargs.config.configurable.langgraph_auth_user_id).toBe('carl')
  await call('bob', 'POST', '/runs/cancel', { run_ids: [run.run_id] })
  expect((await call('carl', 'GET', `/threads/${run.thread_id}/runs/${run.run_id}/join`)).status).toBe(200)
})

it('a cron is seen by the user who made it, and runs as that user', async () => {
  const cron = (await call('dora', 'POST', '/runs/crons', { ...RUN, schedule: '0 0 1 1 *', on_run_completed: 'keep' }))
    .body
  expect((await call('bob', 'POST', '/runs/crons/search', {})).body).toEqual([])
  expect((await call('bob', 'DELETE', `/runs/crons/${cron.cron_id}`)).status).toBe(404)
  const config = { configurable: { model: 'small' } }
  await call('dora', 'PATCH', `/runs/crons/${cron.cron_id}`, { config })
  const changed = (await call('dora', 'PATCH', `/runs/crons/${cron.cron_id}`, { schedule: '0 0 2 1 *' })).body
  expect(changed.payload.config.configurable).toMatchObject({ model: 'small', langgraph_auth_user_id: 'dora' })
  await graphs.sql('update graphs.crons set next_run_date = now()')
  await startDueCrons(copy.server)
  const findThreads = async () => (await call('dora', 'POST', '/threads/search', {})).body
  // The copy also looks by itself, each second.
  await expect.poll(findThreads).toHaveLength(1)
  const [thread] = await findThreads()
  const [run] = (await call('dora', 'GET', `/threads/${thread.thread_id}/runs`)).body
  expect(run.kwargs.config.configurable.langgraph_auth_user.identity).toBe('dora')
})

it('an assistant that a caller may not read cannot be run by its id either', async () => {
  const create = async (team: string[]) =>
    (await call('ann', 'POST', '/assistants', { graph_id: 'echo', metadata: { team } })).body.assistant_id as string
  const red = await create(['red'])
  const run = { ...RUN, assistant_id: red }
  const attempts: [path: string, body: unknown][] = [
    ['/runs', run],
    ['/runs/wait', run],
    ['/runs/batch', [run]],
    [`/threads/${await newThread('eve')}/runs`, run],
    ['/runs/crons', { ...run, schedule: '0 0 1 1 *' }],
  ]
  for (const [path, body] of attempts)
    expect([path, (await call('eve', 'POST', path, body)).status]).toEqual([path, 404])
  for (const assistant_id of ['echo', await create(['green'])])
    expect((await call('eve', 'POST', '/runs/wait', { ...RUN, assistant_id })).body).toEqual({ log: ['mine'] })
})

it('no claim of a caller makes the user of the studio', async () => {
  const kindOf = async (name: string) =>
    (await call(name, 'POST', '/runs', RUN)).body.kwargs.config.configurable.langgraph_auth_user.kind
  expect([await kindOf('ann'), await kindOf('forger')]).toEqual(['person', undefined])
})

it('an assistant that is deleted takes no threads of others with it', async () => {
  const assistant = { graph_id: 'echo', metadata: { team: ['red'] } }
  const { assistant_id } = (await call('ann', 'POST', '/assistants', assistant)).body
  const threads = { ann: await newThread('ann'), bob: await newThread('bob') }
  for (const [name, id] of Object.entries(threads))
    await call(name, 'POST', `/threads/${id}/runs/wait`, { ...RUN, assistant_id })
  expect((await call('ann', 'DELETE', `/assistants/${assistant_id}?delete_threads=true`)).status).toBe(204)
  expect((await call('ann', 'GET', `/threads/${threads.ann}`)).status).toBe(404)
  expect((await call('bob', 'GET', `/threads/${threads.bob}`)).status).toBe(200)
})

describe('handlers', () => {
  it('may refuse, and filter by what a list has', async () => {
    const create = (name: string, team: string[]) =>
      call(name, 'POST', '/assistants', { graph_id: 'echo', metadata: { team } })
    expect((await create('bob', ['red'])).status).toBe(403)
    const red = (await create('ann', ['red', 'blue'])).body.assistant_id
    const green = (await create('ann', ['green'])).body.assistant_id
    expect((await call('ann', 'DELETE', `/assistants/${green}`)).status).toBe(404)
    expect((await call('ann', 'DELETE', `/assistants/${red}`)).status).toBe(204)
  })

  it('may lead each user into a part of the store', async () => {
    const put = (name: string, value: object) =>
      call(name, 'PUT', '/store/items', { namespace: ['notes'], key: 'k', value })
    await put('ann', { text: 'a' })
    await put('bob', { text: 'b' })
    const get = async (name: string) => (await call(name, 'GET', '/store/items?namespace=notes&key=k')).body.value.text
    expect([await get('ann'), await get('bob')]).toEqual(['a', 'b'])
    const { items } = (await call('ann', 'POST', '/store/items/search', { namespace_prefix: [] })).body
    expect(items.map((item: { value: object }) => item.value)).toEqual([{ text: 'a' }])
    expect((await call('bob', 'POST', '/store/namespaces', {})).body.namespaces).toEqual([['bob', 'notes']])
    await call('ann', 'DELETE', '/store/items', { namespace: ['notes'], key: 'k' })
    expect(await get('bob')).toBe('b')
  })
})

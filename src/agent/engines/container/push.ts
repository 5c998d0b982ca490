// Images that leave the machine they were built on: named for a registry and pushed there, and old ones removed.
import { setTimeout as delay } from 'node:timers/promises'
import { type Task, Unworkable } from '../engine.ts'
import { type ContainerApi, EngineFailure } from './api.ts'
import { pushFailure } from './failures.ts'
import { type Login, loginOf } from './secrets.ts'

const PUSH_MS = 15 * 60_000
/** A registry may be away for a moment. */
const PAUSES_MS = [2_000, 5_000]
const LINES_EVERY_MS = 1_000

type Push = { api: ContainerApi; id: string; repository: string; tag: string; login: Login | null; task: Task }

/** The digest that the registry knows it by. */
export async function push({ api, id, repository, tag, login, task }: Push): Promise<string> {
  const name = `${repository}:${tag}`
  const limit = AbortSignal.timeout(PUSH_MS)
  const signal = AbortSignal.any([task.signal, limit])
  task.log(`Pushing ${name}`)
  try {
    await api.ask('POST', `/images/${id}/tag`, { query: { repo: repository, tag }, signal })
    for (const pause of [...PAUSES_MS, null]) {
      try {
        return await pushed(api, repository, tag, login, signal, task.log)
      } catch (error) {
        if (pause === null || signal.aborted || !(error instanceof EngineFailure)) throw error
        task.log(`It cannot be pushed, and is tried again: ${error.message}`, 'WARNING')
        await delay(pause, undefined, { signal })
      }
    }
    throw new Error('unreachable')
  } catch (error) {
    if (task.signal.aborted) throw task.signal.reason
    if (limit.aborted) throw new Unworkable(`It could not be pushed within ${PUSH_MS / 60_000} minutes.`)
    throw error instanceof EngineFailure ? new Unworkable(pushFailure(name, error.message)) : error
  } finally {
    await api.quietly('DELETE', `/images/${name}`).catch(() => {})
  }
}

async function pushed(
  api: ContainerApi,
  repository: string,
  tag: string,
  login: Login | null,
  signal: AbortSignal,
  log: Task['log'],
): Promise<string> {
  // Without a login, some engines still want to be told so.
  const headers = { 'X-Registry-Auth': login ? loginOf(login) : Buffer.from('{}').toString('base64') }
  let digest: string | undefined
  let told = Date.now()
  for await (const { status, id, aux } of api.progress(`/images/${repository}/push`, {
    query: { tag },
    headers,
    signal,
  })) {
    const named = typeof aux === 'object' ? aux.Digest : undefined
    digest = named ?? /digest: (sha256:[0-9a-f]{64})/.exec(status ?? '')?.[1] ?? digest
    if (!status || Date.now() - told < LINES_EVERY_MS) continue
    told = Date.now()
    log([id, status].filter(Boolean).join(': '))
  }
  if (!digest) throw new EngineFailure(500, 'the engine pushed it without saying what became of it')
  return digest
}

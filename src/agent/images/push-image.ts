// Images that leave the machine they were built on: named for a registry and pushed there, and old ones removed.
import { setTimeout as delay } from 'node:timers/promises'
import { type BuildTask, PermanentError } from '../engines/engine.ts'
import { type DockerApi, DockerApiError } from './docker-api.ts'
import { explainPushFailure } from './image-failures.ts'
import { encodeLogin, type RegistryLogin } from './registry-logins.ts'

const PUSH_TIMEOUT_MS = 15 * 60_000
/** A registry may be away for a moment. */
const RETRY_PAUSES_MS = [2_000, 5_000]
const LOG_INTERVAL_MS = 1_000

type PushOptions = {
  api: DockerApi
  id: string
  repository: string
  tag: string
  login: RegistryLogin | null
  task: BuildTask
}

/** The digest that the registry knows it by. */
export async function pushImage({ api, id, repository, tag, login, task }: PushOptions): Promise<string> {
  const name = `${repository}:${tag}`
  const limit = AbortSignal.timeout(PUSH_TIMEOUT_MS)
  const signal = AbortSignal.any([task.signal, limit])
  task.log(`Pushing ${name}`)
  try {
    await api.ask('POST', `/images/${id}/tag`, { query: { repo: repository, tag }, signal })
    for (const pause of [...RETRY_PAUSES_MS, null]) {
      try {
        return await pushOnce(api, repository, tag, login, signal, task.log)
      } catch (error) {
        if (pause === null || signal.aborted || !(error instanceof DockerApiError)) throw error
        task.log(`It cannot be pushed, and is tried again: ${error.message}`, 'WARNING')
        await delay(pause, undefined, { signal })
      }
    }
    throw new Error('unreachable')
  } catch (error) {
    if (task.signal.aborted) throw task.signal.reason
    if (limit.aborted) throw new PermanentError(`It could not be pushed within ${PUSH_TIMEOUT_MS / 60_000} minutes.`)
    throw error instanceof DockerApiError ? new PermanentError(explainPushFailure(name, error.message)) : error
  } finally {
    await api.requestIfExists('DELETE', `/images/${name}`).catch(() => {})
  }
}

async function pushOnce(
  api: DockerApi,
  repository: string,
  tag: string,
  login: RegistryLogin | null,
  signal: AbortSignal,
  log: BuildTask['log'],
): Promise<string> {
  // Without a login, some engines still want to be told so.
  const headers = { 'X-Registry-Auth': login ? encodeLogin(login) : Buffer.from('{}').toString('base64') }
  let digest: string | undefined
  let told = Date.now()
  for await (const { status, id, aux } of api.streamProgress(`/images/${repository}/push`, {
    query: { tag },
    headers,
    signal,
  })) {
    const named = typeof aux === 'object' ? aux.Digest : undefined
    digest = named ?? /digest: (sha256:[0-9a-f]{64})/.exec(status ?? '')?.[1] ?? digest
    if (!status || Date.now() - told < LOG_INTERVAL_MS) continue
    told = Date.now()
    log([id, status].filter(Boolean).join(': '))
  }
  if (!digest) throw new DockerApiError(500, 'the engine pushed it without saying what became of it')
  return digest
}

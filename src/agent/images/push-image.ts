// Tags a built image for a registry and pushes it there.
import { setTimeout as delay } from 'node:timers/promises'
import { type BuildTask, PermanentError } from '../engine.ts'
import { type DockerApi, DockerApiError } from './docker-api.ts'
import { explainPushFailure } from './image-failures.ts'
import { encodeLogin, type RegistryLogin } from './registry-logins.ts'

const PUSH_TIMEOUT_MS = 15 * 60_000
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

/** Returns the digest in the registry. */
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
        task.log(`Push failed, retrying in ${pause / 1000} s: ${error.message}`, 'WARNING')
        await delay(pause, undefined, { signal })
      }
    }
    throw new Error('unreachable')
  } catch (error) {
    if (task.signal.aborted) throw task.signal.reason
    if (limit.aborted)
      throw new PermanentError(
        `The push of ${name} did not end within ${PUSH_TIMEOUT_MS / 60_000} minutes. ` +
          `Deploy again, or make the image smaller.`,
      )
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
  // Some engines require the header even without a login.
  const headers = { 'X-Registry-Auth': login ? encodeLogin(login) : Buffer.from('{}').toString('base64') }
  let digest: string | undefined
  let lastLogAt = Date.now()
  for await (const { status, id, aux } of api.streamProgress(`/images/${repository}/push`, {
    query: { tag },
    headers,
    signal,
  })) {
    const auxDigest = typeof aux === 'object' ? aux.Digest : undefined
    digest = auxDigest ?? /digest: (sha256:[0-9a-f]{64})/.exec(status ?? '')?.[1] ?? digest
    if (!status || Date.now() - lastLogAt < LOG_INTERVAL_MS) continue
    lastLogAt = Date.now()
    log([id, status].filter(Boolean).join(': '))
  }
  if (!digest) throw new DockerApiError(500, 'the engine reported no digest for the pushed image')
  return digest
}

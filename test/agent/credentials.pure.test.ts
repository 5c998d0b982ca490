// Credentials from the control plane: caching, retries and refusals.
import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { RequestRefused } from '../../src/agent/control-plane/client.ts'
import { Credentials } from '../../src/agent/control-plane/credentials.ts'
import { makeAgentKeys } from '../../src/agent/control-plane/envelope.ts'
import { PermanentError, SourceUnavailable, TransientError } from '../../src/agent/engine.ts'
import { createSeal } from '../../src/hosting/sync/envelope.ts'
import type { RegistryCredential } from '../../src/protocol/credentials.schema.ts'

const REGISTRY = 'registry.example.com'
const newRevision = () => ({ deployment_id: randomUUID(), revision_id: randomUUID() })
const makeCredential = (more: Partial<RegistryCredential> = {}): RegistryCredential => ({
  registry: REGISTRY,
  repository: 'apps/tenant/shop',
  username: 'slipway',
  password: randomUUID(),
  expires_at: new Date(Date.now() + 3600_000).toISOString(),
  ...more,
})

/** The control plane gives these answers in order. When none is left, it is unavailable. */
function createCredentials(...answers: (RegistryCredential | null | Error)[]) {
  const keys = makeAgentKeys()
  const requests: object[] = []
  const shutdown = new AbortController()
  let hasLease = true
  const credentials = new Credentials({
    control: {
      async credentials({ public_key, deployment_id, revision_id, ...request }) {
        requests.push(request)
        const answer = answers.shift()
        if (answer === undefined || answer instanceof Error) throw answer ?? new Error('fetch failed')
        const context = `listener/${deployment_id}/${revision_id}/registry`
        return { credential: answer && (await (await createSeal(public_key))(answer, context)) }
      },
    },
    keys,
    currentLease: () => (hasLease ? { agent_id: 'agent', fence: 7, listener: 'listener' } : undefined),
    signal: shutdown.signal,
    retry_ms: 1,
    hide: () => {},
  })
  return { credentials, requests, loseLease: () => (hasLease = false), shutDown: () => shutdown.abort() }
}

test('a credential is requested under the lease once and cached', async () => {
  const credential = makeCredential()
  const { credentials, requests } = createCredentials(credential)
  const revision = newRevision()
  const image = `${REGISTRY}/apps/tenant/shop/web:1`
  const concurrent = await Promise.all([credentials.registry(revision, image), credentials.registry(revision)])
  expect(concurrent).toEqual([credential, credential])
  expect(await credentials.registry(revision, image)).toEqual(credential)
  expect(requests).toEqual([{ agent_id: 'agent', fence: 7, for: 'registry' }])
})

test('each revision has its own credential, and one that expires soon is not reused', async () => {
  const [first, second, third] = [
    makeCredential({ expires_at: new Date(Date.now() + 9 * 60_000).toISOString() }),
    makeCredential(),
    makeCredential(),
  ]
  const { credentials } = createCredentials(first, second, third)
  const revision = newRevision()
  expect(await credentials.registry(revision)).toEqual(first)
  expect(await credentials.registry(revision)).toEqual(second)
  expect(await credentials.registry(newRevision())).toEqual(third)
})

test('an image in another registry gets no credential, and causes no request once the registry is known', async () => {
  const { credentials, requests } = createCredentials(makeCredential())
  for (const image of ['docker.io/library/nginx', 'nginx', `${REGISTRY}.org/x`])
    expect(await credentials.registry(newRevision(), image)).toBeNull()
  expect(requests).toHaveLength(1)
})

test.each([`${REGISTRY}/apps/tenant/shop`, `${REGISTRY}/apps/tenant/shop:1`, `${REGISTRY}/apps/tenant/shop@sha256:0`])(
  '%s is an image of the credential’s repository',
  async image => {
    expect(await createCredentials(makeCredential()).credentials.registry(newRevision(), image)).not.toBeNull()
  },
)
test.each([`${REGISTRY}/apps/tenant/shopping/web`, `${REGISTRY}/base:1`])(
  '%s is not an image of the credential’s repository',
  async image => {
    expect(await createCredentials(makeCredential()).credentials.registry(newRevision(), image)).toBeNull()
  },
)

test('if the installation has no registry, the control plane is asked only once', async () => {
  const { credentials, requests } = createCredentials(null)
  for (const image of [`${REGISTRY}/apps/x`, undefined])
    expect(await credentials.registry(newRevision(), image)).toBeNull()
  expect(requests).toHaveLength(1)
})

test('a refusal is a permanent failure, and an unavailable control plane is retried', async () => {
  const refused = new RequestRefused(404, 'revision_not_found', 'There is no such revision.', null)
  await expect(createCredentials(refused).credentials.registry(newRevision())).rejects.toThrow(PermanentError)
  const credential = makeCredential()
  const recovered = createCredentials(new Error('fetch failed'), new RequestRefused(503, '', 'Away.', 1), credential)
  expect(await recovered.credentials.registry(newRevision())).toEqual(credential)
  const unavailable = createCredentials()
  await expect(unavailable.credentials.registry(newRevision())).rejects.toThrow(TransientError)
  expect(unavailable.requests).toHaveLength(5)
  await expect(unavailable.credentials.registry(newRevision())).rejects.toThrow(TransientError)
  expect(unavailable.requests).toHaveLength(6)
})

test('a git host that stays unavailable makes the build wait with the message of the control plane', async () => {
  const error = new RequestRefused(502, 'upstream_error', 'git.example.com answers nothing.', 60)
  const { credentials, requests } = createCredentials(error, error, error, error, error)
  await expect(credentials.repository(newRevision(), new AbortController().signal)).rejects.toThrow(
    new SourceUnavailable(error.message),
  )
  expect(requests).toHaveLength(5)
})

test('without the lease there is no request, and the failure is temporary', async () => {
  const { credentials, requests, loseLease } = createCredentials(makeCredential())
  loseLease()
  await expect(credentials.registry(newRevision())).rejects.toThrow(TransientError)
  expect(requests).toEqual([])
})

test('a request that is canceled by the shutdown is a temporary failure', async () => {
  const { credentials, shutDown } = createCredentials(new Error('fetch failed'))
  const request = credentials.registry(newRevision())
  shutDown()
  await expect(request).rejects.toThrow(TransientError)
})

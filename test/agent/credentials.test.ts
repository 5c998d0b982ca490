// Credentials from the control plane: caching, retries and refusals.
import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { RequestRefused } from '../../src/agent/control-plane/client.ts'
import { Credentials } from '../../src/agent/control-plane/credentials.ts'
import { makeAgentKeys } from '../../src/agent/control-plane/envelope.ts'
import { PermanentError, TransientError } from '../../src/agent/engine.ts'
import type { RegistryCredential } from '../../src/protocol/credentials.schema.ts'
import { createSeal } from '../../src/sync/envelope.ts'

const HOST = 'registry.example.com'
const ref = () => ({ deployment_id: randomUUID(), revision_id: randomUUID() })
const login = (more: Partial<RegistryCredential> = {}): RegistryCredential => ({
  ...{ registry: HOST, repository: 'apps/tenant/shop', username: 'slipway', password: randomUUID() },
  ...{ expires_at: new Date(Date.now() + 3600_000).toISOString(), ...more },
})

/** A control plane with the given answers in order; without an answer left it is unavailable. */
function asking(...says: (RegistryCredential | null | Error)[]) {
  const keys = makeAgentKeys()
  const asked: object[] = []
  const ending = new AbortController()
  let leased = true
  const credentials = new Credentials({
    control: {
      async credentials({ public_key, deployment_id, revision_id, ...wish }) {
        asked.push(wish)
        const said = says.shift()
        if (said === undefined || said instanceof Error) throw said ?? new Error('fetch failed')
        const place = `listener/${deployment_id}/${revision_id}/registry`
        return { credential: said && (await (await createSeal(public_key))(said, place)) }
      },
    },
    keys,
    currentLease: () => (leased ? { agent_id: 'agent', fence: 7, listener: 'listener' } : undefined),
    signal: ending.signal,
    retry_ms: 1,
    hide: () => {},
  })
  return { credentials, asked, lose: () => (leased = false), end: () => ending.abort() }
}

test('a credential is requested under the lease once and cached', async () => {
  const given = login()
  const { credentials, asked } = asking(given)
  const of = ref()
  const image = `${HOST}/apps/tenant/shop/web:1`
  expect(await Promise.all([credentials.registry(of, image), credentials.registry(of)])).toEqual([given, given])
  expect(await credentials.registry(of, image)).toEqual(given)
  expect(asked).toEqual([{ agent_id: 'agent', fence: 7, for: 'registry' }])
})

test('each revision has its own credential, and one that expires soon is not reused', async () => {
  const [first, second, third] = [
    login({ expires_at: new Date(Date.now() + 9 * 60_000).toISOString() }),
    login(),
    login(),
  ]
  const { credentials } = asking(first, second, third)
  const of = ref()
  expect(await credentials.registry(of)).toEqual(first)
  expect(await credentials.registry(of)).toEqual(second)
  expect(await credentials.registry(ref())).toEqual(third)
})

test('an image in another registry gets no credential, and no request once the registry is known', async () => {
  const { credentials, asked } = asking(login())
  for (const image of ['docker.io/library/nginx', 'nginx', `${HOST}.org/x`])
    expect(await credentials.registry(ref(), image)).toBeNull()
  expect(asked).toHaveLength(1)
})

test.each([`${HOST}/apps/tenant/shop`, `${HOST}/apps/tenant/shop:1`, `${HOST}/apps/tenant/shop@sha256:0`])(
  '%s is an image of the credential’s repository',
  async image => {
    expect(await asking(login()).credentials.registry(ref(), image)).not.toBeNull()
  },
)
test.each([`${HOST}/apps/tenant/shopping/web`, `${HOST}/base:1`])(
  '%s is not an image of the credential’s repository',
  async image => {
    expect(await asking(login()).credentials.registry(ref(), image)).toBeNull()
  },
)

test('without a registry of the installation there is only one request', async () => {
  const { credentials, asked } = asking(null)
  for (const image of [`${HOST}/apps/x`, undefined]) expect(await credentials.registry(ref(), image)).toBeNull()
  expect(asked).toHaveLength(1)
})

test('a refusal is permanent, and an unavailable control plane is retried', async () => {
  const refused = new RequestRefused(404, 'revision_not_found', 'There is no such revision.', null)
  await expect(asking(refused).credentials.registry(ref())).rejects.toThrow(PermanentError)
  const given = login()
  const busy = asking(new Error('fetch failed'), new RequestRefused(503, '', 'Away.', 1), given)
  expect(await busy.credentials.registry(ref())).toEqual(given)
  const away = asking()
  await expect(away.credentials.registry(ref())).rejects.toThrow(TransientError)
  expect(away.asked).toHaveLength(5)
  await expect(away.credentials.registry(ref())).rejects.toThrow(TransientError)
  expect(away.asked).toHaveLength(6)
})

test('a git host that stays unavailable fails the build with the message of the control plane', async () => {
  const away = new RequestRefused(502, 'upstream_error', 'git.example.com answers nothing.', 60)
  const { credentials, asked } = asking(away, away, away, away, away)
  await expect(credentials.repository(ref(), new AbortController().signal)).rejects.toThrow(
    new PermanentError(away.message),
  )
  expect(asked).toHaveLength(5)
})

test('without the lease there is no request, and the failure is temporary', async () => {
  const { credentials, asked, lose } = asking(login())
  lose()
  await expect(credentials.registry(ref())).rejects.toThrow(TransientError)
  expect(asked).toEqual([])
})

test('a request that is cancelled by the shutdown is a temporary failure', async () => {
  const { credentials, end } = asking(new Error('fetch failed'))
  const asked = credentials.registry(ref())
  end()
  await expect(asked).rejects.toThrow(TransientError)
})

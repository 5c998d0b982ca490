// The queue of grants that an agent renews for its router.
import { expect, it } from 'vitest'
import { AccessRenewer } from '../../src/agent/control-plane/access-renewer.ts'
import type { AccessRenewals } from '../../src/protocol/access-renewals.schema.ts'

it('leaves places for other deployments when the pages of one ask all at once', async () => {
  const asked: string[] = []
  const renewAccess = async ({ renewals }: AccessRenewals) => {
    asked.push(...renewals.map(({ deployment_id }) => deployment_id))
    return { renewed: renewals.map(() => true) }
  }
  const renewer = new AccessRenewer({
    control: { renewAccess },
    currentLease: () => ({ agent_id: 'agent', fence: 1 }),
    signal: new AbortController().signal,
  })
  const ask = (deployment_id: string, i: number) =>
    renewer.renew({ deployment_id, host: 'shop.example.com', renewal: `${i}` })
  const busy = Promise.all(Array.from({ length: 2000 }, (_, i) => ask('busy', i)))
  expect(await ask('quiet', 0)).toBe(true)
  expect(new Set(await busy)).toEqual(new Set([true, null]))
  expect(asked.filter(id => id === 'busy').length).toBeLessThan(200)
})
